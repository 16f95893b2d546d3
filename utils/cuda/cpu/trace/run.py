"""Run a kernel with every access recorded, on copies of its arguments."""

import contextlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral

import torch

from utils.cuda.common import gpus
from utils.cuda.common.arguments import packed, parameters, tensor_of
from utils.cuda.cpu.module import module
from utils.cuda.cpu.placed import header_texts
from utils.cuda.cpu.profile import behaving_like
from utils.cuda.cpu.trace.copies import bytes_at, copied, declared, memory_at, name_regions, name_what_words_point_to
from utils.cuda.cpu.trace.doubts import holds_floats, plausible
from utils.cuda.cpu.trace.lines import header_lines, load_address, source_lines
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.room import announce, stopped_when_full
from utils.cuda.cpu.trace.trace import Trace
from utils.ground.errors import CourseError
from utils.ground.progress import waiting

__all__ = ["trace"]


@dataclass(eq=False)
class _Launch:
    """A launch that can be repeated, with its arguments as they are at that time."""

    kernel: object  # a Tracer (kernel.py)
    sizes: tuple  # blocks, threads, and bytes of dynamic shared memory
    args: tuple
    wanted: list  # the kernel's parameters
    tensors: dict  # by the numbers of their arguments
    written: set  # numbers of the arguments that the kernel must write in full
    order: int  # as the runtime encodes it
    limits: list
    checksums: dict = field(default_factory=dict)  # of the tensors' bytes, at the first launch

    def made(self, compiled, what, recorder=None):
        """Run it on new copies of the tensors; returns the runtime's report, and these copies, by argument."""
        __tracebackhide__ = True
        library, name = declared(compiled.library), self.kernel.name
        elements = [tensor.element_size() for tensor in self.tensors.values() if tensor.nbytes]
        together = sum({tensor.data_ptr(): tensor.nbytes for tensor in self.tensors.values()}.values())
        excess = announce(name, together, together, min(elements, default=1))
        with contextlib.ExitStack() as at_end:
            addresses = copied(self.tensors, library, at_end)
            checksums = {i: zlib.crc32(memory_at(addresses[i], tensor)) for i, tensor in self.tensors.items()}
            self.checksums = self.checksums or checksums
            laid_out = packed(name, self.wanted, self.args, None, compiled.encoded, addresses)
            library.cuda_on_cpu_trace_begin(self.order, *self.limits, False)
            try:
                name_regions(library, self.wanted, self.tensors, addresses, self.written)
                name_what_words_point_to(library, laid_out, self.tensors, addresses)
                if recorder:
                    recorder.begin()
                    recorder.tensors = {addresses[i]: tensor for i, tensor in self.tensors.items()}
                    recorder.note_changed([self.wanted[i].name for i in checksums if checksums[i] != self.checksums[i]])
                with waiting(what), stopped_when_full(name, library.cuda_on_cpu_trace_stop, excess):
                    cooperative = self.kernel.chosen.cooperative
                    compiled.launch(*self.sizes, cooperative, laid_out.pointers)
            finally:
                if recorder:
                    recorder.end()
                report = json.loads(library.cuda_on_cpu_trace_end().decode(errors="replace"))
            return report, {i: bytes_at(address, self.tensors[i]).clone() for i, address in addresses.items()}


def trace(kernel, blocks, threads, shared_bytes, args, outputs, order, max_problems, max_steps):
    """Run `kernel.trace[blocks, threads, shared_bytes](*args, ...)`: a `Trace`. `kernel` is a Tracer (kernel.py)."""
    __tracebackhide__ = True
    order, limits = _seed(order), [_positive(max_problems, "max_problems"), _positive(max_steps, "max_steps")]
    compiled = _compiled(kernel, judge=kernel.judge)
    wanted = parameters(compiled.signature, compiled.sizes, kernel.chosen.names)
    packed(kernel.name, wanted, args, None, compiled.encoded)  # only the checks
    tensors = {i: tensor.detach() for i, arg in enumerate(args) if (tensor := tensor_of(arg)) is not None}
    written = _numbers_of(outputs, tensors, wanted)
    launch = _Launch(kernel, (blocks, threads, shared_bytes), args, wanted, tensors, written, order, limits)
    report, copies = launch.made(compiled, f"tracing {kernel.name}")
    types = {parameter.name: parameter.text for parameter in wanted}
    report["problems"] = plausible(report["problems"], lambda name: holds_floats(types.get(name, "")))
    for problem in report["problems"]:
        first = next((i for i in tensors if wanted[i].name == problem["region"]), None)
        if first is not None:
            problem |= _other_names(problem["offset"], first, tensors, wanted)
    report["tensors"] = {wanted[i].name: (tensor.shape, tensor.element_size()) for i, tensor in tensors.items()}
    after = [copies[i].to(tensors[i].device) if i in copies else arg for i, arg in enumerate(args)]
    place = compiled.path, load_address(compiled.library.cuda_on_cpu_launch_0)
    texts = partial(header_texts, kernel.source, options=kernel.options)
    lines = partial(source_lines, *place), partial(header_lines, *place, texts)
    record = partial(_record, launch, gpus.chosen().name or None)
    return Trace(kernel.name, kernel.source, read(report, kernel.source, *lines), after, record)


