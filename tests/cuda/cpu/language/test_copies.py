"""Asynchronous copies: what they copy, and what a trace says of them."""

import pytest
import torch

from tests.cuda.cpu.language.launching import run, same
from utils import compile_kernel
from utils.cuda.kernel import compile_kernels

COPIES = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>
__global__ void two_stages(const float* x, float* out, int tiles) {  // loads a tile while it uses the one before
    __shared__ float s[2][64];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&s[0][i], x + i, 4);
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&s[(k + 1) % 2][i], x + 64 * (k + 1) + i, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        out[64 * k + i] = s[k % 2][63 - i];
        __syncthreads();
    }
}
__global__ void with_zeros(const float4* x, float4* out) {
    __shared__ float4 s[8];
    int i = threadIdx.x;
    s[i] = make_float4(9, 9, 9, 9);
    __pipeline_memcpy_async(s + i, x + i, 16, i % 5 * 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = s[i];
}
__global__ void too_early(const float* x, float* out) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = -1;
    __pipeline_memcpy_async(s + i, x + i, 4);
    __pipeline_commit();
    __pipeline_memcpy_async(s + i, x + 32 + i, 4);  // never committed
    out[i] = s[i];
    __pipeline_wait_prior(1);
    out[32 + i] = s[i];
    __pipeline_wait_prior(0);
    out[64 + i] = s[i];
}
__global__ void without_end(const float* x, float* out, int n) {
    __shared__ float s[2];
    s[0] = -1;
    for (int i = 0; i < n; i++) __pipeline_memcpy_async(s + (i > 0), x + (i > 0), 4);
    out[0] = s[0];
}
__global__ void together(const int* x, int* out, int n) {
    extern __shared__ int s[];
    auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, s, x, sizeof(int) * n);
    cooperative_groups::wait(block);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[n - 1 - i];
}
__global__ void bytes_together(const signed char* x, signed char* out, int n) {
    __shared__ signed char s[64];
    auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, s + 1, x + 1, n - 1);
    cooperative_groups::wait(block);
    for (int i = 1 + threadIdx.x; i < n; i += blockDim.x) out[i] = s[i];
}
"""


def test_asynchronous_copies(backend):
    x = torch.randn(5, 64)
    _, out = run(backend, COPIES, "two_stages", 1, 64, x, torch.zeros(5, 64), 5)
    same(out, x.flip(1))
    x = torch.randn(8, 4)
    _, out = run(backend, COPIES, "with_zeros", 1, 8, x, torch.zeros(8, 4))
    kept = torch.tensor([[k < 4 - i % 5 for k in range(4)] for i in range(8)])
    same(out, x * kept)
    x = torch.arange(77, dtype=torch.int32)
    kernel = compile_kernel(COPIES, "together")
    x, out = x.to(backend), torch.zeros_like(x, device=backend)
    kernel[1, 32, 4 * 77](x, out, 77)
    assert out.tolist() == list(range(76, -1, -1))
    x = torch.arange(61, dtype=torch.int8)
    _, out = run(backend, COPIES, "bytes_together", 1, 32, x, torch.zeros_like(x), 61)
    same(out, x)


def test_copies_of_another_size_are_refused_with_it(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    source = """
#include <cuda_pipeline.h>
__global__ void copied(const float* x, float* out, int bytes, int zeros) {
    __shared__ __align__(16) float s[8];
    __pipeline_memcpy_async(s, x, bytes, zeros);
}
"""
    for bytes_, zeros in ((12, 0), (4, 8)):
        with pytest.raises(RuntimeError, match=f"begins a copy of {bytes_} bytes, {zeros} of them zeros: it takes 4"):
            run(torch.device("cpu"), source, "copied", 1, 1, torch.ones(8), torch.zeros(1), bytes_, zeros)


def test_a_copy_is_done_at_the_wait(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    x = torch.randn(2, 32)
    _, out = run(torch.device("cpu"), COPIES, "too_early", 1, 32, x, torch.zeros(3, 32))
    same(out, torch.stack([torch.full((32,), -1.0), torch.full((32,), -1.0), x[0]]))


def test_of_endlessly_many_copies_the_oldest_are_done_early():  # otherwise they would fill the machine's memory
    kernel, x, out = compile_kernel(COPIES, "without_end"), torch.tensor([3.0, 4]), torch.zeros(1)
    for copies, seen in ((1000, -1), (5000, 3), (10**6, 3)):
        kernel[1, 1](x, out, copies)
        assert out == seen


def test_a_copy_of_nothing_but_zeros_reads_nothing():
    source = """
