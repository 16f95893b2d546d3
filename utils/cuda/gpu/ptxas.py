"""What ptxas gets and reports about the kernels that it compiles: launch bounds; registers, shared memory, stack and
spills, and errors."""

import math
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Usage", "most_threads", "with_source_lines", "without_usages", "usages"]


class Usage(NamedTuple):
    """What a kernel takes on an architecture: registers per thread, and bytes."""

    registers: int
    shared: int  # static, per block; the other sizes are per thread
    stack: int
    spill_stores: int
    spill_loads: int


def usages(log) -> dict[tuple[str, str], Usage]:
    """The kernels in ptxas's verbose log, by mangled name and architecture: ('_Z4copyPf', 'sm_75').

    A function that was not inlined counts with the kernel whose code it follows.
    """
    found = {}
    entries = re.split(r"Compiling entry function '(\S+)' for '(\w+)'", log)
    for symbol, arch, report in zip(entries[1::3], entries[2::3], entries[3::3], strict=True):
        registers = re.search(r"Used (\d+) registers", report)
        shared = re.search(r"(\d+) bytes smem", report)
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
        summed = [sum(map(int, column)) for column in zip(*frames, strict=True)]
        found[symbol, arch] = Usage(int(registers[1]), int(shared[1]) if shared else 0, *summed)
    return found


def without_usages(log) -> str:
    """The rest of the log, such as its warnings."""
    return _OF_USAGES.sub("", log)


def most_threads(ptx) -> dict[str, int]:
    """The threads that a block may have, by mangled name, of those kernels in PTX that have __launch_bounds__."""
    bounds = re.findall(r"\.entry ([\w$]+)\([^{]*?\.maxntid (\d+(?:, \d+)*)", ptx)
    return {symbol: math.prod(map(int, numbers.split(","))) for symbol, numbers in bounds}


_OF_USAGES = re.compile(
    r"^(?:ptxas info\s*: (?:\d+ bytes gmem|Compiling entry|Function properties|Used \d+ registers|Compile time).*"
    r"|    \d+ bytes stack frame, .*)\n",
    re.MULTILINE,
)
_ERROR = re.compile(r"^ptxas (\S+), line (\d+); (?:error|fatal)\s*: (.*)$", re.MULTILINE)
_PLACE = re.compile(r"\s*\.loc\s+(\d+) (\d+) ")
_FILE = re.compile(r'^\s*\.file\s+(\d+) "(?:.*/)?(.*?)"', re.MULTILINE)


def with_source_lines(log, source) -> str:
    """ptxas's log with its errors as nvcc writes them, `cuda_src(3): error: ...`.

    ptxas names a line of the PTX, which is there still, made with -lineinfo: above that line, .loc has the source's. Of
    an `asm` statement it is the last one, so the instruction is looked for in the lines of `source` that come before.
    """

    def told(error):
        path, number, message = Path(error[1]), int(error[2]), error[3]
        lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
        places = ((n, _PLACE.match(lines[n - 1])) for n in range(min(number, len(lines)), 0, -1))
        began, place = next(((n, found) for n, found in places if found), (0, None))
        if not place:
            return error[0]
        word, last = lines[number - 1].split(), int(place[2])
        nearest = range(min(last, len(source)), max(last - (number - began), 0), -1)
        line = next((n for n in nearest if word and word[0].rstrip(";") in source[n - 1]), last)
        return f"{dict(_FILE.findall(chr(10).join(lines)))[place[1]]}({line}): error: {message}"

    return _ERROR.sub(told, log)
