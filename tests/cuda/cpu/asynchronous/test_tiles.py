"""Tiles that the bulk copy engine brings to shared memory, and what a trace says of kernels that get it wrong."""

import pytest
import torch

from tests.cuda.cpu.asynchronous.kernels import HELPERS
from utils import compile_kernel
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

LOAD = (
    HELPERS
    + r"""
enum { right, no_fence, no_barrier, too_many_bytes, wrong_parity };
__global__ void reversed(const float* x, float* y, int mistake) {
    __shared__ alignas(16) float tile[256];
    __shared__ mbarrier full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        if (mistake != no_fence) fence_init();
    }
    if (mistake != no_barrier) __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, mistake == too_many_bytes ? 2048 : 1024);
        load(tile, x, 1024, &full);
    }
    wait(&full, mistake == wrong_parity);
    y[threadIdx.x] = tile[255 - threadIdx.x];
}
"""
)


RIGHT, NO_FENCE, NO_BARRIER, TOO_MANY_BYTES, WRONG_PARITY = range(5)


def test_a_tile_comes():
    x, y = torch.randn(256), torch.zeros(256)
    compile_kernel(LOAD, "reversed")[1, 256](x, y, RIGHT)
    assert torch.equal(y, x.flip(0))
    trace = Tracer(LOAD, "reversed")[1, 256](x, y, RIGHT, outputs=[y])
    assert trace.ok, trace.problems


def test_bytes_that_never_come_end_the_launch():
    x, y = torch.randn(256), torch.zeros(256)
    with pytest.raises(RuntimeError, match="1024 bytes were begun where expect_tx says 2048"):
        compile_kernel(LOAD, "reversed")[1, 256](x, y, TOO_MANY_BYTES)
    (problem,) = Tracer(LOAD, "reversed")[1, 256](x, y, TOO_MANY_BYTES).problems
    assert problem.kind == "divergent_barrier" and "phase 0 of full (parity 0): 1 of 1" in problem.message
    assert "announces exactly the bytes" in problem.hint


@pytest.mark.parametrize(
    "mistake, kind, says",
    [
        (NO_FENCE, "asynchronous", "with no fence after init of full"),
        (NO_BARRIER, "uninitialized", "which thread (0,0,0) of block (0,0,0) initialises in line"),
        (WRONG_PARITY, "uninitialized", "it is still on its way"),
    ],
)
def test_what_a_trace_says_of_mistakes(mistake, kind, says):
    found = Tracer(LOAD, "reversed")[1, 256](torch.randn(256), torch.zeros(256), mistake).problems
    assert (found[0].kind, says in found[0].message) == (kind, True), found
