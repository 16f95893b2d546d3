"""The simulated launches against plain loops, and what they say when something is wrong."""

import os
import random
import signal
import threading
import time
import traceback

import numpy as np
import pytest
import torch

from tests.clock import slowdown
from utils.lesson.simulator import blk_kernel, blk_kernel2d, blk_kernel2d_shared, cdiv, dim3, run_kernel


@pytest.mark.parametrize("a, b", [(0, 256), (1, 256), (255, 256), (256, 256), (257, 256), (17, 5), (2**40 + 1, 2)])
def test_cdiv_rounds_up(a, b):
    blocks = cdiv(a, b)
    assert isinstance(blocks, int)
    assert blocks * b >= a > (blocks - 1) * b


def test_dim3_fills_up_with_ones():
    assert tuple(dim3(5)) == (5, 1, 1)
    assert tuple(dim3(5, 6)) == (5, 6, 1)
    assert (dim3(5, 6, 7).x, dim3(5, 6, 7).y, dim3(5, 6, 7).z) == (5, 6, 7)


@pytest.mark.parametrize("times", [0, 1, 17, np.int64(5)])
def test_run_kernel_counts(times):
    seen = []
    assert run_kernel(lambda i, a, b: seen.append((i, a, b)), times, "a", 2) is None
    assert seen == [(i, "a", 2) for i in range(times)]


@pytest.mark.parametrize("blocks, threads", [(1, 1), (3, 5), (7, 1), (1, 1024), (dim3(2), (4,)), ((2, 1, 1), [3])])
def test_blk_kernel_visits_every_thread_once_in_order(blocks, threads):
    seen = []
    assert blk_kernel(lambda *args: seen.append(args), blocks, threads, "x") is None
    count = [size if isinstance(size, int) else size[0] for size in (blocks, threads)]
    assert seen == [(b, t, count[1], "x") for b in range(count[0]) for t in range(count[1])]
    assert all(type(number) is int for number in seen[0][:3])


@pytest.mark.parametrize("blocks, threads", [(2, 3), ((2, 3), (4, 1)), (dim3(2, 1, 3), dim3(3, 2, 2)), ([1, 2], 5)])
def test_blk_kernel2d_visits_every_thread_once_x_fastest(blocks, threads):
    seen = []

    def f(blockidx, threadidx, blockdim, out):
        assert out == "out"
        seen.append(
            (
                blockidx.z,
                blockidx.y,
                blockidx.x,
                threadidx.z,
                threadidx.y,
                threadidx.x,
                blockdim.x,
                blockdim.y,
                blockdim.z,
            )
        )

    blk_kernel2d(f, blocks, threads, "out")
    b, t = (dim3(*size) if isinstance(size, (tuple, list)) else dim3(size) for size in (blocks, threads))
    expected = [(*bi, *ti, t.x, t.y, t.z) for bi in np.ndindex(b.z, b.y, b.x) for ti in np.ndindex(t.z, t.y, t.x)]
    assert seen == expected


@pytest.mark.parametrize("h, k, w", [(1, 1, 1), (5, 7, 6), (17, 3, 18)])
def test_matmul_as_a_kernel(h, k, w):
    m, n, out = torch.rand(h, k), torch.rand(k, w), torch.full((h, w), float("nan"))

    def matmul_bk(blockidx, threadidx, blockdim, m, n, out, h, w, k):
        r = blockidx.y * blockdim.y + threadidx.y
        c = blockidx.x * blockdim.x + threadidx.x
        if r >= h or c >= w:
            return
        out[r, c] = sum(m[r, i] * n[i, c] for i in range(k))

    threads = dim3(8, 4)
    blk_kernel2d(matmul_bk, dim3(cdiv(w, threads.x), cdiv(h, threads.y)), threads, m, n, out, h, w, k)
    torch.testing.assert_close(out, m @ n)


def test_a_kernel_without_guard_names_its_thread():
    n, threads = random.randrange(10, 60), 8
    if n % threads == 0:
        n += 1
    x = [0] * n

    def square_k(blockidx, threadidx, blockdim, x):
        i = blockidx * blockdim + threadidx
        x[i] = i * i

    with pytest.raises(IndexError) as caught:
        blk_kernel(square_k, cdiv(n, threads), threads, x)
    message = str(caught.value)
    assert message.startswith("list assignment index out of range")
    assert f"in thread ({n % threads}, 0, 0) of block ({n // threads}, 0, 0)" in message
    assert "x[i] = i * i" in "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert x == [i * i for i in range(n)]


