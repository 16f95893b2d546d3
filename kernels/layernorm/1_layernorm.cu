// Layer norm and RMS norm of the rows of x (h, w):
//   layer norm: out[r][c] = (x[r][c] - mean[r]) * rstd[r] * weight[c] + bias[c], rstd[r] = 1 / sqrt(variance + eps)
//   RMS norm:   the same with 0 for the mean, and no bias: the variance is then the mean of the squares
// x, weight, bias and out are of float32, float16 or bfloat16, mean (h) and rstd (h) of float32, in which everything is
// added up. weight and bias may be null, for 1 and 0. The variance is the mean of (x - mean)^2: the mean of x^2 less
// mean^2 would cancel where the mean is large, and could even be negative.
#include "../cdiv.h"
#include "../rows.h"

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
        float m = sum_of_block(sum, board[0]) / w;
        for (int c = threadIdx.x; c < w; c += blockDim.x) squares += (row[c] - m) * (row[c] - m);
        float scale = rsqrtf(sum_of_block(squares, board[1]) / w + eps);
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

// All lanes' parts merged at once, for every lane. Together they have `count` values.
__device__ inline Moments warp_moments(Moments part, float count) {
    float share = count > 0.0f ? part.count / count : 0.0f, mean = sum_of_warp(share * part.mean);
    float apart = part.mean - mean;
    return {count, mean, sum_of_warp(part.squares + part.count * apart * apart)};
}

// The same for all warps of the block, of which each has its part in all lanes; `board` as in sum_of_block.
__device__ inline Moments block_moments(Moments part, float count, Moments* board) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (lane == 0) board[warp] = part;
    __syncthreads();  // otherwise a warp reads what other warps have not stored yet
    return warp_moments(lane < warps ? board[lane] : Moments{0.0f, 0.0f, 0.0f}, count);
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
        found = block_moments(warp_moments(found, sum_of_warp(found.count)), w, board);
        float scale = rsqrtf(found.squares / w + eps);
        for (int c = threadIdx.x; c < w; c += blockDim.x)
            out[r * w + c] = scaled(row[c], found.mean, scale, weight, bias, c);
        if (threadIdx.x == 0) mean[r] = found.mean, rstd[r] = scale;
        __syncthreads();  // otherwise a warp that is ahead stores its next moments while others still read these
    }
}

// The most threads of a block that keeps a row in its registers, with PACKS packs per thread.
template <class T, int PACKS>
constexpr int THREADS = PACKS * 32 * sizeof(T);

