// grayscale: a uint8 picture of three planes (3, h, w), red, green and blue, becomes one uint8 plane (h, w), row-major.
// One thread computes one pixel. The weights are those of ITU-R BT.601, as torchvision rounds them.
#include "cdiv.h"

// Flat: one thread computes pixel i of n = h * w. The planes are n bytes apart.
__global__ void rgb_to_grayscale_kernel(const unsigned char* __restrict__ x,
                                        unsigned char* __restrict__ out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = 0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n];
}

// Two-dimensional: one thread computes the pixel in row r and column c. Only the numbering of the threads changed.
__global__ void rgb_to_grayscale_2d_kernel(const unsigned char* __restrict__ x,
                                           unsigned char* __restrict__ out, size_t h, size_t w) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r < h && c < w) {  // guard
        size_t i = r * w + c, n = h * w;
        out[i] = 0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n];
    }
}

// Wide: one thread computes sizeof(V) pixels, and reads that many bytes of a plane at once. With V = uint4, 16 bytes, a
// warp reads 512 bytes, 16 sectors, in one request. x, out and n must be multiples of sizeof(V): then all planes begin
// at one, too.
template <class V>
__global__ void rgb_to_grayscale_vector_kernel(const unsigned char* __restrict__ x,
                                               unsigned char* __restrict__ out, size_t n) {
    size_t i = sizeof(V) * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);
    if (i >= n) return;  // guard

    V r = *(const V*)(x + i), g = *(const V*)(x + i + n), b = *(const V*)(x + i + 2 * n), grey;
    for (int k = 0; k < sizeof(V); ++k)  // in registers
        ((unsigned char*)&grey)[k] = 0.2989f * ((unsigned char*)&r)[k] +
                                     0.5870f * ((unsigned char*)&g)[k] +
                                     0.1140f * ((unsigned char*)&b)[k];
    *(V*)(out + i) = grey;
}

// The picture is stored as (h, w, 3), the three bytes of a pixel side by side. One thread computes one pixel. A warp's
// 32 pixels are 96 bytes, 3 sectors, and each of its three requests touches all of them.
__global__ void rgb_to_grayscale_hwc_kernel(const unsigned char* __restrict__ x,
                                            unsigned char* __restrict__ out, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)  // guard
        out[i] = 0.2989f * x[3 * i] + 0.5870f * x[3 * i + 1] + 0.1140f * x[3 * i + 2];
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

void launch_rgb_to_grayscale_vector(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream) {
    unsigned int threads = 256;
    size_t places = size_t(x) | size_t(out) | n;  // what all three are multiples of
    if (places % 16 == 0)
        rgb_to_grayscale_vector_kernel<uint4><<<cdiv(n, 16 * threads), threads, 0, stream>>>(x, out, n);
    else if (places % 4 == 0)
        rgb_to_grayscale_vector_kernel<uchar4><<<cdiv(n, 4 * threads), threads, 0, stream>>>(x, out, n);
    else
        launch_rgb_to_grayscale(x, out, n, stream);
}

void launch_rgb_to_grayscale_hwc(const unsigned char* x, unsigned char* out, size_t n, cudaStream_t stream) {
    unsigned int threads = 256;
    rgb_to_grayscale_hwc_kernel<<<cdiv(n, threads), threads, 0, stream>>>(x, out, n);
}
#endif
