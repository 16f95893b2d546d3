"""Lesson 06: the matrix product in CUDA C++, what its loop counter costs, and what a host function must not forget."""

import re
from operator import index

import numpy as np
import torch

import kernels
from utils.cuda.common import lexer
from utils.exercises.exercise import Function, Kernel, Question, given, like, poison
from utils.exercises.verdicts import shown
from utils.lesson.simulator import cdiv

_LARGEST = 2**31 - 1  # of an int


def _wrong_row(first_bad_row):
    for k in (1, 2, 784, 1000, 65_536, 2**31 - 1):
        found = given(first_bad_row(k))
        try:
            r = index(found)
        except TypeError:
            return f"for k = {k} it returns {shown(found)}, but a row is a whole number"
        if r < 0:
            return f"for k = {k} it returns {r:,}, but rows count from 0"
        if r > 0 and (r - 1) * k + k - 1 > _LARGEST:
            return f"with k = {k}, row {r - 1:,} cannot be read to its end either: {r:,} is not the first"
        if r * k + k - 1 <= _LARGEST:
            return f"with k = {k}, the last element of row {r:,} has the index {r * k + k - 1:,}, which is still fine"
    return ""


def _wrong_lines(answer):
    """The lines of the lesson's host function with a mistake, by what is wrong there."""
    wrong = {5: "sizes", 7: "options", 10: "blocks", 11: "stream", 12: "type"}
    named = set(map(index, answer))
    if beyond := sorted(named - set(range(1, 16))):
        return f"line {beyond[0]} is not one of 1 to 15"
    if innocent := sorted(named - set(wrong)):
        return f"line {innocent[0]} is correct"
    rest = len(set(wrong) - named)
    if not named:
        return f"it names no line, but {rest} have a mistake"
    others = "1 more line has" if rest == 1 else f"{rest} more lines have"
    return f"each line that it names has a mistake, and {others} one, too" if rest else ""


def _doubles(*shape):
    return lambda: {"x": torch.randn(shape, dtype=torch.float64)}


def _product(h, k, w):
    return {"m": torch.randn(h * k), "n": torch.randn(k * w), "out": poison(h * w), "h": h, "w": w, "k": k}


def _layer(h, k, w):
    m, n, *others = _product(h, k, w).items()
    return dict([m, n, ("bias", torch.randn(w)), *others])


def _launch(h, k, w):
    return (cdiv(w, 16), cdiv(h, 16)), (16, 16)


def _matmul(h, k, w):
    """The traffic of the lesson's own kernel. The bias is not in it: one read more than the 2 * k of a thread."""
    arguments = [torch.empty(h * k), torch.empty(k * w), torch.empty(h * w), h, w, k]
    return like(kernels.source("matmul"), "matmul_kernel", _launch(h, k, w), arguments)


_SHORT_COUNTER = re.compile(r"\b(?:int|unsigned|u?int32_t)(?: int)? (\w+) ?=[^;]*; ?\1 ?(?:<|<=|!=) ?k\b")


def _in_32_bits(source):
    if found := _SHORT_COUNTER.search(" ".join(lexer.code(source).split())):
        return f"it counts to k with {found[1]}, which has 32 bits: here the counter stays a size_t"
    if re.search(r"\bint k\b", lexer.code(source)):
        return "its k has 32 bits: here k stays a size_t"
    return ""


def _not_unrolled(source):
    from utils.cuda.kernel import compiled_for_gpu

    sass = compiled_for_gpu(source, "unrolled_kernel").sass
    if not sass.loops:
        return "its machine code has no loop"
    loop = sass.loop
    steps = sum(each.opcode == "FFMA" for each in loop)
    does = f"a round of its loop does {steps} steps, in {len(loop)} instructions; {_STEPS} steps are asked for"
    return does if steps < _STEPS else ""


_SIZES = [{"h": h, "k": k, "w": w} for h, k, w in ((1, 1, 1), (5, 784, 10), (17, 3, 31), (65, 100, 70))]
_STEPS = 16  # in a round of the unrolled loop

EXERCISES = [
    Question("06-int", _wrong_row, takes=("k",)),
    Kernel(
        "06-unroll",
        sizes=_SIZES,
        arguments=_product,
        outputs=("out",),
        launch=_launch,
        expected=lambda m, n, out, h, w, k: (m.view(h, k) @ n.view(k, w)).flatten(),
        cuda="unrolled_kernel",
        close={"rtol": 1e-5, "atol": 1e-3},
        traffic=_matmul,
        why_wrong=_in_32_bits,
        why_slow=_not_unrolled,
    ),
    Kernel(
        "06-layer",
        sizes=_SIZES,
        arguments=_layer,
        outputs=("out",),
        launch=_launch,
        expected=lambda m, n, bias, out, h, w, k: torch.relu(m.view(h, k) @ n.view(k, w) + bias).flatten(),
        cuda="layer_kernel",
        close={"rtol": 1e-5, "atol": 1e-3},
        traffic=_matmul,
    ),
    Function(
        "06-seen",
        cases=[_doubles(1, 1), _doubles(2, 3), _doubles(17), _doubles(65, 100)],
        expected=lambda x: torch.from_numpy(
            np.frombuffer(x.numpy().tobytes(), np.float32, x.numel()).reshape(x.shape).copy()
        ),
        close={"rtol": 0, "atol": 0},
    ),
    Question("06-host", _wrong_lines, takes="a list of line numbers"),
]