// Registers: x is read once. The warps of a block have the row one part after the other, each thread at most PACKS
// packs of 16 bytes, all loaded before the first is used. A warp finds the mean of its part and the squares about that
// mean, so one barrier is enough: it merges the parts. One warp alone has no `board` and no barrier. With no `mean` to
// write, this is RMS norm. The row `ahead` of this one is prefetched meanwhile. Rows must begin at multiples of 16
// bytes, weight and bias too.
template <class T, int PACKS>
__device__ inline void norm_in_registers(const T* __restrict__ x, const T* __restrict__ weight,
                                         const T* __restrict__ bias, T* __restrict__ out, float* __restrict__ mean,
                                         float* __restrict__ rstd, int w, float eps, int ahead, Moments* board) {
    constexpr int SIZE = Pack<T>::SIZE;
    size_t r = blockIdx.x;
    int begin = threadIdx.x / 32 * 32 * PACKS, first = begin + threadIdx.x % 32;  // pack of the warp, of the thread
    int packs = w / SIZE - first;  // number k of the thread is in the row if 32 * k is less than this
    const Pack<T>* from = (const Pack<T>*)(x + r * w) + first;
    Pack<T> row[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k)  // guard: behind the row there are zeros, which no sum notices
        row[k] = 32 * k < packs ? from[32 * k] : Pack<T>();
    if (ahead) prefetch_row(x, r + ahead, gridDim.x, w, threadIdx.x, blockDim.x);
    int left = w - begin * SIZE, most = 32 * PACKS * SIZE, count = left < 0 ? 0 : left < most ? left : most;
    float m = 0.0f, squares = 0.0f;
    if (mean) {
        float total = 0.0f;
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
#pragma unroll
            for (int i = 0; i < SIZE; ++i) total += as_float(row[k], i);
            forget_floats(row[k]);
        }
        m = count > 0 ? sum_of_warp(total) / count : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        if (32 * k < packs)  // guard: the zeros are at a distance from the mean
#pragma unroll
            for (int i = 0; i < SIZE; ++i) squares += (as_float(row[k], i) - m) * (as_float(row[k], i) - m);
    Moments found = {float(count), m, sum_of_warp(squares)};
    if (board) found = block_moments(found, w, board);
    float scale = rsqrtf(found.squares / w + eps);
    if (threadIdx.x == 0) {
        if (mean) mean[r] = found.mean;
        rstd[r] = scale;
    }
    int weighted = weight ? packs : 0, biased = bias ? packs : 0;  // so that loads need no branch
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        Pack<T> factors, terms = Pack<T>();
        float values[SIZE];
#pragma unroll
        for (int i = 0; i < SIZE; ++i) values[i] = 1.0f;
        set(factors, values);
        if (32 * k < weighted) factors = ((const Pack<T>*)weight)[first + 32 * k];
        if (32 * k < biased) terms = ((const Pack<T>*)bias)[first + 32 * k];
#pragma unroll
        for (int i = 0; i < SIZE; ++i)
            values[i] = (as_float(row[k], i) - found.mean) * scale * as_float(factors, i) + as_float(terms, i);
        set(row[k], values);
        if (32 * k < packs) {  // guard: at a `break` in its place, the next loads would wait for this store
            Pack<T>* to = (Pack<T>*)(out + r * w) + first + 32 * k;
            if (THREADS<T, PACKS> == 1024)  // so long a row would drive weight and bias from the L1 cache
                store_pack((T*)to, row[k]);
            else
                *to = row[k];
        }
    }
}

// A block of one warp per row, for rows of at most 1024: no thread waits for another warp, and no shared memory is
// needed.
template <class T>
__global__ void __launch_bounds__(32)
    norm_warps_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                      T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, int w, float eps,
                      int ahead) {
    norm_in_registers<T, 2 * sizeof(T)>(x, weight, bias, out, mean, rstd, w, eps, ahead, nullptr);
}

// A block per row: with 4 packs per thread for rows of at most 8192, with 8 for rows of at most 32,768. A thread has at
// most 64 registers, so that an SM has room for 1024 threads, often of several blocks: one can load while another
// waits.
template <class T, int PACKS>
__global__ void __launch_bounds__(THREADS<T, PACKS>, 1024 / THREADS<T, PACKS>)
    norm_registers_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                          T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, int w, float eps,
                          int ahead) {
    __shared__ Moments board[32];
    norm_in_registers<T, PACKS>(x, weight, bias, out, mean, rstd, w, eps, ahead, board);
}