def test_errors_in_2d_and_flat_kernels_say_where():
    def f(blockidx, threadidx, blockdim):
        if (blockidx, threadidx) == ((1, 0, 0), (2, 1, 0)):
            raise ValueError("wrong colour")

    with pytest.raises(ValueError, match=r"^wrong colour in thread \(2, 1, 0\) of block \(1, 0, 0\)$"):
        blk_kernel2d(f, (2, 2), (3, 2))
    with pytest.raises(ZeroDivisionError, match="in the call with i = 4$"):
        run_kernel(lambda i: 1 / (4 - i), 9)


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)

    def __str__(self):
        return "always the same"


def raiser(error):
    def f(*args):
        raise error

    return f


def test_every_kind_of_error_says_where():
    place = r"in thread \(0, 0, 0\) of block \(0, 0, 0\)"
    with pytest.raises(AssertionError, match=f"^{place}$"):
        blk_kernel(raiser(AssertionError()), 1, 1)
    with pytest.raises(KeyError, match=place):
        blk_kernel(raiser(KeyError("r")), 1, 1)
    for error in (Odd(1, 2), OSError(2, "not there")):
        with pytest.raises(RuntimeError, match=f"^{type(error).__name__} {place}$") as caught:
            blk_kernel(raiser(error), 1, 1)
        assert caught.value.__cause__ is error
    with pytest.raises(KeyboardInterrupt):  # a stop by the learner is passed on as it is
        blk_kernel(raiser(KeyboardInterrupt()), 1, 1)


def never(*args):
    raise AssertionError("a refused launch must not start")


def shared_launch(f, blocks, threads):
    blk_kernel2d_shared(f, blocks, threads, 1)


@pytest.mark.parametrize("launch", [blk_kernel, blk_kernel2d, shared_launch])
@pytest.mark.parametrize(
    "blocks, threads, kind, words",
    [
        (0, 256, ValueError, ["at least 1, but blocks=0.", "return early"]),
        (-3, 256, ValueError, ["blocks=-3", "at least 1"]),
        (1, 0, ValueError, ["threads=0", "at least 1"]),
        (7 / 2, 256, TypeError, ["blocks", "3.5", "cdiv"]),
        (2.0, 256, TypeError, ["blocks", "2.0", "cdiv"]),
        (1, "8", TypeError, ["threads", "'8'"]),
        (1, None, TypeError, ["threads", "None"]),
        (1, 1025, ValueError, ["at most 1,024 threads, but threads=1025"]),
        (1, (32, 33), ValueError, ["1024", "(32, 33, 1)", "1056"]),
        (1, (1, 1, 65), ValueError, ["at most 64 threads in z", "(1, 1, 65)"]),
        ((1, 65_536), 1, ValueError, ["at most 65,535 blocks in y", "65,536"]),
        ((1, 1, 1, 1), 1, ValueError, ["one to three", "got 4", "(1, 1, 1, 1)"]),
        ((), 1, ValueError, ["one to three", "got 0"]),
        ((2, -1), 1, ValueError, ["blocks=(2, -1)", "y = -1"]),
    ],
)
def test_bad_launches_are_refused(launch, blocks, threads, kind, words):
    with pytest.raises(kind) as caught:
        launch(never, blocks, threads)
    for word in words:
        assert word in str(caught.value)


def test_blk_kernel_points_to_blk_kernel2d():
    for blocks, threads in (((2, 2), 8), (2, (8, 8)), (1, (1, 1, 2))):
        with pytest.raises(ValueError, match="Use blk_kernel2d"):
            blk_kernel(never, blocks, threads)


def test_bad_times_are_refused():
    with pytest.raises(ValueError, match="negative, but it is -1"):
        run_kernel(never, -1)
    with pytest.raises(TypeError, match=r"times .* 2\.5"):
        run_kernel(never, 2.5)


# Threads that share memory and wait for each other.


@pytest.fixture
def no_thread_stays():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


def in_order(size):
    """The positions of a box, x fastest."""
    size = dim3(*size) if isinstance(size, (tuple, list)) else dim3(size)
    return [(x, y, z) for z, y, x in np.ndindex(size.z, size.y, size.x)]


