// gelu: out (h, w) = gelu(x + bias), x (h, w), bias (w), row-major, in one kernel. gelu(v) = v * Phi(v), where Phi(v)
// is the share of a normal distribution below v.
#include "cdiv.h"
#include "rows.h"

// Naive: one thread per element, as the formula says. Subtracting two numbers near 1 leaves few digits where v < 0.
__global__ void bias_gelu_naive_kernel(const float* __restrict__ x, const float* __restrict__ bias,
                                       float* __restrict__ out, size_t n, size_t w) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {  // guard
        float v = x[i] + bias[i % w];
        out[i] = v * 0.5f * (1.0f + erff(v * 0.70710678f));
    }
}

// 1/v in one instruction. __fdividef takes five: it also serves results below 2^-126, which are 0 here.
__device__ inline float reciprocal(float v) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
    return result;
}

// exp(-v^2 / 2), and by what it is multiplied to be Phi(-|v|): a polynomial in 1 / (1 + 0.23 |v|). That is erf by
// Abramowitz and Stegun, 7.1.26, whose error is below 1.5e-7: half as many instructions as erff.
__device__ inline float bell_of(float v) { return power_of_2(-0.7213475204f * v * v); }
__device__ inline float tail_over_bell(float v) {
    float t = reciprocal(fmaf(0.2316419f, fabsf(v), 1.0f));
    float tail = fmaf(t, 0.530702715f, -0.7265760135f);
    tail = fmaf(tail, t, 0.7107068705f);
    tail = fmaf(tail, t, -0.142248368f);
    return fmaf(tail, t, 0.127414796f) * t;
}

// v * Phi(v) is max(v, 0) - |v| * Phi(-|v|), which needs no choice by the sign of v. The product is NaN for -inf, as in
// the definition, where it is inf * 0. For inf it must be 0: Phi(-100) is already 0, so v may be 100 there.
__device__ inline float gelu_of(float v) {
    return fmaf(-fabsf(fminf(v, 100.0f)) * bell_of(v), tail_over_bell(v), fmaxf(v, 0.0f));
}

// Phi(v) + v * Phi'(v).
__device__ inline float gelu_slope_of(float v) {
    float bell = bell_of(v), tail = bell * tail_over_bell(v);
    return fmaf(v, 0.3989422804f * bell, v < 0.0f ? tail : 1.0f - tail);
}

// A thread computes one pack of 16 bytes in each of ROWS rows, all of whose loads are in flight together, and needs one
// pack of bias. Each row of x and out, and bias, must begin at a multiple of 16 bytes.
constexpr int ROWS = 8, THREADS = 128;

