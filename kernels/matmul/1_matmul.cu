// matmul: out (h, w) = m (h, k) @ n (k, w), float32, row-major, all of it from global memory.
// One thread computes one element of out: the one in row r and column c. Its loop counter is an int: lesson 06 says why.
#include "../cdiv.h"

// The slowest: the 32 threads of a warp own neighbours in a column of out. A load from m takes one number from each of
// 32 rows, so it fetches 32 sectors.
__global__ void matmul_uncoalesced_kernel(const float* __restrict__ m, const float* __restrict__ n,
                                          float* __restrict__ out, size_t h, size_t w, int k) {
    size_t r = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t c = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    if (r >= h || c >= w) return;  // guard

    float o = 0.0f;
    for (int i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}

// Only the numbering of the threads changed: those of a warp own two rows of 16 neighbours. A load fetches 2 sectors,
// from m and from n.
__global__ void matmul_kernel(const float* __restrict__ m, const float* __restrict__ n,
                              float* __restrict__ out, size_t h, size_t w, int k) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;  // guard

    float o = 0.0f;
    for (int i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];
    out[r * w + c] = o;
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_matmul_uncoalesced(const float* m, const float* n, float* out, size_t h, size_t w, int k,
                               cudaStream_t stream) {
    dim3 tpb(32, 8), blocks(cdiv(h, tpb.x), cdiv(w, tpb.y));
    matmul_uncoalesced_kernel<<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
}

void launch_matmul(const float* m, const float* n, float* out, size_t h, size_t w, int k, cudaStream_t stream) {
    dim3 tpb(16, 16);
    dim3 blocks(cdiv(w, tpb.x), cdiv(h, tpb.y));
    matmul_kernel<<<blocks, tpb, 0, stream>>>(m, n, out, h, w, k);
}
#endif
