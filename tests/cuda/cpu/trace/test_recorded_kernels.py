"""Recordings of kernels that do more than read and write: atomics, shuffles, copies in flight, half precision, structs,
called functions, early exits, launches that never end."""

import json
import math
import time

import pytest
import torch

from tests.clock import slowdown
from tests.corpus.cases import CASES, KINDS, MAX_STEPS
from tests.cuda.cpu.trace.test_recorded import costs, costs_of_trace, of, recorded
from utils import load_cuda
from utils.cuda.cpu.trace.problems import KernelProblem
from utils.ground.errors import CourseError

pytest.importorskip("elftools")

HISTOGRAM = """
__global__ void histogram(const unsigned char* x, int* out, int n, int bins) {
    extern __shared__ int counts[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x)
        counts[b] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[x[i] % bins], 1);
    __syncthreads();
    if (threadIdx.x < bins)
        atomicAdd(&out[threadIdx.x], counts[threadIdx.x]);
}
"""


def test_atomics_show_what_memory_holds_afterwards():
    x, out = torch.randint(0, 256, (70,), dtype=torch.uint8), torch.full((5,), 100, dtype=torch.int32)
    trace, recording = recorded(HISTOGRAM, "histogram", (2, 40, 20), x, out, 70, 5)
    assert costs(recording) == costs_of_trace(trace)
    counts = [memory for memory in recording.memories if memory.space == "shared"]
    assert [(m.name, m.type, m.shape, m.block) for m in counts] == [
        ("counts", "int", (5,), 0),
        ("counts", "int", (5,), 1),
    ]
    added = of(recording, "atomic", 9)
    assert [len(step.lanes) for step in added + of(recording, "atomic", 9, warp=1)] == [32, 8]
    first = [int(value) % 5 for value in x[:32]]
    assert added[0].elements == first
    assert added[0].values == [first[: k + 1].count(first[k]) for k in range(32)]
    last = of(recording, "atomic", 12, block=1)[0]
    assert last.values == [100 + (x % 5 == k).sum() for k in range(5)]


SHUFFLES = """
__device__ float largest(float a, float b) {
    float more = a > b ? a : b;
    return more;
}
__global__ void largest_of_warp(const float* x, float* out) {
    float most = x[threadIdx.x];
    for (int d = 16; d > 0; d /= 2)
        most = largest(most, __shfl_down_sync(0xffffffff, most, d));
    if (threadIdx.x % 32 == 0)
        out[threadIdx.x / 32] = most;
}
"""


@pytest.fixture(scope="module")
def shuffles():
    x = torch.rand(64)
    return x, recorded(SHUFFLES, "largest_of_warp", (1, 64), x, torch.zeros(2))[1]


def test_shuffles_show_from_which_lane_each_value_comes(shuffles):
    x, recording = shuffles
    for warp in range(2):
        most = x[32 * warp : 32 * warp + 32].clone()
        exchanged = of(recording, "shuffle", warp=warp)
        assert len(exchanged) == 5
        for step, d in zip(exchanged, (16, 8, 4, 2, 1), strict=True):
            assert step.lanes == list(range(32)) and step.source_lanes == [
                k + d if k + d < 32 else k for k in range(32)
            ]
            assert torch.equal(torch.tensor(step.values), most[step.source_lanes])
            most = torch.maximum(most, most[step.source_lanes])
        (write,) = of(recording, "write", warp=warp)
        assert write.lanes == [0] and torch.tensor(write.values[0]) == x[32 * warp : 32 * warp + 32].max()


def test_variables_of_a_called_function_have_its_name(shuffles):
    x, recording = shuffles
    inside = [step for step in recording.steps if any("largest(): " in name for name in step.variables)]
    assert inside and inside[0].line == 3
    own = inside[0].variables
    assert torch.equal(torch.tensor(own["largest(): a"]), x[:32]) and "largest(): more" not in own
    after = recording.steps[recording.steps.index(inside[0]) + 1]
    assert after.variables["largest(): a"] == [None] * 32  # it has returned
    assert len(after.variables["most"]) == 32


