// Layer norm and RMS norm of the rows of x (h, w):
//   layer norm: out[r][c] = (x[r][c] - mean[r]) * rstd[r] * weight[c] + bias[c], rstd[r] = 1 / sqrt(variance + eps)
//   RMS norm:   the same with 0 for the mean, and no bias: the variance is then the mean of the squares
// x, weight, bias and out are of float32, float16 or bfloat16, mean (h) and rstd (h) of float32, in which everything is
// added up. weight and bias may be null, for 1 and 0. The variance is the mean of (x - mean)^2: the mean of x^2 less
// mean^2 would cancel where the mean is large, and could even be negative.
#include "../cdiv.h"
#include "../packs.h"
#include "sums.h"

// An element of out, from the element v of x in column c.
template <class T>
__device__ inline float scaled(T v, float mean, float rstd, const T* __restrict__ weight, const T* __restrict__ bias,
                               int c) {
    float y = (as_float(v) - mean) * rstd * (weight ? as_float(weight[c]) : 1.0f);
    return y + (bias ? as_float(bias[c]) : 0.0f);
}

// Three passes: a block per row, whose threads read the row three times: for the mean, for the variance, for out. A
// warp reads 32 floats side by side. A row that is still in a cache the second time need not come from memory.
__global__ void layer_norm_three_passes_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                               const float* __restrict__ bias, float* __restrict__ out,
                                               float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                                               float eps) {
    __shared__ float board[2][32];
    for (size_t r = blockIdx.x; r < h; r += gridDim.x) {
        const float* row = x + r * w;
        float sum = 0.0f, squares = 0.0f;
        for (int c = threadIdx.x; c < w; c += blockDim.x) sum += row[c];
        float m = block_sum(sum, board[0]) / w;
        for (int c = threadIdx.x; c < w; c += blockDim.x) squares += (row[c] - m) * (row[c] - m);
        float scale = rsqrtf(block_sum(squares, board[1]) / w + eps);
        for (int c = threadIdx.x; c < w; c += blockDim.x)
            out[r * w + c] = scaled(row[c], m, scale, weight, bias, c);
        if (threadIdx.x == 0) mean[r] = m, rstd[r] = scale;
    }
}

// Count, mean and sum of (v - mean)^2 of some values. `merged` is what they are for two such sets together (Chan, Golub
// and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).
struct Moments {
    float count, mean, squares;
};

__device__ inline Moments merged(Moments a, Moments b) {
    float count = a.count + b.count, part = count > 0.0f ? b.count / count : 0.0f, apart = b.mean - a.mean;
    return {count, a.mean + apart * part, a.squares + b.squares + apart * apart * a.count * part};
}

// Of all threads of the block, for every thread; `board` as in block_sum.
__device__ inline Moments block_moments(Moments found, Moments* board) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    auto over_lanes = [&] {
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2)
            found = merged(found, {__shfl_xor_sync(0xffffffff, found.count, apart),
                                   __shfl_xor_sync(0xffffffff, found.mean, apart),
                                   __shfl_xor_sync(0xffffffff, found.squares, apart)});
    };
    over_lanes();
    if (lane == 0) board[warp] = found;
    __syncthreads();  // otherwise a warp reads what other warps have not stored yet
    found = lane < warps ? board[lane] : Moments{0.0f, 0.0f, 0.0f};
    over_lanes();
    return found;
}

// Welford: mean and variance in one pass, so that a row is read twice. With each value that a thread reads, its mean
// moves by a part of the difference, and no large sums are subtracted from each other.
__global__ void layer_norm_welford_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                          const float* __restrict__ bias, float* __restrict__ out,
                                          float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                                          float eps) {
    __shared__ Moments board[32];
    for (size_t r = blockIdx.x; r < h; r += gridDim.x) {
        const float* row = x + r * w;
        Moments found = {0.0f, 0.0f, 0.0f};
        for (int c = threadIdx.x; c < w; c += blockDim.x) {
            float apart = row[c] - found.mean;
            found.count += 1.0f;
            found.mean += apart / found.count;
            found.squares += apart * (row[c] - found.mean);
        }
        found = block_moments(found, board);
        float scale = rsqrtf(found.squares / w + eps);
        for (int c = threadIdx.x; c < w; c += blockDim.x)
            out[r * w + c] = scaled(row[c], found.mean, scale, weight, bias, c);
        if (threadIdx.x == 0) mean[r] = found.mean, rstd[r] = scale;
        __syncthreads();  // otherwise a warp that is ahead stores its next moments while others still read these
    }
}

