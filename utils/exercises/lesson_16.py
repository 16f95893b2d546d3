"""Lesson 16: a kernel in Numba; a mask, a softmax and a kernel from scratch in Triton; what fusion saves.

Nothing here needs a GPU, and the answers are plain functions, without a decorator. Programs of Triton run in its
interpreter, also where Triton was imported to compile. A kernel of Numba runs in the course's own simulator, with a
`cuda` that has what the exercise needs of Numba's.
"""

import types
from contextlib import contextmanager

import numpy as np
import torch

from utils.exercises.exercise import Function, Kernel, Question, Rejected, misfit, once, poison
from utils.exercises.verdicts import difference, is_a, not_taken, unwritten
from utils.exercises.watched import Outside, Watched, viewed_as
from utils.lesson.simulator import blk_kernel2d, cdiv

_GAP = 1024  # elements between two tensors: an address outside all of them still shows which one was meant


class _Array(Watched):
    """What a kernel of Numba gets for a tensor: memory under watch, with the names that arrays have."""

    @property
    def size(self):
        return self.numel()

    @property
    def ndim(self):
        return len(self.shape)


class _Cuda(types.SimpleNamespace):
    """What replaces Numba's `cuda`."""

    def __getattr__(self, name):
        raise AttributeError(f"cuda.{name} is not there in this exercise: a thread computes one element")


def _as_kernel(answer):
    """A function that Numba's `@cuda.jit` takes, as utils/lesson/simulator.py calls kernels, with our `cuda` in it."""
    if callable(answer):
        answer = getattr(answer, "py_func", getattr(answer, "fn", answer))  # without a decorator
    if not is_a(answer, types.FunctionType):
        return answer
    if wrong := misfit(answer, ("x", "s", "out")):
        raise Rejected(wrong)

    def kernel(blockidx, threadidx, blockdim, *args):
        here = [blockidx.x * blockdim.x + threadidx.x, blockidx.y * blockdim.y + threadidx.y]
        cuda = _Cuda(blockIdx=blockidx, threadIdx=threadidx, blockDim=blockdim)
        cuda.grid = lambda dimensions: here[0] if dimensions == 1 else tuple(here[:dimensions])
        names = answer.__globals__ | {"cuda": cuda}
        args = [viewed_as(_Array, x) if isinstance(x, Watched) else x for x in args]
        types.FunctionType(answer.__code__, names, answer.__name__, answer.__defaults__, answer.__closure__)(*args)

    return kernel


@contextmanager
def _interpreter():
    """Triton's own functions, such as tl.max, as its interpreter takes them, whatever Triton was imported for.

    The interpreter replaces much of triton.language and does not restore all of it. This does.
    """
    import triton.experimental.gluon  # noqa: F401  (a launch imports it, and it must not see the replaced functions)
    import triton.language as tl
    from triton import knobs
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    homes = [tl, tl.core, tl.standard, tl.math, *(each for each in vars(tl.core).values() if isinstance(each, type))]
    before, twins = [(home, dict(vars(home))) for home in homes], {}
    for home, names in before:
        for name, value in names.items():
            if isinstance(value, JITFunction):
                setattr(home, name, twins.setdefault(id(value), InterpretedFunction(value.fn)))
    try:
        with knobs.runtime.scope():
            knobs.runtime.interpret = True
            yield
    finally:
        for home, names in before:
            for name, value in names.items():
                if vars(home).get(name) is not value:
                    setattr(home, name, value)


class _WatchedTensors:
    """Tensors with a gap between them; every address that a program touches is compared with theirs."""

    def __init__(self, tensors):
        size = sum(x.numel() + _GAP for x in tensors.values()) + _GAP
        self.room, self.places, self.written = torch.full((size,), float("nan")), {}, set()
        first = _GAP
        for name, x in tensors.items():
            part = self.room[first : first + x.numel()]
            part.copy_(x.flatten())
            self.places[name] = part
            first += x.numel() + _GAP

    def note(self, builder, op, ptrs, mask):
        for address in np.asarray(ptrs.data)[np.asarray(mask.data, bool)].flatten().tolist():
            name, part = min(self.places.items(), key=lambda place: _distance(place[1], address))
            i = (address - part.data_ptr()) // part.element_size()
            if not 0 <= i < part.numel():
                size = f"{part.numel()} element{'s' * (part.numel() > 1)}"
                raise Outside(f"program {builder.grid_idx[0]} {op}s {name}[{i}]", f"{name} has {size}")
            if op == "write":
                self.written.add((name, i))


def _distance(part, address):
    return max(part.data_ptr() - address, address - part.data_ptr() - part.nbytes + 1, 0)


@contextmanager
def _watching(watched):
    from triton.runtime.interpreter import interpreter_builder as builder

    load, store = builder.create_masked_load, builder.create_masked_store

    def watched_load(ptrs, mask, *rest):
        watched.note(builder, "read", ptrs, mask)
        return load(ptrs, mask, *rest)

    def watched_store(ptrs, value, mask, *rest):
        watched.note(builder, "write", ptrs, mask)
        return store(ptrs, value, mask, *rest)

    builder.create_masked_load, builder.create_masked_store = watched_load, watched_store
    try:
        yield
    finally:
        del builder.create_masked_load, builder.create_masked_store