#include <cuda_pipeline.h>
__global__ void filled(const float* x, float* out, int n) {
    __shared__ float s[32];
    int i = threadIdx.x;
    __pipeline_memcpy_async(s + i, x + 100 * i, 4, i < n ? 0 : 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = s[i];
}
"""
    for n, problems in ((1, 0), (2, 1)):
        out = torch.full((32,), float("nan"))
        trace = compile_kernel(source, "filled").trace[1, 32](torch.ones(100), out, n, outputs=[out])
        assert len(trace.problems) == problems and trace.args[1].tolist()[n:] == [0.0] * (32 - n)
    assert trace.problems[0].kind == "out_of_bounds" and "reads x[100]" in str(trace.problems[0])


@pytest.mark.parametrize(("from_", "to", "where"), [(1, 0, "reads 16 bytes at x[1]"), (0, 1, "writes 16 bytes at s[1")])
def test_a_copy_needs_both_places_at_a_multiple_of_its_size(from_, to, where):
    source = """
#include <cuda_pipeline.h>
__global__ void copied(const float* x, float* out, int from, int to) {
    __shared__ __align__(16) float s[8];
    __pipeline_memcpy_async(s + to, x + from, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[0] = s[to];
}
"""
    trace = compile_kernel(source, "copied").trace[1, 1](torch.ones(8), torch.zeros(1), from_, to)
    assert trace.problems[0].kind == "misaligned" and trace.problems[0].line == 5
    assert where in trace.problems[0].message and "a multiple of 16" in trace.problems[0].message


def test_copies_of_bytes_are_traced():
    x = torch.arange(61, dtype=torch.int8)
    trace = compile_kernel(COPIES, "bytes_together").trace[1, 32](x, torch.zeros_like(x), 61)
    assert trace.ok and trace.args[1].tolist() == [0, *range(1, 61)]
    loads = trace.requests[(trace.requests.space == "global") & (trace.requests.op == "load")]
    # 60 bytes, one at a time: 32 lanes copy bytes 1 to 32, of two sectors, and 28 the others.
    assert loads.requests.tolist() == [2] and loads.sectors.tolist() == [3]


def test_zeros_from_a_variable_that_nobody_has_read():
    source = """
#include <cuda_pipeline.h>
struct P { float a[3]; };
__device__ P table[64];
__global__ void zeros(float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(s + t, &table[t], 4, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    P p = table[63 - t], q[2];
    q[t % 2] = p;
    out[t] = q[t % 2].a[t % 3] + s[t];
}
"""
    out = torch.full((64,), float("nan"))
    trace = compile_kernel(source, "zeros").trace[1, 64](out, outputs=[out])
    assert trace.ok and trace.args[0].tolist() == [0.0] * 64


@pytest.mark.parametrize("wait", ["__pipeline_wait_prior(0);", ""])
def test_a_copy_that_goes_outside_is_told_when_it_begins(wait):
    source = f"""
#include <cuda_pipeline.h>
__global__ void beyond(const float* x) {{
    __shared__ float s[64];
    __pipeline_memcpy_async(s + threadIdx.x + 1, x + threadIdx.x, 4);
    __pipeline_commit();
    {wait}
}}
"""
    trace = compile_kernel(source, "beyond").trace[1, 64](torch.randn(64))
    problem, *left = trace.problems
    assert problem.kind == "out_of_bounds" and problem.line == 5 and "writes s[64]" in problem.message
    assert [other.kind for other in left] == ([] if wait else ["asynchronous"])
    assert problem.count == 1
    assert trace.requests.requests.tolist() == [2, 2]  # the load and the store of two warps


def test_copies_from_elsewhere_cost_what_other_accesses_cost():
    source = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
__global__ void moved(float* out) {
    __shared__ __align__(16) float s[2][128];
    auto block = cooperative_groups::this_thread_block();
    for (int i = 0; i < 4; i++) s[0][32 * i + threadIdx.x] = i;
    block.sync();
    cooperative_groups::memcpy_async(block, s[1], s[0], sizeof(s[0]));
    cooperative_groups::wait(block);
    cooperative_groups::memcpy_async(block, out, s[1], sizeof(s[1]));
    cooperative_groups::wait(block);
}
"""
    out = torch.full((128,), float("nan"))
    trace = compile_kernel(source, "moved").trace[1, 32](out, outputs=[out])
    assert trace.ok and trace.args[0].tolist() == [float(i // 32) for i in range(128)]
    copied = trace.requests[trace.requests.bytes == 16].groupby(["space", "op"])[["sectors", "wavefronts"]].sum()
    assert copied.loc["global", "store"].tolist() == [16, 0]
    assert copied.loc["shared", "load"].tolist() == [0, 8] and copied.loc["shared", "store"].tolist() == [0, 4]


UNDER_WAY = r"""
#include <cuda_pipeline.h>
__global__ void tiles(const float* x, float* out) {
    __shared__ float s[BUFFERS][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < BUFFERS - 1; i++) {
        __pipeline_memcpy_async(&s[i][t], x + 64 * i + t, 4);
        __pipeline_commit();
    }
    for (int i = 0; i < 6; i++) {
        __pipeline_wait_prior(BUFFERS - 2);
        BEFORE
        int next = i + BUFFERS - 1;
        if (next < 6) __pipeline_memcpy_async(&s[next % BUFFERS][t], x + 64 * next + t, 4);  // the copy
        __pipeline_commit();
        BEHIND
        sum += s[i % BUFFERS][63 - t];  // the read
    }
    out[t] = sum;
}
template <bool LAST>
__global__ void before_the_wait(const float* x, float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = 1;
    __syncthreads();
    __pipeline_memcpy_async(&s[t], x + t, 4);  // the copy
    __pipeline_commit();
    __syncthreads();
    out[t] = s[63 - t];  // the read
    if (LAST) __syncthreads();
    __pipeline_wait_prior(0);
}
"""
SYNC = "__syncthreads();"


@pytest.mark.parametrize("order", ["forward", "reversed", 5])
@pytest.mark.parametrize(
    ("kernel", "buffers", "before", "behind", "races"),
    [
        ("tiles", 3, SYNC, "", False),
        ("tiles", 2, SYNC, "", False),
        ("tiles", 3, "", SYNC, True),  # a buffer is filled that others still read
        ("tiles", 2, "", SYNC, True),
        ("before_the_wait<true>", 2, "", "", True),  # the copy is under way while others read
        ("before_the_wait<false>", 2, "", "", True),  # a barrier is between, and does not help
    ],
)
def test_a_copy_may_write_from_its_begin_to_its_wait(kernel, buffers, before, behind, races, order):
    source = UNDER_WAY.replace("BEFORE", before).replace("BEHIND", behind)
    x = torch.randn(6, 64)
    compiled = compile_kernel(source, kernel, [f"-DBUFFERS={buffers}"])
    trace = compiled.trace[1, 64](x, torch.zeros(64), order=order)
    met = {problem.source.rpartition("// ")[2] for problem in trace.problems if problem.kind == "race"}
    assert bool(trace.problems) == races and met <= {"the copy", "the read"}, trace.problems
    if kernel.startswith("before_the_wait"):
        assert "while that copy is under way" in trace.problems[0].message
        assert "Let every thread wait" in trace.problems[0].hint


SOURCE_OVERWRITTEN = r"""
#include <cuda_pipeline.h>
__global__ void in_place(float* x, int mine) {
    __shared__ float s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], x + t, 4);
    __pipeline_commit();
    BEFORE
    x[(t + mine) % 64] = 1;
    BEHIND
    x[(t + mine) % 64] += s[t];
}
"""
WAIT = "__pipeline_wait_prior(0);"


@pytest.mark.parametrize("order", ["forward", "reversed", 5])
@pytest.mark.parametrize(
    ("before", "behind", "other", "races"),
    [
        (WAIT, "", 0, False),  # a thread overwrites what it has copied itself
        (WAIT + SYNC, "", 1, False),
        ("", WAIT, 0, True),
        (SYNC, WAIT, 1, True),  # a barrier is between, and does not help
        (WAIT, "", 1, True),
        (SYNC + WAIT, "", 1, True),
        ("", WAIT, 1, True),
    ],
)
def test_a_copy_may_read_from_its_begin_to_its_wait(before, behind, other, races, order):
    source = SOURCE_OVERWRITTEN.replace("BEFORE", before).replace("BEHIND", behind)
    trace = compile_kernel(source, "in_place").trace[1, 64](torch.randn(64), other, order=order)
    assert trace.ok != races, trace.problems
    for problem in trace.problems:
        assert problem.kind == "race" and {problem.line, problem.other_line} <= {6, 9, 11}
    if not other and races:
        assert "which the asynchronous copy that thread" in trace.problems[0].message
        assert "Wait for it" in trace.problems[0].hint
    elif races:
        assert "its copies, then `__sync" in trace.problems[0].hint or "then a barrier" in trace.problems[0].hint


NOT_WAITED_FOR = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>
__device__ void begin(float* to, const float* from) { __pipeline_memcpy_async(to, from, 4); }
__global__ void tiles(const float* x, float* out, int n, int left_out, bool commits) {
    __shared__ float s[2][32];
    int t = threadIdx.x;
    s[0][t] = s[1][t] = -1;  // what the slowest of copies would leave
    __syncthreads();
    begin(&s[0][t], x + t);
    if (commits) __pipeline_commit();
    for (int i = 0; i < n; i++) {
        if (i + 1 < n) begin(&s[(i + 1) % 2][t], x + 32 * (i + 1) + t);
        if (commits && i + 1 < n) __pipeline_commit();
        __pipeline_wait_prior(i + 1 < n ? 1 : left_out);
        __syncthreads();
        out[32 * i + t] = s[i % 2][t];  // own
        __syncthreads();
    }
}
__global__ void others(const float* x, float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    begin(s + t, x + t);
    __pipeline_commit();
    __syncthreads();
    if (t >= 32) return;  // and the copies are still under way
    __pipeline_wait_prior(0);
    __syncwarp();
    out[t] = s[31 - t];
    out[32 + t] = s[63 - t];  // of threads that have left
}
__global__ void group(const float* x, float* out) {
    extern __shared__ float s[];
    auto block = cooperative_groups::this_thread_block();
    for (int i = 0; i < 2; i++) cooperative_groups::memcpy_async(block, s + 32 * i, x + 32 * i, 128);
    cooperative_groups::wait_prior<1>(block);
    out[threadIdx.x] = s[threadIdx.x];
    out[32 + threadIdx.x] = s[32 + threadIdx.x];  // of the second
}
"""


def test_a_copy_that_nobody_has_waited_for_is_not_there_and_a_trace_reports_it(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    tiles, others, group = compile_kernels(NOT_WAITED_FOR, ["tiles", "others", "group"])
    x, out = torch.arange(128.0), torch.zeros(4, 32)
    for left_out, commits, missing in ((0, True, []), (1, True, [3]), (0, False, [0, 1, 2, 3])):
        tiles[1, 32](x, out, 4, left_out, commits)
        expected = torch.full((4, 32), -1.0) if not commits else x.view(4, 32).clone()
        if left_out:
            expected[3] = x[32:64]  # what was in that buffer before
        assert torch.equal(out, expected)
        trace = tiles.trace[1, 32](x, out, 4, left_out, commits)
        assert bool(trace.problems) == bool(missing), (left_out, commits, trace.problems)
        for problem in trace.problems:
            assert problem.kind == "uninitialized" and problem.source.endswith("// own")
            assert problem.thread == problem.other_thread and "before the asynchronous copy to it" in problem.message
            assert "__pipeline_wait_prior(0)" in problem.hint
    others[1, 64](x, out)
    assert torch.equal(out[0], x[:32].flip(0)) and out[1].isnan().all()
    problem = others.trace[1, 64](x, out).problems[0]
    assert problem.kind == "uninitialized" and problem.source.endswith("// of threads that have left")
    assert problem.other_thread[0] >= 32
    group[1, 32, 256](x, out)
    assert torch.equal(out[0], x[:32]) and out[1].isnan().all()
    (problem,) = group.trace[1, 32, 256](x, out).problems
    assert problem.kind == "uninitialized" and problem.source.endswith("// of the second")