template <class T>
__global__ void __launch_bounds__(THREADS)
    bias_gelu_kernel(const T* __restrict__ x, const T* __restrict__ bias, T* __restrict__ out, size_t h, size_t w) {
    constexpr int SIZE = 16 / sizeof(T);
    unsigned int across = (w / SIZE + THREADS - 1) / THREADS;  // blocks side by side
    size_t r = size_t(blockIdx.x / across) * ROWS;
    size_t c = (blockIdx.x % across * THREADS + threadIdx.x) * SIZE;
    if (c >= w) return;  // guard
    Pack<T> biases = *(const Pack<T>*)(bias + c), packs[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
        if (r + k < h) packs[k] = *(const Pack<T>*)(x + (r + k) * w + c);  // guard
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
        if (r + k < h) {  // guard
            float values[SIZE];
#pragma unroll
            for (int j = 0; j < SIZE; ++j) values[j] = gelu_of(as_float(packs[k], j) + as_float(biases, j));
            set(packs[k], values);
            *(Pack<T>*)(out + (r + k) * w + c) = packs[k];
        }
}

// The same for any w and any place: x is one long row of n elements, in packs that may reach from row to row.
template <class T>
__global__ void __launch_bounds__(256)
    bias_gelu_any_kernel(const T* __restrict__ x, const T* __restrict__ bias, T* __restrict__ out, size_t n, size_t w) {
    Row<T> row(x, n);
    size_t thread = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (thread < row.edges) {
        size_t i = row.edge(thread);
        set(out[i], gelu_of(as_float(x[i]) + as_float(bias[i % w])));
    }
    bool wide = size_t(out + row.head) % 16 == 0;
    for (size_t i = thread; i < row.packs; i += size_t(gridDim.x) * 256) {
        Pack<T> pack = *(const Pack<T>*)(x + row.pack(i));
        size_t c = row.pack(i) % w;
        float values[Row<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Row<T>::SIZE; ++j) {
            values[j] = gelu_of(as_float(pack, j) + as_float(bias[c]));
            c = c + 1 < w ? c + 1 : 0;
        }
        set(pack, values);
        store_pack_at(out, row.pack(i), pack, wide);
    }
}

// The gradient: dx = dy * gelu'(x + bias), and for dbias a sum of dx over some rows in each block: the sums of block
// (i, p) are in row p of parts. A warp takes SIZE columns per lane and every eighth of the block's rows: SIZE elements
// are 16 bytes, or one element if some row begins elsewhere.
template <class T, int SIZE>
__global__ void __launch_bounds__(256)
    bias_gelu_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ bias,
                              T* __restrict__ dx, float* __restrict__ parts, size_t h, size_t w) {
    __shared__ float shared[8][32 * SIZE];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t c = (size_t(blockIdx.x) * 32 + lane) * SIZE;
    float sums[SIZE] = {}, biases[SIZE];
    if (c < w) {  // guard
        for (int j = 0; j < SIZE; ++j) biases[j] = as_float(bias[c + j]);
#pragma unroll 2
        for (size_t r = size_t(blockIdx.y) * 8 + warp; r < h; r += 8 * gridDim.y) {
            Pack<T> slopes, grads;
            float values[Pack<T>::SIZE] = {};
            if (SIZE > 1)
                slopes = load_pack(x + r * w + c), grads = load_pack(dy + r * w + c);
            else
                slopes.at[0] = x[r * w + c], grads.at[0] = dy[r * w + c];
#pragma unroll
            for (int j = 0; j < SIZE; ++j) {
                values[j] = as_float(grads, j) * gelu_slope_of(as_float(slopes, j) + biases[j]);
                sums[j] += values[j];
            }
            set(grads, values);
            if (SIZE > 1)
                store_pack(dx + r * w + c, grads);
            else
                dx[r * w + c] = grads.at[0];
        }
    }
    for (int j = 0; j < SIZE; ++j) shared[warp][j * 32 + lane] = sums[j];
    __syncthreads();  // otherwise a thread adds sums that other warps have not stored yet
    for (int i = threadIdx.x; i < 32 * SIZE; i += 256) {
        float sum = 0.0f;
        for (int k = 0; k < 8; ++k) sum += shared[k][i];
        size_t column = (size_t(blockIdx.x) * 32 + i % 32) * SIZE + i / 32;
        if (column < w) parts[blockIdx.y * w + column] = sum;  // guard
    }
}

