// cuda::barrier, cuda::pipeline and memcpy_async: counts that are wrong, threads that leave, steps that are forgotten or
// come in the wrong order.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;

// ---- divergent_barrier_count_of_whole_block: each half of the block has a barrier of its own, made for all threads.
__global__ void reverse_halves(const float* x, float* out) {
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier half_arrived[2];
    __shared__ float tile[2][64];
    const int t = threadIdx.x, half = t / 64, i = t % 64;
#ifdef MENDED
    if (t < 2) init(&half_arrived[t], blockDim.x / 2);
#else
    if (t < 2) init(&half_arrived[t], blockDim.x);
#endif
    __syncthreads();
    tile[half][i] = x[blockIdx.x * 128 + t];
    half_arrived[half].arrive_and_wait();  // BUG: divergent_barrier
    out[blockIdx.x * 128 + t] = tile[half][63 - i];
}

// ---- race_count_of_one_warp: the barrier opens when 32 threads have arrived, and the block has 64.
__global__ void smooth(const float* x, float* out, int steps) {
    __shared__ barrier all;
    __shared__ float line[2][64];
    const int t = threadIdx.x;
#ifdef MENDED
    if (t == 0) init(&all, blockDim.x);
#else
    if (t == 0) init(&all, warpSize);
#endif
    line[0][t] = x[t];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        const float* from = line[step % 2];
        const float sum = from[(t + 63) % 64] + from[t] + from[(t + 1) % 64];  // BUG: the other
        line[(step + 1) % 2][t] = sum / 3.0f;                                  // BUG: race
        all.arrive_and_wait();
    }
    out[t] = line[steps % 2][t];
}

// ---- divergent_barrier_leaves_without_drop: a thread whose list has ended leaves, and is waited for ever after.
__global__ void longest_lists(const int* lengths, const float* values, float* out, int longest) {
    __shared__ barrier round;
    __shared__ float found[32];
    const int t = threadIdx.x;
    if (t == 0) init(&round, blockDim.x);
    found[t] = 0.0f;
    __syncthreads();
    for (int i = 0; i < longest; i++) {
        if (i >= lengths[t]) {
#ifdef MENDED
            round.arrive_and_drop();
#endif
            break;
        }
        found[t] = fmaxf(found[t], values[t * longest + i]);
        round.arrive_and_wait();  // BUG: divergent_barrier
    }
    out[t] = found[t];
}

// ---- race_arrives_and_does_not_wait: the token of arrive() is for wait(), which never comes.
__global__ void rotate(const float* x, float* out, int by) {
    __shared__ barrier filled;
    __shared__ float tile[96];
    const int t = threadIdx.x;
    if (t == 0) init(&filled, blockDim.x);
    __syncthreads();
    tile[t] = x[blockIdx.x * 96 + t];  // BUG: the other
    barrier::arrival_token token = filled.arrive();
    const int from = (t + by) % 96;
#ifdef MENDED
    filled.wait(std::move(token));
#endif
    out[blockIdx.x * 96 + t] = tile[from];  // BUG: race
}

// ---- uninitialized_sync_in_place_of_wait: the barrier of the block knows nothing of the copy.
__global__ void reversed_tiles(const float* x, float* out) {
    __shared__ barrier arrived;
    __shared__ __align__(16) float tile[256];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&arrived, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, x + blockIdx.x * 256, sizeof(tile), arrived);
#ifdef MENDED
    arrived.arrive_and_wait();
#else
    block.sync();
#endif
    for (int i = block.thread_rank(); i < 256; i += block.size())
        out[blockIdx.x * 256 + i] = tile[255 - i];  // BUG: uninitialized
}

// ---- uninitialized_copy_by_one_warp: every thread of the group copies its share, but only one warp calls it.
__global__ void scaled(const float* x, const float* scale, float* out) {
    __shared__ __align__(16) float tile[512];
    auto block = cg::this_thread_block();
#ifdef MENDED
    cg::memcpy_async(block, tile, x + blockIdx.x * 512, sizeof(tile));
#else
    if (threadIdx.x < 32) cg::memcpy_async(block, tile, x + blockIdx.x * 512, sizeof(tile));
#endif
    cg::wait(block);
    for (int i = threadIdx.x; i < 512; i += blockDim.x)
        out[blockIdx.x * 512 + i] = scale[i] * tile[i];  // BUG: uninitialized
}

// ---- race_next_copy_while_others_read: one tile, copied again as soon as this thread has used it.
__global__ void sums_of_neighbours(const float* x, float* out, int tiles) {
    __shared__ barrier arrived;
    __shared__ __align__(16) float tile[128];
    auto block = cg::this_thread_block();
    const int t = threadIdx.x;
    if (t == 0) init(&arrived, blockDim.x);
    block.sync();
    float sum = 0.0f;
    for (int k = 0; k < tiles; k++) {
        cuda::memcpy_async(block, tile, x + k * 128, sizeof(tile), arrived);  // BUG: the other
        arrived.arrive_and_wait();
        sum += tile[t] + tile[(t + 1) % 128];  // BUG: race
#ifdef MENDED
        block.sync();
#endif
    }
    out[t] = sum;
}

