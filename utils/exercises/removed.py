"""Reads in the source that the machine code does not have: nvcc merges neighbours, and keeps what it has read."""

import re

from utils.cuda.common import cxx, lexer
from utils.ground.errors import CourseError

__all__ = ["kept_loads"]

_SPACES = {"global": r"LDG\b.*|LD\b.*", "shared": r"LDS\b.*"}  # the opcodes of loads (CUDA Binary Utilities)


def kept_loads(source, name) -> dict[str, tuple[int, int]] | None:
    """By space, how many load instructions a kernel has, and how many it would have if nvcc kept every read apart.

    Such as {"shared": (68, 128)}; the second count is from the same kernel with `volatile` memory. A space whose counts
    are equal is left out. None if a compiler is missing, if the source does not take such memory, or if the two kernels
    differ in more than that: they are unrolled alike if both have the same number of arithmetic instructions.
    """
    from utils.cuda.kernel import compiled_for_gpu

    try:
        as_is, apart = (compiled_for_gpu(text, name).sass for text in (source, _with_volatile_memory(source)))
    except CourseError:
        return None
    if as_is.counts.get("arithmetic") != apart.counts.get("arithmetic"):
        return None
    kept, written = _loads(as_is), _loads(apart)
    return {space: (kept[space], written[space]) for space in _SPACES if kept[space] < written[space]}


def _loads(sass):
    codes = [each.opcode for each in sass]
    return {space: sum(bool(re.fullmatch(load, code)) for code in codes) for space, load in _SPACES.items()}


def _with_volatile_memory(source):
    """The source with `volatile` before the type of every pointer that a kernel takes, and of its shared memory."""
    places = [token.end for token in lexer.tokens(source) if token.text == "__shared__"]
    for kernel in cxx.declared_kernels(source):
        places += [each[0].start for each in kernel.parameters if any(token.text == "*" for token in each)]
    for place in sorted(places, reverse=True):
        source = f"{source[:place]} volatile {source[place:]}"
    return source
