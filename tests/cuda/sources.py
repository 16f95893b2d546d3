"""The kernels that the tests of compile_kernel build, and where a text is in them."""

import torch

X = torch.ones(8)

SOURCE = r"""
// A comment with __global__ void nothing(int* x) in it.
typedef float real;
using number = int;

__device__ int three() { return 3; }

__global__ void scale(const float* __restrict__ x, real* out, number n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = three() * x[i];
}

template <int tile, class T = float>
__global__ void reversed(const T* x, T* out, int n) {
    __shared__ T part[tile];
    int i = blockIdx.x * tile + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) out[i] = part[tile - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256) plain_name(int* out, float4* any, void* also) {
    out[threadIdx.x] = threadIdx.x;
}

__global__ void places(int* out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    out[at] = at;
}

__global__ void last_bytes(unsigned char* out, int n) {
    extern __shared__ unsigned char room[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = i % 251;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = room[n - 1 - i];
}

struct Pair { float a; int b; };
__global__ void by_value(double* out, Pair p, bool flag, short s, unsigned int u, long long big, size_t size, double d,
                         float f, char c, unsigned char uc) {
    double values[] = {p.a, double(p.b), double(flag), double(s), double(u), double(big), double(size), d, f, double(c),
                       double(uc)};
    for (int i = 0; i < 11; i++) out[i] = values[i];
}

__global__ void empty() {}

#ifndef __CUDACC_RTC__
void launch(float* x, int n) { this does not compile, and nobody looks at it; }
#endif
"""

HALVES = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void halves(half* h, __nv_bfloat16* b, __half hv, __nv_bfloat16 bv) { h[0] = hv; b[0] = bv; }
"""

GRID_SYNC = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ void wait_for_all() { cg::this_grid().sync(); }
__global__ void waits(int* x, int* out) {
    x[blockIdx.x] = blockIdx.x;
    wait_for_all();
    out[blockIdx.x] = x[gridDim.x - 1 - blockIdx.x];
}
"""


def line_of(text, source=SOURCE):
    return source[: source.index(text)].count("\n") + 1
