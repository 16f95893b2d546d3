"""Tiles that the bulk copy engine brings to shared memory, and what a trace says of kernels that get it wrong."""

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

#: What kernels call instead of writing PTX.
HELPERS = r"""
typedef unsigned long long mbarrier;
__device__ unsigned int at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ void init(mbarrier* b, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(b)), "r"(n));
}
__device__ void arrive(mbarrier* b) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.release.cta.shared::cta.b64 state, [%0]; }"
                 :: "r"(at(b)) : "memory");
}
__device__ void expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(b)), "r"(bytes) : "memory");
}
__device__ void wait(mbarrier* b, int parity) {
    asm volatile("{ .reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again; }"
                 :: "r"(at(b)), "r"(parity) : "memory");
}
__device__ void load(void* to, const void* from, int bytes, mbarrier* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(b)) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(at(from)), "r"(bytes) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int left>
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(left) : "memory"); }
template <int left>
__device__ void wait_done() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(left) : "memory"); }
"""

LOAD = (
    HELPERS
    + r"""
enum { right, no_fence, no_barrier, too_many_bytes, wrong_parity };
template <int mistake>
__global__ void reversed(const float* x, float* y) {
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


def traced(kernel, *args, threads=256, source=LOAD, outputs=()):
    return Tracer(source, kernel)[1, threads](*args, outputs=outputs)


def test_a_tile_comes():
    x, y = torch.randn(256), torch.zeros(256)
    compile_kernel(LOAD, "reversed<right>")[1, 256](x, y)
    assert torch.equal(y, x.flip(0))
    assert traced("reversed<right>", x, y, outputs=[y]).ok


def test_bytes_that_never_come_end_the_launch():
    x, y = torch.randn(256), torch.zeros(256)
    with pytest.raises(RuntimeError, match="1024 bytes were begun where expect_tx says 2048"):
        compile_kernel(LOAD, "reversed<too_many_bytes>")[1, 256](x, y)
    (problem,) = traced("reversed<too_many_bytes>", x, y).problems
    assert problem.kind == "divergent_barrier" and "phase 0 of full (parity 0): 1 of 1" in problem.message
    assert "announces exactly the bytes" in problem.hint


@pytest.mark.parametrize(
    "mistake, kind, says",
    [
        ("no_fence", "asynchronous", "with no fence after init of full"),
        ("no_barrier", "race", "which thread (0,0,0) of block (0,0,0) initialises in line"),
        ("wrong_parity", "uninitialized", "it is still on its way"),
    ],
)
def test_what_a_trace_says_of_mistakes(mistake, kind, says):
    found = traced(f"reversed<{mistake}>", torch.randn(256), torch.zeros(256), threads=256).problems
    assert (found[0].kind, says in found[0].message) == (kind, True), found
