"""Lesson 11: a kernel in Numba, a mask and a softmax in Triton, and what fusion saves.

Nothing here needs a GPU, and the answers are plain functions, without a decorator. Programs of Triton run in its
interpreter, also where Triton was imported to compile. A kernel of Numba runs in the course's own simulator, with a
`cuda` that has what the exercise needs of Numba's.
"""

import types
from contextlib import contextmanager

import numpy as np
import torch

from utils.exercises.judging import Function, Kernel, Question, given, once, poison
from utils.exercises.watched import Outside, Watched
from utils.lesson.simulator import blk_kernel2d, cdiv

_GAP = 1024  # elements between two tensors: an address outside of all still tells which one was meant


class _InNumba(Kernel):
    """A Kernel whose answer is what Numba's `@cuda.jit` takes."""

    def judge(self, answer):
        answer = getattr(answer, "py_func", getattr(answer, "fn", answer))  # without a decorator
        yield from super().judge(_as_kernel(answer) if isinstance(answer, types.FunctionType) else answer)


class _Array(Watched):
    """What a kernel of Numba gets for a tensor: memory under watch, with the names that arrays have."""

    @property
    def size(self):
        return self.numel()

    @property
    def ndim(self):
        return len(self.shape)


class _Cuda(types.SimpleNamespace):
    """What stands in the place of Numba's `cuda`."""

    def __getattr__(self, name):
        raise AttributeError(f"cuda.{name} is not there in this exercise: a thread computes one element")


def _as_kernel(answer):
    """`answer` as utils/lesson/simulator.py calls kernels, with `cuda` in the place of Numba's."""

    def kernel(blockidx, threadidx, blockdim, *args):
        here = [blockidx.x * blockdim.x + threadidx.x, blockidx.y * blockdim.y + threadidx.y]
        cuda = _Cuda(blockIdx=blockidx, threadIdx=threadidx, blockDim=blockdim)
        cuda.grid = lambda dimensions: here[0] if dimensions == 1 else tuple(here[:dimensions])
        names = answer.__globals__ | {"cuda": cuda}
        args = [_Array(x._region, x._first, x.shape) if isinstance(x, Watched) else x for x in args]
        types.FunctionType(answer.__code__, names, answer.__name__, answer.__defaults__, answer.__closure__)(*args)

    return kernel


@contextmanager
def _interpreter():
    """Triton's own functions, such as tl.max, as its interpreter takes them, whatever Triton was imported for.

    The interpreter exchanges much of triton.language and does not put all of it back. This does.
    """
    import triton.experimental.gluon  # noqa: F401  (a launch imports it, and it must not meet the exchanged functions)
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


class _Watch:
    """Tensors with a gap between them, and every address that a program touches compared with where they lie."""

    def __init__(self, tensors):
        size = sum(x.numel() + _GAP for x in tensors.values()) + _GAP
        self.room, self.places, self.written = torch.full((size,), float("nan")), {}, set()
        first = _GAP
        for name, x in tensors.items():
            part = self.room[first : first + x.numel()]
            part.copy_(x.flatten())
            self.places[name] = part
            first += x.numel() + _GAP

    def look(self, builder, op, ptrs, mask):
        for address in np.asarray(ptrs.data)[np.asarray(mask.data, bool)].flatten().tolist():
            name, part = min(self.places.items(), key=lambda place: _distance(place[1], address))
            i = (address - part.data_ptr()) // part.element_size()
            if not 0 <= i < part.numel():
                size = f"{part.numel()} element{'s' * (part.numel() > 1)}"
                raise Outside(f"program {builder.grid_idx[0]} {op}s {name}[{i}], but {name} has {size}")
            if op == "write":
                self.written.add((name, i))


def _distance(part, address):
    return max(part.data_ptr() - address, address - part.data_ptr() - part.nbytes + 1, 0)