// Registers: x is read once. `threads` threads, of which this is number t, keep a row in their registers, at most PACKS
// packs of 16 bytes each, all loaded before the first is used. `sum` adds up over these threads. With no `mean` to
// write, this is RMS norm. Rows must begin at multiples of 16 bytes, weight and bias too.
template <class T, int PACKS, class Sum>
__device__ inline void norm_in_registers(const T* __restrict__ x, const T* __restrict__ weight,
                                         const T* __restrict__ bias, T* __restrict__ out, float* __restrict__ mean,
                                         float* __restrict__ rstd, size_t r, int w, float eps, int t, int threads,
                                         Sum sum) {
    const int SIZE = sizeof(Pack<T>) / sizeof(T);
    int packs = w / SIZE;
    Pack<T> loaded[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        int p = t + k * threads;
        loaded[k] = p < packs ? load_pack(x + r * w + p * SIZE) : Pack<T>();  // guard: zeros, which no sum notices
    }
    float v[PACKS][SIZE], m = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
#pragma unroll
        for (int i = 0; i < SIZE; ++i) v[k][i] = as_float(loaded[k].at[i]);
    if (mean) {
        float total = 0.0f;
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
#pragma unroll
            for (int i = 0; i < SIZE; ++i) total += v[k][i];
        m = sum(total, 0) / w;
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        if (t + k * threads < packs)  // guard: the zeros are at a distance from the mean
#pragma unroll
            for (int i = 0; i < SIZE; ++i) squares += (v[k][i] - m) * (v[k][i] - m);
    float scale = rsqrtf(sum(squares, 1) / w + eps);
    if (t == 0) {
        if (mean) mean[r] = m;
        rstd[r] = scale;
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        int p = t + k * threads;
        Pack<T> factors, terms = Pack<T>(), normed;  // no branch depends on weight or bias: loads can be in flight
#pragma unroll
        for (int i = 0; i < SIZE; ++i) set(factors.at[i], 1.0f);
        if (weight && p < packs) factors = *(const Pack<T>*)(weight + p * SIZE);  // guard
#pragma unroll
        for (int i = 0; i < SIZE; ++i) v[k][i] = (v[k][i] - m) * scale * as_float(factors.at[i]);
        if (bias && p < packs) terms = *(const Pack<T>*)(bias + p * SIZE);  // guard
#pragma unroll
        for (int i = 0; i < SIZE; ++i) set(normed.at[i], v[k][i] + as_float(terms.at[i]));
        if (p < packs) store_pack(out + r * w + p * SIZE, normed);  // guard
    }
}

// A warp per row, for rows of at most 1024: no thread waits for another warp, and no shared memory is needed.
template <class T>
__global__ void __launch_bounds__(256)
    norm_warps_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                      T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                      float eps) {
    auto sum = [](float v, int) { return warp_sum(v); };
    size_t rows = size_t(gridDim.x) * (blockDim.x / 32);
    for (size_t r = size_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; r < h; r += rows)
        norm_in_registers<T, 2 * sizeof(T)>(x, weight, bias, out, mean, rstd, r, w, eps, threadIdx.x % 32, 32, sum);
}

// A block per row, for rows of at most 32,768, with 8 packs per thread.
template <class T>
__global__ void __launch_bounds__(256 * sizeof(T))
    norm_registers_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                          T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                          float eps) {
    __shared__ float board[2][32];  // two boards: at the barrier of the second sum everyone has read the first
    auto sum = [&](float v, int which) { return block_sum(v, board[which]); };
    for (size_t r = blockIdx.x; r < h; r += gridDim.x)
        norm_in_registers<T, 8>(x, weight, bias, out, mean, rstd, r, w, eps, threadIdx.x, blockDim.x, sum);
}

