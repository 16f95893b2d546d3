"""What a kernel takes on a GPU, and how many of its blocks a multiprocessor then holds: `kernel.resources()`."""

from html import escape
from typing import NamedTuple

from utils.cuda.gpu.occupancy import Occupancy, occupancy
from utils.cuda.gpu.ptxas import Usage

__all__ = ["Resources", "ResourcesTable", "resources", "table"]

BLOCK_SIZES = (64, 128, 256, 512, 1024)


class Resources(NamedTuple):
    """What a kernel takes on a GPU when it is launched with blocks of `threads` threads."""

    kernel: str
    gpu: str  # 'T4', 'sm_86'
    threads: int  # per block
    registers: int  # per thread
    shared_bytes: int  # per block, static
    dynamic_shared_bytes: int  # per block
    stack_bytes: int  # per thread, local memory for arrays; spills come on top
    spill_stores: int  # bytes per thread that are stored to memory because there are too few registers
    spill_loads: int  # and loaded back
    blocks_per_sm: int  # that a multiprocessor holds at once; 0 if the kernel cannot be launched like this
    occupancy: float  # the part of a multiprocessor's warps that they fill, 0 to 1
    limited_by: str  # what a further block would lack: 'registers', 'threads, blocks'

    def __repr__(self):
        return repr(ResourcesTable([self]))

    def _repr_html_(self):
        return ResourcesTable([self])._repr_html_()


class ResourcesTable(list):
    """A list of `Resources` of one kernel, one for each size of a block. A notebook shows it as a table."""

    def __repr__(self):
        rows = [_COLUMNS, *map(_row, self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([*map(str.rjust, row[:-1], widths), row[-1]]) for row in rows]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self):
        head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in _row(each)) for each in self)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        title = escape(self._title())
        return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _title(self):
        first = self[0]
        parts = [f"{first.registers} registers per thread", _shared(first)]
        if first.stack_bytes:
            parts.append(f"{first.stack_bytes} bytes of stack per thread")
        spilled = first.spill_stores or first.spill_loads
        stored = f"{first.spill_stores} bytes per thread spilled and {first.spill_loads} loaded back"
        parts.append(stored if spilled else "nothing spilled")
        return f"{first.kernel} on {first.gpu}: {', '.join(parts)}"


_COLUMNS = ("threads per block", "blocks per SM", "warps per SM", "occupancy", "limited by")


def _row(each):
    warps = each.blocks_per_sm * -(-each.threads // 32)
    limit = each.limited_by if each.blocks_per_sm else f"cannot be launched: too many {each.limited_by}"
    limit = limit.replace("too many shared memory", "too much shared memory")
    return str(each.threads), str(each.blocks_per_sm), str(warps), f"{each.occupancy:.0%}", limit


def _shared(each):
    if each.dynamic_shared_bytes:
        parts = f"{each.shared_bytes} + {each.dynamic_shared_bytes}" if each.shared_bytes else each.dynamic_shared_bytes
        return f"{parts} bytes of shared memory per block"
    return f"{each.shared_bytes} bytes of shared memory per block" if each.shared_bytes else "no shared memory"


def resources(kernel, gpu, usage: Usage, most_threads, dynamic_shared_bytes, threads) -> Resources:
    """The `Resources` of a kernel (its name) on a `gpus.Gpu`, in blocks of `threads` threads; `most_threads` are
    allowed."""
    found = occupancy(gpu.limits, threads, usage.registers, usage.shared + dynamic_shared_bytes)
    if threads > most_threads:
        found = Occupancy(0, 0.0, "threads")
    sizes = (usage.shared, dynamic_shared_bytes, usage.stack, usage.spill_stores, usage.spill_loads)
    return Resources(kernel, gpu.name, threads, usage.registers, *sizes, *found)


def table(kernel, gpu, usage: Usage, most_threads, dynamic_shared_bytes) -> ResourcesTable:
    """The same for the usual sizes of a block."""
    known = (kernel, gpu, usage, most_threads, dynamic_shared_bytes)
    return ResourcesTable(resources(*known, threads) for threads in BLOCK_SIZES)
