// transpose: out (w, h) = x (h, w), float32, row-major: out[c][r] = x[r][c].
// In the first four, one thread computes one element, in blocks of 32 x 32 threads: a warp is a row of 32 threads.
#include "cdiv.h"

// Naive: a warp reads 32 floats of one row of x, 4 sectors. It writes them into 32 rows of out, 32 sectors.
__global__ void transpose_naive_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r < h && c < w)  // guard
        out[c * h + r] = x[r * w + c];
}

// Tiled: a warp reads 32 floats of a row of x, and writes 32 floats of a row of out: 4 sectors both times.
// In between it reads a column of the tile, whose elements are all in one bank: 32 wavefronts.
__global__ void transpose_tiled_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    __shared__ float tile[32][32];
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * 32 + tr, c = size_t(blockIdx.x) * 32 + tc;
    if (r < h && c < w)  // guard
        tile[tr][tc] = x[r * w + c];
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    r = size_t(blockIdx.x) * 32 + tr, c = size_t(blockIdx.y) * 32 + tc;  // in out
    if (r < w && c < h)                                                  // guard
        out[r * h + c] = tile[tc][tr];
}

// Padded: with 33 floats per row, the elements of a column are in 32 different banks: one wavefront.
__global__ void transpose_padded_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    __shared__ float tile[32][33];
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * 32 + tr, c = size_t(blockIdx.x) * 32 + tc;
    if (r < h && c < w)  // guard
        tile[tr][tc] = x[r * w + c];
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    r = size_t(blockIdx.x) * 32 + tr, c = size_t(blockIdx.y) * 32 + tc;  // in out
    if (r < w && c < h)                                                  // guard
        out[r * h + c] = tile[tc][tr];
}

// Swizzled: no padding. Row tr of the tile stores element tc at place tc ^ tr, which is another bank in every row.
__global__ void transpose_swizzled_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    __shared__ float tile[32][32];
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * 32 + tr, c = size_t(blockIdx.x) * 32 + tc;
    if (r < h && c < w)  // guard
        tile[tr][tc ^ tr] = x[r * w + c];
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    r = size_t(blockIdx.x) * 32 + tr, c = size_t(blockIdx.y) * 32 + tc;  // in out
    if (r < w && c < h)                                                  // guard
        out[r * h + c] = tile[tc][tr ^ tc];
}

// Fast: 256 threads for a tile of 64 x 64, 4 x 4 elements per thread, and all accesses are of 16 bytes. h and w must be
// multiples of 4, and x and out must begin at multiples of 16 bytes. The grid is flat, since a grid's y ends at 65,535.
__global__ void transpose_fast_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    __shared__ float4 tile[64][16];  // as in out: 64 rows of 16 times 4 floats
    unsigned int tiles = (h + 63) / 64;  // in a column of x: blocks that run side by side write side by side
    size_t tile_r = size_t(blockIdx.x % tiles) * 64, tile_c = size_t(blockIdx.x / tiles) * 64;
    int tr = threadIdx.x / 16, tc = threadIdx.x % 16;

    // A thread loads 4 x 4 elements. With each load a warp reads 256 bytes of 2 rows, 16 sectors.
    size_t r = tile_r + 4 * tr, c = tile_c + 4 * tc;
    if (r < h && c < w) {  // guard
        const float* from = x + r * w + c;
        float4 row0 = *(const float4*)from, row1 = *(const float4*)(from + w);
        float4 row2 = *(const float4*)(from + 2 * w), row3 = *(const float4*)(from + 3 * w);
        // A column of the four is 16 bytes of a row of out. Shared memory serves 8 threads at once with 16 bytes each:
        // place tr alone would be the same 4 banks for all 8, tr ^ tc is another place for each.
        tile[4 * tc + 0][tr ^ tc] = make_float4(row0.x, row1.x, row2.x, row3.x);
        tile[4 * tc + 1][tr ^ tc] = make_float4(row0.y, row1.y, row2.y, row3.y);
        tile[4 * tc + 2][tr ^ tc] = make_float4(row0.z, row1.z, row2.z, row3.z);
        tile[4 * tc + 3][tr ^ tc] = make_float4(row0.w, row1.w, row2.w, row3.w);
    }
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet

    // A thread stores 16 bytes of 4 rows of out. With each store a warp writes 256 bytes of 2 rows, 16 sectors.
    c = tile_r + 4 * tc;  // in out
    for (int k = tr; k < tr + 64; k += 16) {
        r = tile_c + k;
        if (r < w && c < h)  // guard
            *(float4*)(out + r * h + c) = tile[k][tc ^ (k / 4)];
    }
}

// Any: the padded tile for all other sizes, with 32 x 8 threads, 4 elements of a column per thread, and a flat grid.
__global__ void transpose_any_kernel(const float* __restrict__ x, float* __restrict__ out, size_t h, size_t w) {
    __shared__ float tile[32][33];
    unsigned int tiles = (h + 31) / 32;  // in a column of x
    size_t tile_r = size_t(blockIdx.x % tiles) * 32, tile_c = size_t(blockIdx.x / tiles) * 32;
    int tr = threadIdx.y, tc = threadIdx.x;
    for (int k = tr; k < tr + 32; k += 8)
        if (tile_r + k < h && tile_c + tc < w)  // guard
            tile[k][tc] = x[(tile_r + k) * w + tile_c + tc];
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    for (int k = tr; k < tr + 32; k += 8)
        if (tile_c + k < w && tile_r + tc < h)  // guard
            out[(tile_c + k) * h + tile_r + tc] = tile[tc][k];
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

void launch_transpose_naive(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    dim3 threads(32, 32), blocks(cdiv(w, 32), cdiv(h, 32));
    transpose_naive_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}

void launch_transpose_tiled(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    dim3 threads(32, 32), blocks(cdiv(w, 32), cdiv(h, 32));
    transpose_tiled_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}

void launch_transpose_padded(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    dim3 threads(32, 32), blocks(cdiv(w, 32), cdiv(h, 32));
    transpose_padded_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}

void launch_transpose_swizzled(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    dim3 threads(32, 32), blocks(cdiv(w, 32), cdiv(h, 32));
    transpose_swizzled_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}

void launch_transpose_fast(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    if ((h | w) % 4 == 0 && (size_t(x) | size_t(out)) % 16 == 0)
        transpose_fast_kernel<<<cdiv(h, 64) * cdiv(w, 64), 256, 0, stream>>>(x, out, h, w);
    else
        transpose_any_kernel<<<cdiv(h, 32) * cdiv(w, 32), dim3(32, 8), 0, stream>>>(x, out, h, w);
}
#endif
