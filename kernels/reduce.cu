// reduce: sum adds n elements of x, and argmax finds the place of the first largest one.
// In the first five sums, a block of 256 threads adds a piece of x and writes the piece's sum to out; launched again on
// these sums, and again, the kernel leaves one. Additions of float32 round: each kernel's order gives its own sum.
#include "cdiv.h"
#include "packs.h"

constexpr int THREADS = 256;

// Divergent: a tree. In step one, every second thread adds its neighbour's element; then every fourth, and so on. Each
// warp takes part in nearly all steps, with fewer and fewer of its lanes.
__global__ void sum_divergent_kernel(const float* __restrict__ x, float* __restrict__ out,
                                     size_t n) {
    __shared__ float sums[THREADS];
    size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
    int t = threadIdx.x;
    sums[t] = i < n ? x[i] : 0.0f;  // guard
    for (int stride = 1; stride < THREADS; stride *= 2) {
        __syncthreads();  // otherwise a thread adds a sum that another warp has not stored yet
        if (t % (2 * stride) == 0) sums[t] += sums[t + stride];
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

// Conflicts: the first threads do these additions, so that warps are full, or have nothing to do. But lanes are two
// elements apart, then four, then eight: up to 16 of a warp wait for the same bank.
__global__ void sum_conflicts_kernel(const float* __restrict__ x, float* __restrict__ out,
                                     size_t n) {
    __shared__ float sums[THREADS];
    size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
    int t = threadIdx.x;
    sums[t] = i < n ? x[i] : 0.0f;  // guard
    for (int stride = 1; stride < THREADS; stride *= 2) {
        __syncthreads();  // otherwise a thread adds a sum that another warp has not stored yet
        int k = 2 * stride * t;
        if (k < THREADS) sums[k] += sums[k + stride];
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

// Halves: the upper half is added to the lower half. Neighbouring lanes use neighbouring elements: no conflicts.
__global__ void sum_halves_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    __shared__ float sums[THREADS];
    size_t i = size_t(blockIdx.x) * THREADS + threadIdx.x;
    int t = threadIdx.x;
    sums[t] = i < n ? x[i] : 0.0f;  // guard
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        __syncthreads();  // otherwise a thread adds a sum that another warp has not stored yet
        if (t < stride) sums[t] += sums[t + stride];
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

// Eight: a thread adds 8 elements of x before the tree begins, in a piece of 2048: an eighth of the trees and blocks.
__global__ void sum_eight_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    __shared__ float sums[THREADS];
    size_t i = size_t(blockIdx.x) * 8 * THREADS + threadIdx.x;
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k)
        if (i + k * THREADS < n) sum += x[i + k * THREADS];  // guard
    sums[t] = sum;
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        __syncthreads();  // otherwise a thread adds a sum that another warp has not stored yet
        if (t < stride) sums[t] += sums[t + stride];
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}

// The sum over a warp, in its lane 0: 16 lanes send to the 16 below, then 8 to 8, ..., 1 to 1.
__device__ float sum_of_warp(float sum) {
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);
    return sum;
}

// The sum over a block, in its thread 0. Warps add with shuffles; one adds the sums of the warps.
__device__ float sum_of_block(float sum) {
    __shared__ float sums[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sum = sum_of_warp(sum);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();  // otherwise warp 0 adds sums that other warps have not stored yet
    sum = lane < THREADS / 32 ? sums[lane] : 0.0f;
    return warp == 0 ? sum_of_warp(sum) : sum;
}

// Shuffles: the same pieces, but lanes pass sums from register to register, with one barrier.
__global__ void sum_shuffles_kernel(const float* __restrict__ x, float* __restrict__ out,
                                    size_t n) {
    size_t i = size_t(blockIdx.x) * 8 * THREADS + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k)
        if (i + k * THREADS < n) sum += x[i + k * THREADS];  // guard
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Elements in front of the first multiple of 16 bytes; they are read one by one.
template <class T>
__device__ size_t head_of(const T* x, size_t n) {
    size_t head = (16 - size_t(x) % 16) % 16 / sizeof(T);
    return head < n ? head : n;
}

// A thread's sum of its share of x, however large x is. In each round a block reads one piece of 256 * LOADS packs: a
// thread has LOADS loads of 16 bytes in flight before it adds. Its blocks are gridDim.x pieces apart.
constexpr int LOADS = 4;

template <class T>
__device__ float sum_of_thread(const T* __restrict__ x, size_t n) {
    constexpr int SIZE = 16 / sizeof(T);
    size_t head = head_of(x, n), packs = (n - head) / SIZE, tail = head + packs * SIZE;
    size_t thread = size_t(blockIdx.x) * THREADS + threadIdx.x;
    float sums[SIZE] = {};
    if (thread < head) sums[0] += as_float(x[thread]);
    if (thread < n - tail) sums[1] += as_float(x[tail + thread]);
    const T* from = x + head;
    size_t i = size_t(blockIdx.x) * LOADS * THREADS + threadIdx.x, round = size_t(gridDim.x) * LOADS * THREADS;
    for (; i < packs; i += round) {
        Pack<T> loaded[LOADS];
        if (i + (LOADS - 1) * THREADS < packs) {
#pragma unroll
            for (int k = 0; k < LOADS; ++k) loaded[k] = load_pack(from + (i + k * THREADS) * SIZE);
        } else {
#pragma unroll
            for (int k = 0; k < LOADS; ++k)
                if (i + k * THREADS < packs)  // guard
                    loaded[k] = load_pack(from + (i + k * THREADS) * SIZE);
                else
                    for (int j = 0; j < SIZE; ++j) set(loaded[k].at[j], 0.0f);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
#pragma unroll
            for (int j = 0; j < SIZE; ++j) sums[j] += as_float(loaded[k], j);
    }
#pragma unroll
    for (int half = SIZE / 2; half > 0; half /= 2)
#pragma unroll
        for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    return sums[0];
}

// Wide: 16 bytes per load, four loads in flight, and only as many blocks as the GPU runs at a time.
__global__ void __launch_bounds__(THREADS)
    sum_wide_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    float sum = sum_of_block(sum_of_thread(x, n));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Atomic: one launch. Each block adds its sum to out, which must be 0 before. The blocks come in any order, and so the
// last digits may differ from launch to launch.
__global__ void __launch_bounds__(THREADS)
    sum_atomic_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    float sum = sum_of_block(sum_of_thread(x, n));
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

// Whether this block is the last of the grid to get here. `done` must be 0 before the launch. What thread 0 of each
// block wrote before, all threads of the last block can read after.
__device__ bool is_last_block(unsigned int* done) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();  // otherwise the last block may see this block counted, but not what it wrote
        last = atomicAdd(done, 1u) == gridDim.x - 1;
        __threadfence();  // otherwise it may have read what other blocks wrote before it saw them counted
    }
    __syncthreads();  // otherwise a thread reads `last` before it is known
    return last;
}

// The sum: one launch and a fixed order. Each block writes its sum to its own place in sums; the block that finishes
// last adds them. The same x gives the same bits each time (on a GPU with as many SMs, since the grid depends on that).
template <class T>
__global__ void __launch_bounds__(THREADS)
    sum_kernel(const T* __restrict__ x, float* sums, unsigned int* done, T* __restrict__ out, size_t n) {
    float sum = sum_of_block(sum_of_thread(x, n));
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    if (!is_last_block(done)) return;
    sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += THREADS) sum += sums[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) set(*out, sum);
}

