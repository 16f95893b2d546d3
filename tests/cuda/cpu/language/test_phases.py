"""Barriers in shared memory, and the pipelines built on them: cuda::barrier, cuda::pipeline, cuda::memcpy_async."""

import re

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

BARRIER = r"""
#include <cooperative_groups.h>
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

// Each round, every thread reads what its neighbour has written in the round before.
__global__ void turns(const float* x, float* out, int rounds, int missing, int expected) {
    __shared__ float values[2][128];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, expected);
    __syncthreads();
    values[0][t] = x[t];
    for (int k = 0; k < rounds; k++) {
        auto token = bar.arrive();
        float mine = values[k % 2][t];
        if (t != missing) bar.wait(std::move(token));
        values[1 - k % 2][t] = mine + values[k % 2][(t + 1) % 128];
    }
    out[t] = values[rounds % 2][t];
}

__global__ void parity(const float* x, float* out) {
    __shared__ float value[1];
    __shared__ barrier full;
    int t = threadIdx.x;
    if (t == 0) init(&full, 1);
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        if (t == 32) {
            value[0] = x[k];
            (void)full.arrive();
        }
        if (t < 32) {
            if (t == 0) full.wait_parity(k & 1);
            __syncwarp();
            out[32 * k + t] = value[0];
        }
        __syncthreads();
    }
}

__global__ void leaving(float* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;  // named as its type
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    if (threadIdx.x % 2) {
        barrier.arrive_and_drop();
        return;
    }
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    out[threadIdx.x / 2] = threadIdx.x;
}

__global__ void copied(const float* x, float* out, bool waits) {
    __shared__ alignas(16) float tile[256];
    __shared__ barrier bar;
    auto block = cooperative_groups::this_thread_block();
    if (threadIdx.x == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, x + 256 * blockIdx.x, cuda::aligned_size_t<16>(sizeof tile), bar);
    auto token = bar.arrive();
    if (waits) bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += block.size()) out[256 * blockIdx.x + i] = tile[255 - i];
}

__global__ void forgotten(float* out) {
    __shared__ barrier bar;
    bar.arrive_and_wait();
    out[0] = 1;
}
"""


def turned(x, rounds):
    for _ in range(rounds):
        x = x + x.roll(-1)
    return x


def test_threads_take_turns_at_a_barrier():
    x, out = torch.arange(128.0), torch.zeros(128)
    compile_kernel(BARRIER, "turns")[1, 128](x, out, 5, -1, 128)
    assert torch.equal(out, turned(x, 5))
    run = Tracer(BARRIER, "turns")[1, 128]
    assert run(x, out, 5, -1, 128, outputs=[out]).ok
    found = run(x, out, 5, 64, 128).problems
    assert (64, 0, 0) in (found[0].thread, found[0].other_thread) and found[0].line == 19, found


def test_too_few_arrivals():
    x, out = torch.arange(128.0), torch.zeros(128)
    lacking = "waits in vain at wait for the end of phase 0 of bar (parity 0): 128 of 129 arrivals have come, and no "
    lacking += "thread of the block can go on"
    with pytest.raises(RuntimeError, match=f"this launch would never end: thread .* of turns {re.escape(lacking)}"):
        compile_kernel(BARRIER, "turns")[1, 128](x, out, 5, -1, 129)
    (problem,) = Tracer(BARRIER, "turns")[1, 128](x, out, 5, -1, 129).problems
    assert problem.kind == "divergent_barrier" and problem.line == 18
    assert lacking in problem.message
    assert "The number given to `init`" in problem.hint
    with pytest.raises(RuntimeError, match="calls arrive_and_wait of a barrier that no thread has initialised"):
        compile_kernel(BARRIER, "forgotten")[1, 32](out)
    with pytest.raises(RuntimeError, match="initialises a barrier for 0 arrivals: it takes 1 to 1,048,575"):
        compile_kernel(BARRIER, "turns")[1, 128](x, out, 5, -1, 0)


def test_the_parity_of_a_phase():
    x, out = torch.tensor([3.0, 5, 7]), torch.zeros(96)
    compile_kernel(BARRIER, "parity")[1, 64](x, out)
    assert torch.equal(out, x.repeat_interleave(32))
    trace = Tracer(BARRIER, "parity")[1, 64](x, torch.zeros(96))
    assert trace.ok, trace.problems