@pytest.mark.parametrize("blocks, threads", [(1, 1), (3, 5), ((2, 3), (4, 2)), (dim3(2, 1, 2), (3, 2, 2))])
def test_shared_visits_every_thread_once_in_a_mixed_order(no_thread_stays, blocks, threads):
    runs = []
    for _ in range(2):
        seen = []

        def f(blockidx, threadidx, blockdim, syncthreads, shared, a, b, seen=seen):
            seen.append((tuple(blockidx), tuple(threadidx)))
            assert (a, b, len(shared)) == ("a", 2, 7)
            assert tuple(blockdim) == tuple(dim3(*threads) if isinstance(threads, tuple) else dim3(threads))

        assert blk_kernel2d_shared(f, blocks, threads, 7, "a", 2) is None
        runs.append(seen)
    team = in_order(threads)
    assert runs[0] == runs[1], "the order is the same in every run"
    assert sorted(runs[0]) == sorted((b, t) for b in in_order(blocks) for t in team)
    assert [b for b, _ in runs[0]] == [b for b in in_order(blocks) for _ in team], "one block after the other"
    if len(team) >= 8:
        orders = {tuple(t for b, t in runs[0] if b == block) for block in in_order(blocks)}
        assert len(orders) == len(in_order(blocks)) and tuple(team) not in orders


def test_shared_memory_is_of_the_block_and_begins_with_nan(no_thread_stays):
    found = []

    def f(blockidx, threadidx, blockdim, syncthreads, shared):
        found.append(np.isnan(shared[threadidx.x]))
        shared[threadidx.x] = 10 * blockidx.x + threadidx.x
        syncthreads()
        assert shared.tolist() == [10 * blockidx.x + t for t in range(5)]

    blk_kernel2d_shared(f, 3, 5, 5)
    assert found == [True] * 15


def test_a_barrier_waits_for_the_whole_block(no_thread_stays):
    log = []

    def f(blockidx, threadidx, blockdim, syncthreads, shared):
        for step in range(4):
            log.append((blockidx.x, step))
            syncthreads()

    blk_kernel2d_shared(f, 2, (6, 3), 0)
    assert log == [(block, step) for block in range(2) for step in range(4) for _ in range(18)]


def matmul_tiled(blockidx, threadidx, blockdim, syncthreads, shared, m, n, out, h, w, k, tw, barriers):
    m_tile, n_tile = shared[: tw * tw].reshape(tw, tw), shared[tw * tw :].reshape(tw, tw)
    tr, tc = threadidx.y, threadidx.x
    r, c = blockidx.y * tw + tr, blockidx.x * tw + tc
    o = 0.0
    for start in range(0, k, tw):
        m_tile[tr, tc] = m[r * k + start + tc] if r < h and start + tc < k else 0.0
        n_tile[tr, tc] = n[(start + tr) * w + c] if start + tr < k and c < w else 0.0
        if "first" in barriers:
            syncthreads()
        for i in range(tw):
            o += m_tile[tr, i] * n_tile[i, tc]
        if "second" in barriers:
            syncthreads()
    if r < h and c < w:
        out[r * w + c] = o


def run_matmul_tiled(m, n, tw, barriers):
    (h, k), w = m.shape, n.shape[1]
    out = torch.full((h, w), float("nan"))
    arrays = m.flatten().numpy(), n.flatten().numpy(), out.view(-1)  # a tensor takes what comes from shared memory
    blocks = dim3(cdiv(w, tw), cdiv(h, tw))
    blk_kernel2d_shared(matmul_tiled, blocks, (tw, tw), 2 * tw * tw, *arrays, h, w, k, tw, barriers)
    return out


@pytest.mark.parametrize("h, k, w, tw", [(1, 1, 1, 4), (13, 22, 9, 4), (6, 5, 7, 2), (17, 33, 20, 16)])
def test_matmul_with_tiles(no_thread_stays, h, k, w, tw):
    m, n = torch.rand(h, k), torch.rand(k, w)
    torch.testing.assert_close(run_matmul_tiled(m, n, tw, ["first", "second"]), m @ n)


def test_without_a_barrier_it_is_wrong_every_time(no_thread_stays):
    m, n = torch.rand(13, 22), torch.rand(22, 9)
    for _ in range(3):
        assert run_matmul_tiled(m, n, 4, ["second"]).isnan().any()  # read before it was written
        without_second = run_matmul_tiled(m, n, 4, ["first"])  # overwritten before it was read
        assert not without_second.isnan().any() and ((without_second - m @ n).abs() > 0.01).any()