// ---- argmax: a largest value and its place travel together ----------------------------------------------------------

struct Best {
    float value;
    size_t place;
};

// Whether v must replace a best value found at an earlier place: NaN counts as the largest, and the first one stays.
__device__ bool replaces(float v, float best) { return v > best || (v != v && best == best); }

__device__ Best better(Best a, Best b) {
    bool equal = a.value == b.value || (a.value != a.value && b.value != b.value);
    return (equal ? b.place < a.place : replaces(b.value, a.value)) ? b : a;
}

// Of the warp's, in lane 0.
__device__ Best best_of_warp(Best best) {
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        float value = __shfl_down_sync(0xffffffff, best.value, lanes);
        size_t place = __shfl_down_sync(0xffffffff, best.place, lanes);
        best = better(best, {value, place});
    }
    return best;
}

// Of the block's, in thread 0. Lanes without a warp repeat lane 0's.
__device__ Best best_of_block(Best best) {
    __shared__ Best bests[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    best = best_of_warp(best);
    if (lane == 0) bests[warp] = best;
    __syncthreads();  // otherwise warp 0 compares values that other warps have not stored yet
    best = bests[lane < THREADS / 32 ? lane : 0];
    return warp == 0 ? best_of_warp(best) : best;
}

// A thread's share is as in sum_of_thread, its places in rising order. Most rounds have nothing larger than what was
// found before: they need one comparison per element, and only the others look for the place.
template <class T>
__device__ Best best_of_thread(const T* __restrict__ x, size_t n) {
    constexpr int SIZE = 16 / sizeof(T);
    size_t head = head_of(x, n), packs = (n - head) / SIZE, tail = head + packs * SIZE;
    size_t thread = size_t(blockIdx.x) * THREADS + threadIdx.x;
    Best best = {-INFINITY, n};  // a real -inf has a smaller place, and so it is better
    if (thread < head) best = better(best, {as_float(x[thread]), thread});
    const T* from = x + head;
    size_t i = size_t(blockIdx.x) * LOADS * THREADS + threadIdx.x, round = size_t(gridDim.x) * LOADS * THREADS;
    for (; i < packs; i += round) {
        Pack<T> loaded[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {  // guard: instead of a pack behind the last, one that this thread has
            size_t at = i + k * THREADS;
            loaded[k] = load_pack(from + (at < packs ? at : i) * SIZE);
        }
        bool found = best.place == n;
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
#pragma unroll
            for (int j = 0; j < SIZE; ++j) found |= !(as_float(loaded[k], j) <= best.value);  // true with NaN, too
        if (!found) continue;
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
#pragma unroll
            for (int j = 0; j < SIZE; ++j) {
                size_t at = i + k * THREADS;
                best = better(best, {as_float(loaded[k], j), head + (at < packs ? at : i) * SIZE + j});
            }
    }
    if (thread < n - tail) best = better(best, {as_float(x[tail + thread]), tail + thread});
    return best;
}

// One launch, like sum_kernel.
template <class T>
__global__ void __launch_bounds__(THREADS)
    argmax_kernel(const T* __restrict__ x, Best* bests, unsigned int* done, long long* __restrict__ out, size_t n) {
    Best best = best_of_block(best_of_thread(x, n));
    if (threadIdx.x == 0) bests[blockIdx.x] = best;
    if (!is_last_block(done)) return;
    best = bests[0];
    for (int i = threadIdx.x; i < gridDim.x; i += THREADS) best = better(best, bests[i]);
    best = best_of_block(best);
    if (threadIdx.x == 0) *out = best.place;
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// Launches a kernel whose blocks add `piece` elements each, again and again, until one sum is left: it goes to out.
// `sums` has room for 2 * cdiv(n, piece) floats.
template <class Kernel>
static void add_pieces(Kernel launch, const float* x, float* out, size_t n, int piece, float* sums) {
    while (n > size_t(piece)) {
        unsigned int blocks = cdiv(n, piece);
        launch(x, sums, n, blocks);
        x = sums, n = blocks, sums += blocks;
    }
    launch(x, out, n, 1);
}

void launch_sum_divergent(const float* x, float* out, size_t n, float* sums, cudaStream_t stream) {
    auto launch = [=](const float* x, float* out, size_t n, unsigned int blocks) {
        sum_divergent_kernel<<<blocks, THREADS, 0, stream>>>(x, out, n);
    };
    add_pieces(launch, x, out, n, THREADS, sums);
}

void launch_sum_conflicts(const float* x, float* out, size_t n, float* sums, cudaStream_t stream) {
    auto launch = [=](const float* x, float* out, size_t n, unsigned int blocks) {
        sum_conflicts_kernel<<<blocks, THREADS, 0, stream>>>(x, out, n);
    };
    add_pieces(launch, x, out, n, THREADS, sums);
}

void launch_sum_halves(const float* x, float* out, size_t n, float* sums, cudaStream_t stream) {
    auto launch = [=](const float* x, float* out, size_t n, unsigned int blocks) {
        sum_halves_kernel<<<blocks, THREADS, 0, stream>>>(x, out, n);
    };
    add_pieces(launch, x, out, n, THREADS, sums);
}

void launch_sum_eight(const float* x, float* out, size_t n, float* sums, cudaStream_t stream) {
    auto launch = [=](const float* x, float* out, size_t n, unsigned int blocks) {
        sum_eight_kernel<<<blocks, THREADS, 0, stream>>>(x, out, n);
    };
    add_pieces(launch, x, out, n, 8 * THREADS, sums);
}

void launch_sum_shuffles(const float* x, float* out, size_t n, float* sums, cudaStream_t stream) {
    auto launch = [=](const float* x, float* out, size_t n, unsigned int blocks) {
        sum_shuffles_kernel<<<blocks, THREADS, 0, stream>>>(x, out, n);
    };
    add_pieces(launch, x, out, n, 8 * THREADS, sums);
}

static int multiprocessors() {
    int device = 0, sms = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    return sms;
}

// As many blocks of a kernel as the GPU runs at a time, or fewer if they are enough for n elements of `size` bytes.
template <class Kernel>
static unsigned int blocks_of(Kernel kernel, size_t n, size_t size) {
    int per_sm = 1;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, THREADS, 0);
    size_t enough = n * size / (16 * LOADS * THREADS) + 1, most = size_t(per_sm) * multiprocessors();
    return (unsigned int)(enough < most ? enough : most);
}

// Bytes of scratch memory: a counter of the blocks that have finished, and from byte 16 on, what each of them found. No
// SM runs more than 2048 threads at a time.
size_t scratch_of_reduction() { return 16 * (size_t(2048 / THREADS) * multiprocessors() + 1); }

void launch_sum_wide(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(sum_wide_kernel, n, sizeof(float));
    sum_wide_kernel<<<blocks, THREADS, 0, stream>>>(x, (float*)scratch, n);
    sum_wide_kernel<<<1, THREADS, 0, stream>>>((float*)scratch, out, blocks);
}

void launch_sum_atomic(const float* x, float* out, size_t n, void*, cudaStream_t stream) {
    cudaMemsetAsync(out, 0, sizeof(float), stream);
    sum_atomic_kernel<<<blocks_of(sum_atomic_kernel, n, sizeof(float)), THREADS, 0, stream>>>(x, out, n);
}

void launch_sum(const float* x, float* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(sum_kernel<float>, n, sizeof(float));
    cudaMemsetAsync(scratch, 0, sizeof(unsigned int), stream);
    sum_kernel<float><<<blocks, THREADS, 0, stream>>>(x, (float*)scratch + 4, (unsigned int*)scratch, out, n);
}

void launch_sum(const __half* x, __half* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(sum_kernel<__half>, n, sizeof(__half));
    cudaMemsetAsync(scratch, 0, sizeof(unsigned int), stream);
    sum_kernel<__half><<<blocks, THREADS, 0, stream>>>(x, (float*)scratch + 4, (unsigned int*)scratch, out, n);
}

void launch_sum(const __nv_bfloat16* x, __nv_bfloat16* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(sum_kernel<__nv_bfloat16>, n, sizeof(__nv_bfloat16));
    cudaMemsetAsync(scratch, 0, sizeof(unsigned int), stream);
    sum_kernel<__nv_bfloat16><<<blocks, THREADS, 0, stream>>>(x, (float*)scratch + 4, (unsigned int*)scratch, out, n);
}

void launch_argmax(const float* x, long long* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(argmax_kernel<float>, n, sizeof(float));
    cudaMemsetAsync(scratch, 0, sizeof(unsigned int), stream);
    argmax_kernel<float><<<blocks, THREADS, 0, stream>>>(x, (Best*)scratch + 1, (unsigned int*)scratch, out, n);
}

void launch_argmax(const __half* x, long long* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(argmax_kernel<__half>, n, sizeof(__half));
    cudaMemsetAsync(scratch, 0, sizeof(unsigned int), stream);
    argmax_kernel<__half><<<blocks, THREADS, 0, stream>>>(x, (Best*)scratch + 1, (unsigned int*)scratch, out, n);
}

void launch_argmax(const __nv_bfloat16* x, long long* out, size_t n, void* scratch, cudaStream_t stream) {
    unsigned int blocks = blocks_of(argmax_kernel<__nv_bfloat16>, n, sizeof(__nv_bfloat16));
    cudaMemsetAsync(scratch, 0, sizeof(unsigned int), stream);
    argmax_kernel<__nv_bfloat16><<<blocks, THREADS, 0, stream>>>(x, (Best*)scratch + 1, (unsigned int*)scratch, out, n);
}
#endif
