"""How much memory a trace needs, and what this process may still have."""

import contextlib
import os
import re
import resource
import threading
from pathlib import Path

from utils.ground.errors import CourseError

__all__ = ["TooLarge", "announce", "stopped_when_full"]

# For each granule (the element's size, at most 4 bytes) the runtime keeps a cell with the last accesses (races.h).
_CELL, _MOST_GRANULE = 60, 4
_LARGE = 1e9  # bytes that are worth a line in advance; a tenth of what there is, if that is less
_RESERVE = 0.05  # of the memory that was available: when less is left, a trace ends


class TooLarge(CourseError, MemoryError):
    """A trace needs more memory than there is. Nothing has been changed: trace a smaller case."""


def announce(name, copied, watched, element) -> float:
    """Say how much memory a trace needs if that is much; returns by how much it may exceed what is available.

    `copied`: bytes of tensors of which a trace makes two copies, one to work on and one of the result. `watched`: bytes
    of tensors whose accesses are recorded, and `element` the size of their smallest element. The record takes memory
    only for what the kernel touches; under a limit of address space (`ulimit -v`), for all. Raises TooLarge.
    """
    __tracebackhide__ = True
    least, records = 2 * copied, watched // min(_MOST_GRANULE, element) * _CELL
    most, (free, limit) = least + records, available()
    sure = most if limit == "ulimit -v" else least
    if sure > free:
        fits = max(1, int((copied or watched) * free / sure * 0.8))
        raise TooLarge(
            f"a trace of {name} needs {_size(sure)} of memory, but only {_size(free)} are available ({limit}). "
            f"Its tensors have {_size(copied or watched)}: trace a case with at most {_size(fits)}, which shows the "
            "same mistakes and the same cost per request"
        )
    if most > min(_LARGE, free / 10):
        up_to = f" to {_size(most)}, depending on how much the kernel touches" if records else ""
        print(f"A trace of {name} needs {_size(least)}{up_to}; {_size(free)} are available.")
    return most - free


@contextlib.contextmanager
def stopped_when_full(name, stop, excess):
    """End a trace that may need `excess` bytes more than there are before it takes the machine's last memory.

    `stop()` ends the launch. Raises TooLarge at the end of the `with` block if that has happened.
    """
    __tracebackhide__ = True
    if excess <= 0:
        yield
        return
    over, full, least = threading.Event(), threading.Event(), _RESERVE * available()[0]

    def watch():
        while not over.wait(0.1):
            if available()[0] < least:
                full.set()
                stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if full.is_set():
            raise TooLarge(
                f"the trace of {name} was ended, because it had nearly all of the memory: trace a smaller case"
            ) from None


def available() -> tuple[int, str]:
    """The bytes that this process may still take, and what limits them."""
    limits = [(_meminfo("MemAvailable"), "of the machine's"), (_cgroup(), "of the container's")]
    used = _status()
    for kind, taken, name in (
        (resource.RLIMIT_AS, used.get("VmSize", 0), "ulimit -v"),
        (resource.RLIMIT_DATA, used.get("VmData", 0), "ulimit -d"),
    ):
        allowed = resource.getrlimit(kind)[0]
        if allowed != resource.RLIM_INFINITY:
            limits.append((max(0, allowed - taken), name))
    return min(limit for limit in limits if limit[0] is not None)


def _meminfo(name):
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _status():
    with contextlib.suppress(OSError):
        text = Path("/proc/self/status").read_text()
        return {name: int(size) * 1024 for name, size in re.findall(r"^(Vm\w+):\s*(\d+) kB", text, re.MULTILINE)}
    return {}


def _cgroup(root=Path("/sys/fs/cgroup")):
    """What a container may still take; None if nothing limits it. Pages that only cache files can be taken back."""
    for most, used, statistics in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        with contextlib.suppress(OSError, ValueError):
            limit, taken = int((root / most).read_text()), int((root / used).read_text())
            cached = re.search(r"^(?:total_)?inactive_file (\d+)", (root / statistics).read_text(), re.MULTILINE)
            return max(0, limit - taken + (int(cached[1]) if cached else 0)) if limit < 2**60 else None
    return None


def _size(count) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
