"""Run a kernel with every access recorded, on copies of its arguments."""

import contextlib
import ctypes
import json
import re
from functools import partial

import torch

from utils.cuda.common.arguments import packed, parameters
from utils.cuda.cpu.module import module
from utils.cuda.cpu.trace.lines import load_address, source_lines
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.room import TooLarge, announce, stopped_when_full
from utils.cuda.cpu.trace.trace import Trace
from utils.ground.progress import waiting

__all__ = ["MAX_PROBLEMS", "MAX_STEPS", "declared", "reads_absent_lane", "trace", "wholes"]

MAX_PROBLEMS = 20  # different ones, after which a trace ends
MAX_STEPS = 10_000_000  # basic blocks that a thread of a trace may run
_RED_ZONE = 4096  # bytes on both sides of a tensor that an out-of-bounds access may touch without harm
_ALIGNED = 512  # bytes to which torch aligns an allocation on a GPU
_PATTERN = 0xFF  # in the red zones: NaN for floating point, -1 for integers
_OTHER_POISON = 0xCBCBCBCBCBCBCBCB  # for lanes that have not come, as different from the runtime's as can be


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

    def launched(absent=None):
        with contextlib.ExitStack() as at_end:
            addresses = _copied(tensors, library, at_end)
            laid_out = packed(kernel.name, wanted, args, None, addresses)
            library.cuda_on_cpu_trace_begin(seed, *limits)
            if absent is not None:
                library.cuda_on_cpu_trace_repeat(absent)
            try:
                _name_regions(library, wanted, tensors, addresses, written)
                with (
                    waiting(f"tracing {kernel.name}"),
                    stopped_when_full(kernel.name, library.cuda_on_cpu_trace_stop, excess),
                ):
                    compiled.launch(blocks, threads, shared_bytes, kernel.chosen.cooperative, laid_out.pointers)
            finally:
                report = json.loads(library.cuda_on_cpu_trace_end().decode(errors="replace"))
            return report, {i: _bytes_at(address, tensors[i]).clone() for i, address in addresses.items()}

    report, copies = launched()
    if any(map(reads_absent_lane, report["problems"])):
        again, other_copies = launched(_OTHER_POISON)
        same = all(torch.equal(_as_bytes(copies[i]), _as_bytes(other_copies[i])) for i in copies)
        if same and len(again["problems"]) == len(report["problems"]):
            report["problems"] = [p for p in report["problems"] if not reads_absent_lane(p)]
    report["problems"] = [p for p in report["problems"] if _is_plausible(p, wanted)]
    after = [copies[i].to(arg.device) if i in copies else arg for i, arg in enumerate(args)]
    lines = partial(source_lines, compiled.path, load_address(library.cuda_on_cpu_launch_0))
    return Trace(kernel.name, kernel.source, read(report, kernel.source, lines), after)


def reads_absent_lane(problem) -> bool:
    """Whether a problem of a report is a shuffle that reads a lane which has not come.

    That is no mistake where the value is not used. It is used if another value makes the launch do something else.
    """
    return problem["kind"] == "undefined_shuffle" and "index" in problem


def _is_plausible(problem, wanted) -> bool:
    """False for a stored value that looks like that of an unset variable, but is an integer: four bytes of 254."""
    floats = [parameter.name for parameter in wanted if re.search(r"float|double", parameter.text)]
    return not problem.get("unset") or problem["region"] in floats


def _as_bytes(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def declared(library):
    """A library of traced code, with types declared for what the runtime exports for traces (exports.cpp)."""
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.cuda_on_cpu_trace_begin.argtypes = [ctypes.c_longlong, size, ctypes.c_uint64]
    whole = [pointer, size, size]
    library.cuda_on_cpu_trace_region.argtypes = [ctypes.c_char_p, pointer, size, size, size, size, ctypes.c_int, *whole]
    library.cuda_on_cpu_trace_allocation.argtypes = [pointer, size, size, size, ctypes.c_int, size, *whole]
    library.cuda_on_cpu_trace_repeat.argtypes = [ctypes.c_uint64]
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
    elements = {
        place: wanted[numbers[0]].pointee_size or tensors[numbers[0]].element_size()
        for place, numbers in places.items()
    }
    whole = wholes((address, size, elements[address, size]) for address, size in places)
    for (address, size), numbers in places.items():
        first = wanted[numbers[0]]
        name = first.name or f"argument {numbers[0] + 1}"
        place = [address, size, elements[address, size], first.alignment or 1, _RED_ZONE]
        place += [not written.isdisjoint(numbers), *whole[address]]
        if not library.cuda_on_cpu_trace_region(name.encode(), *place):
            raise TooLarge(f"no memory to record the accesses to {name}, {size:,} bytes: trace a smaller case")


def wholes(places) -> dict[int, tuple]:
    """By address the memory that a place shares with those that it overlaps: where it begins, its bytes, and the bytes
    of the smallest element. `places` are such triples too."""
    together = []
    for address, size, element in sorted(places):
        if together and address < together[-1][1]:
            last = together[-1]
            together[-1] = [last[0], max(last[1], address + size), min(last[2], element), [*last[3], address]]
        else:
            together.append([address, address + size, element, [address]])
    return {address: (begin, end - begin, element) for begin, end, element, all_ in together for address in all_}


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
