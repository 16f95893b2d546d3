"""What ptxas reports about the kernels that it compiles: registers, shared memory, stack and spills."""

import re
from typing import NamedTuple

__all__ = ["Usage", "usages"]


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