// ---- uninitialized_last_batch_not_awaited: all but one batch has arrived, and the last one is used as well.
__global__ void two_batches(const float* x, const float* y, float* out) {
    __shared__ __align__(16) float xs[128], ys[128];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, xs, x + blockIdx.x * 128, sizeof(xs));
    cg::memcpy_async(block, ys, y + blockIdx.x * 128, sizeof(ys));
    cg::wait_prior<1>(block);
    const int t = threadIdx.x;
    float sum = xs[127 - t];
#ifdef MENDED
    cg::wait(block);
#endif
    sum += ys[127 - t];  // BUG: uninitialized
    out[blockIdx.x * 128 + t] = sum;
#ifndef MENDED
    cg::wait(block);
#endif
}

// ---- uninitialized_producer_commit_forgotten: consumer_wait waits for what was committed, which is nothing.
__global__ void own_pipeline(const float* x, float* out, int tiles) {
    __shared__ __align__(16) float stage[2][64][4];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    auto fetch = [&](int tile) {
        pipe.producer_acquire();
        if (tile < tiles)
            cuda::memcpy_async(stage[tile % 2][t], x + ((size_t)tile * 64 + t) * 4, cuda::aligned_size_t<16>(16), pipe);
#ifdef MENDED
        pipe.producer_commit();
#endif
    };
    fetch(0);
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        fetch(tile + 1);
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        for (int i = 0; i < 4; i++) sum += stage[tile % 2][t][i];  // BUG: uninitialized
        pipe.consumer_release();
    }
    out[t] = sum;
#ifndef MENDED
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<0>(pipe);
#endif
}

// ---- divergent_barrier_consumer_release_forgotten: when all stages are filled, producers wait for one to be released.
__global__ void shared_pipeline(const float* x, float* out, int tiles) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ __align__(16) float stage[2][128];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int fetched = 0, tile = 0; tile < tiles; tile++) {
        for (; fetched < tiles && fetched < tile + 2; fetched++) {
            pipe.producer_acquire();  // BUG: divergent_barrier
            cuda::memcpy_async(block, stage[fetched % 2], x + fetched * 128, sizeof(stage[0]), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += stage[tile % 2][127 - t];
#ifdef MENDED
        pipe.consumer_release();
#endif
    }
    out[t] = sum;
}

// ---- divergent_barrier_waits_before_commit: the wait stands in front of what it waits for.
__global__ void one_stage(const float* x, float* out) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    __shared__ __align__(16) float stage[128];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    pipe.producer_acquire();
    cuda::memcpy_async(block, stage, x + blockIdx.x * 128, sizeof(stage), pipe);
#ifdef MENDED
    pipe.producer_commit();
    pipe.consumer_wait();
#else
    pipe.consumer_wait();  // BUG: divergent_barrier
    pipe.producer_commit();
#endif
    out[blockIdx.x * 128 + threadIdx.x] = 2.0f * stage[127 - threadIdx.x];
    pipe.consumer_release();
}

// ---- race_stage_released_before_it_is_read: a warp copies, the others add; they give the stage back too early.
__global__ void producer_and_consumers(const float* x, float* out, int tiles) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ __align__(16) float stage[2][64];
    auto block = cg::this_thread_block();
    const bool produces = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    if (produces) {
        for (int tile = 0; tile < tiles; tile++) {
            pipe.producer_acquire();
            cuda::memcpy_async(cg::tiled_partition<32>(block), stage[tile % 2], x + tile * 64, 256, pipe);  // BUG: the other
            pipe.producer_commit();
        }
        return;
    }
    const int t = threadIdx.x - 32;
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        pipe.consumer_wait();
#ifdef MENDED
        sum += stage[tile % 2][63 - t];
        pipe.consumer_release();
#else
        pipe.consumer_release();
        sum += stage[tile % 2][63 - t];  // BUG: race
#endif
    }
    out[t] = sum;
}

// ---- uninitialized_other_stage: stage k % 2 was awaited, and stage (k + 1) % 2 is read.
__global__ void ahead_of_its_copy(const float* x, float* out, int tiles) {
    __shared__ barrier arrived[2];
    __shared__ __align__(16) float stage[2][64];
    auto block = cg::this_thread_block();
    const int t = threadIdx.x;
    if (t < 2) init(&arrived[t], blockDim.x);
    block.sync();
    cuda::memcpy_async(block, stage[0], x, sizeof(stage[0]), arrived[0]);
    float sum = 0.0f;
    for (int k = 0; k < tiles; k++) {
        const int now = k % 2;
        if (k + 1 < tiles)
            cuda::memcpy_async(block, stage[1 - now], x + (k + 1) * 64, sizeof(stage[0]), arrived[1 - now]);  // BUG: the copy
        arrived[now].arrive_and_wait();
#ifdef MENDED
        sum += stage[now][63 - t];
#else
        sum += stage[1 - now][63 - t];  // BUG: uninitialized
#endif
        block.sync();
    }
    out[t] = sum;
}