// Shared memory: for rows that registers cannot hold, or that begin anywhere. Each thread reads only what it has stored
// itself, so there is no barrier but those of the sums.
template <class T>
__global__ void __launch_bounds__(1024)
    norm_shared_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                       T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                       float eps) {
    extern __shared__ uint4 dynamic[];
    float(*board)[32] = (float(*)[32])dynamic;  // two boards, as above; then the row
    T* row = (T*)(board + 2);
    for (size_t r = blockIdx.x; r < h; r += gridDim.x) {
        const T* from = x + r * w;
        float total = 0.0f, squares = 0.0f;
#pragma unroll 8
        for (int c = threadIdx.x; c < w; c += blockDim.x) {
            row[c] = from[c];
            total += as_float(row[c]);
        }
        float m = mean ? block_sum(total, board[0]) / w : 0.0f;
#pragma unroll 8
        for (int c = threadIdx.x; c < w; c += blockDim.x) squares += (as_float(row[c]) - m) * (as_float(row[c]) - m);
        float scale = rsqrtf(block_sum(squares, board[1]) / w + eps);
#pragma unroll 4
        for (int c = threadIdx.x; c < w; c += blockDim.x)
            set(out[r * w + c], scaled(row[c], m, scale, weight, bias, c));
        if (threadIdx.x == 0) {
            if (mean) mean[r] = m;
            rstd[r] = scale;
        }
    }
}

