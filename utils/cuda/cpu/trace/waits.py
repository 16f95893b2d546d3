"""Where a source waits, and where it should: the barriers that hints speak of."""

import re
from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.source import LOOPS, branches, left_before, loop_around

__all__ = ["is_cooperative", "waits_between", "where_to_wait"]


def waits_between(source, first, last) -> str:
    """'__syncthreads' if a line between these two calls it, otherwise '__syncwarp' if one calls that; or empty."""
    called = {a.text for a, b in pairwise(cxx.tokens(source)) if b.text == "(" and first < a.line < last}
    return next((barrier for barrier in ("__syncthreads", "__syncwarp") if barrier in called), "")


def is_cooperative(source) -> bool:
    """Whether its kernels have a barrier of the whole grid: `cg::this_grid()`."""
    return any(token.text == "this_grid" for token in cxx.tokens(source))


# What roles that have parted meet at.
_PARTED = re.compile(r"\bmbarrier\b|\bbar(?:rier)?\.(?:cta\.)?arrive\b|[.>]arrive\w*\s*\(")


def where_to_wait(source, first, last, one_warp=False) -> str:
    """Where a `__syncthreads` between two lines is reached by every thread; empty if simply between them.

    With `one_warp`, the threads that have to wait are of one warp.
    """
    put, reach = "Put `__syncthreads();`", "every thread must reach it"
    loop = loop_around(source, first, last) if first != last else None
    if loop:
        reach += f". Put another at the end of the loop of line {loop.line}"
    around = [b for b in branches(source) if b.divergent and b.word not in LOOPS]
    inside = [b for b in branches(source) if b.holds(first) and b.holds(last)]
    both = [b for b in inside if b.divergent and (one_warp or b.word not in LOOPS)]
    of_loop = [f"the `{b.word}` of line {b.line}" for b in both if loop and loop.line < b.line]
    if of_loop and any(b.line == first and b.holds(last) and not b.holds(first) for b in branches(source)):
        return f"{put} behind {of_loop[0]}, at the end of the loop of line {loop.line}: every thread must reach it."
    if both:
        name = f"the `{both[-1].word}` of line {both[-1].line}"
        if one_warp:
            why = "both threads are of one warp, and every lane of its mask must reach it"
            if first == last:
                return f"Within {name}, `__syncwarp();` instead: {why}."
            also = f", and at the end of the loop of line {loop.line}" if loop else ""
            return f"Put `__syncwarp();` between lines {first} and {last}{also}: {why}."
        if first == last:
            return f"{put} outside {name}: {reach}."
        return (
            f"End {name} after line {first}, put `__syncthreads();` there, and open it again for line {last}: {reach}."
        )
    if (uneven := [b for b in inside if b.divergent and b.word in LOOPS]) and first != last:
        return (
            f"{put} between lines {first} and {last} and at the end of the loop of line {uneven[-1].line}, and let "
            "that run equally often in all threads: every thread must reach it."
        )
    left, right = ([b for b in around if b.holds(line)] for line in (first, last))
    if left and right and _PARTED.search(source):
        return (
            f"The threads of lines {first} and {last} have parted, and do not meet at `__syncthreads();`: let those "
            "that come first arrive at an mbarrier after it, and the others wait for that before. In a loop, both "
            "ways: what was read may be overwritten only then."
        )
    if left and right and right[0].word == "else":
        return f"{put} after the whole `if` of line {left[0].line}, and move line {last} behind it: {reach}."
    if left:
        return f"{put} after the `{left[0].word}` of line {left[0].line}, before line {last}: {reach}."
    gone = [b for b in left_before(source, first) if b.divergent]
    if right:
        reach += f". Let no thread return before it (line {gone[-1].last})" if gone else ""
        if right[0].line == first:
            read = f"Read what the condition of line {first} needs into variables before it"
            return f"{read}, then `__syncthreads();`: {reach}."
        return f"{put} before the `{right[0].word}` of line {right[0].line}, after line {first}: {reach}."
    if gone and first != last:
        instead = f"let no thread return before it (line {gone[-1].last}): guard single lines instead"
        also = f"; put another at the end of the loop of line {loop.line}" if loop else ""
        return f"{put} between lines {first} and {last}, and {instead}{also}."
    return ""
