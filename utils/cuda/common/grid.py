"""The sizes of a launch: blocks and threads in up to three dimensions, and what a GPU accepts."""

from operator import index
from typing import NamedTuple

__all__ = [
    "MOST_BLOCKS",
    "MOST_THREADS",
    "MOST_THREADS_IN_A_BLOCK",
    "block_indices",
    "dim3",
    "launch_sizes",
    "whole_number",
]


class dim3(NamedTuple):
    """Three sizes or three positions, `.x .y .z`. Sizes left out are 1, as in CUDA."""

    x: int
    y: int = 1
    z: int = 1


# What a GPU accepts, from the table "Technical Specifications per Compute Capability" of the CUDA Programming Guide.
MOST_BLOCKS = dim3(2**31 - 1, 65_535, 65_535)
MOST_THREADS = dim3(1024, 1024, 64)
MOST_THREADS_IN_A_BLOCK = 1024


def launch_sizes(blocks, threads) -> tuple[dim3, dim3]:
    """`blocks` and `threads` as `dim3`, each given as a whole number, a tuple of up to three, or a `dim3`.

    Raises TypeError for a size that is not a whole number, ValueError for one that a GPU refuses.
    """
    __tracebackhide__ = True
    blocks = _sizes(blocks, "blocks", MOST_BLOCKS)
    threads = _sizes(threads, "threads", MOST_THREADS)
    total = threads.x * threads.y * threads.z
    if total > MOST_THREADS_IN_A_BLOCK:
        raise ValueError(
            f"a block has at most {MOST_THREADS_IN_A_BLOCK} threads, but threads={tuple(threads)} makes {total}. "
            "Use smaller blocks and more of them."
        )
    return blocks, threads


def block_indices(blocks, grid) -> dict[int, dim3]:
    """The indices of some blocks by their numbers in the grid, x first. Each is given as a number or as (x, y, z).

    Raises ValueError for a block that the grid does not have, TypeError for what is not a block.
    """
    __tracebackhide__ = True
    found = {}
    for block in [blocks] if isinstance(blocks, (int, str)) else blocks:
        sides = block if isinstance(block, tuple) else (block,)
        if not all(isinstance(side, int) for side in sides) or not 1 <= len(sides) <= 3:
            raise TypeError(f"a block is a whole number or a tuple (x, y, z) of them, but got {block!r}")
        number = block
        if not isinstance(block, int):
            x, y, z = (*block, 0, 0)[:3]
            number = x + grid[0] * (y + grid[1] * z) if x < grid[0] and y < grid[1] and min(x, y, z) >= 0 else -1
        if not 0 <= number < grid[0] * grid[1] * grid[2]:
            last = tuple(size - 1 for size in grid)
            raise ValueError(f"block {block} is not in the grid, whose last block is {last}")
        found[number] = dim3(number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1])
    return found


def _sizes(value, name: str, most: dim3) -> dim3:
    __tracebackhide__ = True
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"{name} takes one to three numbers (x, y, z), but got {len(numbers)}: {name}={value!r}")
    sizes = dim3(*(whole_number(number, name) for number in numbers))
    for axis, size, limit in zip("xyz", sizes, most, strict=True):
        along, has = (f" in {axis}", f" has {axis} = {size:,}") if len(numbers) > 1 else ("", "")
        if size < 1:
            hint = " CUDA refuses an empty launch: return early when there is nothing to do."
            hint = hint if size == 0 and name == "blocks" else ""
            raise ValueError(f"{name} must be at least 1, but {name}={value!r}{has}.{hint}")
        if size > limit:
            of = "a grid" if name == "blocks" else "a block"
            raise ValueError(f"{of} has at most {limit:,} {name}{along}, but {name}={value!r}{has}")
    return sizes


def whole_number(number, name: str) -> int:
    """`number` as an int. Raises TypeError, which says that `name` must be a whole number."""
    __tracebackhide__ = True
    try:
        return index(number)
    except TypeError:
        hint = f" Write {number:.0f}." if isinstance(number, float) and number.is_integer() else ""
        if name == "blocks" and isinstance(number, float):
            hint = " cdiv(n, threads) gives a whole number, n / threads does not."
        raise TypeError(f"{name} must be whole numbers, but got {number!r}.{hint}") from None
