// matmul_rows: out (h, w) = m (h, k) @ n (k, w), float32, row-major, for an n of at most WIDTH columns: the first steps
// towards matmul_narrow. The 32 lanes of a warp share the steps along k: each adds up every 32nd product, and in the
// end they add up their sums. Template parameters, in this order:
//   WIDTH    columns of n that there is room for: w or more
//   ROWS     rows of m that a warp does at once
//   STEPS    rows of n in shared memory at a time, transposed: a row of n_tile is a column of n
// Blocks and threads are flat.
#include "../cdiv.h"
#include "tiles.h"
#include "warp.h"

// A warp does one row of m, and reads it side by side. n comes from global memory, and so mostly from the cache.
template <int WIDTH>
__global__ void matmul_row_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                  float* __restrict__ out, size_t h, size_t w, int k) {
    size_t r = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (r >= h) return;  // guard: the whole warp leaves

    float sums[WIDTH] = {};
    for (int i = lane; i < k; i += 32) {
        float a = m[r * k + i];
        for (int c = 0; c < WIDTH; ++c) sums[c] += a * (c < w ? n[i * w + c] : 0.0f);  // guard
    }
    for (int c = 0; c < WIDTH; ++c) {
        float sum = sum_over_warp(sums[c]);
        if (lane == 0 && c < w) out[r * w + c] = sum;  // guard
    }
}

// n is in shared memory, transposed, so that lanes read it side by side, and each number of it serves ROWS rows.
template <int WIDTH, int ROWS, int STEPS>
__global__ void matmul_rows_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                   float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ float n_tile[WIDTH][STEPS + 1];
    size_t r0 = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32 * ROWS;
    int lane = threadIdx.x % 32;

    float sums[ROWS][WIDTH] = {}, a[ROWS];
    for (int start = 0; start < k; start += STEPS) {
        int steps = min(STEPS, k - start);
        if (start > 0) __syncthreads();  // otherwise a thread overwrites what others still read
        for (int i = threadIdx.x; i < steps * WIDTH; i += blockDim.x) {
            int s = i / WIDTH, c = i % WIDTH;
            n_tile[c][s] = c < w ? n[(start + s) * w + c] : 0.0f;  // guard
        }
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
        for (int i = lane; i < steps; i += 32) {
            for (int t = 0; t < ROWS; ++t) a[t] = m[min(r0 + t, h - 1) * k + start + i];
            for (int c = 0; c < WIDTH; ++c) {
                float b = n_tile[c][i];
                for (int t = 0; t < ROWS; ++t) sums[t][c] += a[t] * b;
            }
        }
    }
    for (int t = 0; t < ROWS; ++t)
        for (int c = 0; c < WIDTH; ++c) {
            float sum = sum_over_warp(sums[t][c]);
            if (lane == 0 && r0 + t < h && c < w) out[(r0 + t) * w + c] = sum;  // guard
        }
}

// 16 bytes per read, of m and of n_tile. Rows of m must begin at multiples of 16 bytes.
template <int WIDTH, int ROWS, int STEPS>
__global__ void matmul_rows_vector_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                          float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ __align__(16) float n_tile[WIDTH][STEPS + 4];
    size_t r0 = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32 * ROWS;
    int lane = threadIdx.x % 32;

    __align__(16) float sums[ROWS][WIDTH] = {}, a[ROWS][4], b[4];
    for (int start = 0; start < k; start += STEPS) {
        int steps = min(STEPS, k - start);
        if (start > 0) __syncthreads();  // otherwise a thread overwrites what others still read
        for (int i = threadIdx.x; i < steps * WIDTH; i += blockDim.x) {
            int s = i / WIDTH, c = i % WIDTH;
            n_tile[c][s] = c < w ? n[(start + s) * w + c] : 0.0f;  // guard
        }
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
        for (int i = 4 * lane; i < steps; i += 128) {
            for (int t = 0; t < ROWS; ++t) copy4(a[t], m + min(r0 + t, h - 1) * k + start + i);
            for (int c = 0; c < WIDTH; ++c) {
                copy4(b, &n_tile[c][i]);
                for (int t = 0; t < ROWS; ++t)
                    for (int u = 0; u < 4; ++u) sums[t][c] += a[t][u] * b[u];
            }
        }
    }
    for (int t = 0; t < ROWS; ++t)
        for (int c = 0; c < WIDTH; ++c) {
            float sum = sum_over_warp(sums[t][c]);
            if (lane == 0 && r0 + t < h && c < w) out[(r0 + t) * w + c] = sum;  // guard
        }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_row(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream) {
    if (w <= 10)
        matmul_row_kernel<10><<<cdiv(h, 8), 256, 0, stream>>>(m, n, out, h, w, k);
    else
        matmul_row_kernel<16><<<cdiv(h, 8), 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_rows(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream) {
    if (w <= 10)
        matmul_rows_kernel<10, 4, 800><<<cdiv(h, 32), 256, 0, stream>>>(m, n, out, h, w, k);
    else
        matmul_rows_kernel<16, 4, 512><<<cdiv(h, 32), 256, 0, stream>>>(m, n, out, h, w, k);
}

// Where rows of m do not begin at multiples of 16 bytes, elements are read one by one.
void launch_matmul_rows_vector(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                               cudaStream_t stream) {
    if (k % 4 || size_t(m) % 16)
        launch_matmul_rows(m, n, out, h, w, k, stream);
    else if (w <= 10)
        matmul_rows_vector_kernel<10, 4, 800><<<cdiv(h, 32), 256, 0, stream>>>(m, n, out, h, w, k);
    else
        matmul_rows_vector_kernel<16, 4, 512><<<cdiv(h, 32), 256, 0, stream>>>(m, n, out, h, w, k);
}
#endif
