"""Run a kernel with every access recorded, on copies of its arguments."""

import contextlib
import ctypes
import json
from functools import partial

import torch

from utils.cuda.common.arguments import packed, parameters
from utils.cuda.cpu.module import module
from utils.cuda.cpu.trace.lines import load_address, source_lines
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.room import TooLarge, announce, stopped_when_full
from utils.cuda.cpu.trace.trace import Trace
from utils.ground.progress import waiting

__all__ = ["MAX_PROBLEMS", "MAX_STEPS", "declared", "trace"]

MAX_PROBLEMS = 20  # different ones, after which a trace ends
MAX_STEPS = 10_000_000  # basic blocks that a thread of a trace may run
_RED_ZONE = 4096  # bytes on both sides of a tensor that an out-of-bounds access may touch without harm
_ALIGNED = 512  # bytes to which torch aligns an allocation on a GPU
_PATTERN = 0xFF  # in the red zones: NaN for floating point, -1 for integers


def trace(kernel, blocks, threads, shared_bytes, args, outputs, order, max_problems, max_steps):
    """Run `kernel.trace[blocks, threads, shared_bytes](*args, ...)`: a `Trace`. `kernel` is a Tracer (kernel.py)."""
    __tracebackhide__ = True
    seed, limits = _seed(order), [_positive(max_problems, "max_problems"), _positive(max_steps, "max_steps")]
    compiled = module(kernel.source, kernel.name, kernel.options, traced=True, judge=kernel.judge)
    wanted = parameters(compiled.signature, compiled.sizes, kernel.chosen.names)
    packed(kernel.name, wanted, args, None)  # only the checks
    tensors = {i: arg.detach() for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)}
    written = _numbers_of(outputs, tensors, wanted)
    library = declared(compiled.library)
    elements = [tensor.element_size() for tensor in tensors.values() if tensor.nbytes]
    copied = sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors.values()}.values())
    excess = announce(kernel.name, copied, copied, min(elements, default=1))
    with contextlib.ExitStack() as at_end:
        addresses = _copied(tensors, library, at_end)
        laid_out = packed(kernel.name, wanted, args, None, addresses)
        library.cuda_on_cpu_trace_begin(seed, *limits)
        try:
            _name_regions(library, wanted, tensors, addresses, written)
            with (
                waiting(f"tracing {kernel.name}"),
                stopped_when_full(kernel.name, library.cuda_on_cpu_trace_stop, excess),
            ):
                compiled.launch(blocks, threads, shared_bytes, kernel.chosen.cooperative, laid_out.pointers)
        finally:
            report = json.loads(library.cuda_on_cpu_trace_end().decode(errors="replace"))
        after = list(args)
        for i, address in addresses.items():
            after[i] = _bytes_at(address, tensors[i]).clone().to(args[i].device)
    lines = partial(source_lines, compiled.path, load_address(library.cuda_on_cpu_launch_0))
    return Trace(kernel.name, kernel.source, read(report, kernel.source, lines), after)


def declared(library):
    """A library of traced code, with types declared for what the runtime exports for traces (exports.cpp)."""
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.cuda_on_cpu_trace_begin.argtypes = [ctypes.c_longlong, size, ctypes.c_uint64]
    library.cuda_on_cpu_trace_region.argtypes = [ctypes.c_char_p, pointer, size, size, size, size, ctypes.c_int]
    library.cuda_on_cpu_trace_allocation.argtypes = [pointer, size, size, size, ctypes.c_int, size]
    library.cuda_on_cpu_trace_returned.argtypes = [pointer, size]
    library.cuda_on_cpu_trace_end.restype = ctypes.c_char_p
    library.cuda_on_cpu_trace_memory.argtypes = [size, size, size]
    library.cuda_on_cpu_trace_memory.restype = pointer
    library.cuda_on_cpu_trace_free.argtypes = [pointer]
    return library


