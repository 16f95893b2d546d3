// matmul_fast: out (h, w) = m (h, k) @ n (k, w), float32, row-major: the last step of the ladder in matmul_ladder.cu.
#include <cuda_pipeline.h>

#include "cdiv.h"
#include "tiles.h"

// Begins to copy 4 elements of a row to shared memory, of which `left` are inside of the matrix: the others become 0. With
// `wide` they go as one piece of 16 bytes, which must be inside or outside as a whole.
__device__ inline void copy4_async(float* to, const float* from, int left, bool wide) {
    if (wide)
        __pipeline_memcpy_async(to, from, 16, left > 0 ? 0 : 16);
    else
        for (int u = 0; u < 4; ++u) __pipeline_memcpy_async(to + u, from + u, 4, u < left ? 0 : 4);
}

// Where the 4 elements from column c on stand in row r of a tile of m. They change places so that those of 8 rows, which
// shared memory serves at once, lie in different banks.
template <int BK>
__device__ int swizzled(int r, int c) {
    return c ^ r / (32 / BK) % (BK / 4) * 4;
}

// A block computes BH x BW elements of out, each warp of it 8 * TH x 4 * TW, each thread TH x TW: rows 8 apart, columns
// in pieces of 4. While it multiplies one pair of tiles, the next STAGES - 1 pairs are on their way to shared memory.
// m_tile need not lie transposed: a thread reads 4 elements of a row with 16 bytes, and takes 4 steps with them.
template <int BH, int BW, int BK, int TH, int TW, int STAGES>
__global__ void __launch_bounds__(BH / TH * (BW / TW))
    matmul_pipelined_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                            size_t w, size_t k) {
    const int THREADS = BH / TH * (BW / TW), ACROSS = BW / (4 * TW);  // ACROSS: warps side by side
    static_assert(BH * BK % (4 * THREADS) == 0 && BK * BW % (4 * THREADS) == 0, "each thread copies as much");
    __shared__ __align__(16) float m_tiles[STAGES][BH][BK], n_tiles[STAGES][BK][BW];
    unsigned int blocks_across = (w + BW - 1) / BW;
    size_t r0 = size_t(blockIdx.x / blocks_across) * BH, c0 = size_t(blockIdx.x % blocks_across) * BW;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int lane_r = lane / 2 % 8, lane_c = lane / 16 * 2 + lane % 2;  // as in matmul_warp_kernel
    int tr = warp / ACROSS * 8 * TH + lane_r, tc = warp % ACROSS * 4 * TW + lane_c * 4;
    int turn = swizzled<BK>(tr, 0);  // and the same in all of the thread's rows

    // A thread copies 4 elements from the same places of every tile: of m's from row mr and each M_ROWS-th behind it.
    const int M_ROWS = 4 * THREADS / BK, N_ROWS = 4 * THREADS / BW;
    int mr = 4 * threadIdx.x / BK, mc = 4 * threadIdx.x % BK, nr = 4 * threadIdx.x / BW, nc = 4 * threadIdx.x % BW;
    const float *m_from = m + (r0 + mr) * k + mc, *n_from = n + nr * w + c0 + nc;
    bool wide_m = k % 4 == 0 && size_t(m) % 16 == 0, wide_n = w % 4 == 0 && size_t(n) % 16 == 0;
    int h_left = h - r0 < BH ? h - r0 : BH, w_left = w - c0 < BW ? w - c0 : BW;  // rows and columns that are inside
    auto begin_copies = [&](size_t start, int stage) {
        int k_left = start >= k ? 0 : k - start < BK ? k - start : BK;
#pragma unroll
        for (int r = mr; r < mr + BH; r += M_ROWS)
            copy4_async(&m_tiles[stage][r][swizzled<BK>(r, mc)], m_from + (r - mr) * k, r < h_left ? k_left - mc : 0,
                        wide_m);
#pragma unroll
        for (int r = nr; r < nr + BK; r += N_ROWS)
            copy4_async(&n_tiles[stage][r][nc], n_from + (r - nr) * w, r < k_left ? w_left - nc : 0, wide_n);
        __pipeline_commit();
        m_from += BK, n_from += BK * w;
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) begin_copies(stage * BK, stage);

    __align__(16) float sums[TH][TW] = {}, a[TH][4], b[TW];
    int stage = 0;
    for (size_t start = 0; start < k; start += BK) {
        __pipeline_wait_prior(STAGES - 2);  // this thread's copies for this step have come,
        __syncthreads();                    // and those of the others; and nobody reads the tiles of the last step
        begin_copies(start + (STAGES - 1) * BK, (stage + STAGES - 1) % STAGES);
#pragma unroll
        for (int i = 0; i < BK; i += 4) {
            for (int t = 0; t < TH; ++t) copy4(a[t], &m_tiles[stage][tr + 8 * t][i ^ turn]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                for (int u = 0; u < TW; u += 4) copy4(b + u, &n_tiles[stage][i + j][tc + 4 * u]);
#pragma unroll
                for (int t = 0; t < TH; ++t)
#pragma unroll
                    for (int u = 0; u < TW; ++u) sums[t][u] += a[t][j] * b[u];
            }
        }
        stage = (stage + 1) % STAGES;
    }
    for (int t = 0; t < TH; ++t)
        for (int u = 0; u < TW; u += 4) store4(out, r0 + tr + 8 * t, c0 + tc + 4 * u, h, w, &sums[t][u]);
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// A large tile reads least, but a small matrix has too few of them for all SMs.
void launch_matmul_fast(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                        cudaStream_t stream) {
    int device, sms;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    size_t large = size_t(cdiv(h, 256)) * cdiv(w, 128), small = size_t(cdiv(h, 64)) * cdiv(w, 64);
    if (large >= size_t(sms))
        matmul_pipelined_kernel<256, 128, 8, 8, 16, 3><<<large, 256, 0, stream>>>(m, n, out, h, w, k);
    else
        matmul_pipelined_kernel<64, 64, 8, 8, 8, 3><<<small, 64, 0, stream>>>(m, n, out, h, w, k);
}
#endif
