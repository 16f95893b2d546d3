// softmax: out (h, w) = exp(x - max) / sum of exp(x - max) for each row of x (h, w), row-major, and its gradient.
// Subtracting the row's largest element changes nothing in the result, but exp cannot overflow: it is 1 at most.
// In the first three kernels x is float32, and threads read single floats.
#include <cuda_pipeline.h>

#include "cdiv.h"
#include "rows.h"

// Naive: one thread per row, which it reads three times. The 32 lanes of a warp read from 32 rows: 32 sectors.
__global__ void softmax_naive_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    size_t r = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= h) return;  // guard
    float max = LOWEST, sum = 0.0f;
    for (size_t c = 0; c < w; ++c) max = fmaxf(max, x[r * w + c]);
    for (size_t c = 0; c < w; ++c) sum += expf(x[r * w + c] - max);
    for (size_t c = 0; c < w; ++c) out[r * w + c] = expf(x[r * w + c] - max) / sum;
}

// Three passes: a block per row. A warp reads 32 neighbouring floats, 4 sectors.
__global__ void softmax_three_passes_kernel(const float* __restrict__ x, float* __restrict__ out, size_t w) {
    __shared__ Divisor parts[2][32];
    const float* from = x + blockIdx.x * w;
    float* to = out + blockIdx.x * w;
    Divisor all = {LOWEST, 0.0f};
    for (size_t c = threadIdx.x; c < w; c += blockDim.x) all.max = fmaxf(all.max, from[c]);
    all.max = divisor_of_block({max_of_warp(all.max), 0.0f}, parts[0]).max;
    for (size_t c = threadIdx.x; c < w; c += blockDim.x) all.sum += expf(from[c] - all.max);
    all = divisor_of_block({all.max, sum_of_warp(all.sum)}, parts[1]);
    for (size_t c = threadIdx.x; c < w; c += blockDim.x) to[c] = expf(from[c] - all.max) / all.sum;
}

// Online: two passes. Where a thread finds an element larger than all before, it scales the sum of what came before.
__global__ void softmax_online_kernel(const float* __restrict__ x, float* __restrict__ out, size_t w) {
    __shared__ Divisor parts[32];
    const float* from = x + blockIdx.x * w;
    float* to = out + blockIdx.x * w;
    Divisor mine = {LOWEST, 0.0f};
    for (size_t c = threadIdx.x; c < w; c += blockDim.x) {
        float v = from[c], max = fmaxf(mine.max, v);
        mine = {max, mine.sum * expf(mine.max - max) + expf(v - max)};
    }
    Divisor all = divisor_of_block(divisor_of_warp(mine), parts);
    for (size_t c = threadIdx.x; c < w; c += blockDim.x) to[c] = expf(from[c] - all.max) / all.sum;
}

// From here on, x is read by packs of 16 bytes, and may be float32, float16 or bfloat16.

// Wide: two passes for rows of any length, with LOADS packs per thread in flight.
template <class T>
__global__ void __launch_bounds__(512) softmax_wide_kernel(const T* __restrict__ x, T* __restrict__ out, size_t w) {
    constexpr int SIZE = Row<T>::SIZE, LOADS = 4;
    __shared__ Divisor parts[32];
    const T* from = x + blockIdx.x * w;
    T* to = out + blockIdx.x * w;
    Row<T> row(from, w);
    Divisor all = divisor_of_row<LOADS>(from, row, parts);
    float scale = 1.0f / all.sum;
    bool wide = size_t(to + row.head) % 16 == 0;
    for (size_t i = threadIdx.x; i < row.packs; i += LOADS * blockDim.x) {
        Pack<T> packs[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * blockDim.x < row.packs)  // guard
                packs[k] = *(const Pack<T>*)(from + row.pack(i + k * blockDim.x));
#pragma unroll
        for (int k = 0; k < LOADS; ++k)
            if (i + k * blockDim.x < row.packs) {  // guard
                float values[SIZE];
                for (int j = 0; j < SIZE; ++j) values[j] = exp_of(as_float(packs[k], j) - all.max) * scale;
                set(packs[k], values);
                store_pack_at(to, row.pack(i + k * blockDim.x), packs[k], wide);
            }
    }
    if (threadIdx.x < row.edges) {
        size_t c = row.edge(threadIdx.x);
        set(to[c], exp_of(as_float(from[c]) - all.max) * scale);
    }
}

