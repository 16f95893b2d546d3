// matmul_async: out (h, w) = m (h, k) @ n (k, w), float32, row-major: matmul_warp, but while a pair of tiles is being
// multiplied, copies of the next pair are in flight. Template parameters, in this order:
//   BH, BW  a block computes a tile of BH x BW elements of out
//   BK      in steps of BK along k: a pair of tiles is BH x BK elements of m, stored transposed, and BK x BW of n
//   TH, TW  one thread owns TH x TW of the block's elements; a warp owns 8 * TH x 4 * TW
// The block is flat: BH / TH * (BW / TW) threads. No thread returns early: all of them must reach every barrier.
#include "../cdiv.h"
#include "copies.h"

// Two pairs of tiles in shared memory: one is being multiplied, the other is being copied. Rows and columns outside of
// m and n repeat one that is inside: no thread stores their sums. The k % BK steps that are left over come first, with
// zeros for the others, so that all later tiles are whole. With 8 x 8 elements per thread two blocks must fit an SM.
template <int BH, int BW, int BK, int TH, int TW>
__global__ void __launch_bounds__(BH / TH * (BW / TW), 128 / (TH * TW))
    matmul_async_kernel(const float* __restrict__ m, const float* __restrict__ n,
                        float* __restrict__ out, size_t h, size_t w, size_t k) {
    __shared__ __align__(16) float m_tile[2][BK][BH + 4], n_tile[2][BK][BW];
    const int THREADS = BH / TH * (BW / TW), across = BW / (4 * TW);  // warps side by side
    size_t r0 = size_t(blockIdx.y) * BH, c0 = size_t(blockIdx.x) * BW;
    int id = threadIdx.x, m_r = id / BK, m_i = id % BK, n_i = id / BW, n_c = id % BW;
    const float* m_from = m + min(r0 + m_r, h - 1) * k + m_i;
    const float* n_from = n + n_i * w + min(c0 + n_c, w - 1);
    auto begin_copies = [&](int pair, int steps) {
        for (int r = 0; r < BH; r += THREADS / BK)
            begin_copy(&m_tile[pair][m_i][m_r + r], m_from + (r0 + m_r + r < h ? r * k : 0),
                       steps == BK || m_i < steps);
        for (int i = 0; i < BK; i += THREADS / BW)
            begin_copy(&n_tile[pair][n_i + i][n_c], n_from + i * w, steps == BK || n_i + i < steps);
        m_from += steps, n_from += steps * w;
        __pipeline_commit();
    };
    int lane = id % 32, tr = id / 32 / across * 8 * TH + lane / 2 % 8 * 4;
    int tc = id / 32 % across * 4 * TW + (lane / 16 * 2 + lane % 2) * 4;
    __align__(16) float sums[TH][TW] = {}, a[TH], b[TW];
    if (k > 0) begin_copies(0, (k - 1) % BK + 1);
    for (int left = (k + BK - 1) / BK, pair = 0; left > 0; --left, pair = 1 - pair) {
        __pipeline_wait_prior(0);  // otherwise this thread's copies of this pair have not arrived,
        __syncthreads();           // nor those of others, and some may still read the other pair
        if (left > 1) begin_copies(1 - pair, BK);  // in flight while this pair is multiplied
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            for (int t = 0; t < TH; t += 4) copy4(a + t, &m_tile[pair][i][tr + 8 * t]);
            for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tile[pair][i][tc + 4 * u]);
            add_products(sums, a, b);
        }
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4)
            store4(out, r0 + tr + t / 4 * 32 + t % 4, c0 + tc + 4 * u, h, w, &sums[t][u]);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_async(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                         cudaStream_t stream) {
    dim3 blocks(cdiv(w, 128), cdiv(h, 128));
    matmul_async_kernel<128, 128, 8, 8, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul_async_large(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                               cudaStream_t stream) {
    dim3 blocks(cdiv(w, 256), cdiv(h, 128));
    matmul_async_kernel<128, 256, 8, 16, 8><<<blocks, 256, 0, stream>>>(m, n, out, h, w, k);
}
#endif
