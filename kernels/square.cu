// square: out[i] = x[i] * x[i] for n float32 values, stored one after the other.
// One thread computes one element.
#include "cdiv.h"

__global__ void square_kernel(const float* __restrict__ x, float* __restrict__ out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = x[i] * x[i];
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_square(const float* x, float* out, size_t n, cudaStream_t stream) {
    unsigned int threads = 256;
    square_kernel<<<cdiv(n, threads), threads, 0, stream>>>(x, out, n);
}
#endif
