"""load_cuda(trace=True): an extension whose every launch is traced, and whose mistakes become exceptions."""

import ctypes
import functools
import json
import re
import warnings
import zlib
from functools import partial

import torch

from utils.cuda.common import cxx
from utils.cuda.cpu.placed import header_texts
from utils.cuda.cpu.trace.copies import declared, memory_at, wholes
from utils.cuda.cpu.trace.doubts import holds_floats, plausible
from utils.cuda.cpu.trace.lines import header_lines, load_address, source_lines
from utils.cuda.cpu.trace.problems import MANY_PROBLEMS, MAX_STEPS
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.room import TooLarge, announce, stopped_when_full
from utils.cuda.cpu.trace.source import kernel_parameter, parameter_type
from utils.cuda.cpu.trace.trace import Trace
from utils.ground.progress import waiting

__all__ = ["TracedModule"]


class TracedModule:
    """An extension built with `trace=True`: its functions, with every call traced on the CPU engine.

    A function whose kernels do something wrong raises `KernelProblem`: the message is the first problem, `.problems`
    holds all of them. Tensors on a GPU are copied over and back. `.trace` is the last call's `Trace`. `as_written()`
    builds the same extension to be recorded.
    """

    def __init__(self, module, funcs, source, as_written):
        self.__name__, self.__file__, self.trace = module.__name__, module.__file__, None
        self._as_written = as_written
        self._library = declared(ctypes.CDLL(module.__file__))
        self._source, self._kernels = source, cxx.kernels(source)
        for name in funcs:
            setattr(self, name, self._traced(getattr(module, name)))

    def __repr__(self):
        return f"<traced module {self.__name__!r}>"

    def _traced(self, function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            __tracebackhide__ = True
            _warn_of_strides(function.__name__, [*args, *kwargs.values()], self._source)
            copies = {}  # of a GPU's tensors, by the tensor's identity

            def over(value):
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    return copies.setdefault(id(value), (value, value.detach().cpu()))[1]
                return value

            args, kwargs = _mapped(over, args), _mapped(over, kwargs)
            record = functools.partial(self._record, function.__name__, args, kwargs, _checksums(args, kwargs))
            failure, result, report = None, None, None
            excess = _begin(self._library, function.__name__, args, kwargs)
            stop = self._library.cuda_on_cpu_trace_stop
            try:
                with waiting(f"tracing {function.__name__}"), stopped_when_full(function.__name__, stop, excess):
                    result = function(*args, **kwargs)
            except TooLarge:
                raise
            except RuntimeError as error:
                failure = error
            finally:
                self._library.cuda_on_cpu_watch_allocations(0)
                _mapped(self._returned, result)
                report = json.loads(self._library.cuda_on_cpu_trace_end().decode(errors="replace"))
            report["problems"] = plausible(report["problems"], self._holds_floats)
            place = self.__file__, load_address(self._library.cuda_on_cpu_watch_allocations)
            lines = partial(source_lines, *place), partial(header_lines, *place, partial(header_texts, self._source))
            recorded = read(self._named(report), self._source, *lines)
            self.trace = Trace(function.__name__, self._source, recorded, list(args), record)
            if failure and all(p.kind in ("refused_launch", "failed_call") for p in self.trace.problems):
                raise failure  # the extension noticed it itself
            self.trace.raise_if_problems()
            for original, copy in copies.values():
                original.copy_(copy)
            device = next((original.device for original, _ in copies.values()), None)
            return _mapped(lambda v: v.to(device) if isinstance(v, torch.Tensor) and device else v, result)

        return call

    def _holds_floats(self, parameter):
        return holds_floats(parameter_type(parameter, self._source))

    def _record(self, name, args, kwargs, checksums, trace, blocks, steps):
        """Call a function again, built as written, and record the first launch of the kernel with the first problem;
        without a problem, the first of all: `Trace.recording`."""
        __tracebackhide__ = True
        from utils.cuda.cpu.trace.recorder import Recorder

        module, lines = self._as_written(), [problem.line for problem in trace.problems if problem.line]
        inside = [k for k in cxx.declared_kernels(self._source) if lines and _is_around(k.tokens, lines[0])]
        library = declared(ctypes.CDLL(module.__file__))
        place, kernel = library.cuda_on_cpu_watch_allocations, inside[0].name if inside else ""
        named = functools.partial(kernel_parameter, kernels=self._kernels)
        recorder = Recorder(module.__file__, library, place, trace, blocks, steps, kernel, named)
        now = _checksums(args, kwargs)
        recorder.note_changed(
            [f"tensor {k + 1}" for k, (a, b) in enumerate(zip(now, checksums, strict=True)) if a != b]
        )
        excess = _begin(library, name, args, kwargs)

        def note(value):
            if isinstance(value, torch.Tensor) and value.is_contiguous():
                recorder.tensors.setdefault(value.data_ptr(), value)
            return value

        try:
            recorder.begin()
            stop = library.cuda_on_cpu_trace_stop
            with waiting(f"recording {name}"), stopped_when_full(name, stop, excess):
                _mapped(note, [args, kwargs, getattr(module, name)(*args, **kwargs)])
        except TooLarge:
            raise
        except RuntimeError:  # what ended the call is among the trace's problems
            _mapped(note, [args, kwargs])
        finally:
            library.cuda_on_cpu_watch_allocations(0)
            recorder.end()
            library.cuda_on_cpu_trace_end()
        return recorder.recording()

    def _returned(self, value):
        if isinstance(value, torch.Tensor) and value.numel():
            last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
            bytes_ = (last + 1) * value.element_size()
            self._library.cuda_on_cpu_trace_returned(value.data_ptr(), bytes_, value.element_size())
        return value

    def _named(self, report):
        """The report, with tensors named as in the kernels."""
        for part in [*report["problems"], *(site["example"] for site in report["sites"])]:
            part["region"] = kernel_parameter(part["region"], self._kernels)
        return report


def _begin(library, name, args, kwargs):
    """Begin a trace of what `library` does; returns by how much memory it may exceed what is available.

    Raises TooLarge.
    """
    __tracebackhide__ = True
    given = {}  # by address: how far tensors extend from there, their element size, and where in their storage

    def note(value):
        if isinstance(value, torch.Tensor) and value.numel() and value.layout == torch.strided:
            span = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
            size = value.element_size()
            reach = (span * size, size, value.storage_offset() * size)
            given[value.data_ptr()] = max(given.get(value.data_ptr(), reach), reach)
        return value

    _mapped(note, args), _mapped(note, kwargs)
    excess = announce(name, 0, sum(g[0] for g in given.values()), min((g[1] for g in given.values()), default=1))
    library.cuda_on_cpu_trace_begin(-1, MANY_PROBLEMS, MAX_STEPS, True)
    whole = wholes((address, reach, size) for address, (reach, size, _) in given.items())
    for address, (reach, size, offset) in given.items():
        library.cuda_on_cpu_trace_allocation(address, reach, size, 0, False, offset, *whole[address])
    library.cuda_on_cpu_watch_allocations(1)
    return excess


def _warn_of_strides(name, args, source):
    """Warn of a tensor whose elements are not in order in memory, if the source never asks how they are."""
    if re.search(r"(?:\.|->)\s*strides?\s*\(|contiguous|accessor", cxx.code(source)):
        return
    for number, value in enumerate(args, 1):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_contiguous():
            what = f"argument {number} of {name} is not contiguous: its shape is {tuple(value.shape)}, its strides are "
            what += f"{value.stride()}. `data_ptr` gives its memory, where the elements are in another order: pass "
            what += "`.contiguous()`, or check it with `TORCH_CHECK(x.is_contiguous())`."
            warnings.warn(what, stacklevel=3)


def _is_around(tokens, line) -> bool:
    return tokens[0].line <= line <= tokens[-1].line


def _checksums(*values) -> list[int]:
    """A number for the bytes of each tensor in lists, tuples or dicts."""
    found = []

    def add(value):
        if isinstance(value, torch.Tensor):
            found.append(zlib.crc32(memory_at(value.data_ptr(), value)) if value.is_contiguous() else 0)
        return value

    _mapped(add, list(values))
    return found


def _mapped(function, value):
    """`function` applied to a value, or to each item of a list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(function, v) for v in value)
    if isinstance(value, dict):
        return {key: _mapped(function, v) for key, v in value.items()}
    return function(value)
