"""Tensors without a guard (guard.py), for one launch: those that were made before it was there, or use NumPy's memory.

A step outside one would damage Python itself, so the kernel gets a guarded copy.
"""

import contextlib
import ctypes
import os

import torch

from utils.cuda.cpu.guard import can_guard

__all__ = ["guarded_copies"]

_MOST_BYTES = 1 << 30  # of a tensor that is copied: more would take long
_ALIGNED = 16  # bytes, to which a guarded tensor is aligned


@contextlib.contextmanager
def guarded_copies(tensors):
    """Copies of those tensors that have no guard. `tensors` are contiguous and by number, as are the copies' addresses.

    What the `with` block has changed is copied back. Tensors that overlap share one copy. Raises RuntimeError for a
    change of memory that may only be read.
    """
    copied, addresses = [], {}
    for numbers, begin, end in _unguarded(tensors):
        first = begin % _ALIGNED
        copy = torch.empty(first + end - begin, dtype=torch.uint8)[first:]
        original = torch.frombuffer((ctypes.c_ubyte * (end - begin)).from_address(begin), dtype=torch.uint8)
        copy.copy_(original)
        copied.append((original, copy))
        addresses |= {i: copy.data_ptr() + tensors[i].data_ptr() - begin for i in numbers}
    try:
        yield addresses
    finally:
        for original, copy in copied:
            if not torch.equal(original, copy):
                _check_writable(original)
                original.copy_(copy)


def _unguarded(tensors):
    """(numbers, first address, address of the end) of tensors without a guard; those that overlap are together."""
    spans = [(tensor.data_ptr(), tensor.nbytes, i) for i, tensor in tensors.items()]
    together = []
    for begin, size, i in sorted(span for span in spans if 0 < span[1] <= _MOST_BYTES and can_guard(span[0])):
        if together and begin < together[-1][2]:
            numbers, first, end = together.pop()
            together.append(([*numbers, i], first, max(end, begin + size)))
        else:
            together.append(([i], begin, begin + size))
    return together


def _check_writable(memory):
    """Raise RuntimeError if a write to this memory would end Python: it may be a file's that was opened for reading."""
    __tracebackhide__ = True
    reads, writes = os.pipe()
    try:
        os.write(writes, bytes(memory[:1].tolist()))
        os.readv(reads, [memory[:1].numpy()])  # the system reports what the processor would not forgive
    except OSError:
        raise RuntimeError(
            f"CUDA error: an illegal memory access was encountered: the kernel writes to a tensor of {len(memory):,} "
            "bytes whose memory may only be read (a file opened with mode='r'?): .clone() makes one that it may write"
        ) from None
    finally:
        os.close(reads)
        os.close(writes)
