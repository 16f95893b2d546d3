"""Watched memory: it notices what the threads of a simulated kernel do to it (utils/lesson/simulator.py runs them).

A tensor of PyTorch takes x[-1] for the last element, and says nothing when two threads write one element or when none
does. A `Watched` tensor behaves as the memory of a GPU would if it could report what happens to it.
"""

import sys
import threading
from collections import defaultdict
from operator import index
from typing import NamedTuple

import numpy as np
import torch

from utils.exercises.verdicts import in_line

__all__ = ["SECTOR", "WARP", "Memory", "Outside", "Watched", "viewed_as"]

SECTOR = 32  # bytes that memory delivers at once
WARP = 32  # threads that make one request


class Outside(IndexError):
    """An access outside its tensor: `access` says which thread did what, `limit` where the tensor begins or ends."""

    def __init__(self, access, limit):
        super().__init__(f"{access}, but {limit}")
        self.access, self.limit = access, limit


class _Place(NamedTuple):
    """Where an access came from. Two of one block in different phases have a barrier between them."""

    block: object
    thread: object
    phase: int

    def __str__(self):
        if self.block is None:
            return f"the thread with i = {self.thread}"
        return f"thread {_numbers(self.thread)} of block {_numbers(self.block)}"


class Memory:
    """The memory of one launch. `tensor` puts a tensor under watch; `enter` says which thread runs next.

    `problems` maps a kind ('out of bounds', 'raced', 'uninitialized') to a sentence about the first one. `touched` is
    False while no thread has read or written anything.
    """

    def __init__(self):
        self.problems, self.touched = {}, False
        self._current, self._regions = threading.local(), []
        self._requests, self._codes = defaultdict(set), {}

    def tensor(self, name, values, empty=False, shared=False):
        """`values` under watch. `empty`: it holds nothing yet, so it must be written before it is read."""
        region = _Region(self, name, values, empty, shared)
        self._regions.append(region)
        return Watched(region, 0, values.shape)

    def enter(self, block, thread, number):
        """From here on, accesses of this Python thread are those of the thread `number` of `block`."""
        here = self._current
        here.place, here.warp, here.times = _Place(block, thread, 0), number // WARP, {}

    def barrier(self, _=None):
        """The thread that runs has passed a barrier."""
        here = self._current.place
        self._current.place = here._replace(phase=here.phase + 1)

    def place(self):
        """The thread that runs."""
        return self._current.place

    def races(self) -> None:
        """Add a problem 'raced' if two threads accessed an element in no order, and one of them wrote it."""
        for region in self._regions:
            for element, seen in region.seen.items():
                writers = [place for place, wrote in seen.items() if wrote]
                for writer in writers[:2]:
                    for other, wrote in seen.items():
                        if not _ordered(writer, other):
                            name = region.element_name(element)
                            first, second = region.lines[element, writer], region.lines[element, other]
                            text = f"{other} reads {name}{in_line(second)}, which {writer} writes{in_line(first)}"
                            if wrote and first == second:
                                text = f"{writer} and {other} both write {name}{in_line(first)}"
                            elif wrote:
                                text = f"{writer} writes {name}{in_line(first)}, and {other} writes it{in_line(second)}"
                            text += f", in no guaranteed order{_forgotten(region, writer, other, first == second)}"
                            self.problems.setdefault("raced", text)
                            return

    def unwritten(self, name) -> list[int]:
        """The elements of this tensor that no thread has written."""
        (region,) = [region for region in self._regions if region.name == name]
        return [i for i, done in enumerate(region.written) if not done]

    def values(self, name) -> torch.Tensor:
        (region,) = [region for region in self._regions if region.name == name]
        return region.values

    def traffic(self) -> dict[str, int]:
        """Requests and 32-byte sectors of all warps, counted as `trace` of utils/cuda/kernel.py does."""
        return {"requests": len(self._requests), "sectors": sum(map(len, self._requests.values()))}

    def _access(self, region, element, op, frame):
        """Note one access; `frame` is the kernel's, and its position distinguishes accesses of one line."""
        self.touched, here = True, self._current
        place, wrote = here.place, op == "write"
        if wrote:
            region.written[element] = True
        elif region.empty and not region.written[element]:
            text = f"{place} reads {region.element_name(element)}{in_line(_line(frame))}"
            self.problems.setdefault("uninitialized", f"{text}, which no thread has written yet")
        seen = region.seen[element]
        if wrote > seen.get(place, -1):  # the first access, or the first that writes
            seen[place], region.lines[element, place] = wrote, _line(frame)
        if not region.shared:
            times, code = here.times, frame.f_code
            self._codes[id(code)] = code  # which keeps it: to hash its text would take longer than all the rest
            position = id(code), frame.f_lasti
            time = times[position] = times.get(position, 0) + 1
            self._requests[place.block, here.warp, position, time].add(
                (region.name, element * region.element_bytes // SECTOR)
            )

    def _outside(self, watched, keys, n, op, frame):
        """Note, and raise, that `keys[n]` is not an index of `watched`; `frame` is the kernel's."""
        name, size, self.touched = watched._region.name, watched.shape[n], True
        whole = len(watched.shape) == 1
        below = f"the first element is {name}[0]" if whole else f"index {n} begins at 0"
        above = f"{name} has {size} element{'' if size == 1 else 's'}" if whole else f"index {n} ends at {size - 1}"
        python = "; Python counts such an index from the end, CUDA does not"
        limit = below + python if keys[n] < 0 else above
        element = f"{name}[{', '.join(map(str, keys))}]"
        error = Outside(f"{self._current.place} {op}s {element}{in_line(_line(frame))}", limit)
        self.problems.setdefault("out of bounds", str(error))
        raise error


class _Region:
    """A tensor under watch, flat, with what has happened to each element."""

    def __init__(self, memory, name, values, empty, shared):
        self.memory, self.name, self.empty, self.shared = memory, name, empty, shared
        self.values, self.shape = values.clone(), values.shape
        self.flat, self.written = self.values.view(-1), [False] * values.numel()
        self.element_bytes = values.element_size()
        self.seen = defaultdict(dict)  # by element: the threads that have accessed it, and whether they wrote it
        self.lines = {}  # by element and thread: file and line of that access

    def element_name(self, element):
        """'out[5]', or 'tile[1, 5]'."""
        places = torch.unravel_index(torch.tensor(element), self.shape) if self.shape else ()
        return f"{self.name}[{', '.join(str(int(place)) for place in places)}]"


class Watched:
    """What a kernel gets for a tensor: `x[i]`, `x[r, c]` or `x[r][c]`, one element at a time, and views of it."""

    def __init__(self, region, first, shape):
        self._region, self._first, self.shape = region, first, torch.Size(shape)
        self._sizes, self._steps = tuple(shape), tuple(self.shape[n + 1 :].numel() for n in range(len(shape)))

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return map(self.__getitem__, range(len(self)))  # in C, so that the frame behind __getitem__ is the kernel's

    def numel(self):
        return self.shape.numel()

    @property
    def dtype(self):
        return self._region.values.dtype

    def reshape(self, *shape):
        shape = torch.empty(self.shape, device="meta").reshape(*shape).shape
        return Watched(self._region, self._first, shape)

    view = reshape

    def __getitem__(self, key):
        frame = sys._getframe(1)
        first, shape = self._place(key, "read", frame)
        if isinstance(key, slice) or shape:
            return Watched(self._region, first, shape)
        self._region.memory._access(self._region, first, "read", frame)
        return self._region.flat[first].clone()

    def __setitem__(self, key, value):
        frame = sys._getframe(1)
        first, shape = self._place(key, "write", frame)
        if isinstance(key, slice) or shape:
            raise TypeError(f"a thread writes one element at a time, but {self._region.name}[...] here is several")
        self._region.memory._access(self._region, first, "write", frame)
        self._region.flat[first] = value.item() if isinstance(value, np.generic) else value

    def __getattr__(self, name):
        tensor = "memory" if name.startswith("_") else self._region.name
        raise AttributeError(f"a kernel sees {tensor} as memory, one element at a time: it has no .{name}")

    def _place(self, key, op, frame):
        """Where `self[key]` begins in memory, and its shape. An index that leaves its own dimension is outside, even
        if it lands in another row."""
        region, sizes, steps = self._region, self._sizes, self._steps
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(sizes[0] if sizes else 0)
            return self._first + start * (steps[0] if steps else 1), (max(stop - start, 0), *sizes[1:])
        keys = key if isinstance(key, tuple) else (key,)
        try:
            keys = [index(each) for each in keys]
        except TypeError:
            raise TypeError(f"an index of {region.name} must be a whole number, but it is {key!r}") from None
        if len(keys) > len(sizes):
            has = f"{len(sizes)} dimension{'' if len(sizes) == 1 else 's'}"
            raise IndexError(f"{region.name} has {has} here, but got {len(keys)} indexes")
        first = self._first
        for n, i in enumerate(keys):
            if not 0 <= i < sizes[n]:
                region.memory._outside(self, keys, n, op, frame)
            first += i * steps[n]
        return first, sizes[len(keys) :]


def viewed_as(kind, watched):
    """The same memory as `kind`, a subclass of Watched."""
    view = object.__new__(kind)  # each thread makes one: its sizes are not worked out again
    vars(view).update(vars(watched))
    return view


def _numbers(place):
    if isinstance(place, int):
        return str(place)
    return f"({', '.join(str(n) for n in (place if place[2] else place[:2]))})"


def _line(frame):
    return frame.f_code.co_filename, frame.f_lineno


def _forgotten(region, a, b, one_line):
    """A question. In shared memory, a barrier may be missing. If two threads of two blocks have the same number, their
    index may leave out the block."""
    if region.shared:
        return f": is a `syncthreads()` missing between the two{', or between rounds of a loop' if one_line else ''}?"
    if a.block is None or a.block == b.block or a.thread != b.thread:
        return ""
    if isinstance(a.block, int):
        return ": does the index depend on blockidx?"
    axis = next(axis for axis, one, other in zip("xyz", a.block, b.block, strict=True) if one != other)
    return f": does the index depend on blockidx.{axis}?"


def _ordered(a, b):
    """Whether one thread, or a barrier of their block, puts two accesses in order."""
    return a.block == b.block and (a.thread == b.thread or a.phase != b.phase)