def test_threads_that_leave_are_no_longer_expected():
    out = torch.zeros(32)
    compile_kernel(BARRIER, "leaving")[1, 64](out)
    assert torch.equal(out, torch.arange(0.0, 64, 2))


def test_a_copy_belongs_to_a_phase():
    x, out = torch.randn(512), torch.zeros(512)
    compile_kernel(BARRIER, "copied")[2, 64](x, out, True)
    right = x.view(2, 256).flip(1).reshape(-1)
    assert torch.equal(out, right)
    run = Tracer(BARRIER, "copied")[2, 64]
    assert run(x, out, True, outputs=[out]).ok
    found = run(x, out, False).problems
    assert found and {problem.kind for problem in found} <= {"uninitialized", "race"}, found
    assert all(66 in (problem.line, problem.other_line) for problem in found), found


PIPELINE = r"""
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

// Sums of tiles that come through `stages` stages; MISTAKE leaves a call out.
template <int stages, int mistake>
__global__ void sums(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float tile[stages][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int done = 0, begun = 0; done < tiles; done++) {
        for (; begun < tiles && begun < done + stages; begun++) {
            if (mistake != 1) pipe.producer_acquire();
            cuda::memcpy_async(block, tile[begun % stages], x + 128 * begun, sizeof(float) * 128, pipe);
            pipe.producer_commit();
        }
        if (mistake != 2) pipe.consumer_wait();
        sum += tile[done % stages][(threadIdx.x + 1) % 128];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

// One warp copies, the others calculate.
__global__ void specialised(const float* x, float* out, int tiles) {
    __shared__ alignas(16) float tile[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    const bool produces = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(block, &state,
                                    produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    if (produces) {
        for (int k = 0; k < tiles; k++) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tile[k % 2][2 * threadIdx.x], x + 64 * k + 2 * threadIdx.x, cuda::aligned_size_t<8>(8),
                               pipe);
            pipe.producer_commit();
        }
    } else {
        float sum = 0;
        for (int k = 0; k < tiles; k++) {
            pipe.consumer_wait();
            sum += tile[k % 2][threadIdx.x - 32];
            pipe.consumer_release();
        }
        out[threadIdx.x - 32] = sum;
    }
}

__global__ void alone(const float* x, float* out, int tiles) {
    __shared__ float mine[4][64];
    auto pipe = cuda::make_pipeline();
    float sum = 0;
    int t = threadIdx.x;
    for (int k = 0; k < tiles + 3; k++) {
        if (k < tiles) cuda::memcpy_async(&mine[k % 4][t], x + 64 * k + t, sizeof(float), pipe);
        pipe.producer_commit();
        if (k < 3) continue;
        cuda::pipeline_consumer_wait_prior<3>(pipe);
        sum += mine[(k - 3) % 4][t];
    }
    out[t] = sum;
}
"""


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_pipeline_of_a_block(stages):
    x, out = torch.randn(7, 128), torch.zeros(128)
    compile_kernel(PIPELINE, f"sums<{stages}, 0>")[1, 128](x, out, 7)
    torch.testing.assert_close(out, x.sum(0).roll(-1))


def test_what_a_trace_says_of_pipelines():
    x, out = torch.randn(7, 128), torch.zeros(128)
    assert Tracer(PIPELINE, "sums<2, 0>")[1, 128](x, out, 7, outputs=[out]).ok
    early = Tracer(PIPELINE, "sums<2, 1>")[1, 128](x, out, 7).problems  # a stage is overwritten that others still read
    assert {p.kind for p in early} == {"race"} and {early[0].line, early[0].other_line} == {17, 21}, early
    unwaited = Tracer(PIPELINE, "sums<2, 2>")[1, 128](x, out, 7).problems
    assert unwaited[0].kind in ("uninitialized", "race") and 21 in (unwaited[0].line, unwaited[0].other_line), unwaited


def test_warps_with_roles_and_a_pipeline_of_a_thread():
    x, out = torch.randn(9, 64), torch.zeros(64)
    for kernel, threads in (("specialised", 96), ("alone", 64)):
        out.zero_()
        compile_kernel(PIPELINE, kernel)[1, threads](x, out, 9)
        torch.testing.assert_close(out, x.sum(0))
        trace = Tracer(PIPELINE, kernel)[1, threads](x, out, 9, outputs=[out])
        assert trace.ok, (kernel, trace.problems)
