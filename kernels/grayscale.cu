// grayscale: a uint8 picture of three planes (3, h, w), red, green and blue, becomes one plane (h, w).
// One thread computes one pixel. The weights are those of ITU-R BT.601, as torchvision rounds them.
#include "cdiv.h"

// Flat: pixel i of n; the planes lie n apart.
__global__ void rgb_to_grayscale_kernel(const unsigned char* __restrict__ x, unsigned char* __restrict__ out,
                                        size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = 0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n];
}

// Two-dimensional: the pixel in row r and column c. Only the numbering of the threads changed.
__global__ void rgb_to_grayscale_2d_kernel(const unsigned char* __restrict__ x, unsigned char* __restrict__ out,
                                           size_t h, size_t w) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r < h && c < w) {  // guard
        size_t i = r * w + c, n = h * w;
        out[i] = 0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n];
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_rgb_to_grayscale(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream) {
    unsigned int threads = 256;
    rgb_to_grayscale_kernel<<<cdiv(n, threads), threads, 0, stream>>>(x, out, n);
}

void launch_rgb_to_grayscale_2d(const unsigned char* x, unsigned char* out, size_t h, size_t w, cudaStream_t stream) {
    dim3 threads(16, 16);
    dim3 blocks(cdiv(w, threads.x), cdiv(h, threads.y));
    rgb_to_grayscale_2d_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}
#endif
