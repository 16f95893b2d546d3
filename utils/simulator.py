"""CUDA's model of blocks and threads in plain Python: the same loops, one thread after another.

A GPU runs the threads of a launch in any order and many at a time. Here they run in order, so a kernel can be
stopped, printed from and stepped through like any other Python function.
"""

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple


class dim3(NamedTuple):
    """Three sizes or three positions, `.x .y .z`. Sizes left out are 1, as in CUDA."""

    x: int
    y: int = 1
    z: int = 1


# What a GPU accepts, from the table "Technical Specifications per Compute Capability" of the CUDA Programming Guide.
MOST_BLOCKS = dim3(2**31 - 1, 65_535, 65_535)
MOST_THREADS = dim3(1024, 1024, 64)
MOST_THREADS_IN_A_BLOCK = 1024


def cdiv(a: int, b: int) -> int:
    """`a / b` rounded up: how many blocks of `b` threads it takes to cover `a` elements."""
    return (a + b - 1) // b


def run_kernel(f: Callable, times: int, *args: Any) -> None:
    """Call `f(i, *args)` for every `i` from 0 to `times - 1`. Zero `times` does nothing.

    Raises TypeError or ValueError for `times` that is no whole number or negative. An error inside `f` keeps its
    type and its traceback, and its message then says for which `i` it happened.
    """
    times = _whole(times, "times")
    if times < 0:
        raise ValueError(f"times must not be negative, but it is {times}")
    try:
        for i in range(times):
            f(i, *args)
    except Exception as error:
        _add_place(error, f"in the call with i = {i}")
        raise


def blk_kernel(f: Callable, blocks: int, threads: int, *args: Any) -> None:
    """Call `f(blockidx, threadidx, blockdim, *args)` once for every thread of a one-dimensional grid.

    The three are plain ints, and `blockdim` is the number of threads in each block. Raises as `blk_kernel2d` does.
    """
    blocks, threads = check_launch(blocks, threads)
    if blocks[1:] + threads[1:] != (1, 1, 1, 1):
        raise ValueError(
            f"blk_kernel takes one number of blocks and one of threads, but got blocks={tuple(blocks)} and "
            f"threads={tuple(threads)}. Use blk_kernel2d for more dimensions."
        )
    try:
        for i in range(blocks.x):
            for j in range(threads.x):
                f(i, j, threads.x, *args)
    except Exception as error:
        _add_place(error, f"in thread {(j, 0, 0)} of block {(i, 0, 0)}")
        raise


def blk_kernel2d(f: Callable, blocks, threads, *args: Any) -> None:
    """Call `f(blockidx, threadidx, blockdim, *args)` once for every thread of a grid of up to three dimensions.

    `blocks` and `threads` are each an int, a tuple `(x, y, z)` with one to three numbers, or a `dim3`. The three
    that `f` gets have `.x .y .z`. As in CUDA, x runs fastest.

    Raises TypeError for a size that is no whole number, and ValueError for a size that a GPU refuses too: below 1
    or above its limits. So zero blocks are an error here, as they are in CUDA: return early when there is nothing
    to do. An error inside `f` keeps its type and its traceback, and its message then names the thread and the block.
    """
    blocks, threads = check_launch(blocks, threads)
    try:
        for blockidx in _positions(blocks):
            for threadidx in _positions(threads):
                f(blockidx, threadidx, threads, *args)
    except Exception as error:
        _add_place(error, f"in thread {tuple(threadidx)} of block {tuple(blockidx)}")
        raise


def _positions(size: dim3):
    """Every position in a box of this size, x fastest."""
    for z in range(size.z):
        for y in range(size.y):
            for x in range(size.x):
                yield dim3(x, y, z)


def check_launch(blocks, threads) -> tuple[dim3, dim3]:
    blocks = _sizes(blocks, "blocks", MOST_BLOCKS)
    threads = _sizes(threads, "threads", MOST_THREADS)
    total = threads.x * threads.y * threads.z
    if total > MOST_THREADS_IN_A_BLOCK:
        raise ValueError(
            f"a block has at most {MOST_THREADS_IN_A_BLOCK} threads, but threads={tuple(threads)} makes {total}. "
            "Use smaller blocks and more of them."
        )
    return blocks, threads


def _sizes(value, name: str, most: dim3) -> dim3:
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{name} takes one to three numbers (x, y, z), but got {len(numbers)}: {name}={value!r}")
    sizes = dim3(*(_whole(number, name) for number in numbers))
    for axis, size, limit in zip("xyz", sizes, most, strict=True):
        if size < 1:
            hint = " CUDA refuses an empty launch: return early when there is nothing to do." if size == 0 else ""
            raise ValueError(f"{name} must be at least 1, but {name}={value!r} has {axis} = {size}.{hint}")
        if size > limit:
            raise ValueError(f"{name} is at most {limit:,} in {axis}, but {name}={value!r} has {axis} = {size:,}")
    return sizes


def _whole(number, name: str) -> int:
    try:
        return index(number)
    except TypeError:
        hint = " cdiv(n, threads) gives a whole number, n / threads does not." if isinstance(number, float) else ""
        raise TypeError(f"{name} must be whole numbers, but got {number!r}.{hint}") from None


def _add_place(error: Exception, place: str) -> None:
    """Add `place` to the message of `error`, whose traceback stays as it is."""
    error.args = (f"{error} {place}" if str(error) else place,)
    if place not in str(error):  # a type that makes its message from something else than its arguments
        raise RuntimeError(f"{type(error).__name__} {place}") from error