// Shared: a block copies its row to shared memory, so that only the first of three passes reads x. Each thread uses
// what it copied itself, so no barrier is needed for that.
template <class T>
__global__ void __launch_bounds__(1024)
    softmax_shared_kernel(const T* __restrict__ x, T* __restrict__ out, size_t w) {
    extern __shared__ uint4 shared[];
    const T* from = x + blockIdx.x * w;
    T* to = out + blockIdx.x * w;
    Row<T> row(from, w);
    const Pack<T>* packs = (const Pack<T>*)shared;
    Divisor* parts = (Divisor*)(shared + w * sizeof(T) / 16);  // behind the packs
    for (int i = threadIdx.x; i < row.packs; i += blockDim.x)
        __pipeline_memcpy_async(shared + i, from + row.pack(i), 16);
    __pipeline_commit();
    float edge = threadIdx.x < row.edges ? as_float(from[row.edge(threadIdx.x)]) : -INFINITY;
    float max = fmaxf(LOWEST, edge);
    __pipeline_wait_prior(0);  // otherwise this thread's copies have not arrived
    for (int i = threadIdx.x; i < row.packs; i += blockDim.x)
        for (int j = 0; j < Row<T>::SIZE; ++j) max = fmaxf(max, as_float(packs[i], j));
    max = max_of_warp(max);
    float sum = exp_of(edge - max);
    for (int i = threadIdx.x; i < row.packs; i += blockDim.x)
        for (int j = 0; j < Row<T>::SIZE; ++j) sum += exp_of(as_float(packs[i], j) - max);
    Divisor all = divisor_of_block({max, sum_of_warp(sum)}, parts);
    float scale = 1.0f / all.sum;
    bool wide = size_t(to + row.head) % 16 == 0;
    for (int i = threadIdx.x; i < row.packs; i += blockDim.x) {
        Pack<T> pack = packs[i];
        float values[Row<T>::SIZE];
        for (int j = 0; j < Row<T>::SIZE; ++j) values[j] = exp_of(as_float(pack, j) - all.max) * scale;
        set(pack, values);
        store_pack_at(to, row.pack(i), pack, wide);
    }
    if (threadIdx.x < row.edges) set(to[row.edge(threadIdx.x)], exp_of(edge - all.max) * scale);
}

// In registers: a warp or a block shares row r, and each thread keeps its elements until their results are stored. The
// row `ahead` of it is prefetched meanwhile.
template <class T, bool BLOCK>
__device__ void softmax_of_row(const T* __restrict__ x, T* __restrict__ out, size_t r, size_t h, size_t w, int ahead,
                               Divisor* parts) {
    constexpr int SIZE = Row<T>::SIZE, PACKS = KEPT / SIZE;
    int lanes = BLOCK ? blockDim.x : 32, lane = BLOCK ? threadIdx.x : threadIdx.x % 32;
    T* to = out + r * w;
    Row<T> row(x + r * w, w);
    Kept<T> kept(x + r * w, row, lane, lanes);
    if (ahead) prefetch_row(x, r + ahead, h, w, lane, lanes);
    float max = fmaxf(LOWEST, kept.edge), sum = 0.0f, values[PACKS][SIZE];
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        for (int j = 0; j < SIZE; ++j) max = fmaxf(max, as_float(kept.packs[k], j));
    max = max_of_warp(max);
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        for (int j = 0; j < SIZE; ++j) sum += values[k][j] = exp_of(as_float(kept.packs[k], j) - max);
    float edge = exp_of(kept.edge - max);
    Divisor all = {max, sum_of_warp(sum + edge)};
    if (BLOCK) all = divisor_of_block(all, parts);
    float scale = exp_of(max - all.max) / all.sum;  // from the warp's largest element to the row's

    bool wide = size_t(to + row.head) % 16 == 0;
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        if (lane + k * lanes < int(row.packs)) {  // guard
            Pack<T> pack;
            for (int j = 0; j < SIZE; ++j) values[k][j] *= scale;
            set(pack, values[k]);
            store_pack_at(to, row.pack(lane + k * lanes), pack, wide);
        }
    if (lane < row.edges) set(to[row.edge(lane)], edge * scale);
}

