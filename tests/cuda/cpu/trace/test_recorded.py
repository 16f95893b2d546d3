"""What a recording of a launch holds: the values that each lane reads and writes, its variables, what steps cost, and
where the problems of the trace are. Expected values are computed here, from what the kernel must do."""

import pytest
import torch

from utils.cuda.kernel import Tracer

pytest.importorskip("elftools")


def recorded(source, name, launch, *args, blocks=None, steps=3000, **options):
    """The trace of a launch, and its recording."""
    trace = Tracer(source, name)[launch](*args, **options)
    return trace, trace.recording(blocks, steps)


def of(recording, kind, line=None, block=0, warp=0):
    """The steps of a warp that are of a kind."""
    return [
        step
        for step in recording.steps
        if (step.block, step.warp, step.kind) == (block, warp, kind) and line in (None, step.line)
    ]


def costs(recording):
    """Requests, sectors and wavefronts in a recording, by space and kind."""
    found = {}
    for step in recording.steps:
        if step.memory is not None and (step.sectors is not None or step.wavefronts is not None):
            space = recording.memories[step.memory].space
            counts = found.setdefault((step.line, space, step.kind), [0, 0, 0])
            for k, count in enumerate((1, step.sectors or 0, step.wavefronts or 0)):
                counts[k] += count
    return found


def costs_of_trace(trace):
    kinds = {"load": "read", "store": "write", "atomic": "atomic"}
    return {
        (row.line, row.space, kinds[row.op]): [row.requests, row.sectors, row.wavefronts]
        for row in trace.requests.itertuples()
    }


SQUARE = """
__global__ void square(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i];
    out[i] = v * v;
}
"""


@pytest.fixture(scope="module")
def square():
    x = torch.arange(41.0) / 10
    return x, *recorded(SQUARE, "square", (2, 32), x, torch.full((41,), 7.0), 41)


def test_every_lane_reads_and_writes_its_own_element(square):
    x, _, recording = square
    for block, lanes in ((0, list(range(32))), (1, list(range(9)))):
        (read,), (write,) = of(recording, "read", 6, block), of(recording, "write", 7, block)
        elements = [32 * block + lane for lane in lanes]
        assert read.lanes == write.lanes == lanes and read.elements == write.elements == elements
        assert [torch.tensor(v) for v in read.values] == list(x[elements])
        assert [torch.tensor(v) for v in write.values] == list(x[elements] * x[elements])


def test_lanes_that_the_guard_turns_away_leave_early(square):
    recording = square[2]
    first, second = of(recording, "exit", block=1)
    assert first.lanes == list(range(9, 32)) and first.line == 5
    assert second.lanes == list(range(9))
    steps = [step for step in recording.steps if step.block == 1]
    assert [step.kind for step in steps] == ["line", "exit", "read", "write", "exit"]
    assert steps[0].line == 4 and steps[0].lanes == list(range(32))


def test_variables_are_there_from_when_they_have_a_value(square):
    x, _, recording = square
    line, _, read, write, _ = [step for step in recording.steps if step.block == 1]
    assert line.variables == {"n": [41] * 32, "i": list(range(32, 64))}
    assert read.variables == {}
    assert list(write.variables) == ["v"] and [torch.tensor(v) for v in write.variables["v"]] == list(x[32:])


def test_a_recording_says_what_it_is_of(square):
    recording = square[2]
    assert recording.kernel == "square" and recording.language == "cuda" and recording.grid == (2, 1, 1)
    assert recording.source[2] == "    int i = blockIdx.x * blockDim.x + threadIdx.x;"
    assert recording.kept == "Blocks (0,0,0) and (1,0,0) of 2; all 9 steps."
    assert [(m.name, m.type, m.shape, m.space) for m in recording.memories] == [
        ("x", "float", (41,), "global"),
        ("out", "float", (41,), "global"),
    ]
    assert recording.memories[1].values == [7] * 41  # before the launch


MATMUL = """
template <int T>
__global__ void matmul(const float* m, const float* n, float* out, int h, int w, int k) {
    __shared__ float a[T][T], b[T][T];
    int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int o = 0; o < k; o += T) {
        a[threadIdx.y][threadIdx.x] = r < h && o + threadIdx.x < k ? m[r * k + o + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = c < w && o + threadIdx.y < k ? n[(o + threadIdx.y) * w + c] : 0.0f;
        __syncthreads();
        for (int i = 0; i < T; i++)
            sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    if (r < h && c < w)
        out[r * w + c] = sum;
}
"""


@pytest.fixture(scope="module")
def matmul():
    m, n = torch.rand(13, 19), torch.rand(19, 10)
    grid = range(4)
    return m, n, *recorded(MATMUL, "matmul<8>", ((2, 2), (8, 8)), m, n, torch.empty(13, 10), 13, 10, 19, blocks=grid)


