// matmul_fast: out (h, w) = m (h, k) @ n (k, w), float32, row-major: the last step of the ladder, for all sizes.
#include <cuda_pipeline.h>

#include "../cdiv.h"
#include "tiles.h"

// A block computes a tile of out. While it multiplies one pair of tiles of m and n, the next pairs are being copied to
// shared memory, which hides the wait for global memory. Template parameters, in this order:
//   BH, BW  a block owns BH x BW elements of out
//   BK      a pair of tiles has BK steps along k: BH x BK elements of m, stored transposed, then BK x BW of n. The
//           first pair has the k % BK steps that are left over, so that all others are whole
//   TH, TW  a thread owns TH x TW elements, rows and columns in pieces of 4; a warp owns 8 * TH x 4 * TW
//   STAGES  pairs in shared memory: one is being multiplied, STAGES - 1 are being copied
//   WIDE    copies of n take 16 bytes, not 4: n must begin at a multiple of 16 bytes, and w be a multiple of 4
// Blocks and threads are flat: BH / TH * (BW / TW) threads for each tile, row by row.
template <int BH, int BW, int BK, int TH, int TW, int STAGES, bool WIDE>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_pipelined_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                            size_t w, size_t k) {
    const int THREADS = BH / TH * (BW / TW), ACROSS = BW / (4 * TW);  // ACROSS: warps side by side
    const int N_PIECE = WIDE ? 4 : 1;                                  // neighbours in a row that a thread copies
    const int M_ROWS = THREADS / BK, N_ROWS = N_PIECE * THREADS / BW;  // rows that all threads copy at once
    static_assert(BH % (8 * TH) == 0 && BW % (4 * TW) == 0 && STAGES > 1, "whole warps, and a pair that is on its way");
    static_assert(THREADS % BK == 0 && BH % M_ROWS == 0, "each thread copies the same number of elements of m");
    static_assert(N_PIECE * THREADS % BW == 0 && BK % N_ROWS == 0, "and of n");
    static_assert(BK % 2 == 0 && BK > 4, "two sets of a and b take turns, and copies begin at steps 1 and 3");
    const int LENGTH = BH + 4, STAGE = BK * (LENGTH + BW);
    __shared__ __align__(16) float tiles[STAGES][STAGE];
    unsigned int blocks_across = (w + BW - 1) / BW;
    size_t r0 = size_t(blockIdx.x / blocks_across) * BH, c0 = size_t(blockIdx.x % blocks_across) * BW;

    // m's tile is stored transposed. Lanes side by side copy neighbours in a row of m: those come from different banks.
    // Rows and columns outside of m and n repeat one that is inside: no thread stores their sums.
    int m_r = threadIdx.x / BK, m_i = threadIdx.x % BK;
    int n_i = threadIdx.x * N_PIECE / BW, n_c = threadIdx.x * N_PIECE % BW;
    const float* m_from = m + (r0 + m_r < h ? r0 + m_r : h - 1) * k + m_i;
    const float* n_from = n + n_i * w + (c0 + n_c < w ? c0 + n_c : w - N_PIECE);
    float *m_to = &tiles[0][m_i * LENGTH + m_r], *n_to = &tiles[0][BK * LENGTH + n_i * BW + n_c];
    auto copy_m = [&](int to, int steps) {
#pragma unroll
        for (int i = 0; i < BH; i += M_ROWS)
            __pipeline_memcpy_async(m_to + to + i, m_from + (r0 + m_r + i < h ? i * k : 0), 4,
                                    steps == BK || m_i < steps ? 0 : 4);  // guard
        m_from += steps;
    };
    auto copy_n = [&](int to, int steps) {
#pragma unroll
        for (int i = 0; i < BK; i += N_ROWS)
            __pipeline_memcpy_async(n_to + to + i * BW, n_from + i * w, 4 * N_PIECE,
                                    steps == BK || n_i + i < steps ? 0 : 4 * N_PIECE);  // guard
        n_from += steps * w;
    };
    unsigned int left = (k + BK - 1) / BK;  // pairs of tiles
    int steps = k ? (k - 1) % BK + 1 : 0;
    for (unsigned int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage == 0 || stage < left) copy_m(stage * STAGE, steps), copy_n(stage * STAGE, steps);
        __pipeline_commit();
        steps = BK;
    }

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int lane_r = lane / 2 % 8, lane_c = lane / 16 * 2 + lane % 2;  // as in matmul_warp_kernel
    int tr = warp / ACROSS * 8 * TH + lane_r * 4, tc = warp % ACROSS * 4 * TW + lane_c * 4;
    const float *a_from = &tiles[0][tr], *b_from = &tiles[0][BK * LENGTH + tc];
    __align__(16) float sums[TH][TW] = {}, a[2][TH], b[2][TW];
    int from = 0, to = (STAGES - 1) * STAGE;
    auto load = [&](int i) {  // what step i multiplies
        for (int t = 0; t < TH; t += 4) copy4(a[i % 2] + t, a_from + from + i * LENGTH + 8 * t);
        for (int u = 0; u < TW; u += 4) copy4(b[i % 2] + u, b_from + from + i * BW + 4 * u);
    };
    __pipeline_wait_prior(STAGES - 2);  // otherwise this thread's copies of the first pair have not arrived,
    __syncthreads();                    // nor those of the others
    load(0);
    for (; left > 0; --left) {
#pragma unroll
        for (int i = 0; i < BK; ++i) {
            if (i == 1 && left >= STAGES) copy_n(to, BK);  // not all copies at once: that was measured to be slower
            if (i == 3 && left >= STAGES) copy_m(to, BK);
            if (i == 3) __pipeline_commit();
            if (i == BK - 1) {
                __pipeline_wait_prior(STAGES - 2);  // otherwise this thread's copies of the next pair have not arrived,
                __syncthreads();                    // nor those of the others, and some may still read this pair
                to = from;
                if (left > 1) from = from == (STAGES - 1) * STAGE ? 0 : from + STAGE;
            }
            load((i + 1) % BK);  // these loads are in flight while this step is multiplied
#pragma unroll
            for (int t = 0; t < TH; ++t)
#pragma unroll
                for (int v = 0; v < TW; ++v) {
                    int u = t % 2 ? TW - 1 - v : v;  // there and back: the next product shares a or b with this one
                    sums[t][u] += a[i % 2][t] * b[i % 2][u];
                }
        }
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; ++u) sums[t][u] += 0.0f;  // stores a copy, so that sums may be in any registers
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4)
            store4(out, r0 + tr + t / 4 * 32 + t % 4, c0 + tc + 4 * u, h, w, &sums[t][u]);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// A large tile reads least, but a small matrix does not have enough of them for all SMs.
void launch_matmul_fast(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                        cudaStream_t stream) {
    int device, sms;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    size_t large = size_t(cdiv(h, 128)) * cdiv(w, 256), small = size_t(cdiv(h, 64)) * cdiv(w, 128);
    bool wide = w % 4 == 0 && size_t(n) % 16 == 0;
    if (4 * large >= 3 * size_t(sms)) {
        if (wide)
            matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, true><<<large, 256, 0, stream>>>(m, n, out, h, w, k);
        else
            matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, false><<<large, 256, 0, stream>>>(m, n, out, h, w, k);
    } else {
        if (wide)
            matmul_pipelined_kernel<64, 128, 8, 8, 8, 4, true><<<small, 128, 0, stream>>>(m, n, out, h, w, k);
        else
            matmul_pipelined_kernel<64, 128, 8, 8, 8, 4, false><<<small, 128, 0, stream>>>(m, n, out, h, w, k);
    }
}
#endif