// A warp per row of at most 32 * KEPT elements: no barrier.
template <class T>
__global__ void __launch_bounds__(128)
    softmax_warp_kernel(const T* __restrict__ x, T* __restrict__ out, size_t h, size_t w, int ahead) {
    size_t r = size_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (r < h)  // guard
        softmax_of_row<T, false>(x, out, r, h, w, ahead, nullptr);
}

// A block per row of at most blockDim.x * KEPT elements: one barrier.
template <class T>
__global__ void __launch_bounds__(1024)
    softmax_block_kernel(const T* __restrict__ x, T* __restrict__ out, size_t w, int ahead) {
    __shared__ Divisor parts[32];
    softmax_of_row<T, true>(x, out, blockIdx.x, gridDim.x, w, ahead, parts);
}

// The gradient: dx = y * (dy - sum of y * dy) for each row, where y is the softmax. Both rows are in registers, half as
// many elements of each; rows that are too long for that are read twice. All three tensors begin equally far behind a
// multiple of 16 bytes.
template <class T, bool BLOCK, bool AGAIN>
__device__ void softmax_backward_of_row(const T* __restrict__ dy, const T* __restrict__ y, T* __restrict__ dx, size_t w,
                                        float* sums) {
    constexpr int SIZE = Row<T>::SIZE, PACKS = KEPT / 2 / SIZE;
    int lanes = BLOCK ? blockDim.x : 32, lane = BLOCK ? threadIdx.x : threadIdx.x % 32;
    Row<T> row(y, w);
    Pack<T> shares[PACKS], grads[PACKS];
    // How far the thread may go from pack `first` on: number k of its packs is in the row if k * lanes is less.
    auto packs_from = [&](size_t first) {
        size_t left = first < row.packs ? row.packs - first : 0, most = PACKS * lanes;
        return int(left < most ? left : most);
    };
    auto load = [&](size_t first, bool last) {
        auto pack = [&](const T* from) { return last ? load_pack(from) : *(const Pack<T>*)from; };
        int left = packs_from(first);
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
            if (k * lanes < left) {  // guard
                shares[k] = pack(y + row.pack(first + k * lanes));
                grads[k] = pack(dy + row.pack(first + k * lanes));
            } else
                shares[k] = grads[k] = pack_of<T>(0.0f);
    };
    float share = 0.0f, grad = 0.0f, sum = 0.0f;
    if (lane < row.edges) {
        share = as_float(y[row.edge(lane)]), grad = as_float(dy[row.edge(lane)]);
        sum = share * grad;
    }
    size_t first = lane;
    do {
        load(first, !AGAIN);  // what is read again must stay in the caches
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
            for (int j = 0; j < SIZE; ++j) sum += as_float(shares[k], j) * as_float(grads[k], j);
        first += PACKS * lanes;
    } while (AGAIN && first < row.packs);
    sum = BLOCK ? sum_of_block(sum, sums) : sum_of_warp(sum);
    first = lane;
    do {
        if (AGAIN) load(first, true);
        int left = packs_from(first);
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
            if (k * lanes < left) {  // guard
                float values[SIZE];
                for (int j = 0; j < SIZE; ++j) values[j] = as_float(shares[k], j) * (as_float(grads[k], j) - sum);
                set(grads[k], values);
                store_pack(dx + row.pack(first + k * lanes), grads[k]);
            }
        first += PACKS * lanes;
    } while (AGAIN && first < row.packs);
    if (lane < row.edges) set(dx[row.edge(lane)], share * (grad - sum));
}

