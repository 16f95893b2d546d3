"""The judges of lesson 17's operators: one from scratch, and one written in Triton.

Neither needs a GPU or a compiler: `_Turn` replaces the compiled kernel of the one, Triton's interpreter runs the other.
"""

import inspect
import math
import re
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import torch

from utils.exercises.exercise import Rejected, given, uses_name
from utils.exercises.verdicts import difference, is_a, not_taken, shown

__all__ = ["DEVICES", "fake_tensors", "turned", "unlike", "wrong_operator", "wrong_triton"]

DEVICES = ("cpu", "cuda:0", "cuda:1")  # of `fake_tensors`, so no GPU is needed


@contextmanager
def fake_tensors():
    """FakeTensorMode for tensors on any of `DEVICES`, whatever GPUs there are. PyTorch would first put a real tensor on
    a fake tensor's GPU, since gradients need that (`init_gpu_context`), and so refuse a second GPU if there is one.
    It would also log an answer's error with a long traceback, above the verdict (`log`)."""
    from torch._subclasses import FakeTensorMode, fake_tensor  # here: it takes a second to import

    without_gpu = patch.object(fake_tensor, "init_gpu_context", lambda device: None)
    without_log = patch.object(fake_tensor.log, "disabled", True)
    with without_gpu, without_log, FakeTensorMode():
        yield


def unlike(out, size, x):
    """What distinguishes a result from one of this size, stored row by row, with the type and the device of `x`."""
    for what, got, wanted in (
        ("size", list(out.shape), list(size)),
        ("type", str(out.dtype)[6:], str(x.dtype)[6:]),
        ("device", str(out.device), str(x.device)),
    ):
        if got != wanted:
            return f"the {what} should be {wanted}, but yours is {got}"
    return "" if out.is_contiguous() else f"the result is stored row by row, but yours has the strides {out.stride()}"


# ---- an operator from scratch ---------------------------------------------------------------------------------------


