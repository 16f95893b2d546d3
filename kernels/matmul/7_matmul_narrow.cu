// matmul_narrow: out (h, w) = m (h, k) @ n (k, w), float32, row-major, for an n of at most 16 columns.
// An element of m serves only w products, so the time goes into reading m: everything else must stay out of its way.
#include <cuda_pipeline.h>

#include "../cdiv.h"

// A warp takes 4 * ROWS rows of m and copies them for itself, piece by piece: between pieces it waits for no other
// warp. 8 lanes share ROWS rows: each multiplies 4 elements of every 32, in the end the 8 add up their sums, and a
// thread stores every eighth element of a row of out. Template parameters, in this order:
//   WIDTH    columns of n that there is room for: w or more
//   ROWS     rows that 8 lanes share; a thread keeps ROWS x WIDTH sums in registers
//   STAGES   pieces of a warp in shared memory: one is being multiplied, STAGES - 1 are being copied
//   THREADS  threads of a block, which is flat, as the grid is
//   STEPS    rows of n in shared memory, behind the pieces, which all warps copy together. 4 rows make a line of WIDTH
//            times 16 bytes, which serves 4 * WIDTH * ROWS products
//   SPAN     elements of each row of m in a piece
//   WIDE     copies of m take 16 bytes, not 4, and those of n too if w is WIDTH: m must begin at a multiple of 16
//            bytes, and k be a multiple of 4
template <int WIDTH, int ROWS, int STAGES, int THREADS, int STEPS, int SPAN, bool WIDE>
__global__ void __launch_bounds__(THREADS)
    matmul_narrow_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                         size_t w, size_t k) {
    static_assert(STEPS % (SPAN * STAGES) == 0 && STAGES > 1, "the first piece of each STEPS is in place 0");
    const int HEIGHT = 4 * ROWS, PIECE = WIDE ? 4 : 1;
    const int LENGTH = WIDTH | 1;  // 16 bytes each; odd, so that 8 lanes read from different banks
    extern __shared__ float4 shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = lane / 8 * ROWS, part = lane % 8;
    float4(*pieces)[HEIGHT][SPAN / 4] = (float4(*)[HEIGHT][SPAN / 4])shared + warp * STAGES;
    float4(*n_tile)[LENGTH] = (float4(*)[LENGTH])(shared + THREADS / 32 * STAGES * HEIGHT * (SPAN / 4));
    size_t r0 = (size_t(blockIdx.x) * (THREADS / 32) + warp) * HEIGHT;
    int last = r0 + HEIGHT < h ? HEIGHT - 1 : r0 < h ? h - 1 - r0 : 0;  // others repeat it: their sums are not stored
    const float* from = m + (r0 < h ? r0 : h - 1) * k;
    auto begin_copies = [&](int step, size_t left, int stage) {  // left: elements of a row from `from` on
        if (step < left)
#pragma unroll
            for (int i = lane * PIECE; i < HEIGHT * SPAN; i += 32 * PIECE) {
                int r = i / SPAN, c = i % SPAN;
                __pipeline_memcpy_async((float*)pieces[stage][r] + c, from + (r < last ? r : last) * k + step + c,
                                        4 * PIECE, step + c < left ? 0 : 4 * PIECE);  // guard
            }
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) begin_copies(SPAN * stage, k, stage);

    float sums[ROWS][WIDTH] = {};
    __align__(16) float a[ROWS][4], b[4];
    for (size_t start = 0; start < k; start += STEPS) {
        size_t left = k - start;
        int steps = left < STEPS ? left : STEPS;
        if (start > 0) __syncthreads();  // otherwise a thread overwrites n_tile while others still read it
        if (WIDE && w == WIDTH && size_t(n) % 16 == 0)
            for (int i = threadIdx.x; i < steps / 4 * WIDTH; i += THREADS)
                __pipeline_memcpy_async(&n_tile[i / WIDTH][i % WIDTH], n + start * w + 4 * i, 16);
        else
            for (int i = threadIdx.x; i < (steps + 3) / 4 * 4 * WIDTH; i += THREADS) {
                int s = i / WIDTH, c = i % WIDTH;
                __pipeline_memcpy_async((float*)n_tile[s / 4] + s % 4 * WIDTH + c, n + (start + s) * w + c, 4,
                                        s < steps && c < w ? 0 : 4);  // guard
            }
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();  // otherwise a thread reads elements that other threads have not loaded yet
        for (int round = 0; round < steps; round += SPAN * STAGES)
#pragma unroll
            for (int stage = 0; stage < STAGES; ++stage) {
                int step = round + SPAN * stage;
                if (step >= steps) break;
                __pipeline_wait_prior(STAGES - 2);  // otherwise this lane's copies of the piece have not arrived,
                __syncwarp();                       // nor those of the others, and some may still read the last piece
                begin_copies(step + SPAN * (STAGES - 1), left, (stage + STAGES - 1) % STAGES);
#pragma unroll
                for (int i = part; i < SPAN / 4; i += 8) {
                    if (step + 4 * i >= steps) break;
                    for (int t = 0; t < ROWS; ++t) *(float4*)a[t] = pieces[stage][first + t][i];
#pragma unroll
                    for (int c = 0; c < WIDTH; ++c) {
                        *(float4*)b = n_tile[step / 4 + i][c];
#pragma unroll
                        for (int t = 0; t < ROWS; ++t)
#pragma unroll
                            for (int u = 4 * c; u < 4 * c + 4; ++u) sums[t][u % WIDTH] += a[t][u / WIDTH] * b[u % 4];
                    }
                }
            }
        from += STEPS;
    }

    // Of 8 columns each thread gives away the sums of 4 and keeps those of the other 4; then of 2, then of 1.
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
                    bool upper = part & half;
                    float given = upper ? kept[c] : kept[c + half];
                    if (c0 + c < WIDTH)
                        kept[c] = (upper ? kept[c + half] : kept[c]) + __shfl_xor_sync(0xffffffff, given, half);
                }
            int c = c0 + part;
            if (r0 + first + t < h && c < w) out[(r0 + first + t) * w + c] = kept[0];  // guard
        }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