def _other_names(offset, first, tensors, wanted) -> dict:
    """Which arguments are the same tensor as the one with the number `first`, by their names, and what its element at
    byte `offset` is called in those that overlap it, by name: {'same_tensor': ['a'], 'overlapping': {'c': 'c[0]'}}."""
    places = {i: (tensor.data_ptr(), tensor.nbytes) for i, tensor in tensors.items()}
    same = [i for i in tensors if places[i] == places[first]]
    overlapping = {}
    for i in tensors.keys() - {*same}:
        at = places[first][0] + offset - places[i][0]
        if 0 <= at < places[i][1] and wanted[i].name:
            element = wanted[i].pointee_size or tensors[i].element_size()
            overlapping[wanted[i].name] = f"{wanted[i].name}[{at // element}]"
    return {"same_tensor": [wanted[i].name for i in same], "overlapping": overlapping}


def _compiled(kernel, **how):
    """The module of a kernel, built to be traced, with those that are built together with it."""
    __tracebackhide__ = True
    more = {"together": kernel.together} if len(kernel.together) > 1 else {}
    return module(kernel.source, kernel.name, kernel.options, traced=True, **more, **how)


def _record(launch, gpu, trace, blocks, steps):
    """Repeat a traced launch, built as written, and record it: `Trace.recording`."""
    __tracebackhide__ = True
    from utils.cuda.cpu.trace.recorder import Recorder

    kernel = launch.kernel
    with behaving_like(gpu):
        compiled = _compiled(kernel, recorded=True)
        address = compiled.library.cuda_on_cpu_launch_0
        recorder = Recorder(compiled.path, compiled.library, address, trace, blocks, steps)
        recorder.notes += _resized(launch)
        with contextlib.suppress(RuntimeError):  # what ends the launch is among the trace's problems
            launch.made(compiled, f"recording {kernel.name}", recorder=recorder)
    return recorder.recording()


def _resized(launch) -> list[str]:
    """A sentence on the arguments that have another shape or other memory than in the trace, if there are any.

    Raises CourseError if the memory of the trace is gone.
    """
    __tracebackhide__ = True
    names = []
    for i, traced in launch.tensors.items():
        now, name = tensor_of(launch.args[i]), launch.wanted[i].name or f"argument {i + 1}"
        end = traced.storage_offset() * traced.element_size() + traced.nbytes
        if traced.nbytes and traced.untyped_storage().nbytes() < end:
            raise CourseError(f"the memory of {name} has been released since the trace, so trace the kernel again")
        if (now.shape, now.data_ptr()) != (traced.shape, traced.data_ptr()):
            names.append(name)
    return [f"{', '.join(names)} was resized or moved after the trace: this run uses what was traced."] if names else []


def _seed(order) -> int:
    """The order of threads and blocks, as the runtime encodes it."""
    __tracebackhide__ = True
    named = {"forward": -1, "reversed": -2}
    if isinstance(order, str) and order in named:
        return named[order]
    if isinstance(order, Integral) and not isinstance(order, bool) and 0 <= order < 2**63:
        return int(order)
    raise ValueError(f"order is 'forward', 'reversed' or a seed (a whole number, at least 0), but got {order!r}")


def _positive(number, name) -> int:
    __tracebackhide__ = True
    if isinstance(number, Integral) and not isinstance(number, bool) and 0 < number < 2**63:
        return int(number)
    raise ValueError(f"{name} must be a whole number, at least 1, but got {number!r}")


def _numbers_of(outputs, tensors, wanted) -> set[int]:
    """Which arguments `outputs` means. Raises ValueError for a tensor that is not an argument."""
    __tracebackhide__ = True
    if isinstance(outputs, torch.Tensor) or not isinstance(outputs, Iterable):
        outputs = [outputs]
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
