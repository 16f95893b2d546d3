"""Memory that notices what the threads of a simulated kernel do to it (utils/lesson/simulator.py runs them).

A tensor of PyTorch takes x[-1] for the last element, and says nothing when two threads write one element or when none
does. `Watched` behaves as the memory of a GPU would if it could speak.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial
from operator import index
from typing import NamedTuple

import numpy as np
import torch

__all__ = ["Endless", "Memory", "Outside", "limited", "poison", "traced"]

SECTOR = 32  # bytes that memory hands out at once
WARP = 32  # threads that make one request


def poison(*shape, dtype=torch.float32) -> torch.Tensor:
    """A tensor of what no kernel writes by chance: NaN, or bytes of 0xA5 for whole numbers."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=dtype)
    return torch.full((*shape, dtype.itemsize), 0xA5, dtype=torch.uint8).view(dtype).squeeze(-1)


class Endless(BaseException):
    """A learner's code ran longer than allowed. No `except Exception` on the way may take it for its own."""


class Outside(IndexError):
    """An access outside its tensor."""


class limited:
    """`with limited(steps):` ends code that runs more instructions of Python than that with `Endless`. Only those of
    files for which `counts(filename)` is true are counted. A thread that is started inside calls `join()` to take part.
    """

    def __init__(self, steps: int, counts: Callable[[str], bool]):
        self.left, self._counts, self._known = steps, counts, {}

    def __enter__(self):
        self._before = sys.gettrace()
        self.join()
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def join(self):
        sys.settrace(self._on_call)

    def _on_call(self, frame, event, arg):
        name = frame.f_code.co_filename
        if name not in self._known:
            self._known[name] = self._counts(name)
        if not self._known[name]:
            return None
        frame.f_trace_opcodes = True  # a loop within one line would go unseen else
        return self._on_step

    def _on_step(self, frame, event, arg):
        self.left -= 1
        if self.left < 0:
            raise Endless
        return self._on_step


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
    """The memory of one launch. `tensor` puts a tensor under watch; `now` says which thread runs from here on.

    `problems` maps a kind ('out of bounds', 'raced', 'uninitialized') to the first such sentence. `touched` is False
    while no thread has read or written anything.
    """

    def __init__(self):
        self.problems, self.touched = {}, False
        self._current, self._regions, self._requests = threading.local(), [], {}

    def tensor(self, name, values, empty=False, shared=False):
        """`values` under watch. `empty`: nothing is in it yet, so it must be written before it is read."""
        region = _Region(self, name, values, empty, shared)
        self._regions.append(region)
        return Watched(region, 0, values.shape)

    def now(self, block, thread, number):
        """From here on, accesses of this Python thread are those of the thread `number` of `block`."""
        here = self._current
        here.place, here.warp, here.times = _Place(block, thread, 0), number // WARP, {}

    def barrier(self, _=None):
        """The thread that runs has come to a barrier and is let through."""
        here = self._current.place
        self._current.place = here._replace(phase=here.phase + 1)

    def place(self):
        """The thread that runs."""
        return self._current.place

    def races(self) -> None:
        """Add a problem 'raced' if two threads met in an element and nothing orders them."""
        for region in self._regions:
            for element, seen in region.seen.items():
                writers = [place for place, wrote in seen.items() if wrote]
                for writer in writers[:2]:
                    for other, wrote in seen.items():
                        if not _ordered(writer, other):
                            name = region.called(element)
                            both = f"{writer} and {other} both write {name}"
                            read = f"{other} reads {name}, which {writer} writes"
                            self.problems.setdefault("raced", f"{both if wrote else read}, in no promised order")
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
        """Note one access; `frame` is the kernel's, and its position tells accesses of one line apart."""
        self.touched, here = True, self._current
        wrote = op == "write"
        if wrote:
            region.written[element] = True
        elif region.empty and not region.written[element]:
            told = f"{here.place} reads {region.called(element)}, which nobody has written yet"
            self.problems.setdefault("uninitialized", told)
        seen = region.seen.setdefault(element, {})
        seen[here.place] = wrote or seen.get(here.place, False)
        if not region.shared:
            position = (frame.f_code, frame.f_lasti)
            times = here.times[position] = here.times.get(position, 0) + 1
            request = self._requests.setdefault((here.place.block, here.warp, position, times), set())
            request.add((region.name, element * region.values.element_size() // SECTOR))

    def _outside(self, watched, keys, n, op):
        """`keys[n]` is no index of `watched`."""
        name, size, self.touched = watched._region.name, watched.shape[n], True
        whole = len(watched.shape) == 1
        below = f"the first element is {name}[0]" if whole else f"index {n} begins at 0"
        above = f"{name} has {size} element{'' if size == 1 else 's'}" if whole else f"index {n} ends at {size - 1}"
        python = "; Python takes that for an element counted from the end, CUDA does not"
        limit = below + python if keys[n] < 0 else above
        told = f"{self._current.place} {op}s {name}[{', '.join(map(str, keys))}], but {limit}"
        self.problems.setdefault("out of bounds", told)
        raise Outside(told)


class _Region:
    """A tensor under watch, flat, with what has happened to each element."""

    def __init__(self, memory, name, values, empty, shared):
        self.memory, self.name, self.empty, self.shared = memory, name, empty, shared
        self.values, self.shape = values.clone(), values.shape
        self.flat, self.written, self.seen = self.values.view(-1), [False] * values.numel(), {}

    def called(self, element):
        """'out[5]', or 'tile[1, 5]'."""
        places = torch.unravel_index(torch.tensor(element), self.shape) if self.shape else ()
        return f"{self.name}[{', '.join(str(int(place)) for place in places)}]"


class Watched:
    """What a kernel gets for a tensor: `x[i]`, `x[r, c]` or `x[r][c]`, one element at a time, and views of it."""

    def __init__(self, region, first, shape):
        self._region, self._first, self.shape = region, first, torch.Size(shape)

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
        first, shape = self._place(key, "read")
        if isinstance(key, slice) or shape:
            return Watched(self._region, first, shape)
        self._region.memory._access(self._region, first, "read", sys._getframe(1))
        return self._region.flat[first].clone()

    def __setitem__(self, key, value):
        first, shape = self._place(key, "write")
        if isinstance(key, slice) or shape:
            raise TypeError(f"a thread writes one element at a time, but {self._region.name}[...] here is several")
        self._region.memory._access(self._region, first, "write", sys._getframe(1))
        self._region.flat[first] = value.item() if isinstance(value, np.generic) else value

    def __getattr__(self, name):
        called = "memory" if name.startswith("_") else self._region.name
        raise AttributeError(f"a kernel sees {called} as memory, one element at a time: it has no .{name}")

    def _place(self, key, op):
        """Where `self[key]` begins in memory, and its shape. An index that leaves its own dimension is outside, even
        if it lands in another row."""
        region, size = self._region, self.shape[0] if self.shape else 0
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(size)
            return self._first + start * self.shape[1:].numel(), (max(stop - start, 0), *self.shape[1:])
        keys = key if isinstance(key, tuple) else (key,)
        try:
            keys = [index(each) for each in keys]
        except TypeError:
            raise TypeError(f"an index of {region.name} must be a whole number, but it is {key!r}") from None
        if len(keys) > len(self.shape):
            raise IndexError(f"{region.name} has {len(self.shape)} dimensions here, but got {len(keys)} indexes")
        first = self._first
        for n, i in enumerate(keys):
            if not 0 <= i < self.shape[n]:
                region.memory._outside(self, keys, n, op)
            first += i * self.shape[n + 1 :].numel()
        return first, self.shape[len(keys) :]


def traced(f, memory, limit, one_number, mirrored):
    """`f` as a simulator shall call it: every call tells `memory` which thread it is.

    `one_number`: the simulator passes i alone (run_kernel); then `mirrored` is the number of calls or None. Otherwise
    it passes block, thread and block size, and `mirrored` is (blocks, threads) or None. Mirrored, the last thread of
    the last block does the work of the first. What a simulator passes on its own, shared memory and a function that
    waits, is watched too.
    """
    shared = {}

    def seen(argument, block):
        if isinstance(argument, np.ndarray):
            key = (block, argument.ctypes.data)
            if key not in shared:  # the array is kept, so that no other comes to lie at its address
                watched = memory.tensor("shared", torch.from_numpy(argument), empty=True, shared=True)
                shared[key] = argument, watched
            return shared[key][1]
        if callable(argument):
            # Calls `argument`, then notes that it let the thread through. All in C: the simulator, which looks for the
            # line that called it, finds the kernel's.
            return partial(next, map(memory.barrier, iter(argument, object())))
        return argument

    def call(*args):
        limit.join()
        if one_number:
            place = (args[0] if mirrored is None else mirrored - 1 - args[0],)
            memory.now(None, place[0], place[0])
        else:
            block, thread, size = args[:3]
            if mirrored:
                block, thread = _mirror(block, mirrored[0]), _mirror(thread, mirrored[1])
            place = (block, thread, size)
            memory.now(block, thread, _number(thread, size))
        rest = [seen(argument, place[0]) for argument in args[len(place) :]]
        try:
            f(*place, *rest)
        except Endless:
            raise Endless(str(memory.place())) from None

    return call


def _mirror(place, size):
    if isinstance(place, int):
        return size.x - 1 - place
    return type(place)(*(n - 1 - p for p, n in zip(place, size, strict=True)))


def _number(thread, size):
    """The number of a thread in its block, x fastest."""
    if isinstance(thread, int):
        return thread
    return thread.x + size.x * (thread.y + size.y * thread.z)


def _numbers(place):
    if isinstance(place, int):
        return str(place)
    return f"({', '.join(str(n) for n in (place if place[2] else place[:2]))})"


def _ordered(a, b):
    """Whether one thread, or a barrier of their block, puts two accesses in order."""
    return a.block == b.block and (a.thread == b.thread or a.phase != b.phase)
