"""play: what a kernel in Python reads and writes, line by line, and the values of its variables. Expected values are
computed here."""

import threading

import numpy as np
import pytest
import torch

from utils.cuda.common.grid import dim3
from utils.lesson.playing import play, recording
from utils.lesson.simulator import blk_kernel, blk_kernel2d, blk_kernel2d_shared, run_kernel


def add_k(i, x, out, n):
    out[i] = x[i] + x[i + n]


def square_bk(blockidx, threadidx, blockdim, x, out, n):
    i = blockidx * blockdim + threadidx
    if i < n:  # guard
        out[i] = x[i] * x[i]


def no_guard_bk(blockidx, threadidx, blockdim, x, out):
    i = blockidx * blockdim + threadidx
    out[i] = 2 * x[i]


def matmul_bk(blockidx, threadidx, blockdim, m, n, out, h, w, k):
    r = blockidx.y * blockdim.y + threadidx.y
    c = blockidx.x * blockdim.x + threadidx.x
    if r >= h or c >= w:
        return  # guard
    o = 0.0
    for i in range(k):
        if r == c and i == 1:
            continue
        o += m[r * k + i] * n[i * w + c]
    out[r * w + c] = o


def reverse_bk(blockidx, threadidx, blockdim, syncthreads, shared, x, out):
    t = threadidx.x
    i = blockidx.x * blockdim.x + t
    row = shared.reshape(8, 8)
    row[t // 8, t % 8] = x[i]
    syncthreads()
    out[i] = shared[63 - t]


def endless_bk(blockidx, threadidx, blockdim, syncthreads, shared, out):
    for _ in range(100_000):
        shared[threadidx.x] = 1.0
        syncthreads()
    out[threadidx.x] = shared[0]


def kinds(found, block=0, warp=0):
    return [step.kind for step in found.steps if (step.block, step.warp) == (block, warp)]


def line_of(f, text):
    code = f.__code__
    with open(__file__) as file:
        lines = file.read().splitlines()
    return next(n for n in range(code.co_firstlineno, len(lines)) if text in lines[n - 1])


MAKERS = {"tensor": torch.tensor, "array": lambda x, dtype=None: np.array(x, np.float32), "list": list}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_run_kernel_reads_and_writes_element_by_element(make):
    x, out = make([0.5 * k for k in range(10)]), make([0.0] * 5)
    found = recording(run_kernel, add_k, 5, x, out, 5)
    assert kinds(found) == ["read", "read", "write", "exit"]
    first, second, write, _ = found.steps
    assert first.elements == [0, 1, 2, 3, 4] and second.elements == [5, 6, 7, 8, 9]
    assert first.values == [0, 0.5, 1, 1.5, 2] and write.values == [2.5, 3.5, 4.5, 5.5, 6.5]
    assert first.variables == {"i": [0, 1, 2, 3, 4], "n": [5] * 5}
    assert {step.line for step in found.steps} == {line_of(add_k, "out[i]")}
    assert [(m.name, m.shape, m.values[1]) for m in found.memories] == [("x", (10,), 0.5), ("out", (5,), 0)]
    assert list(out) == [0.0] * 5  # play works on copies


def test_the_guard_turns_lanes_away():
    found = recording(blk_kernel, square_bk, 2, 40, torch.arange(75.0), torch.zeros(75), 75)
    assert found.grid == (2, 1, 1) and found.block == (40, 1, 1) and found.language == "python"
    assert kinds(found, 1, 0) == ["line", "line", "read", "read", "write", "exit"]
    assert kinds(found, 1, 1) == ["line", "line", "exit", "read", "read", "write", "exit"]
    guarded = [step.lanes for step in found.steps if (step.block, step.warp) == (1, 1)]
    assert guarded == [list(range(8))] * 2 + [[3, 4, 5, 6, 7]] + [[0, 1, 2]] * 4
    line, guard, read, *_ = [step for step in found.steps if (step.block, step.warp) == (1, 0)]
    assert guard.line == line_of(square_bk, "if i < n") and guard.variables == {"i": list(range(40, 72))}
    assert line.variables["threadidx"] == list(range(32)) and line.variables["n"] == [75] * 32
    assert read.sectors == 4 and read.least_sectors == 4
    first_line = found.source[line.line - found.first_line]
    assert first_line == "    i = blockidx * blockdim + threadidx"


def test_an_index_outside_is_marked_with_its_thread():
    found = recording(blk_kernel, no_guard_bk, 2, 4, torch.ones(6), torch.zeros(6))
    (problem,) = found.problems
    assert problem.text.endswith("in thread (2, 0, 0) of block (1, 0, 0)") and problem.threads == [(1, 2)]
    step = found.steps[problem.steps[0]]
    assert step.elements[-1] is None and step.outside == [(2, "x[6], but x has 6 elements")]
    assert step.kind == "read"


def test_a_write_outside_is_a_write():
    def beyond(i, out):
        out[i + 2] = i

    found = recording(run_kernel, beyond, 5, torch.zeros(6))
    (problem,) = found.problems
    step = found.steps[problem.steps[0]]
    assert (step.kind, step.outside) == ("write", [(4, "out[6], but out has 6 elements")])


def test_lanes_that_skip_a_part_of_a_loop_wait_for_the_others():
    m, n = torch.rand(4, 3), torch.rand(3, 5)
    launch = [dim3(1, 1), dim3(5, 4), m.flatten(), n.flatten(), torch.zeros(20), 4, 5, 3]
    found = recording(blk_kernel2d, matmul_bk, *launch)
    reads = [step for step in found.steps if step.kind == "read"]
    diagonal = {0, 6, 12, 18}
    assert [set(range(20)) - set(step.lanes) for step in reads] == [set(), set(), diagonal, diagonal, set(), set()]
    assert [step.variables["i"][0] for step in found.steps if "i" in step.variables] == [0, 1, 2]
    (write,) = [step for step in found.steps if step.kind == "write"]
    expected = m @ n
    for k in range(4):
        expected[k, k] -= m[k, 1] * n[1, k]
    torch.testing.assert_close(torch.tensor(write.values).view(4, 5), expected)
    assert found.steps[0].variables["threadidx.y"] == [k // 5 for k in range(20)]
    assert "threadidx.z" not in found.steps[0].variables


def threads_of_python(f, blocks, threads, shared_size, *args):
    """The lesson's own version."""
    for block in range(blocks.x):
        shared, barrier = np.full(shared_size, np.nan), threading.Barrier(threads.x)
        team = [
            threading.Thread(target=f, args=(dim3(block), dim3(t), threads, barrier.wait, shared, *args))
            for t in range(threads.x)
        ]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()


@pytest.mark.parametrize("run", [blk_kernel2d_shared, threads_of_python])
def test_shared_memory_is_one_array_for_each_block_and_barriers_hold(run):
    x = torch.arange(128.0)
    found = recording(run, reverse_bk, dim3(2), dim3(64), 64, x, torch.zeros(128))
    assert [(m.name, m.space, m.block) for m in found.memories[2:]] == [
        ("shared", "shared", 0),
        ("shared", "shared", 1),
    ]
    for block in range(2):
        own = [step for step in found.steps if step.block == block and step.kind != "line"]
        names = [(step.warp, step.kind) for step in own]
        before = [(w, kind) for w in range(2) for kind in ("read", "write", "barrier")]
        assert names[:8] == [*before, (0, "passed"), (1, "passed")]
        assert own[1].elements == list(range(32)) and own[1].wavefronts == 1
        read = next(step for step in own[8:] if step.kind == "read" and step.warp == 0)
        assert read.values == x[64 * block + 32 : 64 * block + 64].flip(0).tolist()
        assert read.elements == list(range(63, 31, -1))


def test_what_a_long_kernel_keeps_is_limited_and_said():
    found = recording(blk_kernel2d_shared, endless_bk, 1, 64, 64, torch.zeros(64), steps=200)
    assert len(found.steps) <= 200 and found.kept == f"Block (0,0,0) of 1; the first {len(found.steps)} steps."
    assert kinds(found, warp=0).count("barrier") == pytest.approx(kinds(found, warp=1).count("barrier"), abs=1)
    big = torch.rand(100_000)
    found = recording(run_kernel, add_k, 50_000, big, big.clone(), 50_000, blocks=[3])
    assert found.memories[0].window[0] == 3 * 1024 and len(found.to_json()) < 1_000_000
    assert [tuple(block.index) for block in found.blocks] == [(3, 0, 0)]


def test_a_launch_that_does_not_fit_the_kernel_is_explained():
    with pytest.raises(TypeError, match="square_bk takes 6 arguments .* the launch gives 3 beside the kernel"):
        recording(blk_kernel, square_bk, 2, 32, torch.zeros(3))
    with pytest.raises(ValueError, match="block 7 is not in the grid"):
        recording(blk_kernel, square_bk, 2, 32, torch.zeros(3), torch.zeros(3), 3, blocks=[7])
    for blocks in ("3", [1.5], [(0, 1, 2, 3)]):
        with pytest.raises(TypeError, match="a block is a whole number or a tuple"):
            recording(blk_kernel, square_bk, 2, 32, torch.zeros(3), torch.zeros(3), 3, blocks=blocks)


def test_play_shows_and_saves_a_page(tmp_path):
    player = play(run_kernel, add_k, 3, [1, 2, 3, 4, 5, 6], [0, 0, 0], 3, save=tmp_path / "add.html")
    assert player.recording.kernel == "add_k" and "add_k" in (tmp_path / "add.html").read_text()


def test_a_page_that_cannot_be_written_is_refused_before_the_kernel_runs(tmp_path):
    out = [0, 0, 0]

    def never(*_):
        raise AssertionError("the kernel ran")

    with pytest.raises(ValueError, match="there is no folder"):
        play(never, add_k, 3, [1, 2, 3, 4, 5, 6], out, 3, save=tmp_path / "nowhere" / "add.html")