HALF = """
#include <cuda_fp16.h>
struct Pair { int first; float second; };
template <class T, int N>
__global__ void variables(const T* x, T* out, Pair pair, int n) {
    int i = blockIdx.x * N + threadIdx.x;
    T value = x[i];
    const T* behind = x + i + 1;
    float part[3] = {1.5f, 2.5f, 3.5f};
    bool odd = i % 2;
    {
        int i = 7;
        out[0] = value;
    }
    for (int j = 0; j < 2; j++) {
        double wide = j + 0.25;
        part[j] = wide;
        out[i] = value;
    }
}
"""


def test_variables_of_many_kinds():
    x = torch.tensor([0.1, -2.0, 1 / 3, 1e-7], dtype=torch.half)
    pair = (5).to_bytes(4, "little") + torch.tensor(0.1).numpy().tobytes()
    _, recording = recorded(HALF, "variables<__half, 4>", (1, 4), x, torch.zeros_like(x), pair, 4)
    (read,) = of(recording, "read")
    assert [torch.tensor(v, dtype=torch.half) for v in read.values] == list(x) and read.values[0] == 0.1
    assert recording.memories[0].type == "half" and recording.memories[0].itemsize == 2
    assert {"pair.first": [5] * 4, "pair.second": [0.1] * 4, "n": [4] * 4}.items() <= read.variables.items()
    inner, *written = of(recording, "write")
    first = recording.steps[recording.steps.index(read) + 1].variables | inner.variables
    assert first["i"] == [7] * 4 and first["value"] == read.values
    assert first["behind"] == ["x + 1", "x + 2", "x + 3", "x + 4"]
    assert [first[f"part[{k}]"][0] for k in range(3)] == [1.5, 2.5, 3.5]
    assert first["odd"] == [0, 1, 0, 1]
    later = [step for step in recording.steps if step.line in (15, 18)]
    assert next(step for step in later if "i" in step.variables).variables["i"] == [0, 1, 2, 3]  # the outer one again
    assert [step.variables["wide"][0] for step in later if "wide" in step.variables] == [0.25, None, 1.25, None]
    assert [step.variables["part[1]"][0] for step in later if "part[1]" in step.variables] == [1.25]
    assert len(written) == 2


