"""Floating-point numbers in the fewest digits that still mean the same number of their type: 0.1, not 0.10000000149."""

import functools
import struct

__all__ = ["shortest"]

_FEWEST = {"f4": 6, "f2": 3, "bf16": 2}  # decimal digits that the type always preserves


@functools.lru_cache(65536)
def shortest(x, kind) -> float:
    """The double with the fewest decimal digits that rounds to `x`, a number of kind 'f4', 'f2' or 'bf16'; for any
    other kind, `x` itself."""
    if kind not in _FEWEST or x != x or x in (float("inf"), float("-inf")) or (x.is_integer() and abs(x) < 2**24):
        return x
    for digits in range(_FEWEST[kind], 10):
        shorter = float(f"{x:.{digits}g}")
        if _rounded(shorter, kind) == x:
            return shorter
    return x


def _rounded(x, kind):
    try:
        if kind == "f2":
            return struct.unpack("<e", struct.pack("<e", x))[0]
        bits = struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return None
    if kind == "bf16":
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16  # to nearest, ties to even
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]
