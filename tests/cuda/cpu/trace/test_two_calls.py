"""Threads of a warp that wait at two calls of one function, or at two barriers of one line."""

import pytest
import torch

from utils.cuda.kernel import Tracer

KERNELS = ("two_sums", "in_warp", "one_line", "chosen", "ballots", "nested", "in_turn", "by_block")
SOURCE = r"""
__device__ float block_sum(float v, float* s) {
    s[threadIdx.x] = v;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < blockDim.x; i++) sum += s[i];
    __syncthreads();
    return sum;
}
template <int n> __device__ float other(float v) { return __shfl_xor_sync(~0u, v, n); }
__device__ void around(float* s, float v) { s[threadIdx.x] = block_sum(v, s); }
__global__ void two_sums(float* y) {
    __shared__ float s[64];
    if (threadIdx.x < 40)
        y[threadIdx.x] = block_sum(1, s);  // two_sums
    else
        y[threadIdx.x] = block_sum(2, s);  // two_sums
}
__global__ void in_warp(float* y) {
    if (threadIdx.x & 1) y[threadIdx.x] = other<1>(1);  // in_warp
    else y[threadIdx.x] = other<1>(2);  // in_warp
}
__global__ void one_line(float* y) {
    if (threadIdx.x < 7) { y[threadIdx.x] = 1; __syncthreads(); } else { __syncthreads(); }  // one_line
}
__global__ void chosen(float* y) {
    y[threadIdx.x] = threadIdx.x < 7 ? other<2>(1) : other<4>(2);  // chosen
}
__global__ void ballots(float* y) {
    y[threadIdx.x] = threadIdx.x & 2 ? __ballot_sync(~0u, 1) : __ballot_sync(~0u, 0);  // ballots
}
__global__ void nested(float* y) {
    __shared__ float s[64];
    if (threadIdx.x == 33)
        around(s, 1);  // nested
    else
        around(s, 2);  // nested
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void in_turn(float* y) {
    __shared__ float s[64];
    float sum = block_sum(1, s) + block_sum(2, s);
    for (int i = 0; i < 3; i++) sum += other<1>(i) * other<2>(i) + block_sum(i, s);
    __syncthreads(); around(s, sum); __syncthreads(); around(s, 1);
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void by_block(float* y) {
    __shared__ float s[64];
    float sum = blockIdx.x ? block_sum(1, s) : block_sum(2, s);
    y[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x < 32 ? other<1>(sum) : other<2>(sum);
}
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_two_calls_are_two_places(kernel):
    blocks = 2 if kernel == "by_block" else 1
    problems = Tracer(SOURCE, kernel, (), KERNELS)[blocks, 64](torch.zeros(64 * blocks)).problems
    lines = [number for number, text in enumerate(SOURCE.splitlines(), 1) if text.endswith(f"// {kernel}")]
    assert [problem.kind for problem in problems] == ["divergent_barrier"] * bool(lines), problems
    if lines:
        assert sorted({problems[0].line, problems[0].other_line}) == lines, problems
        assert "waits in line" in problems[0].message or len(lines) == 1
