// matmul_registers: out (h, w) = m (h, k) @ n (k, w), float32, row-major, with tiles in shared memory and in registers.
// Template parameters, in this order:
//   BH, BW  a block computes a tile of BH x BW elements of out
//   BK      in steps of BK along k: it loads BH x BK elements of m and BK x BW of n into shared memory
//   TH, TW  one thread owns TH x TW of those elements, their sums in registers (matmul_column_kernel: TH x 1)
// The block is flat: BH / TH * (BW / TW) threads. No thread returns early: all of them must reach every barrier.
#include "../cdiv.h"
#include "tiles.h"

// One thread owns TH elements of a column. An element of n_tile stays in a register and serves TH products: TH + 1
// reads of shared memory for TH products, not 2 * TH.
template <int BH, int BW, int BK, int TH>
__global__ void matmul_column_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                     float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ float m_tile[BH][BK], n_tile[BK][BW];
    const int THREADS = BH / TH * BW;
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int tr = threadIdx.x / BW * TH, tc = threadIdx.x % BW;

    float sums[TH] = {};
    for (int start = 0; start < k; start += BK) {
        load_tile<THREADS>(m_tile, m, r0, start, h, k);
        load_tile<THREADS>(n_tile, n, start, c0, k, w);
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
        for (int i = 0; i < BK; ++i) {
            float b = n_tile[i][tc];
            for (int t = 0; t < TH; ++t) sums[t] += m_tile[tr + t][i] * b;
        }
        __syncthreads();  // otherwise a thread overwrites elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        if (r0 + tr + t < h && c0 + tc < w)  // guard
            out[(r0 + tr + t) * w + c0 + tc] = sums[t];
}

// One thread owns TH x TW neighbouring elements: TH + TW reads of shared memory for TH * TW products.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_square_kernel(const float* __restrict__ m, const float* __restrict__ n,
                         float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ float m_tile[BH][BK], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int tr = threadIdx.x / (BW / TW) * TH, tc = threadIdx.x % (BW / TW) * TW;

    float sums[TH][TW] = {};
    for (int start = 0; start < k; start += BK) {
        load_tile<THREADS>(m_tile, m, r0, start, h, k);
        load_tile<THREADS>(n_tile, n, start, c0, k, w);
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
        for (int i = 0; i < BK; ++i) {
            float a[TH], b[TW];
            for (int t = 0; t < TH; ++t) a[t] = m_tile[tr + t][i];
            for (int u = 0; u < TW; ++u) b[u] = n_tile[i][tc + u];
            add_products(sums, a, b);
        }
        __syncthreads();  // otherwise a thread overwrites elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; ++u)
            if (r0 + tr + t < h && c0 + tc + u < w)  // guard
                out[(r0 + tr + t) * w + c0 + tc + u] = sums[t][u];
}

// 16 bytes with each load and store, a quarter of the instructions. m_tile is stored transposed, so that the TH
// elements that a thread needs from a column of m are side by side: one read of shared memory brings 4 of them.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_vector_kernel(const float* __restrict__ m, const float* __restrict__ n,
                         float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ __align__(16) float m_tile[BK][BH], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int tr = threadIdx.x / (BW / TW) * TH, tc = threadIdx.x % (BW / TW) * TW;

    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    for (int start = 0; start < k; start += BK) {
        load_tiles<THREADS, BH>(m_tile, n_tile, m, n, r0, c0, start, h, w, k);
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[i][tr + t]);
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[i][tc + u]);
            add_products(sums, a, b);
        }
        __syncthreads();  // otherwise a thread overwrites elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4)
            store4(out, r0 + tr + t, c0 + tc + u, h, w, &sums[t][u]);
}

// No bank conflicts. A row of m_tile is 4 elements longer, so that stores into a column of it go to different banks. A
// thread's columns are in pieces of 4, far apart: the 8 threads that shared memory serves at once read side by side.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_banks_kernel(const float* __restrict__ m, const float* __restrict__ n,
                        float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ __align__(16) float m_tile[BK][BH + 4], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    const int apart = BW / TW * 4;  // columns from a thread's piece to its next
    int tr = threadIdx.x / (BW / TW) * TH, tc = threadIdx.x % (BW / TW) * 4;

    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    for (int start = 0; start < k; start += BK) {
        load_tiles<THREADS, BH>(m_tile, n_tile, m, n, r0, c0, start, h, w, k);
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[i][tr + t]);
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[i][tc + u / 4 * apart]);
            add_products(sums, a, b);
        }
        __syncthreads();  // otherwise a thread overwrites elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4)
            store4(out, r0 + tr + t, c0 + tc + u / 4 * apart, h, w, &sums[t][u]);
}

// Warp tiles. A warp owns a tile of its own, 8 threads high and 4 wide, and a thread its rows in pieces of 4 as well.
// For each i a warp reads 8 * TH + 4 * TW elements; in rows of 16 threads, as before, it was 2 * TH + 16 * TW. The
// order of the lanes matters: shared memory serves 16 lanes at once, not 8, where each reads the same as lane ^ 1, or
// each the same as lane ^ 2.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_warp_kernel(const float* __restrict__ m, const float* __restrict__ n,
                       float* __restrict__ out, size_t h, size_t w, int k) {
    __shared__ __align__(16) float m_tile[BK][BH + 4], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    const int across = BW / (4 * TW);  // warps side by side
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;  // a warp is 8 threads high, 4 wide
    int lane_r = lane / 2 % 8, lane_c = lane / 16 * 2 + lane % 2;
    int tr = warp / across * 8 * TH + lane_r * 4, tc = warp % across * 4 * TW + lane_c * 4;

    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    for (int start = 0; start < k; start += BK) {
        load_tiles<THREADS, BH>(m_tile, n_tile, m, n, r0, c0, start, h, w, k);
        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[i][tr + 8 * t]);
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[i][tc + 4 * u]);
            add_products(sums, a, b);
        }
        __syncthreads();  // otherwise a thread overwrites elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4)
            store4(out, r0 + tr + t / 4 * 32 + t % 4, c0 + tc + 4 * u, h, w, &sums[t][u]);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_column(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                          cudaStream_t stream) {
    dim3 blocks(cdiv(w, 64), cdiv(h, 64));
    matmul_column_kernel<64, 64, 8, 8><<<blocks, 512, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_square(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                          cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_square_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_vector(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                          cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_vector_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_banks(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                         cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_banks_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_warp(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                        cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_warp_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}
#endif