@contextmanager
def _watching(watch):
    from triton.runtime.interpreter import interpreter_builder as builder

    load, store = builder.create_masked_load, builder.create_masked_store

    def watched_load(ptrs, mask, *rest):
        watch.look(builder, "read", ptrs, mask)
        return load(ptrs, mask, *rest)

    def watched_store(ptrs, value, mask, *rest):
        watch.look(builder, "write", ptrs, mask)
        return store(ptrs, value, mask, *rest)

    builder.create_masked_load, builder.create_masked_store = watched_load, watched_store
    try:
        yield
    finally:
        del builder.create_masked_load, builder.create_masked_store


def _run(answer, programs, tensors, sizes, constants):
    """Run a program of Triton on float32 `tensors`, by name, in the interpreter; what is in 'out' then, and what is
    wrong with where it wrote. Raises what the program raises, and Outside for a step outside of a tensor."""
    from triton.runtime.errors import InterpreterError
    from triton.runtime.interpreter import InterpretedFunction

    answer, watch = getattr(answer, "fn", answer), _Watch(tensors)
    try:
        with _interpreter(), _watching(watch), np.errstate(all="ignore"):  # a result tells of an overflow
            InterpretedFunction(answer)[(programs,)](*watch.places.values(), *sizes, **constants)
    except InterpreterError as error:
        while isinstance(error, InterpreterError) and error.__cause__ is not None:
            error = error.__cause__
        raise error from None
    missing = [i for i in range(tensors["out"].numel()) if ("out", i) not in watch.written]
    unwritten = f"out[{missing[0]}] was never written; {len(missing)} elements are missing" if missing else ""
    return watch.places["out"].view(tensors["out"].shape), unwritten


def _wrong_program(answer, programs, tensors, sizes, constants, expected, case):
    """What is wrong with one run, in a sentence."""
    if not callable(answer):
        return f"this exercise takes a Python function, but got {answer!r}"
    out, unwritten = _run(answer, programs, tensors, sizes, constants)
    if unwritten:
        return f"{unwritten} ({case})"
    differ = (~torch.isclose(out, expected, rtol=1e-4, atol=1e-6)).nonzero().tolist()
    if differ:
        place = ", ".join(map(str, differ[0]))
        wanted, got = expected[tuple(differ[0])].item(), out[tuple(differ[0])].item()
        return f"out[{place}] should be {wanted:.6g}, but yours is {got:.6g} ({case})"
    return ""


def _wrong_mask(answer):
    given(answer)
    for n, block in ((8, 8), (1, 8), (17, 8), (64, 16), (70, 16)):
        x = torch.rand(n)
        tensors = {"x": x, "out": poison(n)}
        case = f"n = {n}, BLOCK = {block}"
        told = _wrong_program(answer, cdiv(n, block), tensors, (n,), {"BLOCK": block}, x.flip(0), case)
        if told:
            return told
    return ""


def _wrong_softmax(answer):
    given(answer)
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
        told = _wrong_program(answer, h, tensors, (w,), {"BLOCK": block}, x.softmax(1), case)
        if told:
            return told
    return ""


def _scaled(n):
    return {"x": torch.rand(n, n), "s": torch.rand(n), "out": poison(n, n)}


def _traffic(n):
    """One request a warp for each of x, s and out. A warp is two rows of 16 here, whose two numbers of s share a
    sector."""
    whole, warps = once(torch.empty(n, n), torch.empty(n, n)), n * n // 32
    return {"requests": whole["requests"] + warps, "sectors": whole["sectors"] + warps}


EXERCISES = [
    _InNumba(
        "11-order",
        sizes=[{"n": n} for n in (1, 5, 33, 64)],
        arguments=_scaled,
        outputs=("out",),
        launch=lambda n: ((cdiv(n, 16), cdiv(n, 16)), (16, 16)),
        expected=lambda x, s, out: x * s[:, None],
        run=blk_kernel2d,
        traffic=_traffic,
    ),
    Question("11-mask", _wrong_mask),
    Question("11-softmax", _wrong_softmax),
    Function(
        "11-fusion",
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