def test_the_costs_are_those_of_the_trace(matmul):
    _, _, trace, recording = matmul
    assert costs(recording) == costs_of_trace(trace)


def test_no_warp_passes_a_barrier_before_all_are_there(matmul):
    recording = matmul[3]
    for block in range(4):
        waiting, passed, lines = set(), 0, []
        for step in recording.steps:
            if step.block != block:
                continue
            assert step.warp not in waiting or step.kind == "passed"
            if step.kind == "barrier":
                waiting.add(step.warp)
                lines.append(step.line)
            if step.kind == "passed":
                passed = passed or len(waiting) == 2
                assert passed
                waiting.remove(step.warp)
                passed = passed and bool(waiting)
        assert lines == [10, 10, 13, 13] * 3 and not waiting


def test_variables_of_a_loop_follow_it(matmul):
    m, n, _, recording = matmul
    i = [step.variables["i"] for step in recording.steps if "i" in step.variables and step.block == step.warp == 0]
    assert i == [[k] * 32 for k in [*range(9), None]] * 3
    o = [step.variables["o"] for step in recording.steps if "o" in step.variables and (step.block, step.warp) == (0, 0)]
    assert [values[0] for values in o][:3] == [0, 8, 16]
    sums = [
        step.variables["sum"] for step in recording.steps if "sum" in step.variables and step.block == step.warp == 0
    ]
    expected = (m @ n)[:4, :8].reshape(-1)
    torch.testing.assert_close(torch.tensor(sums[-1]), expected)


def test_shared_arrays_belong_to_their_block(matmul):
    recording = matmul[3]
    names = [(memory.name, memory.block, memory.shape) for memory in recording.memories]
    assert names[:3] == [("m", None, (13, 19)), ("n", None, (19, 10)), ("out", None, (13, 10))]
    assert names[3:] == [(name, block, (8, 8)) for name in "ab" for block in range(4)]
    assert all(value is None for memory in recording.memories[3:] for value in memory.values)


RACE = """
__global__ void reverse(const float* x, float* out, int n) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    tile[i] = x[i];
    out[i] = tile[n - 1 - i];
}
"""


def test_a_race_marks_both_sides():
    trace, recording = recorded(RACE, "reverse", (1, 64), torch.rand(64), torch.empty(64), 64)
    (race,) = [p for p in recording.problems if p.kind == "race"]
    first, second = (recording.steps[k] for k in race.steps)
    assert {first.line, second.line} == {5, 6} == set(race.lines) and {first.kind, second.kind} == {"read", "write"}
    touched = []
    for step, (block, thread) in zip((first, second), race.threads, strict=True):
        assert block == 0 and step.warp == thread // 32 and recording.memories[step.memory].name == "tile"
        touched.append(step.elements[step.lanes.index(thread % 32)])
    assert touched[0] == touched[1] and f"tile[{touched[0]}]" in race.text
    assert race.text == next(str(p) for p in trace.problems if p.kind == "race")


BEYOND = """
__global__ void next(const float* x, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i + 1];
}
"""


ROUNDS = """
__global__ void rounds(const float* x, float* out) {
    __shared__ float tile[64];
    float sum = 0;
    for (int start = 0; start < 128; start += 64) {
        tile[threadIdx.x] = x[start + threadIdx.x];
        __syncthreads();
        sum += tile[63 - threadIdx.x];
    }
    out[threadIdx.x] = sum;
}
"""


def test_a_race_across_rounds_of_a_loop_marks_steps_with_no_barrier_between_them():
    """The tile is overwritten in the second round while others still read it in the first."""
    _, found = recorded(ROUNDS, "rounds", (1, 64), torch.rand(128), torch.zeros(64))
    (race, *_) = [problem for problem in found.problems if problem.kind == "race"]
    first, second = sorted(race.steps)
    assert {found.steps[first].kind, found.steps[second].kind} == {"read", "write"}
    assert not any(step.kind == "passed" for step in found.steps[first:second])
    assert first > next(k for k, step in enumerate(found.steps) if step.kind == "passed")


def test_out_of_bounds_says_where_it_points():
    _, recording = recorded(BEYOND, "next", (5, 40), torch.rand(200), torch.empty(200))
    assert recording.kept.startswith("Blocks (0,0,0), (1,0,0) and (4,0,0) of 5;")
    (problem,) = recording.problems
    (step,) = (recording.steps[k] for k in problem.steps)
    assert (step.block, step.warp, step.line, step.kind) == (2, 1, 4, "read") and problem.threads == [(2, 39)]
    assert step.elements == [193, 194, 195, 196, 197, 198, 199, None]
    assert step.outside == [(7, "the first byte past the end of x")]