// dbias: one thread per column adds its parts.
template <class T>
__global__ void sum_of_parts_kernel(const float* __restrict__ parts, T* __restrict__ out, size_t w, size_t count) {
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (c >= w) return;  // guard
    float sum = 0.0f;
    for (size_t p = 0; p < count; ++p) sum += parts[p * w + c];
    set(out[c], sum);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_bias_gelu_naive(const float* x, const float* bias, float* out, size_t h, size_t w, cudaStream_t stream) {
    bias_gelu_naive_kernel<<<cdiv(h * w, 256), 256, 0, stream>>>(x, bias, out, h * w, w);
}

// Whether every row of these tensors begins at a multiple of 16 bytes.
template <class... T>
static bool fits_16_bytes(size_t row_bytes, const T*... tensors) {
    return ((row_bytes | ... | size_t(tensors)) % 16) == 0;
}

// The grid is flat, since a grid has at most 65,535 blocks in y.
static unsigned int blocks_of(size_t h, size_t packs) { return cdiv(packs, THREADS) * cdiv(h, ROWS); }

// A block for 1024 packs.
static unsigned int any_blocks_of(size_t bytes) { return cdiv(bytes, 16 * 1024); }

void launch_bias_gelu(const float* x, const float* bias, float* out, size_t h, size_t w, cudaStream_t stream) {
    if (fits_16_bytes(w * 4, x, bias, out))
        bias_gelu_kernel<float><<<blocks_of(h, w / 4), THREADS, 0, stream>>>(x, bias, out, h, w);
    else
        bias_gelu_any_kernel<float><<<any_blocks_of(4 * h * w), 256, 0, stream>>>(x, bias, out, h * w, w);
}

void launch_bias_gelu(const __half* x, const __half* bias, __half* out, size_t h, size_t w, cudaStream_t stream) {
    if (fits_16_bytes(w * 2, x, bias, out))
        bias_gelu_kernel<__half><<<blocks_of(h, w / 8), THREADS, 0, stream>>>(x, bias, out, h, w);
    else
        bias_gelu_any_kernel<__half><<<any_blocks_of(2 * h * w), 256, 0, stream>>>(x, bias, out, h * w, w);
}

void launch_bias_gelu(const __nv_bfloat16* x, const __nv_bfloat16* bias, __nv_bfloat16* out, size_t h, size_t w,
                      cudaStream_t stream) {
    if (fits_16_bytes(w * 2, x, bias, out))
        bias_gelu_kernel<__nv_bfloat16><<<blocks_of(h, w / 8), THREADS, 0, stream>>>(x, bias, out, h, w);
    else
        bias_gelu_any_kernel<__nv_bfloat16><<<any_blocks_of(2 * h * w), 256, 0, stream>>>(x, bias, out, h * w, w);
}

// How many blocks share the rows: as many as keep a GPU busy, for any GPU, so that the order of a sum does not change.
size_t parts_of_bias_gelu_backward(size_t h, size_t w) {
    size_t busy = 1 + (1 << 18) / w, enough = h / 16 + 1;
    size_t parts = busy < enough ? busy : enough;
    return parts < 1024 ? parts : 1024;
}

void launch_bias_gelu_backward(const float* dy, const float* x, const float* bias, float* dx, float* dbias,
                               float* parts, size_t h, size_t w, cudaStream_t stream) {
    unsigned int count = parts_of_bias_gelu_backward(h, w);
    if (fits_16_bytes(w * 4, dy, x, dx))
        bias_gelu_backward_kernel<float, 4>
            <<<dim3(cdiv(w, 128), count), 256, 0, stream>>>(dy, x, bias, dx, parts, h, w);
    else
        bias_gelu_backward_kernel<float, 1><<<dim3(cdiv(w, 32), count), 256, 0, stream>>>(dy, x, bias, dx, parts, h, w);
    sum_of_parts_kernel<float><<<cdiv(w, 64), 64, 0, stream>>>(parts, dbias, w, count);
}

void launch_bias_gelu_backward(const __half* dy, const __half* x, const __half* bias, __half* dx, __half* dbias,
                               float* parts, size_t h, size_t w, cudaStream_t stream) {
    unsigned int count = parts_of_bias_gelu_backward(h, w);
    if (fits_16_bytes(w * 2, dy, x, dx))
        bias_gelu_backward_kernel<__half, 8>
            <<<dim3(cdiv(w, 256), count), 256, 0, stream>>>(dy, x, bias, dx, parts, h, w);
    else
        bias_gelu_backward_kernel<__half, 1>
            <<<dim3(cdiv(w, 32), count), 256, 0, stream>>>(dy, x, bias, dx, parts, h, w);
    sum_of_parts_kernel<__half><<<cdiv(w, 64), 64, 0, stream>>>(parts, dbias, w, count);
}

void launch_bias_gelu_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* bias,
                               __nv_bfloat16* dx, __nv_bfloat16* dbias, float* parts, size_t h, size_t w,
                               cudaStream_t stream) {
    unsigned int count = parts_of_bias_gelu_backward(h, w);
    if (fits_16_bytes(w * 2, dy, x, dx))
        bias_gelu_backward_kernel<__nv_bfloat16, 8>
            <<<dim3(cdiv(w, 256), count), 256, 0, stream>>>(dy, x, bias, dx, parts, h, w);
    else
        bias_gelu_backward_kernel<__nv_bfloat16, 1>
            <<<dim3(cdiv(w, 32), count), 256, 0, stream>>>(dy, x, bias, dx, parts, h, w);
    sum_of_parts_kernel<__nv_bfloat16><<<cdiv(w, 64), 64, 0, stream>>>(parts, dbias, w, count);
}
#endif
