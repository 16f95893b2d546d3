"""Recording a launch: the runtime keeps what the threads of a few blocks do (recorder.h), here taken over as arrays."""

import ctypes
import math

import numpy as np

from utils.cuda.common import cxx
from utils.cuda.common.grid import block_indices
from utils.cuda.cpu.trace.lines import load_address
from utils.cuda.cpu.trace.steps import Made, recording
from utils.ground.errors import ToolchainError

try:
    from utils.cuda.cpu.trace.variables import Debug
except ModuleNotFoundError as missing:
    raise ToolchainError(f"{missing.name} is missing, which finds a kernel's variables", "make setup") from missing

__all__ = ["Recorder"]

_FIRST = 2  # blocks that are kept unless others are asked for
_MOST = 4  # blocks, with those that have problems
_STEP = np.dtype(
    [("block", "u8"), *[(n, "u4") for n in ("warp", "lanes", "first", "sectors", "wavefronts", "least_wavefronts")]]
    + [(name, "u1") for name in ("did", "bytes", "space", "from_copy")]
    + [("_", "u4")]
)
_SEEN = np.dtype(
    [("address", "u8"), ("value", "u1", 16), ("function", "u8"), ("frame", "u4"), ("memory", "u2")]
    + [(name, "u1") for name in ("frames", "did", "has_value", "source", "size")]
    + [("_", "u1", 5)]
)
_FRAME = np.dtype([("pc", "u4"), ("function", "u4"), ("bytes", "u8")])


class _Memory(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("begin", "bytes", "element", "offset")]
    _fields_ += [("block", ctypes.c_int64), ("space", ctypes.c_uint64), ("before", ctypes.c_void_p)]


class _Arrays(ctypes.Structure):
    """What cuda_on_cpu_record_read fills in (recorder.cpp)."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("steps", "order", "seen", "frames", "bytes")]
    _fields_ += [("memories", ctypes.POINTER(_Memory))]
    _fields_ += [(f"{name}_count", ctypes.c_size_t) for name in ("step", "order", "seen", "frame", "byte", "memory")]
    _fields_ += [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3)]
    _fields_ += [("cut", ctypes.c_uint64)]


class _OwnFunction(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64), ("first", ctypes.c_uint32)]
    _fields_ += [("count", ctypes.c_uint32), ("is_kernel", ctypes.c_uint32), ("bytes", ctypes.c_uint32)]


class _Slot(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_int64), ("bytes", ctypes.c_uint32), ("is_parameter", ctypes.c_uint32)]


class Recorder:
    """Records one launch of the library at `path`, which was built to be recorded: `begin` and `end` around it.

    `trace` is the trace that the launch repeats, `grid` and `block` its sizes. `blocks` and `steps` are those of
    `Trace.recording`. `changed` lists the arguments that have changed since the trace.
    """

    def __init__(self, path, library, trace, grid, block, blocks, steps):
        __tracebackhide__ = True
        self.trace, self.library, self.steps, self.changed = trace, library, _positive(steps), []
        self.grid, self.block = tuple(grid), tuple(block)
        self.kept = _kept(blocks, self.grid, trace.problems)
        self._debug = Debug(path, trace.source, cxx.kernels(trace.source))
        self._base = load_address(library.cuda_on_cpu_launch_0)

    def begin(self, tensors):
        """To be called when a trace has begun. `tensors`: those of the launch, by the addresses of their copies."""
        self.tensors = tensors
        functions, slots = [], []
        for f in self._debug.functions:
            functions.append(_OwnFunction(f.begin, f.end, len(slots), len(f.slots), f.is_kernel, f.bytes))
            slots += [_Slot(*slot) for slot in f.slots]
        numbers = sorted(self.kept)
        self.library.cuda_on_cpu_record_begin(
            ctypes.c_void_p(self._base),
            (ctypes.c_uint64 * len(numbers))(*numbers),
            ctypes.c_size_t(len(numbers)),
            ctypes.c_size_t(2 * self.steps),  # some of them will be left out
            ctypes.c_uint64(0),
            (_OwnFunction * len(functions))(*functions),
            ctypes.c_size_t(len(functions)),
            (_Slot * max(1, len(slots)))(*slots),
            ctypes.c_size_t(len(slots)),
        )

    def end(self):
        """To be called before that trace ends: takes what was recorded."""
        arrays = _Arrays()
        self.library.cuda_on_cpu_record_read(ctypes.byref(arrays))
        self._made = Made(
            steps=_array(arrays.steps, arrays.step_count, _STEP),
            order=_array(arrays.order, arrays.order_count, np.dtype("u4")),
            seen=_array(arrays.seen, arrays.seen_count, _SEEN),
            frames=_array(arrays.frames, arrays.frame_count, _FRAME),
            bytes=_array(arrays.bytes, arrays.byte_count, np.dtype("u1")),
            memories=[_memory(arrays.memories[k]) for k in range(arrays.memory_count)],
            cut=bool(arrays.cut),
        )
        self.library.cuda_on_cpu_record_end()

    def recording(self):
        """What was recorded, as a `Recording`."""
        try:
            return recording(self, self._made, self._debug)
        finally:
            self._debug.close()


def _array(address, count, kind):
    """A copy of an array of the runtime's."""
    return np.frombuffer(ctypes.string_at(address, count * kind.itemsize) if count else b"", kind)


def _memory(memory):
    """A memory of the runtime's as a dictionary, with its bytes when a kept block first touched it."""
    found = {name: getattr(memory, name) for name, _ in _Memory._fields_}
    found["before"] = ctypes.string_at(memory.before, memory.bytes)
    return found | {"name": memory.name.decode(), "type": memory.type.decode()}


def _positive(steps) -> int:
    __tracebackhide__ = True
    if isinstance(steps, int) and not isinstance(steps, bool) and 0 < steps <= 10**6:
        return steps
    raise ValueError(f"steps must be a whole number from 1 to 1,000,000, but got {steps!r}")


def _kept(blocks, grid, problems) -> dict[int, tuple]:
    """The blocks to keep, or by default the first ones and those with problems: their indices by their numbers."""
    __tracebackhide__ = True
    if blocks is not None:
        return block_indices(blocks, grid)
    places = [place for p in problems for place in (p.block, p.other_block) if place]
    found = block_indices([*range(min(_FIRST, math.prod(grid))), *places], grid)
    return dict(list(found.items())[:_MOST])
