// copy: out[i] = x[i] for n float32 values, stored one after the other.
#include "cdiv.h"

// One thread copies one float: a warp reads 128 bytes side by side, 4 sectors in one request.
__global__ void copy_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = x[i];
}

// One thread copies 16 bytes: a warp reads 512 bytes, 16 sectors in one request, so there are a quarter as many
// requests. x and out must begin at multiples of 16 bytes.
__global__ void copy_vector_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    size_t i = 4 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i + 4 <= n)  // guard
        *(float4*)(out + i) = *(const float4*)(x + i);
    else
        for (; i < n; ++i) out[i] = x[i];  // guard: the last thread has 1 to 3 floats left
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_copy(const float* x, float* out, size_t n, cudaStream_t stream) {
    unsigned int threads = 256;
    copy_kernel<<<cdiv(n, threads), threads, 0, stream>>>(x, out, n);
}

void launch_copy_vector(const float* x, float* out, size_t n, cudaStream_t stream) {
    if ((size_t(x) | size_t(out)) % 16 != 0)  // a view may begin anywhere
        return launch_copy(x, out, n, stream);
    unsigned int threads = 256;
    copy_vector_kernel<<<cdiv(n, 4 * threads), threads, 0, stream>>>(x, out, n);
}
#endif
