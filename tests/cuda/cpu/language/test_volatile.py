"""Volatile memory: the lanes of a warp touch it in step, as on a GPU, and a trace says that this is no promise.

What the kernels give was measured on an H200.
"""

import random

import pytest
import torch

from utils.cuda.kernel import Tracer, compile_kernels

SOURCE = r"""
__device__ void warp_sum(volatile float* v, unsigned t) {
    v[t] += v[t + 32];
    v[t] += v[t + 16];
    v[t] += v[t + 8];
    v[t] += v[t + 4];
    v[t] += v[t + 2];
    v[t] += v[t + 1];
}
__global__ void block_sum(const float* x, float* out) {
    __shared__ float shared[256];
    unsigned t = threadIdx.x;
    shared[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (unsigned s = 128; s > 32; s >>= 1) {
        if (t < s) shared[t] += shared[t + s];
        __syncthreads();
    }
    if (t < 32) warp_sum(shared, t);
    if (t == 0) out[blockIdx.x] = shared[0];
}
__global__ void each_step_guarded(const float* x, float* out) {
    __shared__ volatile float v[64];
    unsigned t = threadIdx.x;
    v[t] = x[t];
    v[t + 32] = x[t + 32];
    for (unsigned s = 32; s > 0; s /= 2)
        if (t < s) v[t] += v[t + s];
    if (t == 0) out[0] = v[0];
}
__global__ void scan(const float* x, float* out) {
    __shared__ volatile float v[32];
    int t = threadIdx.x;
    v[t] = x[t];
    for (int d = 1; d < 32; d *= 2)
        if (t >= d) v[t] += v[t - d];
    out[t] = v[t];
}
__global__ void reversed(const float* x, float* out) {
    __shared__ volatile float v[32];
    int t = threadIdx.x;
    v[t] = x[t];
    out[t] = v[31 - t];
    v[t] = out[t] * 2;
    out[32 + t] = v[(t + 1) % 32];
}
__global__ void one_lane_in_each_round(const float* x, float* out) {
    __shared__ volatile float sum[1];
    int t = threadIdx.x;
    if (t == 0) sum[0] = 0;
    for (int i = 0; i < 32; i++)
        if (t == i) sum[0] += x[t];
    out[t] = sum[0];
}
__global__ void one_lane_tells_all(const float* x, float* out) {
    __shared__ volatile float told[1];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 32; i++) {
        if (t == i) told[0] = x[i];
        sum += told[0];
    }
    out[t] = sum;
}
__global__ void long_ways(const float* x, float* out) {  // longer than what is noted of a lane's path, and each its own
    __shared__ volatile float v[64];
    int t = threadIdx.x;
    v[t + 32] = 0;
    float sum = 0;
    for (int i = 0; i < 3000 + 500 * t; i++)
        if (i % 2) sum += x[t];
    v[t] = sum > 0;
    warp_sum(v, t);
    if (t == 0) out[0] = v[0];
}
__device__ volatile int turn;
__global__ void in_turn(const float*, float* out) {  // lanes that wait for another lane of their warp, and warps
    int t = threadIdx.x;
    if (t == 0) turn = 0;
    __syncthreads();
    while (turn != t) {}
    out[t] = t;
    __threadfence();
    turn = t + 1;
}
"""
X = torch.arange(1.0, 513.0)
SUM32 = X[:32].sum()
EXPECTED = {  # threads, blocks, what they write
    "block_sum": (256, 2, torch.stack([X[:256].sum(), X[256:].sum()])),
    "each_step_guarded": (32, 1, X[:64].sum().reshape(1)),
    "scan": (32, 1, X[:32].cumsum(0)),
    "reversed": (32, 1, torch.cat([X[:32].flip(0), 2 * X[:32].flip(0).roll(-1)])),
    "one_lane_in_each_round": (32, 1, SUM32.repeat(32)),
    "one_lane_tells_all": (32, 1, SUM32.repeat(32)),
    "long_ways": (32, 1, torch.tensor([32.0])),
    "in_turn": (64, 1, torch.arange(64.0)),
}


def test_the_lanes_of_a_warp_are_in_step():
    for name, kernel in zip(EXPECTED, compile_kernels(SOURCE, list(EXPECTED)), strict=True):
        threads, blocks, expected = EXPECTED[name]
        for _ in range(2):
            out = torch.full_like(expected, torch.nan)
            kernel[blocks, threads](X, out)
            assert torch.equal(out, expected), name


@pytest.mark.parametrize("name", ["block_sum", "one_lane_in_each_round", "in_turn"])
def test_a_trace_runs_them_in_step_and_warns(name):
    threads, blocks, expected = EXPECTED[name]
    for order in ("forward", "reversed", 3):
        out = torch.full_like(expected, torch.nan)
        trace = Tracer(SOURCE, name)[blocks, threads](X, out, outputs=[out], order=order)
        assert torch.equal(trace.args[1], expected)
        if name == "in_turn":  # a flag in global memory, and a fence
            assert trace.ok
            continue
        for problem in trace.problems:
            assert problem.kind == "race" and "with no `__syncwarp()` between them" in problem.message
            assert "since Volta" in problem.hint and problem.block == problem.other_block
            assert problem.thread[0] // 32 == problem.other_thread[0] // 32
        assert trace.problems


def test_with_syncwarp_there_is_nothing_to_warn_of():
    source = """
__global__ void tree(const float* x, float* out) {
    __shared__ volatile float v[64];
    int t = threadIdx.x;
    v[t] = x[t];
    v[t + 32] = 0;
    __syncwarp();
    for (int s = 16; s > 0; s /= 2) {
        float other = v[t + s];
        __syncwarp();
        v[t] += other;
        __syncwarp();
    }
    if (t == 0) out[0] = v[0];
}
"""
    trace = Tracer(source, "tree")[1, 32](X, torch.zeros(1))
    assert trace.ok and trace.args[1] == SUM32


def test_random_programs_of_a_warp_agree_with_a_model_of_it():
    # Each statement is made by all lanes (or by those of a guard) together: all read, then all write.
    chosen = random.Random(5)
    for program in range(3):
        lines, memory = [], [float(i % 7) for i in range(64)]
        for _ in range(12):
            guard, step, scale = chosen.choice([32, 16, 5, 1]), chosen.randrange(33), chosen.randrange(1, 4)
            lines.append(f"if (t < {guard}) v[t] = v[t] + {scale} * v[t + {step}];")
            memory[:guard] = [memory[t] + scale * memory[t + step] for t in range(guard)]
            memory = [value % 1024 for value in memory]
            lines.append("v[t] = fmodf(v[t], 1024);")
            lines.append("v[t + 32] = fmodf(v[t + 32], 1024);")
        source = (
            "__global__ void program(float* out) {\n    __shared__ volatile float v[64];\n    int t = threadIdx.x;\n"
            "    v[t] = t % 7;\n    v[t + 32] = (t + 32) % 7;\n" + "\n".join(lines) + "\n    out[t] = v[t];\n}\n"
        )
        out = torch.zeros(32)
        (kernel,) = compile_kernels(source, ["program"])
        kernel[1, 32](out)
        assert out.tolist() == memory[:32], (program, source)
