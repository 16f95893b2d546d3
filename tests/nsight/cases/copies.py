"""Asynchronous copies: where they come from and where they go."""

from functools import partial

import torch

from tests.launches import empty, floats
from tests.nsight.cases.adding import add_to

LAUNCHES = []
add = partial(add_to, LAUNCHES)


COPY_ASYNC = r"""
#include <cuda_pipeline.h>

template <int BYTES>
__global__ void copy_async(const float* x, const int* from, const int* to, float* out) {
    __shared__ __align__(16) float tile[4096];
    int t = threadIdx.x, place = to[t];
    __pipeline_memcpy_async(tile + place, x + from[t], BYTES);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[place];
}

template <int BYTES>
__global__ void copy_or_zeros(const float* x, const int* from, const int* to, float* out, int end) {
    __shared__ __align__(16) float tile[4096];
    int t = threadIdx.x, place = to[t];
    __pipeline_memcpy_async(tile + place, x + from[t], BYTES, from[t] < end ? 0 : BYTES);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = tile[place];
}
"""


def ends(from_, to, *numbers):
    """Arguments: where the copies of 64 threads come from and where they go."""
    places = torch.arange(64)
    return lambda: [floats(4096), from_(places).int(), to(places).int(), empty(64), *numbers]


def apart(stride):
    return lambda t: stride * t


def rows(length, pitch, width=1):
    """Where threads stand whose rows of so many threads begin `pitch` floats apart."""
    return lambda t: t // length * pitch + t % length * width


def anywhere(width, seed):
    return lambda t: torch.randperm(4096 // width, generator=torch.Generator().manual_seed(seed))[: len(t)] * width


for name, size, from_, to in [
    ("4", 4, apart(1), apart(1)),
    ("4_from_3", 4, lambda t: t + 3, apart(1)),
    ("4_stride_2", 4, apart(2), apart(1)),
    ("4_stride_36", 4, apart(36), apart(1)),
    ("4_same", 4, apart(0), apart(1)),
    ("4_conflicts", 4, apart(1), apart(4)),
    ("4_rows", 4, rows(8, 128), apart(1)),
    ("4_transposed", 4, rows(4, 64), lambda t: t % 4 * 132 + t // 4),
    ("4_anywhere", 4, anywhere(1, 1), anywhere(1, 2)),
    ("8", 8, apart(2), apart(2)),
    ("8_rows", 8, rows(8, 128, 2), apart(2)),
    ("8_anywhere", 8, anywhere(2, 3), anywhere(2, 4)),
    ("16", 16, apart(4), apart(4)),
    ("16_shifted", 16, lambda t: 4 * t + 4, apart(4)),
    ("16_padded", 16, rows(4, 64, 4), rows(4, 20, 4)),
    ("16_anywhere", 16, anywhere(4, 5), anywhere(4, 6)),
]:
    add(f"async_{name}", COPY_ASYNC, f"copy_async<{size}>", 1, 64, ends(from_, to), [3])
for size in (4, 16):
    width = size // 4
    add(
        f"async_{size}_zeros",
        COPY_ASYNC,
        f"copy_or_zeros<{size}>",
        1,
        64,
        ends(anywhere(width, 7), anywhere(width, 8), 2048),
        [3],
    )