// Shared memory: for rows that registers cannot hold, or that begin anywhere. Each thread reads only what it has stored
// itself, so there is no barrier but those of the sums.
template <class T>
__global__ void __launch_bounds__(1024)
    norm_shared_kernel(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
                       T* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd, size_t h, int w,
                       float eps) {
    extern __shared__ uint4 dynamic[];
    float(*board)[32] = (float(*)[32])dynamic;  // two: at the second barrier everyone has read the first; then the row
    T* row = (T*)(board + 2);
    for (size_t r = blockIdx.x; r < h; r += gridDim.x) {
        const T* from = x + r * w;
        float total = 0.0f, squares = 0.0f;
#pragma unroll 8
        for (int c = threadIdx.x; c < w; c += blockDim.x) {
            row[c] = from[c];
            total += as_float(row[c]);
        }
        float m = mean ? sum_of_block(total, board[0]) / w : 0.0f;
#pragma unroll 8
        for (int c = threadIdx.x; c < w; c += blockDim.x) squares += (as_float(row[c]) - m) * (as_float(row[c]) - m);
        float scale = rsqrtf(sum_of_block(squares, board[1]) / w + eps);
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
    constexpr int SIZE = Pack<T>::SIZE;
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
            for (int i = 0; i < SIZE; ++i) total += as_float(pack, i);
            float m = mean ? total / SIZE : 0.0f;
            for (int i = 0; i < SIZE; ++i) squares += (as_float(pack, i) - m) * (as_float(pack, i) - m);
            found = merged(found, {float(SIZE), m, squares});
        }
        found = block_moments(warp_moments(found, sum_of_warp(found.count)), w, board);
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
#include "../ahead.h"

// A grid has at most 2^31 - 1 blocks in x; a block does several rows where there are more.
static unsigned int blocks_of(size_t rows) { return rows < 2147483647 ? rows : 2147483647; }

// So many threads that each has at most `each` units of a row: a warp or more, at most 1024.
static unsigned int threads_for(size_t units, int each) {
    unsigned int threads = cdiv(units, each * 32) * 32;
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
    bool fits = aligned && blocks_of(h) == h;  // registers: a block has one row
    size_t bytes = size_t(w) * sizeof(T);
    if ((wanted == WARPS && w > 1024) || (wanted == REGISTERS && w > 32768)) return {NONE};
    if (fits && w <= 1024 && (wanted == ANY || wanted == WARPS)) return {WARPS, blocks_of(h), 32, 0};
    if (fits && w <= 32768 && (wanted == ANY || wanted == REGISTERS))
        return {REGISTERS, blocks_of(h), threads_for(bytes / 16, w <= 8192 ? 4 : 8), 0};
    if (bytes < (1 << 20)) {
        cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
        bytes += 2 * 32 * sizeof(float);  // the boards
        if (bytes <= 48 * 1024 || cudaFuncSetAttribute(shared_kernel, most, bytes) == cudaSuccess)
            return {SHARED, blocks_of(h), threads_for(w, 8), int(bytes)};
        cudaGetLastError();  // a refusal is an answer here, and no error
    }
    return {wanted == SHARED ? NONE : LONG, blocks_of(h), threads_for(w, 8), 0};
}

bool launch_norm(const float* x, const float* weight, const float* bias, float* out, float* mean, float* rstd, size_t h,
                 int w, float eps, int wanted, cudaStream_t stream) {
    auto [way, blocks, threads, bytes] = planned(wanted, x, weight, bias, out, h, w, norm_shared_kernel<float>);
    int ahead = rows_ahead(w * sizeof(*x));
    if (way == WARPS)
        norm_warps_kernel<float><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == REGISTERS && w <= 8192)
        norm_registers_kernel<float, 4>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == REGISTERS)
        norm_registers_kernel<float, 8>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == SHARED)
        norm_shared_kernel<float><<<blocks, threads, bytes, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == LONG)
        norm_long_kernel<float><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    return way != NONE;
}

bool launch_norm(const __half* x, const __half* weight, const __half* bias, __half* out, float* mean, float* rstd,
                 size_t h, int w, float eps, int wanted, cudaStream_t stream) {
    auto [way, blocks, threads, bytes] = planned(wanted, x, weight, bias, out, h, w, norm_shared_kernel<__half>);
    int ahead = rows_ahead(w * sizeof(*x));
    if (way == WARPS)
        norm_warps_kernel<__half><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == REGISTERS && w <= 8192)
        norm_registers_kernel<__half, 4>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == REGISTERS)
        norm_registers_kernel<__half, 8>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == SHARED)
        norm_shared_kernel<__half><<<blocks, threads, bytes, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == LONG)
        norm_long_kernel<__half><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    return way != NONE;
}

bool launch_norm(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
                 float* mean, float* rstd, size_t h, int w, float eps, int wanted, cudaStream_t stream) {
    auto [way, blocks, threads, bytes] = planned(wanted, x, weight, bias, out, h, w, norm_shared_kernel<__nv_bfloat16>);
    int ahead = rows_ahead(w * sizeof(*x));
    if (way == WARPS)
        norm_warps_kernel<__nv_bfloat16>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == REGISTERS && w <= 8192)
        norm_registers_kernel<__nv_bfloat16, 4>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == REGISTERS)
        norm_registers_kernel<__nv_bfloat16, 8>
            <<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, w, eps, ahead);
    else if (way == SHARED)
        norm_shared_kernel<__nv_bfloat16>
            <<<blocks, threads, bytes, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    else if (way == LONG)
        norm_long_kernel<__nv_bfloat16><<<blocks, threads, 0, stream>>>(x, weight, bias, out, mean, rstd, h, w, eps);
    return way != NONE;
}
#endif
