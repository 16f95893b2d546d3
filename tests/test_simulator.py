"""The simulated launches against plain loops, and what they say when something is wrong."""

import random
import traceback

import numpy as np
import pytest
import torch

from utils.simulator import blk_kernel, blk_kernel2d, cdiv, dim3, run_kernel


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


@pytest.mark.parametrize("launch", [blk_kernel, blk_kernel2d])
@pytest.mark.parametrize(
    "blocks, threads, kind, words",
    [
        (0, 256, ValueError, ["blocks=0", "x = 0", "return early"]),
        (-3, 256, ValueError, ["blocks=-3", "at least 1"]),
        (1, 0, ValueError, ["threads=0", "at least 1"]),
        (7 / 2, 256, TypeError, ["blocks", "3.5", "cdiv"]),
        (2.0, 256, TypeError, ["blocks", "2.0", "cdiv"]),
        (1, "8", TypeError, ["threads", "'8'"]),
        (1, None, TypeError, ["threads", "None"]),
        (1, 1025, ValueError, ["1,024", "1,025"]),
        (1, (32, 33), ValueError, ["1024", "(32, 33, 1)", "1056"]),
        (1, (1, 1, 65), ValueError, ["at most 64 in z", "(1, 1, 65)"]),
        ((1, 65_536), 1, ValueError, ["at most 65,535 in y", "65,536"]),
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
