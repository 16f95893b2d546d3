"""Transposes: naive, by tiles, padded, swizzled, by 16 bytes, with a larger tile, turned in registers."""

from functools import partial

from tests.launches import empty, floats
from tests.nsight.cases.adding import add_to

LAUNCHES = []
add = partial(add_to, LAUNCHES)


TRANSPOSE = r"""
__global__ void transpose_naive(const float* x, float* out, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < h && c < w) out[c * h + r] = x[r * w + c];
}

template <int PITCH>
__global__ void transpose_tile(const float* x, float* out, int h, int w) {
    __shared__ float tile[32][PITCH];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (r + k < h && c < w) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * w + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x;
    r = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (r + k < w && c < h) out[(r + k) * h + c] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void transpose_swizzled(const float* x, float* out, int h, int w) {
    __shared__ float tile[32][32];
    int tr = threadIdx.y, tc = threadIdx.x;
    tile[tr][tc ^ tr] = x[(blockIdx.y * 32 + tr) * w + blockIdx.x * 32 + tc];
    __syncthreads();
    out[(blockIdx.x * 32 + tr) * h + blockIdx.y * 32 + tc] = tile[tc][tr ^ tc];
}
"""

UNITS = r"""
template <int SWIZZLED>
__global__ void transpose_units(const float* x, float* out, int h, int w) {
    __shared__ float4 tile[32][8];
    int tr = threadIdx.y, tc = threadIdx.x;
    const float* from = x + (blockIdx.y * 32 + tr) * w + blockIdx.x * 32 + 4 * tc;
    tile[tr][SWIZZLED ? tc ^ (tr / 4) : tc] = *(const float4*)from;
    __syncthreads();
    const float* column = (const float*)&tile[4 * tc][SWIZZLED ? (tr / 4) ^ tc : tr / 4] + tr % 4;
    float4 row = make_float4(column[0], column[32], column[64], column[96]);
    ((float4*)out)[((blockIdx.x * 32 + tr) * h + blockIdx.y * 32 + 4 * tc) / 4] = row;
}

__global__ void transpose_large(const float* x, float* out, int h, int w) {
    __shared__ float4 tile[64][16];
    int tr = threadIdx.y, tc = threadIdx.x, tile_r = blockIdx.y * 64, tile_c = blockIdx.x * 64;
    for (int k = tr; k < tr + 64; k += 16)
        tile[k][tc ^ (k / 4)] = *(const float4*)(x + (tile_r + k) * w + tile_c + 4 * tc);
    __syncthreads();
    for (int k = tr; k < tr + 64; k += 16) {
        const float* column = (const float*)&tile[4 * tc][(k / 4) ^ tc] + k % 4;
        float4 row = make_float4(column[0], column[64], column[128], column[192]);
        ((float4*)out)[((tile_c + k) * h + tile_r + 4 * tc) / 4] = row;
    }
}

__global__ void transpose_registers(const float* x, float* out, int h, int w) {
    __shared__ float4 tile[64][16];
    int tr = threadIdx.y, tc = threadIdx.x, tile_r = blockIdx.y * 64, tile_c = blockIdx.x * 64;
    const float* from = x + (tile_r + 4 * tr) * w + tile_c + 4 * tc;
    float4 row0 = *(const float4*)from, row1 = *(const float4*)(from + w);
    float4 row2 = *(const float4*)(from + 2 * w), row3 = *(const float4*)(from + 3 * w);
    tile[4 * tc + 0][tr ^ tc] = make_float4(row0.x, row1.x, row2.x, row3.x);
    tile[4 * tc + 1][tr ^ tc] = make_float4(row0.y, row1.y, row2.y, row3.y);
    tile[4 * tc + 2][tr ^ tc] = make_float4(row0.z, row1.z, row2.z, row3.z);
    tile[4 * tc + 3][tr ^ tc] = make_float4(row0.w, row1.w, row2.w, row3.w);
    __syncthreads();
    for (int k = tr; k < tr + 64; k += 16)
        *(float4*)(out + (tile_c + k) * h + tile_r + 4 * tc) = tile[k][tc ^ (k / 4)];
}
"""


def matrix(h, w):
    return lambda: [floats(h, w), empty(w, h), h, w]


add("transpose_naive", TRANSPOSE, "transpose_naive", (4, 8), (32, 8), matrix(64, 128))
add("transpose_naive_edges", TRANSPOSE, "transpose_naive", (3, 6), (32, 8), matrix(45, 70))
add("transpose_32x32", TRANSPOSE, "transpose_tile<32>", (4, 2), (32, 8), matrix(64, 128))
add("transpose_32x33", TRANSPOSE, "transpose_tile<33>", (4, 2), (32, 8), matrix(64, 128))
add("transpose_32x33_edges", TRANSPOSE, "transpose_tile<33>", (3, 2), (32, 8), matrix(45, 70))
add("transpose_swizzled", TRANSPOSE, "transpose_swizzled", (4, 2), (32, 32), matrix(64, 128))
add("transpose_units", UNITS, "transpose_units<0>", (4, 2), (8, 32), matrix(64, 128))
add("transpose_units_swizzled", UNITS, "transpose_units<1>", (4, 2), (8, 32), matrix(64, 128))
add("transpose_large", UNITS, "transpose_large", (2, 1), (16, 16), matrix(64, 128))
add("transpose_registers", UNITS, "transpose_registers", (2, 1), (16, 16), matrix(64, 128))