def turned(x, angle):
    """Points (n, 2) turned by an angle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return torch.stack([cosine * x[:, 0] - sine * x[:, 1], sine * x[:, 0] + cosine * x[:, 1]], 1)


class _Turn:
    """Replaces the compiled kernel of 17-turn: `kernel[blocks, threads](x, out, angle, n)` does on the memory of
    the tensors what the kernel would do."""

    def __init__(self):
        self.launches = 0

    def __getitem__(self, grid):
        if not is_a(grid, tuple) or len(grid) not in (2, 3):
            raise Rejected(f"a launch is kernel[blocks, threads](...), but yours is kernel[{shown(grid)}]")
        blocks, threads = (math.prod(size) if is_a(size, tuple) else int(size) for size in grid[:2])
        if not (0 < blocks and 0 < threads <= 1024):
            raise Rejected(f"CUDA refuses a launch of {blocks} blocks of {threads} threads")
        return lambda *arguments: self._launch(blocks * threads, *arguments)

    def _launch(self, count, *arguments):
        if len(arguments) != 4:
            raise Rejected(f"the kernel takes x, out, angle and n, but got {len(arguments)} arguments")
        x, out, angle, n = arguments
        places = []
        for name, tensor in (("x", x), ("out", out)):
            if not is_a(tensor, torch.Tensor) or tensor.dtype != torch.float32:
                raise Rejected(f"the kernel takes a float32 tensor for {name}, but got {shown(tensor)}")
            have = tensor.untyped_storage().nbytes() // 4 - tensor.storage_offset()
            if 2 * n > have:
                raise Rejected(f"the kernel goes through {n} points of {name}, but there is memory for {have // 2}")
            places.append(tensor.detach().as_strided((min(n, count), 2), (2, 1)))
        self.launches += 1
        places[1].copy_(turned(places[0].clone(), angle))


_ANGLE = 0.7


def _operator_kinds():
    return torch.library.CustomOpDef, torch._ops.OpOverload, torch._ops.OpOverloadPacket


def wrong_operator(answer):
    kernel = _Turn()
    operator = given(answer(kernel), _operator_kinds(), "an operator, made by torch.library.custom_op")
    for x in (torch.randn(n, 2) for n in (1, 17, 300)):
        if wrong := _wrong_turn(operator, x, "it is contiguous"):
            return wrong
    if not kernel.launches:
        return "your operator gives the right numbers, but has not launched the kernel"
    return (
        _wrong_turn(operator, torch.randn(2, 17).t(), "it is transposed")
        or _wrong_turn(operator, torch.randn(0, 2), "it is empty")
        or _wrong_fake_turn(operator)
        or _wrong_turn_back(operator)
        or _opcheck(operator, (torch.randn(17, 2).t().contiguous().t().requires_grad_(), _ANGLE))
    )


def _wrong_turn(operator, x, what):
    out = given(operator(x, _ANGLE), torch.Tensor, "a tensor")
    wrong = difference(out, turned(x, _ANGLE), "the result", {})
    return wrong and f"{wrong} (x has {len(x)} points, and {what})"


def _wrong_fake_turn(operator):
    with fake_tensors():
        for device in DEVICES:
            for x in (torch.empty(17, 2, device=device), torch.empty(2, 17, device=device).t()):
                try:
                    out = operator(x, _ANGLE)
                except Rejected:
                    raise
                except Exception as error:
                    return f"with tensors that have no memory it ends in: {_first_line(error)}"
                if wrong := unlike(given(out, torch.Tensor, "a tensor"), (17, 2), x):
                    return f"{wrong} (of the fake kernel; x is a fake tensor on {device}, its strides {x.stride()})"
    return ""


def _wrong_turn_back(operator):
    for x, weight in ((torch.randn(17, 2), torch.randn(17, 2)), (torch.randn(5, 2), torch.randn(2, 5).t())):
        x.requires_grad_()
        out = operator(x, _ANGLE)
        if not out.requires_grad:
            return "the result has no gradient"
        try:
            (gradient,) = torch.autograd.grad(out, x, weight)
        except RuntimeError as error:
            return f"the gradient ends in: {_first_line(error)}"
        wanted = turned(weight, -_ANGLE)
        if wrong := difference(gradient, wanted, "the gradient", {}):
            return wrong
    return ""


def _first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{f': {lines[0][:300]}' if lines else ''}"


def _opcheck(operator, arguments):
    from torch.testing._internal.optests import OpCheckError

    try:
        torch.library.opcheck(operator, arguments)
    except OpCheckError as error:
        return f"opcheck finds: {_first_line(error.__cause__ or error)}"
    return ""


# ---- an operator written in Triton ----------------------------------------------------------------------------------


def wrong_triton(answer):
    if not is_a(answer, torch.library.CustomOpDef):
        raise Rejected(not_taken("an operator, made by torch.library.triton_op", answer))
    if not answer._torch_dispatch_fns:  # what triton_op adds to a custom_op: torch.compile looks into it
        return "make it with torch.library.triton_op: torch.compile does not look into a custom_op"
    for x in (
        torch.randn(1),
        torch.randn(1000),
        torch.randn(40, 33),
        torch.randn(33, 40).t(),
        torch.randn(40, 6)[:, ::2],
    ):
        if wrong := _wrong_shrunk(answer, x):
            return f"{wrong} (x has the size {list(x.shape)} and the strides {list(x.stride())})"
    with fake_tensors(), _launched_by(lambda *_: None, answer):
        for device in DEVICES:
            x = torch.empty(40, 33, device=device)
            if wrong := unlike(given(answer(x, 0.5), torch.Tensor, "a tensor"), x.shape, x):
                return f"{wrong} (x is a fake tensor on {device})"
    return ""


def _wrong_shrunk(operator, x):
    launched = []

    def launch(program, grid, arguments, constants):
        launched.append(program)
        _interpreted(program, grid, arguments, constants, keep=before)

    before = x.clone()
    with _launched_by(launch, operator):
        try:
            out = operator(x, 0.5)
        except (RuntimeError, ValueError) as error:
            if not re.search("active driver|cannot be accessed from Triton", str(error)):
                raise
            out = None  # Triton itself found no GPU, or no tensor on it
    if not launched:
        return "torch.compile would not see your launch: launch torch.library.wrap_triton(...) of the program"
    wanted = torch.sign(before) * (before.abs() - 0.5).clamp_min(0)
    return difference(given(out, torch.Tensor, "a tensor"), wanted, "the result", {}) or difference(x, before, "x", {})


@contextmanager
def _launched_by(launch, operator):
    """Inside, the operator's `wrap_triton(program)[grid](...)` calls `launch` with the program's function, the grid,
    the arguments by name, and the options."""

    class Wrapped:
        def __init__(self, program):
            self.function = _complete(getattr(program, "fn", program))

        def __getitem__(self, grid):
            def run(*arguments, **named):
                options = {name: named.pop(name) for name in ("num_warps", "num_stages") if name in named}
                try:
                    bound = inspect.signature(self.function).bind(*arguments, **named).arguments
                except TypeError as error:
                    raise Rejected(f"the launch does not fit the program: {error}") from None
                launch(self.function, grid, dict(bound), options)

            return run

    own = _complete(inspect.getclosurevars(operator._init_fn).nonlocals["fn"]).__globals__
    imported = {name: Wrapped for name, value in own.items() if value is torch.library.wrap_triton}
    before = {name: own[name] for name in imported}
    try:
        own.update(imported)
        with patch.object(torch.library, "wrap_triton", Wrapped):
            yield
    finally:
        own.update(before)  # not patch.dict: what Triton adds to the program's globals must stay


def _complete(function):
    """The function, if it has no blank. In Jupyter `___` is an earlier output, and so no error by itself."""
    if uses_name(function, "___"):
        raise NameError("a blank", name="___")
    return function


def _interpreted(program, grid, arguments, options, keep):
    """Run a program in Triton's interpreter, on copies of its tensors that are watched; then copy the results back."""
    from triton.runtime.errors import InterpreterError
    from triton.runtime.interpreter import InterpretedFunction

    from utils.exercises.lesson_16 import _interpreter, _WatchedTensors, _watching

    tensors = {name: _memory(x) for name, x in arguments.items() if is_a(x, torch.Tensor)}
    for name, memory in tensors.items():
        if not torch.equal(memory.sort().values, keep.flatten().sort().values):
            tensors[name] = torch.full_like(memory, float("nan"))  # of what has no value yet, none shall be right
    watched = _WatchedTensors(tensors)
    try:
        with _interpreter(), _watching(watched), np.errstate(all="ignore"):
            InterpretedFunction(program)[grid](**(arguments | watched.places), **options)
    except InterpreterError as error:
        while isinstance(error, InterpreterError) and error.__cause__ is not None:
            error = error.__cause__
        raise error from None
    for name in {name for name, _ in watched.written}:
        _memory(arguments[name]).copy_(watched.places[name])


def _memory(x):
    """The memory of a tensor, from its first element to its last, as a program sees it."""
    if x.dtype != torch.float32:
        raise Rejected(f"the program takes float32 tensors, but got {shown(x)}")
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return x.detach().as_strided((extent,), (1,))
