// matmul: out (h, w) = m (h, k) @ n (k, w), float32, row-major.
// One thread computes one element of out: the one in row r and column c.
#include "cdiv.h"

__global__ void matmul_kernel(const float* __restrict__ m, const float* __restrict__ n, float* __restrict__ out,
                              size_t h, size_t w, size_t k) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;  // guard

    float o = 0.0f;
    for (size_t i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul(const float* m, const float* n, float* out, size_t h, size_t w, size_t k, cudaStream_t stream) {
    dim3 tpb(16, 16);
    dim3 blocks(cdiv(w, tpb.x), cdiv(h, tpb.y));
    matmul_kernel<<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
}
#endif
