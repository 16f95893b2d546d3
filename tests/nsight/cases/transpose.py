"""Transposes: naive, by tiles, padded, swizzled."""

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


def matrix(h, w):
    return lambda: [floats(h, w), empty(w, h), h, w]


add("transpose_naive", TRANSPOSE, "transpose_naive", (4, 8), (32, 8), matrix(64, 128))
add("transpose_naive_edges", TRANSPOSE, "transpose_naive", (3, 6), (32, 8), matrix(45, 70))
add("transpose_32x32", TRANSPOSE, "transpose_tile<32>", (4, 2), (32, 8), matrix(64, 128))
add("transpose_32x33", TRANSPOSE, "transpose_tile<33>", (4, 2), (32, 8), matrix(64, 128))
add("transpose_32x33_edges", TRANSPOSE, "transpose_tile<33>", (3, 2), (32, 8), matrix(45, 70))
add("transpose_swizzled", TRANSPOSE, "transpose_swizzled", (4, 2), (32, 32), matrix(64, 128))
