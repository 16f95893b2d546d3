// transpose: out (w, h) = x (h, w), float32, row-major: out[c][r] = x[r][c].
// In the first four, one thread moves one element, in blocks of 32 x 32 threads: a warp is a row of 32 threads.
#include "cdiv.h"

// Naive: a warp reads 32 floats of one row of x, 4 sectors. It writes them into 32 rows of out, 32 sectors.
__global__ void transpose_naive_kernel(const float* __restrict__ x, float* __restrict__ out,
                                       size_t h, size_t w) {
    size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;
    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r < h && c < w)  // guard
        out[c * h + r] = x[r * w + c];
}

// Tiled: a warp reads 32 floats of a row of x, and writes 32 floats of a row of out: 4 sectors both times.
// In between it reads a column of the tile, whose elements are all in one bank: 32 wavefronts.
__global__ void transpose_tiled_kernel(const float* __restrict__ x, float* __restrict__ out,
                                       size_t h, size_t w) {
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
__global__ void transpose_padded_kernel(const float* __restrict__ x, float* __restrict__ out,
                                        size_t h, size_t w) {
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
__global__ void transpose_swizzled_kernel(const float* __restrict__ x, float* __restrict__ out,
                                          size_t h, size_t w) {
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

// Rows: four elements of a column per thread, in blocks of 32 x 8 threads. A thread has four loads in flight before it
// waits at the barrier, and an SM has more, smaller blocks, which do not wait for each other.
__device__ void transpose_rows_of(const float* __restrict__ x, float* __restrict__ out,
                                  size_t h, size_t w, size_t tile_r, size_t tile_c) {
    __shared__ float tile[32][32];
    int tr = threadIdx.y, tc = threadIdx.x;
    for (int k = tr; k < tr + 32; k += 8)
        if (tile_r + k < h && tile_c + tc < w)  // guard
            tile[k][tc ^ k] = x[(tile_r + k) * w + tile_c + tc];
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    for (int k = tr; k < tr + 32; k += 8)
        if (tile_c + k < w && tile_r + tc < h)  // guard
            out[(tile_c + k) * h + tile_r + tc] = tile[tc][k ^ tc];
}

__global__ void transpose_rows_kernel(const float* __restrict__ x, float* __restrict__ out,
                                      size_t h, size_t w) {
    transpose_rows_of(x, out, h, w, size_t(blockIdx.y) * 32, size_t(blockIdx.x) * 32);
}

// From here to the fast one, h and w must be multiples of 4, and x and out must begin at multiples of 16 bytes.

// Wide: four elements of a row per thread, in blocks of 8 x 32 threads. Each access of global memory is of 16 bytes, a
// quarter of the requests; a warp touches 128 bytes of 4 rows, 16 sectors. Shared memory is written by 16 bytes, for 8
// lanes at a time, and read by 4. What is swizzled is units of 16 bytes: unit tc of row tr is at place tc ^ (tr / 4). A
// warp reads one unit of every 4th row, and so these 8 units are in 8 different groups of 4 banks.
// (With *(float4*)(out + r * h + c) in the last line, nvcc stores four times 4 bytes.)
__global__ void transpose_wide_kernel(const float* __restrict__ x, float* __restrict__ out,
                                      size_t h, size_t w) {
    __shared__ float4 tile[32][8];
    int tr = threadIdx.y, tc = threadIdx.x;
    size_t r = size_t(blockIdx.y) * 32 + tr, c = size_t(blockIdx.x) * 32 + 4 * tc;
    if (r < h && c < w)  // guard
        tile[tr][tc ^ (tr / 4)] = *(const float4*)(x + r * w + c);
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    r = size_t(blockIdx.x) * 32 + tr, c = size_t(blockIdx.y) * 32 + 4 * tc;  // in out
    if (r < w && c < h) {                                                    // guard
        const float* column = (const float*)&tile[4 * tc][(tr / 4) ^ tc] + tr % 4;
        float4 row = make_float4(column[0], column[32], column[64], column[96]);
        ((float4*)out)[(r * h + c) / 4] = row;
    }
}

// Large: a tile of 64 x 64 for 256 threads, four units of 16 bytes per thread, so four wide loads are in flight. A
// warp touches 256 bytes of 2 rows, 16 sectors. Two lanes each read words of one bank: 2 wavefronts per 4-byte read.
__global__ void transpose_large_kernel(const float* __restrict__ x, float* __restrict__ out,
                                       size_t h, size_t w) {
    __shared__ float4 tile[64][16];
    size_t tile_r = size_t(blockIdx.y) * 64, tile_c = size_t(blockIdx.x) * 64;
    int tr = threadIdx.x / 16, tc = threadIdx.x % 16;
    size_t c = tile_c + 4 * tc;
    for (int k = tr; k < tr + 64; k += 16)
        if (tile_r + k < h && c < w)  // guard
            tile[k][tc ^ (k / 4)] = *(const float4*)(x + (tile_r + k) * w + c);
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    c = tile_r + 4 * tc;  // in out
    for (int k = tr; k < tr + 64; k += 16)
        if (tile_c + k < w && c < h) {  // guard
            const float* column = (const float*)&tile[4 * tc][(k / 4) ^ tc] + k % 4;
            float4 row = make_float4(column[0], column[64], column[128], column[192]);
            ((float4*)out)[((tile_c + k) * h + c) / 4] = row;
        }
}

// Registers: the same tile, stored as in out. A thread loads 4 x 4 elements and turns them in registers, so that shared
// memory is read by 16 bytes, too, and without conflicts: a quarter of the requests, half of the wavefronts. 8 threads,
// whose tc differs, write the same column of the tile at once: place tr alone would be the same 4 banks for all 8.
__device__ void transpose_4x4_of(const float* __restrict__ x, float* __restrict__ out,
                                 size_t h, size_t w, size_t tile_r, size_t tile_c) {
    __shared__ float4 tile[64][16];
    int tr = threadIdx.x / 16, tc = threadIdx.x % 16;
    size_t r = tile_r + 4 * tr, c = tile_c + 4 * tc;
    if (r < h && c < w) {  // guard
        const float* from = x + r * w + c;
        float4 row0 = *(const float4*)from, row1 = *(const float4*)(from + w);
        float4 row2 = *(const float4*)(from + 2 * w), row3 = *(const float4*)(from + 3 * w);
        tile[4 * tc + 0][tr ^ tc] = make_float4(row0.x, row1.x, row2.x, row3.x);
        tile[4 * tc + 1][tr ^ tc] = make_float4(row0.y, row1.y, row2.y, row3.y);
        tile[4 * tc + 2][tr ^ tc] = make_float4(row0.z, row1.z, row2.z, row3.z);
        tile[4 * tc + 3][tr ^ tc] = make_float4(row0.w, row1.w, row2.w, row3.w);
    }
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
    c = tile_r + 4 * tc;  // in out
    for (int k = tr; k < tr + 64; k += 16) {
        r = tile_c + k;
        if (r < w && c < h)  // guard
            *(float4*)(out + r * h + c) = tile[k][tc ^ (k / 4)];
    }
}

__global__ void transpose_registers_kernel(const float* __restrict__ x, float* __restrict__ out,
                                           size_t h, size_t w) {
    transpose_4x4_of(x, out, h, w, size_t(blockIdx.y) * 64, size_t(blockIdx.x) * 64);
}

// Fast: the same, in another order of the blocks. Those with neighbouring numbers are below each other in x, and write
// side by side. The grid is flat, since a grid's y ends at 65,535.
__global__ void transpose_fast_kernel(const float* __restrict__ x, float* __restrict__ out,
                                      size_t h, size_t w) {
    unsigned int tiles = (h + 63) / 64;  // in a column of x
    size_t tile_r = size_t(blockIdx.x % tiles) * 64, tile_c = size_t(blockIdx.x / tiles) * 64;
    transpose_4x4_of(x, out, h, w, tile_r, tile_c);
}

// Any: for all other sizes, 4 bytes per access, in tiles of 64 x 64 for 256 threads. Rows of out begin anywhere, and
// with them the pieces of 64 elements that blocks write: where two pieces meet, two blocks would each write a part of a
// sector. So a piece begins up to 7 elements earlier, where a sector does, and the block loads 7 `more` rows of x for
// that; with more = 0 it does neither. Tiles are taken in bands of 64 below each other: a row of x is read, and 16 KB
// of a row of out are written, by blocks that run at about the same time. With 7 more rows, and 9 instead of 8 sectors
// for a row of 64 elements that begins anywhere, blocks read 20 to 22 % more sectors than a copy. On an H200 that is the
// limit: Nsight Compute finds the L2 cache 89 to 90 % busy, as in a copy, and DRAM 68 to 70 %.
__global__ void __launch_bounds__(256) transpose_any_kernel(const float* __restrict__ x, float* __restrict__ out,
                                                            size_t h, size_t w, int more) {
    const int SIDE = 64, SECTOR = 8, BAND = 64;
    __shared__ float tile[SIDE][SIDE + SECTOR + 1];  // as in out; the rows are odd, so a column is in 32 banks
    unsigned int down = (h + more + SIDE - 1) / SIDE, across = (w + SIDE - 1) / SIDE;
    unsigned int band = blockIdx.x / (BAND * across), in_band = blockIdx.x % (BAND * across);
    unsigned int tiles = down - band * BAND < BAND ? down - band * BAND : BAND;  // below each other in this band
    long long tile_r = (long long)(band * BAND + in_band % tiles) * SIDE - more;
    size_t tile_c = size_t(in_band / tiles) * SIDE;
    int first = tile_r < 0 ? -tile_r : 0, last = tile_r + SIDE + more < h ? SIDE + more : h - tile_r;  // rows of x
    int columns = w - tile_c < SIDE ? w - tile_c : SIDE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float v[(SIDE + SECTOR) / 8][2];  // all loads begin before the first value is used
#pragma unroll
    for (int i = 0; i < (SIDE + SECTOR) / 8; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            int k = warp + 8 * i, c = lane + 32 * j;
            v[i][j] = k >= first && k < last && c < columns ? x[(tile_r + k) * w + tile_c + c] : 0.0f;  // guard
        }
#pragma unroll
    for (int i = 0; i < (SIDE + SECTOR) / 8; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) tile[lane + 32 * j][warp + 8 * i] = v[i][j];
    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet
#pragma unroll
    for (int c = warp; c < SIDE; c += 8) {
        size_t row = (tile_c + c) * h;  // of out
        int begin = more ? more - (size_t(out) / sizeof(float) + row) % SECTOR : 0;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            int k = begin + lane + 32 * j;
            if (k >= first && k < last && c < columns)  // guard
                out[row + tile_r + k] = tile[c][k];
        }
    }
}

#ifndef __CUDACC_RTC__  // the host side: NVRTC compiles device code alone
#include <cuda_runtime.h>

static bool fits_16_bytes(const float* x, const float* out, size_t h, size_t w) {
    return (h | w) % 4 == 0 && (size_t(x) | size_t(out)) % 16 == 0;
}

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

void launch_transpose_rows(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    dim3 threads(32, 8), blocks(cdiv(w, 32), cdiv(h, 32));
    transpose_rows_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}

void launch_transpose_wide(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    if (!fits_16_bytes(x, out, h, w)) return launch_transpose_rows(x, out, h, w, stream);
    dim3 threads(8, 32), blocks(cdiv(w, 32), cdiv(h, 32));
    transpose_wide_kernel<<<blocks, threads, 0, stream>>>(x, out, h, w);
}

void launch_transpose_large(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    if (!fits_16_bytes(x, out, h, w)) return launch_transpose_rows(x, out, h, w, stream);
    dim3 blocks(cdiv(w, 64), cdiv(h, 64));
    transpose_large_kernel<<<blocks, 256, 0, stream>>>(x, out, h, w);
}

void launch_transpose_registers(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    if (!fits_16_bytes(x, out, h, w)) return launch_transpose_rows(x, out, h, w, stream);
    dim3 blocks(cdiv(w, 64), cdiv(h, 64));
    transpose_registers_kernel<<<blocks, 256, 0, stream>>>(x, out, h, w);
}

void launch_transpose_fast(const float* x, float* out, size_t h, size_t w, cudaStream_t stream) {
    if (fits_16_bytes(x, out, h, w))
        transpose_fast_kernel<<<cdiv(h, 64) * cdiv(w, 64), 256, 0, stream>>>(x, out, h, w);
    else {
        int more = h % 8 || size_t(out) % 32 ? 7 : 0;  // rows of out begin within sectors
        transpose_any_kernel<<<cdiv(h + more, 64) * cdiv(w, 64), 256, 0, stream>>>(x, out, h, w, more);
    }
}
#endif