COPIES = """
#include <cuda_pipeline.h>
__global__ void copies(const float* x, float* out) {
    __shared__ float tile[128];
    __pipeline_memcpy_async(&tile[4 * threadIdx.x], &x[4 * threadIdx.x], 16);
    __pipeline_commit();
    out[threadIdx.x] = 0;
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


def test_an_asynchronous_copy_lands_when_it_is_waited_for():
    x = torch.rand(128)
    _, recording = recorded(COPIES, "copies", (1, 32), x, torch.zeros(32))
    (load,), (begins, lands) = of(recording, "read", 5), of(recording, "copy")
    assert load.width == begins.width == lands.width == 4 and torch.equal(torch.tensor(load.values), x)
    assert begins.line == 5 and begins.values is None and lands.line == 8 and lands.values == load.values
    (read,) = of(recording, "read", 10)
    assert torch.equal(torch.tensor(read.values), x[96:].flip(0))


@pytest.mark.alone
def test_a_long_launch_is_recorded_up_to_the_limit():
    source = """
    __global__ void much(const float* x, float* out, int n) {
        float sum = 0;
        for (int i = 0; i < n; i++)
            sum += x[i];
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }
    """
    trace, recording = recorded(source, "much", (5, 128), torch.rand(100), torch.zeros(640), 100)
    assert recording.kept.endswith("; all 1,624 steps.")
    n = 10**7 // 640
    x = torch.rand(n)
    trace = recorded(source, "much", (5, 128), x, torch.zeros(640), n, blocks=[0], steps=10)[0]
    start = time.process_time()
    recording = trace.recording()
    assert time.process_time() - start < 3 * slowdown()
    assert len(recording.steps) == 3000 and recording.kept == "Blocks (0,0,0) and (1,0,0) of 5; the first 3,000 steps."
    assert len(recording.to_json()) < 1_000_000 and recording.memories[0].window[1] < n
    assert {step.block for step in recording.steps} == {0, 1}


WAITS = """
__global__ void waits(float* x, int n) {
    if (threadIdx.x < n) {
        x[threadIdx.x] = 1;
        __syncthreads();
    }
    while (x[0] > 0) {
        x[1] = 2;
    }
}
"""


def test_what_never_ends_is_recorded_until_the_trace_gave_up():
    trace, recording = recorded(WAITS, "waits", (1, 64), torch.zeros(64), 40, max_steps=2000)
    kinds = {problem.kind: problem for problem in recording.problems}
    assert {"divergent_barrier", "runaway"} & set(kinds)
    for problem in recording.problems:
        assert all(recording.steps[k].block == 0 for k in problem.steps)
    assert recording.steps and recording.to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_with_a_bug_can_be_played(kind):
    case = next(case for case in CASES if case.twin and case.kind == kind)
    trace = case.launch.trace(max_steps=MAX_STEPS)
    recording = trace.recording()
    json.loads(recording.to_json())
    assert [problem.text for problem in recording.problems] == [str(problem) for problem in trace.problems]
    for problem in recording.problems:
        at = [recording.steps[k] for k in problem.steps]
        assert len(at) == len(problem.threads) and bool(at) == (problem.kind != "unwritten")
        for step, (block, thread) in zip(at, problem.threads, strict=False):
            assert step.block == block and step.warp == thread // 32 and thread % 32 in step.lanes
            assert step.line in problem.lines or step.kind == "exit"


IN_STEP = """
__global__ void fold(volatile float* x) {
    int t = threadIdx.x;
    if (t < 16) x[t] += x[t + 16];
    if (t < 8) x[t] += x[t + 8];
}
"""


def test_lanes_in_step_are_recorded_in_step():
    x = torch.arange(32.0)
    _, recording = recorded(IN_STEP, "fold", (1, 32), x)
    first, second = of(recording, "write", 4)[0], of(recording, "write", 5)[0]
    half = x[:16] + x[16:]
    assert first.values == half.tolist() and second.values == (half[:8] + half[8:]).tolist()


REFERENCES = """
struct Pair { float first, second; };
__device__ void add(float& total, const Pair& p) {
    if (p.first >= 0) total += p.first;
}
__global__ void refer(const float* x, float* out) {
    __shared__ float tile[32];
    __shared__ float whole;
    int i = threadIdx.x;
    float sum = 0.5f;
    float& alias = sum;
    Pair pair = {x[i], 2.0f};
    float& cell = tile[i];
    int grid[3][4] = {};
    grid[1][2] = i;
    cell = alias;
    if (i == 0) whole = 7;
    add(sum, pair);
    float& either = i % 2 ? sum : pair.second;
    either += 1.0f;
    auto [one, two] = pair;
    out[i] = sum + tile[i] + one * two;
}
"""


def test_references_and_the_first_elements_of_arrays_are_shown():
    x = torch.arange(32.0) / 4
    recording = recorded(REFERENCES, "refer", (1, 32), x, torch.zeros(32))[1]
    seen = {}
    for step in recording.steps:
        for name, values in step.variables.items():
            for lane, value in zip(step.lanes, values, strict=True):
                seen.setdefault(name, {}).setdefault(lane, []).append(value)
    last = {name: {lane: [v for v in values if v is not None][-1] for lane, values in of_lanes.items()}
            for name, of_lanes in seen.items()}  # fmt: skip
    odd, even = 5, 4
    assert last["alias"] == last["sum"] and last["alias"][odd] == 0.5 + odd / 4 + 1 and last["alias"][even] == 1.5
    assert last["either"][odd] == last["sum"][odd] and last["either"][even] == last["pair.second"][even] == 3
    assert last["cell"] == {lane: f"tile + {lane}" for lane in range(32)}  # not a variable of the lane
    assert last["grid[1][2]"] == {lane: lane for lane in range(32)} and last["grid[…]"][odd] == "…"
    assert "grid[1][3]" in last and "grid[2][0]" not in last
    assert {"add(): total", "add(): p.first"} <= last.keys() and last["add(): p.first"][odd] == odd / 4
    assert last["one"] == last["pair.first"] and last["two"] == last["pair.second"]
    assert not {"tile", "tile[0]", "whole"} & last.keys()  # memories, not variables


def test_a_changed_argument_is_named():
    source = "__global__ void copy(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }"
    x, out = torch.rand(8), torch.zeros(8)
    trace, recording = recorded(source, "copy", (1, 8), x, out)
    assert recording.kept == "Block (0,0,0) of 1; all 3 steps." and recording.note == ""
    x.mul_(2)
    again = trace.recording()
    assert again.note == "x changed after the trace: this run began with the new values."
    assert torch.equal(torch.tensor(of(again, "write")[0].values), x) and out.eq(0).all()


def test_a_resized_argument_is_named_and_one_that_is_gone_refused():
    source = "__global__ void copy(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }"
    x, out = torch.rand(8), torch.zeros(8)
    first = x.clone()
    trace, _ = recorded(source, "copy", (1, 8), x, out)
    for change in (lambda: x.resize_(2), lambda: x.resize_(100_000), lambda: setattr(x, "data", torch.zeros(3))):
        change()
        again = trace.recording()
        assert again.note == "x was resized or moved after the trace: this run uses what was traced."
        assert torch.equal(torch.tensor(of(again, "write")[0].values), first)
    out.untyped_storage().resize_(0)
    with pytest.raises(CourseError, match="the memory of out has been released since the trace"):
        trace.recording()


@pytest.mark.parametrize("blocks", [[3], [(0, 1)], 7])
def test_a_block_that_is_not_there_is_refused(blocks):
    source = "__global__ void copy(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }"
    with pytest.raises(ValueError, match="is not in the grid, whose last block is"):
        recorded(source, "copy", (3, 8), torch.rand(8), torch.zeros(8), blocks=blocks)


EXTENSION = """
#include <torch/extension.h>
__global__ void scale(const float* x, float* out, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * by;
}
__global__ void shift(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i + 1];
}
torch::Tensor scaled_and_shifted(torch::Tensor x, double by, bool wrong) {
    auto out = torch::empty_like(x), more = torch::empty_like(x);
    int n = x.numel();
    scale<<<(n + 31) / 32, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, by);
    if (wrong) shift<<<1, n>>>(out.data_ptr<float>(), more.data_ptr<float>());
    return wrong ? more : out;
}
"""


def test_an_extension_is_played_too():
    declared = "torch::Tensor scaled_and_shifted(torch::Tensor x, double by, bool wrong);"
    module = load_cuda(EXTENSION, declared, ["scaled_and_shifted"], trace=True)
    x = torch.rand(70)
    torch.testing.assert_close(module.scaled_and_shifted(x, 3.0, False), 3 * x)
    recording = module.trace.recording(blocks=[2])
    assert recording.kernel == "scale" and recording.grid == (3, 1, 1) and recording.blocks[0].index == (2, 0, 0)
    (write,) = of(recording, "write")
    assert write.elements == list(range(64, 70)) and torch.equal(torch.tensor(write.values), 3 * x[64:])
    assert [(m.name, m.type, m.shape) for m in recording.memories] == [("x", "float", (70,)), ("out", "float", (70,))]
    assert write.variables == {} and recording.steps[0].variables["by"] == [3.0] * 32
    with pytest.raises(KernelProblem):
        module.scaled_and_shifted(x, 3.0, True)
    recording = module.trace.recording()
    assert recording.kernel == "shift"  # the one with the problem
    (problem,) = recording.problems
    assert recording.steps[problem.steps[0]].outside and math.isfinite(problem.line)
    torch.testing.assert_close(module.scaled_and_shifted(x, 2.0, False), 2 * x)  # torch's allocator is as it was
