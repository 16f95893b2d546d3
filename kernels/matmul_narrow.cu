// matmul_narrow: out (h, w) = m (h, k) @ n (k, w), float32, row-major, for an n of at most 16 columns.
// An element of m serves w products and no more, so the time goes into reading m. All else must keep out of its way.
#include "cdiv.h"
#include "tiles.h"

// 8 threads share ROWS rows of m: each loads 4 of 32 elements, and a load of the warp takes 128 bytes of 4 rows. n lies
// transposed in shared memory, WIDTH columns of it, so that 16 bytes of a column serve 4 * ROWS products. Each thread has
// the next elements of m on their way while it multiplies. In the end the 8 add up what they have.
template <int WIDTH, int ROWS>
__global__ void __launch_bounds__(256)
    matmul_narrow_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out, size_t h,
                         size_t w, size_t k) {
    const int STEPS = 512;  // rows of n that are in shared memory at a time; 4 more keep columns in different banks
    __shared__ __align__(16) float n_tile[WIDTH][STEPS + 4];
    int lane = threadIdx.x % 32, part = lane / 2 % 8 * 4;  // lane ^ 1 has other rows and the same part of n
    size_t r = (size_t(blockIdx.x) * 32 + threadIdx.x / 32 * 4 + lane / 16 * 2 + lane % 2) * ROWS;

    float sums[ROWS][WIDTH] = {};
    float4 a[ROWS], next[ROWS];
    for (int t = 0; t < ROWS; ++t) a[t] = load4(m, r + t, part, h, k);
    for (size_t start = 0; start < k; start += STEPS) {
        int steps = k - start < STEPS ? k - start : STEPS;
        for (int i = threadIdx.x; i < STEPS * WIDTH; i += 256) {
            int c = i % WIDTH, s = i / WIDTH;
            n_tile[c][s] = s < steps && c < w ? n[(start + s) * w + c] : 0.0f;  // guard
        }
        __syncthreads();  // else a thread reads elements that other threads have not loaded yet
        for (int s = part; s < steps; s += 32) {
            for (int t = 0; t < ROWS; ++t) next[t] = load4(m, r + t, start + s + 32, h, k);
            for (int c = 0; c < WIDTH; ++c) {
                float4 b = *(const float4*)&n_tile[c][s];
                for (int t = 0; t < ROWS; ++t)
                    sums[t][c] += a[t].x * b.x + a[t].y * b.y + a[t].z * b.z + a[t].w * b.w;
            }
            for (int t = 0; t < ROWS; ++t) a[t] = next[t];
        }
        __syncthreads();  // else a thread loads the next rows of n over elements that others still read
    }
    for (int t = 0; t < ROWS; ++t)
        for (int c = 0; c < WIDTH; ++c) {
            float o = sums[t][c];
            for (int other = 8; other > 1; other /= 2) o += __shfl_xor_sync(0xffffffff, o, other);
            if (lane / 2 % 8 == c % 8 && r + t < h && c < w) out[(r + t) * w + c] = o;  // guard
        }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_narrow(const float* m, const float* n, float* out, size_t h, size_t w, size_t k,
                          cudaStream_t stream) {
    if (w <= 4)
        matmul_narrow_kernel<4, 2><<<cdiv(h, 32 * 2), 256, 0, stream>>>(m, n, out, h, w, k);
    else if (w <= 10)
        matmul_narrow_kernel<10, 4><<<cdiv(h, 32 * 4), 256, 0, stream>>>(m, n, out, h, w, k);
    else
        matmul_narrow_kernel<16, 2><<<cdiv(h, 32 * 2), 256, 0, stream>>>(m, n, out, h, w, k);
}
#endif
