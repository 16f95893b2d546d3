// matmul_ladder: out (h, w) = m (h, k) @ n (k, w), float32, row-major, in steps from naive towards the hardware's limit.
// Behind the first one belong those of matmul.cu: neighbours in a row, tiles in shared memory. The last is matmul_fast.cu.
// A block computes BH x BW elements of out in steps of BK along k, and each thread of it TH x TW of these.
#include "cdiv.h"
#include "tiles.h"

// A thread computes one element, as in matmul.cu, but the threads of a warp lie in a column of out. They read a column
// of m, each element of it in another sector.
__global__ void matmul_uncoalesced_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                          float* __restrict__ out, size_t h, size_t w, size_t k) {
    size_t r = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t c = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;  // guard

    float o = 0.0f;
    for (size_t i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}

// A thread computes TH elements of a column. Each element of n_tile that it reads serves TH products, from a register:
// for TH products TH + 1 reads of shared memory, where it was 2 * TH.
template <int BH, int BW, int BK, int TH>
__global__ void matmul_column_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                     float* __restrict__ out, size_t h, size_t w, size_t k) {
    __shared__ float m_tile[BH][BK], n_tile[BK][BW];
    const int THREADS = BH / TH * BW;
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int tr = threadIdx.x / BW * TH, tc = threadIdx.x % BW;

    float sums[TH] = {};
    for (size_t start = 0; start < k; start += BK) {
        load_tile<THREADS>(m_tile, m, r0, start, h, k);
        load_tile<THREADS>(n_tile, n, start, c0, k, w);
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
        for (int i = 0; i < BK; ++i) {
            float b = n_tile[i][tc];
            for (int t = 0; t < TH; ++t) sums[t] += m_tile[tr + t][i] * b;
        }
        __syncthreads();  // else a thread loads the next tiles over elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        if (r0 + tr + t < h && c0 + tc < w)  // guard
            out[(r0 + tr + t) * w + c0 + tc] = sums[t];
}

// A thread computes TH x TW elements: TH + TW reads of shared memory for TH * TW products.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_square_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                         size_t w, size_t k) {
    __shared__ float m_tile[BH][BK], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int tr = threadIdx.x / (BW / TW) * TH, tc = threadIdx.x % (BW / TW) * TW;

    float sums[TH][TW] = {};
    for (size_t start = 0; start < k; start += BK) {
        load_tile<THREADS>(m_tile, m, r0, start, h, k);
        load_tile<THREADS>(n_tile, n, start, c0, k, w);
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
        for (int i = 0; i < BK; ++i) {
            float a[TH], b[TW];
            for (int t = 0; t < TH; ++t) a[t] = m_tile[tr + t][i];
            for (int u = 0; u < TW; ++u) b[u] = n_tile[i][tc + u];
            add_products(sums, a, b);
        }
        __syncthreads();  // else a thread loads the next tiles over elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; ++u)
            if (r0 + tr + t < h && c0 + tc + u < w)  // guard
                out[(r0 + tr + t) * w + c0 + tc + u] = sums[t][u];
}

// 16 bytes with each load. m_tile lies transposed, so that the TH elements that a thread takes from a column of m are
// side by side: 4 of them come with one read of shared memory.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_vector_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                         size_t w, size_t k) {
    __shared__ __align__(16) float m_tile[BK][BH], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int tr = threadIdx.x / (BW / TW) * TH, tc = threadIdx.x % (BW / TW) * TW;

    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    for (size_t start = 0; start < k; start += BK) {
        load_tiles<THREADS, BH>(m_tile, n_tile, m, n, r0, c0, start, h, w, k);
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[i][tr + t]);
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[i][tc + u]);
            add_products(sums, a, b);
        }
        __syncthreads();  // else a thread loads the next tiles over elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4) store4(out, r0 + tr + t, c0 + tc + u, h, w, &sums[t][u]);
}

// No bank conflicts. A row of m_tile is 4 elements longer, so that the stores into a column of it meet other banks. And
// a thread's columns lie in pieces of 4, far apart: the 8 threads that shared memory serves at once read side by side.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_banks_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                        size_t w, size_t k) {
    __shared__ __align__(16) float m_tile[BK][BH + 4], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    const int apart = BW / TW * 4;  // from a thread's piece to its next
    int tr = threadIdx.x / (BW / TW) * TH, tc = threadIdx.x % (BW / TW) * 4;

    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    for (size_t start = 0; start < k; start += BK) {
        load_tiles<THREADS, BH>(m_tile, n_tile, m, n, r0, c0, start, h, w, k);
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[i][tr + t]);
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[i][tc + u / 4 * apart]);
            add_products(sums, a, b);
        }
        __syncthreads();  // else a thread loads the next tiles over elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4) store4(out, r0 + tr + t, c0 + tc + u / 4 * apart, h, w, &sums[t][u]);
}

// Warp tiles. A warp computes a tile of its own, 8 threads high and 4 wide: it reads 8 * TH + 4 * TW elements for each i.
// In rows of 16 threads, as before, it was 2 * TH + 16 * TW. The order of the lanes matters: shared memory serves 16
// lanes at once, not 8, where each wants the same as lane ^ 1 or each the same as lane ^ 2.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_warp_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                       size_t w, size_t k) {
    __shared__ __align__(16) float m_tile[BK][BH + 4], n_tile[BK][BW];
    const int THREADS = BH / TH * (BW / TW);
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    const int across = BW / (4 * TW);  // warps side by side
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int lane_r = lane / 2 % 8, lane_c = lane / 16 * 2 + lane % 2;
    int tr = warp / across * 8 * TH + lane_r * 4, tc = warp % across * 4 * TW + lane_c * 4;

    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    for (size_t start = 0; start < k; start += BK) {
        load_tiles<THREADS, BH>(m_tile, n_tile, m, n, r0, c0, start, h, w, k);
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[i][tr + 8 * t]);  // 8 threads lie between its pieces
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[i][tc + 4 * u]);
            add_products(sums, a, b);
        }
        __syncthreads();  // else a thread loads the next tiles over elements that others still read
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4)
            store4(out, r0 + tr + t / 4 * 32 + t % 4, c0 + tc + 4 * u, h, w, &sums[t][u]);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_uncoalesced(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                               cudaStream_t stream) {
    dim3 tpb(32, 8), blocks(cdiv(h, tpb.x), cdiv(w, tpb.y));
    matmul_uncoalesced_kernel<<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_column(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream) {
    dim3 blocks(cdiv(w, 64), cdiv(h, 64));
    matmul_column_kernel<64, 64, 8, 8><<<blocks, 512, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_square(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_square_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_vector(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_vector_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_banks(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                         cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_banks_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_warp(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                        cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_warp_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}
#endif