def leaves_early(blockidx, threadidx, blockdim, syncthreads, shared, n):
    i = blockidx.x * blockdim.x + threadidx.x
    if i >= n:
        return
    shared[threadidx.x] = i
    syncthreads()


def loops_apart(blockidx, threadidx, blockdim, syncthreads, shared, n):
    for _ in range(1 + (threadidx.x < n)):
        syncthreads()


def waits_apart(blockidx, threadidx, blockdim, syncthreads, shared, n):
    if threadidx.x < n:
        syncthreads()  # here
    else:
        syncthreads()  # or here


@pytest.mark.parametrize(
    "f, n, words",
    [
        (
            leaves_early,
            7,
            ["thread (2, 0, 0) of block (1, 0, 0) has left", "thread (0, 0, 0) of block (1"],
        ),
        (
            leaves_early,
            7,
            ["barrier 1 (line ", "`syncthreads()`", "3 left, 2 threads wait forever", "no thread may return"],
        ),
        (loops_apart, 1, ["thread (1, 0, 0) of block (0, 0, 0) has left", "barrier 2", "4 left, 1 thread waits"]),
        (waits_apart, 2, ["thread (0, 0, 0) of block (0, 0, 0) waits at barrier 1", "# here`"]),
        (waits_apart, 2, ["but thread (2, 0, 0) of block (0, 0, 0) at barrier 1", "# or here`", "out of the `if`"]),
    ],
)
def test_threads_that_never_meet_are_reported(no_thread_stays, f, n, words):
    with pytest.raises(RuntimeError) as caught:
        blk_kernel2d_shared(f, 3, 5, 5, n)
    for word in words:
        assert word in str(caught.value)
    own_line = f.__code__.co_firstlineno
    lines = [int(text.split(":")[0].split(")")[0]) for text in str(caught.value).split("(line ")[1:]]
    assert lines and all(own_line < line < own_line + 6 for line in lines)


@pytest.mark.parametrize("at", range(5))
def test_an_error_names_its_thread_and_who_waits(no_thread_stays, at):
    def f(blockidx, threadidx, blockdim, syncthreads, shared):
        syncthreads()
        shared[threadidx.x + (at - 4 if threadidx.x < at else 9) * (blockidx.x == 1)] = 1
        syncthreads()

    with pytest.raises(IndexError) as caught:
        blk_kernel2d_shared(f, 3, 5, 5)
    message = str(caught.value)
    assert message.startswith("index ")
    assert f"in thread ({at if at else 0}, 0, 0) of block (1, 0, 0)" in message
    assert (f", while {at} thread{'s wait' if at > 1 else ' waits'} at barrier 2 (line " in message) == (at > 0)
    assert "shared[threadidx.x +" in "".join(traceback.format_exception(caught.type, caught.value, caught.tb))


def test_every_error_of_a_thread_ends_the_launch(no_thread_stays):
    place = r"in thread \(0, 0, 0\) of block \(0, 0, 0\)"
    for error in (Odd(1, 2), OSError(2, "not there")):
        with pytest.raises(RuntimeError, match=f"^{type(error).__name__} {place}$") as caught:
            blk_kernel2d_shared(raiser(error), 2, 3, 0)
        assert caught.value.__cause__ is error
    for error in (KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)):
            blk_kernel2d_shared(raiser(error), 2, 3, 0)


@pytest.mark.alone
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_the_stop_button_ends_a_kernel_that_does_not(no_thread_stays):
    def f(blockidx, threadidx, blockdim, syncthreads, shared):
        syncthreads()
        while threadidx.x == 2:
            pass

    stop = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        stop.start()
        blk_kernel2d_shared(f, 1, 4, 0)
    stop.join()
    assert time.perf_counter() - begin < 5 * slowdown()


@pytest.mark.parametrize(
    "size, kind, words",
    [(-1, ValueError, "-1"), (12_289, ValueError, "12,288"), (2.0, TypeError, "2.0"), ((4, 4), TypeError, "(4, 4)")],
)
def test_bad_sizes_of_shared_memory_are_refused(size, kind, words):
    with pytest.raises(kind) as caught:
        blk_kernel2d_shared(never, 1, 1, size)
    assert "shared_size" in str(caught.value) and words in str(caught.value)
