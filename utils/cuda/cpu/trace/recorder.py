"""Recording a launch: the runtime records what the threads of a few blocks do (recorder.h); this reads it as arrays."""

import ctypes
import itertools
import math
from numbers import Integral
from operator import index

import numpy as np

from utils.cuda.common import cxx
from utils.cuda.common.grid import block_indices
from utils.cuda.cpu.trace.lines import load_address
from utils.cuda.cpu.trace.steps import Made, recording
from utils.ground.errors import CourseError, ToolchainError

try:
    from utils.cuda.cpu.trace.variables import Debug
except ModuleNotFoundError as missing:
    raise ToolchainError(f"{missing.name} is missing, which finds a kernel's variables", "make setup") from missing

__all__ = ["Recorder"]

_FIRST = 2  # blocks that are kept by default
_MOST = 4  # blocks, including those with problems
_STEP = np.dtype(
    [("block", "u8"), *[(n, "u4") for n in ("warp", "lanes", "first", "sectors", "wavefronts", "least_wavefronts")]]
    + [(name, "u1") for name in ("did", "bytes", "space", "from_copy", "matrices")]
    + [("_", "u1"), ("epoch", "u2")]
)
_SEEN = np.dtype(
    [("address", "u8"), ("value", "u1", 16), ("function", "u8"), ("frame", "u4"), ("memory", "u2")]
    + [(name, "u1") for name in ("frames", "did", "has_value", "source", "size")]
    + [("_", "u1", 5)]
)
_CHANGE = np.dtype(
    [("block", "u8"), ("count", "i8"), ("bytes", "i8")]
    + [(name, "u4") for name in ("barrier", "life", "phase", "seen", "copy", "what")]
)
_COPY = np.dtype(
    [(name, "u8") for name in ("block", "bytes", "landed")]
    + [(name, "u4") for name in ("thread", "first", "from", "to")]
)
_RUN = np.dtype([("address", "u8"), ("bytes", "u4"), ("memory", "u4")])
_FRAME = np.dtype([("pc", "u4"), ("function", "u4"), ("bytes", "u8"), ("address", "u8")])


class _Memory(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("begin", "bytes", "element", "offset")]
    _fields_ += [("block", ctypes.c_int64), ("space", ctypes.c_uint64), ("before", ctypes.c_void_p)]


class _Barrier(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("block", ctypes.c_uint64), ("address", ctypes.c_uint64)]