// In neither: the row is read twice, as with Welford above, but by packs. What a pack has is merged at once, with one
// division. A row may begin anywhere: the packs are those of memory, and the elements in front of the first and behind
// the last, less than a pack each, are read one by one.
template <class T>
__global__ void __launch_bounds__(1024)
    norm_long_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                     T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                     float eps) {
    __shared__ Moments board[32];
    const int SIZE = sizeof(Pack<T>) / sizeof(T);
    for (size_t r = blockIdx.x; r < h; r += gridDim.x) {
        const T* row = x + r * w;
        int front = (16 - size_t(row) % 16) % 16 / sizeof(T), first = front < w ? front : w;
        int packs = (w - first) / SIZE, behind = first + packs * SIZE;
        Moments found = {0.0f, 0.0f, 0.0f};
        auto add = [&](float v) { found = merged(found, {1.0f, mean ? v : 0.0f, mean ? 0.0f : v * v}); };
        if (threadIdx.x < first) add(as_float(row[threadIdx.x]));
        if (threadIdx.x < w - behind) add(as_float(row[behind + threadIdx.x]));
#pragma unroll 4
        for (int p = threadIdx.x; p < packs; p += blockDim.x) {
            Pack<T> pack = *(const Pack<T>*)(row + first + p * SIZE);
            float total = 0.0f, squares = 0.0f;
            for (int i = 0; i < SIZE; ++i) total += as_float(pack.at[i]);
            float m = mean ? total / SIZE : 0.0f;
            for (int i = 0; i < SIZE; ++i) squares += (as_float(pack.at[i]) - m) * (as_float(pack.at[i]) - m);
            found = merged(found, {float(SIZE), m, squares});
        }
        found = block_moments(found, board);
        float scale = rsqrtf(found.squares / w + eps);
#pragma unroll 4
        for (int c = threadIdx.x; c < w; c += blockDim.x)
            set(out[r * w + c], scaled(row[c], found.mean, scale, weight, bias, c));
        if (threadIdx.x == 0) {
            if (mean) mean[r] = found.mean;
            rstd[r] = scale;
        }
        __syncthreads();  // otherwise a warp that is ahead stores its next moments while others still read these
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// A grid has at most 2^31 - 1 blocks in x; a block does several rows where there are more.
static unsigned int blocks_of(size_t rows) { return rows < 2147483647 ? rows : 2147483647; }

// So many threads that each has at most 8 units of a row: a warp or more, at most 1024.
static unsigned int threads_for(size_t units) {
    unsigned int threads = cdiv(units, 8 * 32) * 32;
    return threads < 32 ? 32 : threads < 1024 ? threads : 1024;
}

void launch_layer_norm_three_passes(const float* x, const float* weight, const float* bias, float* out, float* mean,
                                    float* rstd, size_t h, int w, float eps, cudaStream_t stream) {
    layer_norm_three_passes_kernel<<<blocks_of(h), 256, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
}

void launch_layer_norm_welford(const float* x, const float* weight, const float* bias, float* out, float* mean,
                               float* rstd, size_t h, int w, float eps, cudaStream_t stream) {
    layer_norm_welford_kernel<<<blocks_of(h), 256, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
}

enum Way { ANY, WARPS, REGISTERS, SHARED, LONG, NONE };
struct Plan {
    Way way;
    unsigned int blocks, threads;
    int bytes;  // of shared memory
};

// The fastest way for these rows, or the `wanted` one; NONE if they are too long for that. Rows that do not begin at
// multiples of 16 bytes go through shared memory or, where they are too long for it, the long way.
template <class T, class Kernel>
static Plan planned(int wanted, const T* x, const T* weight, const T* bias, const T* out, size_t h, int w,
                    Kernel shared_kernel) {
    bool aligned = w % (16 / sizeof(T)) == 0 && (size_t(x) | size_t(weight) | size_t(bias) | size_t(out)) % 16 == 0;
    size_t bytes = size_t(w) * sizeof(T);
    if ((wanted == WARPS && w > 1024) || (wanted == REGISTERS && w > 32768)) return {NONE};
    if (aligned && w <= 1024 && (wanted == ANY || wanted == WARPS)) return {WARPS, blocks_of(cdiv(h, 8)), 256, 0};
    if (aligned && w <= 32768 && (wanted == ANY || wanted == REGISTERS))
        return {REGISTERS, blocks_of(h), threads_for(bytes / 16), 0};
    if (bytes < (1 << 20)) {
        cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
        bytes += 2 * 32 * sizeof(float);  // the boards
        if (bytes <= 48 * 1024 || cudaFuncSetAttribute(shared_kernel, most, bytes) == cudaSuccess)
            return {SHARED, blocks_of(h), threads_for(w), int(bytes)};
        cudaGetLastError();  // a refusal is an answer here, and no error
    }
    return {wanted == SHARED ? NONE : LONG, blocks_of(h), threads_for(w), 0};
}

bool launch_norm(const float* x, const float* weight, const float* bias, float* out, float* mean, float* rstd, size_t h,
                 int w, float eps, int wanted, cudaStream_t stream) {
    auto [way, blocks, threads, bytes] = planned(wanted, x, weight, bias, out, h, w, norm_shared_kernel<float>);
    if (way == WARPS)
        norm_warps_kernel<float><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == REGISTERS)
        norm_registers_kernel<float><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == SHARED)
        norm_shared_kernel<float><<<blocks, threads, bytes, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == LONG)
        norm_long_kernel<float><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    return way != NONE;
}

bool launch_norm(const __half* x, const __half* weight, const __half* bias, __half* out, float* mean, float* rstd,
                 size_t h, int w, float eps, int wanted, cudaStream_t stream) {
    auto [way, blocks, threads, bytes] = planned(wanted, x, weight, bias, out, h, w, norm_shared_kernel<__half>);
    if (way == WARPS)
        norm_warps_kernel<__half><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == REGISTERS)
        norm_registers_kernel<__half><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == SHARED)
        norm_shared_kernel<__half><<<blocks, threads, bytes, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == LONG)
        norm_long_kernel<__half><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    return way != NONE;
}

bool launch_norm(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
                 float* mean, float* rstd, size_t h, int w, float eps, int wanted, cudaStream_t stream) {
    auto [way, blocks, threads, bytes] = planned(wanted, x, weight, bias, out, h, w, norm_shared_kernel<__nv_bfloat16>);
    if (way == WARPS)
        norm_warps_kernel<__nv_bfloat16><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == REGISTERS)
        norm_registers_kernel<__nv_bfloat16>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == SHARED)
        norm_shared_kernel<__nv_bfloat16>
            <<<blocks, threads, bytes, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == LONG)
        norm_long_kernel<__nv_bfloat16><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    return way != NONE;
}
#endif