def _seed(order) -> int:
    """The order of threads and blocks, as the runtime encodes it."""
    __tracebackhide__ = True
    named = {"forward": -1, "reversed": -2}
    if isinstance(order, str) and order in named:
        return named[order]
    if isinstance(order, int) and not isinstance(order, bool) and 0 <= order < 2**63:
        return order
    raise ValueError(f"order is 'forward', 'reversed' or a seed (a whole number, at least 0), but got {order!r}")


def _positive(number, name) -> int:
    __tracebackhide__ = True
    if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**63:
        return number
    raise ValueError(f"{name} must be a whole number, at least 1, but got {number!r}")


def _name_regions(library, wanted, tensors, addresses, written):
    """Tell the runtime where each tensor is and what it is called; one passed twice keeps its first name."""
    places = {}
    for i, address in addresses.items():
        places.setdefault((address, tensors[i].nbytes), []).append(i)
    for (address, size), numbers in places.items():
        first = wanted[numbers[0]]
        name = first.name or f"argument {numbers[0] + 1}"
        element = first.pointee_size or tensors[numbers[0]].element_size()
        output = not written.isdisjoint(numbers)
        place = (address, size, element, first.alignment or 1, _RED_ZONE, output)
        if not library.cuda_on_cpu_trace_region(name.encode(), *place):
            raise TooLarge(f"no memory to record the accesses to {name}, {size:,} bytes: trace a smaller case")


def _numbers_of(outputs, tensors, wanted) -> set[int]:
    """Which arguments `outputs` means. Raises ValueError for a tensor that is not an argument."""
    __tracebackhide__ = True
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
    numbers = set()
    for number, output in enumerate(outputs):
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"outputs takes tensors that are among the arguments, but got {output!r:.60}")
        same = {
            i
            for i, arg in tensors.items()
            if (arg.data_ptr(), arg.nbytes, arg.device) == (output.data_ptr(), output.nbytes, output.device)
        }
        if not same:
            takes = ", ".join(wanted[i].text for i in tensors)
            raise ValueError(
                f"outputs[{number}] (shape {tuple(output.shape)}) is not one of the arguments ({takes}): "
                "pass the tensor itself, as in outputs=[out]"
            )
        numbers |= same
    return numbers


def _copied(tensors, library, at_end) -> dict[int, int]:
    """The addresses of copies of contiguous tensors, by the same keys. Tensors that overlap share one copy.

    A copy begins as far after a multiple of 512 bytes as its tensor does after the start of its storage, which on a GPU
    begins at such a multiple: so the accesses fall into the same sectors.
    """
    groups = []  # [numbers, where the first begins, where the last ends]
    for i, tensor in sorted(tensors.items(), key=lambda item: (str(item[1].device), item[1].data_ptr())):
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        last = groups[-1] if groups else None
        if last and tensors[last[0][0]].device == tensor.device and begin < last[2]:
            last[0].append(i)
            last[2] = max(last[2], end)
        else:
            groups.append([[i], begin, end])
    addresses = {}
    for numbers, begin, end in groups:
        first = tensors[numbers[0]]
        place = (end - begin, first.storage_offset() * first.element_size() % _ALIGNED, _RED_ZONE)
        address = library.cuda_on_cpu_trace_memory(*place)
        if not address:
            raise TooLarge(f"no memory for a copy of {end - begin:,} bytes: trace a smaller case")
        at_end.callback(library.cuda_on_cpu_trace_free, address)
        ctypes.memset(address - _RED_ZONE, _PATTERN, _RED_ZONE)
        ctypes.memset(address + end - begin, _PATTERN, _RED_ZONE)
        for i in numbers:
            addresses[i] = address + tensors[i].data_ptr() - begin
            _bytes_at(addresses[i], tensors[i]).copy_(tensors[i])
    return {i: addresses[i] for i in tensors}


def _bytes_at(address, like) -> torch.Tensor:
    """The memory at `address` as a tensor on the CPU, with the type and shape of `like`."""
    if like.nbytes == 0:
        return torch.empty_like(like, device="cpu")
    raw = (ctypes.c_ubyte * like.nbytes).from_address(address)
    return torch.frombuffer(raw, dtype=like.dtype).reshape(like.shape)