// A warp per row of at most 16 * KEPT elements.
template <class T>
__global__ void __launch_bounds__(128) softmax_backward_warp_kernel(const T* __restrict__ dy, const T* __restrict__ y,
                                                                    T* __restrict__ dx, size_t h, size_t w) {
    size_t r = size_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (r < h)  // guard
        softmax_backward_of_row<T, false, false>(dy + r * w, y + r * w, dx + r * w, w, nullptr);
}

// A block per row: of at most blockDim.x * KEPT / 2 elements, or of any length where it reads them AGAIN. Then it has
// 1024 threads: with more blocks per SM, the L2 cache could not keep their rows until then.
template <class T, bool AGAIN>
__global__ void __launch_bounds__(1024)
    softmax_backward_block_kernel(const T* __restrict__ dy, const T* __restrict__ y, T* __restrict__ dx, size_t w) {
    __shared__ float sums[32];
    size_t first = blockIdx.x * w;
    softmax_backward_of_row<T, true, AGAIN>(dy + first, y + first, dx + first, w, sums);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include "ahead.h"

void launch_softmax_naive(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    softmax_naive_kernel<<<cdiv(h, 128), 128, 0, stream>>>(x, out, h, w);
}

void launch_softmax_three_passes(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    softmax_three_passes_kernel<<<h, 256, 0, stream>>>(x, out, w);
}

void launch_softmax_online(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    softmax_online_kernel<<<h, 256, 0, stream>>>(x, out, w);
}

void launch_softmax_wide(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    softmax_wide_kernel<float><<<h, 512, 0, stream>>>(x, out, w);
}

// Bytes of shared memory for the packs of a row of w elements, and for the parts of its divisor.
static size_t bytes_of_row(size_t w, size_t size) { return w * size / 16 * 16 + 32 * sizeof(Divisor); }

// Whether a block may have so much shared memory: more than 48 KB must be requested, and GPUs differ in what they have.
template <class Kernel>
static bool allowed(Kernel kernel, size_t bytes) {
    if (bytes > 1 << 20) return false;
    bool given = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess;
    cudaGetLastError();  // a refusal is an answer here, and no error
    return given;
}

// Returns whether there is room for a row.
bool launch_softmax_shared(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    size_t bytes = bytes_of_row(w, 4);
    if (!allowed(softmax_shared_kernel<float>, bytes)) return false;
    softmax_shared_kernel<float><<<h, 1024, bytes, stream>>>(x, out, w);
    return true;
}

void launch_softmax_warp(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    int ahead = rows_ahead(w * sizeof(float));
    softmax_warp_kernel<float><<<cdiv(h, 4), 128, 0, stream>>>(x, out, h, w, ahead);
}

// The threads of a block that keep `kept` elements of a row each.
static unsigned int threads_for(size_t w, int kept) { return 32 * cdiv(w, 32 * kept); }

void launch_softmax_block(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    int ahead = rows_ahead(w * sizeof(float));
    softmax_block_kernel<float><<<h, threads_for(w, KEPT), 0, stream>>>(x, out, w, ahead);
}

void launch_softmax(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    size_t bytes = bytes_of_row(w, 4);
    int ahead = rows_ahead(w * 4);
    if (w <= 32 * KEPT)
        softmax_warp_kernel<float><<<cdiv(h, 4), 128, 0, stream>>>(x, out, h, w, ahead);
    else if (w <= 1024 * KEPT)
        softmax_block_kernel<float><<<h, threads_for(w, KEPT), 0, stream>>>(x, out, w, ahead);
    else if (allowed(softmax_shared_kernel<float>, bytes))
        softmax_shared_kernel<float><<<h, 1024, bytes, stream>>>(x, out, w);
    else
        softmax_wide_kernel<float><<<h, 512, 0, stream>>>(x, out, w);
}

void launch_softmax(const __half* x, __half* out, size_t h, size_t w, cudaStream_t stream) {
    size_t bytes = bytes_of_row(w, 2);
    int ahead = rows_ahead(w * 2);
    if (w <= 32 * KEPT)
        softmax_warp_kernel<__half><<<cdiv(h, 4), 128, 0, stream>>>(x, out, h, w, ahead);
    else if (w <= 1024 * KEPT)
        softmax_block_kernel<__half><<<h, threads_for(w, KEPT), 0, stream>>>(x, out, w, ahead);
    else if (allowed(softmax_shared_kernel<__half>, bytes))
        softmax_shared_kernel<__half><<<h, 1024, bytes, stream>>>(x, out, w);
    else
        softmax_wide_kernel<__half><<<h, 512, 0, stream>>>(x, out, w);
}

void launch_softmax(const __nv_bfloat16* x, __nv_bfloat16* out, size_t h, size_t w, cudaStream_t stream) {
    size_t bytes = bytes_of_row(w, 2);
    int ahead = rows_ahead(w * 2);
    if (w <= 32 * KEPT)
        softmax_warp_kernel<__nv_bfloat16><<<cdiv(h, 4), 128, 0, stream>>>(x, out, h, w, ahead);
    else if (w <= 1024 * KEPT)
        softmax_block_kernel<__nv_bfloat16><<<h, threads_for(w, KEPT), 0, stream>>>(x, out, w, ahead);
    else if (allowed(softmax_shared_kernel<__nv_bfloat16>, bytes))
        softmax_shared_kernel<__nv_bfloat16><<<h, 1024, bytes, stream>>>(x, out, w);
    else
        softmax_wide_kernel<__nv_bfloat16><<<h, 512, 0, stream>>>(x, out, w);
}

void launch_softmax_backward(const float* dy, const float* y, float* dx, size_t h, size_t w, cudaStream_t stream) {
    if (w <= 16 * KEPT)
        softmax_backward_warp_kernel<float><<<cdiv(h, 4), 128, 0, stream>>>(dy, y, dx, h, w);
    else if (w <= 512 * KEPT)
        softmax_backward_block_kernel<float, false><<<h, threads_for(w, KEPT / 2), 0, stream>>>(dy, y, dx, w);
    else
        softmax_backward_block_kernel<float, true><<<h, 1024, 0, stream>>>(dy, y, dx, w);
}

void launch_softmax_backward(const __half* dy, const __half* y, __half* dx, size_t h, size_t w, cudaStream_t stream) {
    if (w <= 16 * KEPT)
        softmax_backward_warp_kernel<__half><<<cdiv(h, 4), 128, 0, stream>>>(dy, y, dx, h, w);
    else if (w <= 512 * KEPT)
        softmax_backward_block_kernel<__half, false><<<h, threads_for(w, KEPT / 2), 0, stream>>>(dy, y, dx, w);
    else
        softmax_backward_block_kernel<__half, true><<<h, 1024, 0, stream>>>(dy, y, dx, w);
}

void launch_softmax_backward(const __nv_bfloat16* dy, const __nv_bfloat16* y, __nv_bfloat16* dx, size_t h, size_t w,
                             cudaStream_t stream) {
    if (w <= 16 * KEPT)
        softmax_backward_warp_kernel<__nv_bfloat16><<<cdiv(h, 4), 128, 0, stream>>>(dy, y, dx, h, w);
    else if (w <= 512 * KEPT)
        softmax_backward_block_kernel<__nv_bfloat16, false><<<h, threads_for(w, KEPT / 2), 0, stream>>>(dy, y, dx, w);
    else
        softmax_backward_block_kernel<__nv_bfloat16, true><<<h, 1024, 0, stream>>>(dy, y, dx, w);
}
#endif