// Bytes of shared memory that the kernel needs.
static constexpr int narrow_bytes(int width, int rows, int stages, int threads, int steps, int span) {
    return threads / 32 * stages * 4 * rows * span * 4 + steps / 4 * (width | 1) * 16;
}

// More than 48 KB of shared memory per block must be requested, and not every GPU has that much. Without it, and where
// rows of m do not begin at multiples of 16 bytes, elements are copied one by one, with less of n at a time.
void launch_matmul_narrow(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream) {
    auto allowed = [&](auto kernel, int bytes) {
        if (k % 4 || size_t(m) % 16) return false;
        bool given = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess;
        cudaGetLastError();  // a refusal is an answer here, and no error
        return given;
    };
    const int four = narrow_bytes(4, 4, 3, 256, 384, 64), four_small = narrow_bytes(4, 3, 2, 128, 384, 64);
    const int ten = narrow_bytes(10, 6, 2, 256, 896, 64), ten_small = narrow_bytes(10, 3, 2, 128, 512, 64);
    const int sixteen = narrow_bytes(16, 6, 2, 256, 1024, 64), sixteen_small = narrow_bytes(16, 2, 2, 128, 384, 64);
    if (w <= 4 && allowed(matmul_narrow_kernel<4, 4, 3, 256, 384, 64, true>, four))
        matmul_narrow_kernel<4, 4, 3, 256, 384, 64, true><<<cdiv(h, 128), 256, four, stream>>>(m, n, out, h, w, k);
    else if (w <= 4)
        matmul_narrow_kernel<4, 3, 2, 128, 384, 64, false>
            <<<cdiv(h, 48), 128, four_small, stream>>>(m, n, out, h, w, k);
    else if (w <= 10 && allowed(matmul_narrow_kernel<10, 6, 2, 256, 896, 64, true>, ten))
        matmul_narrow_kernel<10, 6, 2, 256, 896, 64, true><<<cdiv(h, 192), 256, ten, stream>>>(m, n, out, h, w, k);
    else if (w <= 10)
        matmul_narrow_kernel<10, 3, 2, 128, 512, 64, false>
            <<<cdiv(h, 48), 128, ten_small, stream>>>(m, n, out, h, w, k);
    else if (allowed(matmul_narrow_kernel<16, 6, 2, 256, 1024, 64, true>, sixteen))
        matmul_narrow_kernel<16, 6, 2, 256, 1024, 64, true>
            <<<cdiv(h, 192), 256, sixteen, stream>>>(m, n, out, h, w, k);
    else
        matmul_narrow_kernel<16, 2, 2, 128, 384, 64, false>
            <<<cdiv(h, 32), 128, sixteen_small, stream>>>(m, n, out, h, w, k);
}
#endif
