"""Atomics and constant memory."""

from functools import partial

import torch

from tests.launches import bytes_, empty, floats, integers
from tests.nsight.cases.adding import add_to, given

LAUNCHES = []
add = partial(add_to, LAUNCHES)


# ---- atomics and constant memory ------------------------------------------------------------------------------------

HISTOGRAM = r"""
__global__ void histogram_global(const unsigned char* x, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&count[x[i]], 1);
}

__global__ void histogram_shared(const unsigned char* x, int* count, int n) {
    __shared__ int mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    if (mine[threadIdx.x] > 0) atomicAdd(&count[threadIdx.x], mine[threadIdx.x]);
}

__global__ void append_positive(const float* x, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) out[atomicAdd(count, 1)] = x[i];
}

__global__ void scatter_add(const float* x, const int* index, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&out[index[i]], x[i]);
}
"""


def counted(n):
    return lambda: [bytes_(n), torch.zeros(256, dtype=torch.int32), n]


add("histogram_global", HISTOGRAM, "histogram_global", 8, 256, counted(2000), [])
add("histogram_shared", HISTOGRAM, "histogram_shared", 2, 256, counted(2000), [])
add(
    "append_positive",
    HISTOGRAM,
    "append_positive",
    4,
    256,
    lambda: [floats(1000), empty(1000), torch.zeros(1, dtype=torch.int32), 1000],
    [],
)
add(
    "scatter_add",
    HISTOGRAM,
    "scatter_add",
    4,
    256,
    lambda: [floats(1000), integers(1000, below=300), torch.zeros(300), 1000],
    [],
)

CONSTANT = r"""
__constant__ float weight[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
__constant__ int shift[32] = {5, 3, 1, 0, 2, 4, 6, 8, 7, 9, 11, 10, 12, 15, 14, 13,
                              16, 18, 17, 20, 19, 21, 23, 22, 24, 26, 25, 28, 27, 29, 31, 30};

__global__ void convolve(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 5; ++k) {
        int j = i + k - 2;
        if (j >= 0 && j < n) sum += weight[k] * x[j];
    }
    out[i] = sum;
}

__global__ void reorder(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i - i % 32 + shift[i % 32]];
}
"""
add("constant_weights", CONSTANT, "convolve", 4, 256, given(1000, 1000, 1000))
add("constant_by_lane", CONSTANT, "reorder", 4, 256, given(1024, 1024, 1024))