def _run(answer, programs, tensors, sizes, constants):
    """Run a program of Triton on float32 `tensors`, by name, in the interpreter; 'out' afterwards, and which of its
    elements were not written. Raises what the program raises, and Outside for an access outside its tensor."""
    from triton.runtime.errors import InterpreterError
    from triton.runtime.interpreter import InterpretedFunction

    answer, watched = getattr(answer, "fn", answer), _WatchedTensors(tensors)
    if not is_a(answer, types.FunctionType) or answer.__name__ == "<lambda>":  # Triton reads the text of a `def`
        raise Rejected(not_taken("a program of Triton, written with `def`", answer))
    try:
        with _interpreter(), _watching(watched), np.errstate(all="ignore"):  # an overflow shows in the result
            InterpretedFunction(answer)[(programs,)](*watched.places.values(), *sizes, **constants)
    except InterpreterError as error:
        while isinstance(error, InterpreterError) and error.__cause__ is not None:
            error = error.__cause__
        raise error from None
    missing = [i for i in range(tensors["out"].numel()) if ("out", i) not in watched.written]
    return watched.places["out"].view(tensors["out"].shape), missing


def _wrong_program(answer, programs, tensors, sizes, constants, expected, case):
    """What is wrong with one run, in a sentence."""
    out, missing = _run(answer, programs, tensors, sizes, constants)
    wrong = unwritten("out", missing, out) if missing else difference(out, expected, "out", {"rtol": 1e-4})
    return f"{wrong} ({case})" if wrong else ""


def _wrong_mask(answer):
    for n, block in ((8, 8), (1, 8), (17, 8), (64, 16), (70, 16)):
        x = torch.rand(n)
        tensors = {"x": x, "out": poison(n)}
        case = f"n = {n}, BLOCK = {block}"
        if wrong := _wrong_program(answer, cdiv(n, block), tensors, (n,), {"BLOCK": block}, x.flip(0), case):
            return wrong
    return ""


def _wrong_softmax(answer):
    rows = {
        "numbers around 0": torch.randn(3, 8),
        "one column": torch.randn(4, 1),
        "only negative numbers": -5 - torch.rand(3, 5),
        "numbers around 1000": 1000 + torch.randn(3, 33),
        "numbers around -1000": -1000 + torch.randn(2, 17),
        "numbers around -1,000,000": -1e6 + 10 * torch.randn(2, 17),
    }
    for what, x in rows.items():
        h, w = x.shape
        block = 1 << (w - 1).bit_length()
        case = f"{h} rows of {w}, {what}, BLOCK = {block}"
        tensors = {"x": x, "out": poison(h, w)}
        if wrong := _wrong_program(answer, h, tensors, (w,), {"BLOCK": block}, x.softmax(1), case):
            return wrong
    return ""


def _wrong_rms(answer):
    for h, w, size in ((3, 8, 1.0), (4, 1, 1.0), (3, 5, 1.0), (2, 33, 1.0), (5, 100, 30.0), (2, 17, 1e-3)):
        x, s = size * torch.randn(h, w), 0.5 + torch.rand(w)
        block = 1 << (w - 1).bit_length()
        expected = (x.double() / (x.double().square().mean(1, keepdim=True) + 1e-6).sqrt() * s).float()
        case = f"{h} rows of {w}, numbers around {size:g}, BLOCK = {block}"
        tensors = {"x": x, "s": s, "out": poison(h, w)}
        if wrong := _wrong_program(answer, h, tensors, (w,), {"BLOCK": block}, expected, case):
            return wrong
    return ""


def _scaled(n):
    return {"x": torch.rand(n, n), "s": torch.rand(n), "out": poison(n, n)}


def _traffic(n):
    """One request per warp for each of x, s and out. A warp is two rows of 16 here, whose two numbers of s share a
    sector."""
    whole, warps = once(torch.empty(n, n), torch.empty(n, n)), n * n // 32
    return {"requests": whole["requests"] + warps, "sectors": whole["sectors"] + warps}


EXERCISES = [
    Kernel(
        "16-order",
        sizes=[{"n": n} for n in (1, 5, 33, 64)],
        arguments=_scaled,
        outputs=("out",),
        launch=lambda n: ((cdiv(n, 16), cdiv(n, 16)), (16, 16)),
        expected=lambda x, s, out: x * s[:, None],
        run=blk_kernel2d,
        prepare=_as_kernel,
        traffic=_traffic,
    ),
    Question("16-mask", _wrong_mask, takes=("x", "out", "n", "BLOCK")),
    Question("16-softmax", _wrong_softmax, takes=("x", "out", "w", "BLOCK")),
    Question("16-rms", _wrong_rms, takes=("x", "s", "out", "w", "BLOCK")),
    Function(
        "16-fusion",
        cases=[
            {"n": 1000, "k": 1, "others": 0, "fused": False},
            {"n": 1000, "k": 5, "others": 0, "fused": False},
            {"n": 1000, "k": 5, "others": 0, "fused": True},
            {"n": 2**20, "k": 3, "others": 2, "fused": False},
            {"n": 2**20, "k": 3, "others": 2, "fused": True},
            {"n": 4096, "k": 2, "others": 2, "fused": True},
        ],
        expected=lambda n, k, others, fused: 4 * n * (2 + others if fused else 2 * k + others),
    ),
]