class _Arrays(ctypes.Structure):
    """What cuda_on_cpu_record_read fills in (recorder.cpp)."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("steps", "order", "seen", "frames", "bytes")]
    _fields_ += [("memories", ctypes.POINTER(_Memory)), ("products", ctypes.c_void_p), ("operands", ctypes.c_void_p)]
    _fields_ += [("barriers", ctypes.POINTER(_Barrier))]
    _fields_ += [(name, ctypes.c_void_p) for name in ("changes", "copies", "runs", "landed")]
    _fields_ += [(f"{name}_count", ctypes.c_size_t) for name in ("step", "order", "seen", "frame", "byte", "memory")]
    _fields_ += [(f"{name}_count", ctypes.c_size_t) for name in ("product", "operand", "barrier", "change", "copy")]
    _fields_ += [(f"{name}_count", ctypes.c_size_t) for name in ("run", "landed")]
    _fields_ += [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3)]
    _fields_ += [("cut", ctypes.c_uint64)]


class _OwnFunction(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64), ("first", ctypes.c_uint32)]
    _fields_ += [("count", ctypes.c_uint32), ("is_kernel", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


class _Slot(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_int64), ("bytes", ctypes.c_uint32), ("is_parameter", ctypes.c_uint32)]


class Recorder:
    """Records one launch of the library at `path`, which was built to be recorded: call `begin` before, `end` after.

    `trace` is the trace that the launch repeats, `address` that of a function of the library. `blocks` and `steps` are
    those of `Trace.recording`. `kernel` names the kernel whose first launch is recorded; by default, any kernel's.
    `named` gives a memory's name in the source. `tensors` are the launch's, by address. `notes` are sentences on what
    differs from the trace.
    """

    def __init__(self, path, library, address, trace, blocks, steps, kernel="", named=lambda name: name):
        __tracebackhide__ = True
        self.trace, self.library, self.steps, self.named = trace, library, _positive(steps), named
        self.tensors, self.notes, self._kernel = {}, [], kernel
        self._blocks = _default(trace.problems) if blocks is None else _listed(blocks)
        self._asked = blocks
        self._debug = Debug(path, trace.source, cxx.kernels(trace.source))
        self._base = load_address(address)

    def note_changed(self, names):
        """Note that these arguments have other values than in the trace."""
        if names:
            self.notes.append(f"{', '.join(names)} changed after the trace: this run began with the new values.")

    def begin(self):
        """Call this after a trace has begun."""
        functions, slots = [], []
        for f in self._debug.functions:
            functions.append(_OwnFunction(f.begin, f.end, len(slots), len(f.slots), f.is_kernel, f.bytes))
            slots += [_Slot(*slot) for slot in f.slots]
        blocks = [(block, 0, 0, 0) if isinstance(block, int) else (2**64 - 1, *block) for block in self._blocks]
        self.library.cuda_on_cpu_record_begin(
            ctypes.c_void_p(self._base),
            (ctypes.c_uint64 * (4 * len(blocks)))(*itertools.chain.from_iterable(blocks)),
            ctypes.c_size_t(len(blocks)),
            ctypes.c_size_t(2 * self.steps),  # some show nothing new and are left out later
            self._kernel.encode(),
            (_OwnFunction * max(1, len(functions)))(*functions),
            ctypes.c_size_t(len(functions)),
            (_Slot * max(1, len(slots)))(*slots),
            ctypes.c_size_t(len(slots)),
        )

    def end(self):
        """Call this before that trace ends: copies what was recorded."""
        arrays = _Arrays()
        self.library.cuda_on_cpu_record_read(ctypes.byref(arrays))
        self._made = Made(
            steps=_array(arrays.steps, arrays.step_count, _STEP),
            order=_array(arrays.order, arrays.order_count, np.dtype("u4")),
            seen=_array(arrays.seen, arrays.seen_count, _SEEN),
            frames=_array(arrays.frames, arrays.frame_count, _FRAME),
            bytes=_array(arrays.bytes, arrays.byte_count, np.dtype("u1")),
            memories=[_memory(arrays.memories[k]) for k in range(arrays.memory_count)],
            products=_array(arrays.products, 10 * arrays.product_count, np.dtype("u4")).reshape(-1, 10),
            operands=_array(arrays.operands, arrays.operand_count, np.dtype("u1")),
            barriers=[(b.name.decode(), b.block, b.address) for b in arrays.barriers[: arrays.barrier_count]],
            changes=_array(arrays.changes, arrays.change_count, _CHANGE),
            copies=_array(arrays.copies, arrays.copy_count, _COPY),
            runs=_array(arrays.runs, arrays.run_count, _RUN),
            landed=_array(arrays.landed, arrays.landed_count, np.dtype("u1")),
            cut=bool(arrays.cut),
        )
        self.kernel_name = arrays.kernel.decode()
        self.grid, self.block = tuple(arrays.grid), tuple(arrays.block)
        self.library.cuda_on_cpu_record_end()

    def recording(self):
        """The launch as a `Recording`.

        Raises ValueError for a block that is not in the grid, CourseError if there was no launch.
        """
        __tracebackhide__ = True
        if not self.kernel_name:
            raise CourseError(f"{self.trace.kernel_name} has launched no kernel, so there is nothing to play")
        if self._asked is None:
            there = [b for b in self._blocks if not isinstance(b, int) or b < math.prod(self.grid)]
            self.kept = block_indices(there, self.grid)
        else:
            self.kept = block_indices(self._asked, self.grid)
        return recording(self, self._made, self._debug)


def _array(address, count, kind):
    """A copy of one of the runtime's arrays."""
    return np.frombuffer(ctypes.string_at(address, count * kind.itemsize) if count else b"", kind)


def _memory(memory):
    """One of the runtime's memories as a dictionary, with its bytes from before a kept block touched it."""
    found = {name: getattr(memory, name) for name, _ in _Memory._fields_}
    found["before"] = ctypes.string_at(memory.before, memory.bytes)
    return found | {"name": memory.name.decode(), "type": memory.type.decode()}


def _positive(steps) -> int:
    __tracebackhide__ = True
    if isinstance(steps, Integral) and not isinstance(steps, bool) and 0 < steps <= 10**6:
        return int(steps)
    raise ValueError(f"steps must be a whole number from 1 to 1,000,000, but got {steps!r}")


def _listed(blocks) -> list:
    """Blocks as a list of numbers and (x, y, z) tuples."""
    __tracebackhide__ = True
    refused = ValueError(f"blocks takes a list of blocks, each a number or (x, y, z), but got {blocks!r:.80}")
    try:
        asked = [blocks] if isinstance(blocks, Integral) else list(blocks)
        numbers = [index(b) if isinstance(b, Integral) else (*map(index, b), 0, 0)[:3] for b in asked]
    except TypeError:
        raise refused from None
    if not numbers or any(min((b,) if isinstance(b, int) else b) < 0 for b in numbers):
        raise refused
    return numbers


def _default(problems) -> list:
    """The first blocks, and those with problems."""
    places = [place for p in problems for place in (p.block, p.other_block) if place]
    found = list(dict.fromkeys(place for place in places if place[1:] != (0, 0) or place[0] >= _FIRST))
    return [*range(_FIRST), *found[: _MOST - _FIRST]]
