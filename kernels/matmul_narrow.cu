// matmul_narrow: out (h, w) = m (h, k) @ n (k, w), float32, row-major, for an n of at most 16 columns.
// An element of m serves w products and no more, so the time goes into reading m. All else must keep out of its way.
#include <cuda_pipeline.h>

#include "cdiv.h"
#include "tiles.h"

// 8 threads share ROWS rows of m: each multiplies 4 of 32 elements, and 8 copy 128 bytes of a row. A thread copies for
// itself alone, STAGES - 1 pieces ahead, into places of its own in shared memory: it waits for no other thread. Room for
// STEPS rows of n, WIDTH columns, lies behind them, transposed, so that 16 bytes of a column serve 4 * ROWS products. In
// the end the 8 add up what they have. WIDE: rows of m go 16 bytes at a time.
template <int WIDTH, int ROWS, int STAGES, int THREADS, int STEPS, bool WIDE>
__global__ void __launch_bounds__(THREADS)
    matmul_narrow_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                         size_t w, size_t k) {
    static_assert(STEPS % (32 * STAGES) == 0, "the first piece of each STEPS is in place 0");
    extern __shared__ float4 shared[];
    float4(*pieces)[ROWS][THREADS] = (float4(*)[ROWS][THREADS])shared;
    float(*n_tile)[STEPS + 4] = (float(*)[STEPS + 4])(shared + STAGES * ROWS * THREADS);  // + 4: columns in other banks
    int part = threadIdx.x % 8 * 4;
    size_t r = (size_t(blockIdx.x) * (THREADS / 8) + threadIdx.x / 8) * ROWS;
    const float* from[ROWS];  // rows that are outside repeat the last one: nobody stores their sums
    for (int t = 0; t < ROWS; ++t) from[t] = m + (r + t < h ? r + t : h - 1) * k + part;
    auto begin_copies = [&](int step, size_t left, int stage) {  // left: elements of a row behind this thread's first
        if (step + part < left)
#pragma unroll
            for (int t = 0; t < ROWS; ++t)
                if (WIDE)
                    __pipeline_memcpy_async(&pieces[stage][t][threadIdx.x], from[t] + step, 16);
                else
                    for (int u = 0; u < 4; ++u)
                        __pipeline_memcpy_async((float*)&pieces[stage][t][threadIdx.x] + u, from[t] + step + u, 4,
                                                step + part + u < left ? 0 : 4);
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) begin_copies(32 * stage, k, stage);

    float sums[ROWS][WIDTH] = {};
    __align__(16) float a[ROWS][4], b[4];
    for (size_t start = 0; start < k; start += STEPS) {
        size_t left = k - start;
        int steps = left < STEPS ? left : STEPS;
        if (start > 0) __syncthreads();  // else a thread fills n_tile anew while others still read
        for (int s = threadIdx.x; s < (steps + 3) / 4 * 4; s += THREADS)
#pragma unroll
            for (int c = 0; c < WIDTH; ++c)
                __pipeline_memcpy_async(&n_tile[c][s], n + (start + s) * w + c, 4, s < steps && c < w ? 0 : 4);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
        for (int round = 0; round < steps; round += 32 * STAGES)
#pragma unroll
            for (int stage = 0; stage < STAGES; ++stage) {
                int step = round + 32 * stage;
                if (step >= steps) break;
                begin_copies(step + 32 * (STAGES - 1), left, (stage + STAGES - 1) % STAGES);
                __pipeline_wait_prior(STAGES - 1);
                if (step + part >= steps) continue;
                for (int t = 0; t < ROWS; ++t) *(float4*)a[t] = pieces[stage][t][threadIdx.x];
#pragma unroll
                for (int c = 0; c < WIDTH; ++c) {
                    copy4(b, &n_tile[c][step + part]);
#pragma unroll
                    for (int t = 0; t < ROWS; ++t)
#pragma unroll
                        for (int u = 0; u < 4; ++u) sums[t][c] += a[t][u] * b[u];
                }
            }
        for (int t = 0; t < ROWS; ++t) from[t] += STEPS;
    }

    // Of 8 columns each thread gives away the sums of 4 and keeps those of 4, then 2, then 1.
#pragma unroll
    for (int t = 0; t < ROWS; ++t)
#pragma unroll
        for (int c0 = 0; c0 < WIDTH; c0 += 8) {
            float kept[8] = {};
#pragma unroll
            for (int c = 0; c < 8; ++c)
                if (c0 + c < WIDTH) kept[c] = sums[t][c0 + c];
#pragma unroll
            for (int half = 4; half > 0; half /= 2)
#pragma unroll
                for (int c = 0; c < half; ++c) {
                    bool upper = threadIdx.x & half;
                    float given = upper ? kept[c] : kept[c + half];
                    if (c0 + c < WIDTH)
                        kept[c] = (upper ? kept[c + half] : kept[c]) + __shfl_xor_sync(0xffffffff, given, half);
                }
            int c = c0 + threadIdx.x % 8;
            if (r + t < h && c < w) out[(r + t) * w + c] = kept[0];  // guard
        }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// Bytes of shared memory that the kernel needs.
static constexpr int narrow_bytes(int width, int rows, int stages, int threads, int steps) {
    return 16 * stages * rows * threads + 4 * width * (steps + 4);
}

// More than 48 KB a block must be asked for, and not every GPU has them: a T4 has 64. Then fewer rows of n lie there.
void launch_matmul_narrow(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream) {
    bool wide = k % 4 == 0 && size_t(m) % 16 == 0;
    auto allowed = [](auto kernel, int bytes) {
        bool given = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess;
        cudaGetLastError();  // the answer "no" is no error
        return given;
    };
    const int ten = narrow_bytes(10, 2, 3, 512, 864), sixteen = narrow_bytes(16, 4, 3, 256, 384);
    if (w <= 4 && wide)
        matmul_narrow_kernel<4, 3, 3, 256, 384, true>
            <<<cdiv(h, 96), 256, narrow_bytes(4, 3, 3, 256, 384), stream>>>(m, n, out, h, w, k);
    else if (w <= 4)
        matmul_narrow_kernel<4, 3, 3, 256, 384, false>
            <<<cdiv(h, 96), 256, narrow_bytes(4, 3, 3, 256, 384), stream>>>(m, n, out, h, w, k);
    else if (w <= 10 && wide && allowed(matmul_narrow_kernel<10, 2, 3, 512, 864, true>, ten))
        matmul_narrow_kernel<10, 2, 3, 512, 864, true><<<cdiv(h, 128), 512, ten, stream>>>(m, n, out, h, w, k);
    else if (w <= 10)
        matmul_narrow_kernel<10, 2, 3, 256, 480, false>
            <<<cdiv(h, 64), 256, narrow_bytes(10, 2, 3, 256, 480), stream>>>(m, n, out, h, w, k);
    else if (wide && allowed(matmul_narrow_kernel<16, 4, 3, 256, 384, true>, sixteen))
        matmul_narrow_kernel<16, 4, 3, 256, 384, true><<<cdiv(h, 128), 256, sixteen, stream>>>(m, n, out, h, w, k);
    else
        matmul_narrow_kernel<16, 2, 3, 256, 288, false>
            <<<cdiv(h, 64), 256, narrow_bytes(16, 2, 3, 256, 288), stream>>>(m, n, out, h, w, k);
}
#endif
