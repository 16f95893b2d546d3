"""What a flag makes visible: what its thread knew at its last fence, from its warp, named barriers and phases too."""

import pytest
import torch

from utils import compile_kernel

pytestmark = pytest.mark.usefixtures("on_cpu")

FLAGS = r"""
__device__ void named() { asm volatile("bar.sync 1, 64;" ::: "memory"); }
__global__ void publish(int* x, int* flag, int* out, int how) {
    const int t = threadIdx.x;
    if (t < 64) {
        x[t] = t + 1;
        if (how == 0) { __syncwarp(); if (t % 32 == 0) __threadfence(); }
        if (how == 1) { __threadfence(); __syncwarp(); }
        if (how == 2) { __syncwarp(); if (t % 32 == 0) __threadfence(); __syncwarp(); }
        if (how == 3) { named(); if (t % 32 == 0) __threadfence(); }
        if (how == 4) { __threadfence(); named(); }
        if (how == 5 && t % 32 == 0) __threadfence();
        if (how == 6) { if (t % 32 == 0) __threadfence(); __syncwarp(); }
        if (how == 7) { if (t % 32 == 0) __threadfence(); named(); }
        if (how == 8) __syncwarp();
        if (t % 32 == 0) atomicAdd(flag, 1);
    } else {
        while (atomicAdd(flag, 0) < 2) {}
        __threadfence();
        out[t - 64] = x[t - 64];
    }
}
"""


@pytest.mark.parametrize("how", range(9))
def test_a_flag_publishes_what_its_thread_knew_at_its_fence(how):
    x, flag, out = (torch.zeros(n, dtype=torch.int32) for n in (64, 1, 64))
    trace = compile_kernel(FLAGS, "publish").trace[1, 128](x, flag, out, how)
    assert trace.ok == (how < 5), trace.problems[:1]
    assert {problem.kind for problem in trace.problems} <= {"race"}
