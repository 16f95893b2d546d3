"""Lesson 04: the matrix product in Python, and tests of it."""

from functools import partial

import torch

from utils.exercises.exercise import Kernel, Question, given, is_ordinary, poison, wrong_lines
from utils.exercises.verdicts import shown
from utils.lesson.simulator import blk_kernel, cdiv

_CLOSE = {"rtol": 1e-4, "atol": 1e-4}
_SIZES = [(1, 1, 1), (1, 17, 1), (5, 784, 10), (17, 3, 31), (65, 100, 70)]
_PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "linalg_matmul", "linalg_multi_dot", "chain_matmul", "mm", "addmm"}
_PRODUCTS |= {"bmm", "addbmm", "baddbmm", "linear", "einsum", "tensordot", "inner", "dot", "mv", "addmv", "numpy"}


class _CallRecorder(torch.overrides.TorchFunctionMode):
    """Notes the size of the largest tensor that is made, and the names of torch's functions that are called."""

    def __init__(self):
        super().__init__()
        self.numbers, self.names = 0, set()

    def __torch_function__(self, f, types, args=(), kwargs=None):
        self.names.add(getattr(f, "__name__", ""))
        result = f(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


def _wrong_outer(matmul_outer):
    for h, k, w in _SIZES:
        a, b, case = torch.randn(h, k), torch.randn(k, w), f"(h = {h}, k = {k}, w = {w})"
        with _CallRecorder() as recorder:
            out = given(matmul_outer(a.clone(), b.clone()))
        if wrong := _wrong_product(out, a, b, case):
            return wrong
        if ready := recorder.names & (_PRODUCTS | {"sum"}):
            return f"it calls {min(ready).strip('_')}: add up the products (`*`) of a column and a row, one i at a time"
        if recorder.numbers > max(a.numel(), b.numel(), h * w):
            return f"a tensor of {recorder.numbers:,} numbers is larger than the result: one i at a time {case}"
    return ""


def _wrong_product(out, a, b, case):
    if not is_ordinary(out):
        return f"the result should be a tensor of shape {(a.shape[0], b.shape[1])}, but yours is {shown(out)} {case}"
    if out.shape != (a.shape[0], b.shape[1]):
        return f"the result should have the shape {(a.shape[0], b.shape[1])}, but yours has {tuple(out.shape)} {case}"
    differ = ~torch.isclose(out.double(), (a @ b).double(), **_CLOSE)
    return f"row {int(differ.any(dim=1).nonzero()[0])} of the result is wrong {case}" if differ.any() else ""


def _wrong_groups(matmul_groups):
    for h, k, w, rows in ((1, 1, 1, 1), (5, 784, 10, 2), (65, 100, 70, 13), (31, 7, 5, 500), (0, 3, 4, 10)):
        a, b = torch.randn(h, k), torch.randn(k, w)
        case = f"(h = {h}, k = {k}, w = {w}, rows = {rows})"
        try:
            with _CallRecorder() as recorder:
                out = given(matmul_groups(a, b, rows))
        except (RuntimeError, ValueError) as error:
            error.args = (f"{error} {case}",)
            raise
        if wrong := _wrong_product(out, a, b, case):
            return wrong
        if ready := recorder.names & _PRODUCTS:
            return f"it calls {min(ready).strip('_')}: multiply by broadcasting, and sum"
        most = max(min(rows, max(h, 1)) * k * w, a.numel(), b.numel(), h * w)
        if recorder.numbers > most:
            return f"a tensor of {recorder.numbers:,} numbers is too large: {rows} rows make {most:,} products {case}"
    return ""


def _matmul_wrong(m, n):
    """The product of the lesson's bug hunt, with its mistake; None where it raises an error."""
    try:
        return torch.stack([torch.stack([(row * n[c]).sum() for c in range(n.shape[1])]) for row in m])
    except (IndexError, RuntimeError):
        return None


def _wrong_pair(answer):
    m, n = answer
    if m.dim() != 2 or n.dim() != 2 or m.shape[1] != n.shape[0]:
        return f"{tuple(m.shape)} and {tuple(n.shape)} have no product"
    yours = _matmul_wrong(m, n)
    if yours is None:
        return f"on {tuple(m.shape)} and {tuple(n.shape)} it raises an error, so somebody notices"
    rounding = 1e-4 * (m.abs() @ n.abs())  # for numbers of any size
    return "" if ((yours - m @ n).abs() > rounding).any() else "the wrong product is right here"


# What a test of a matrix product must find, and what it must let pass.
_FAULTY = {
    "one that forgets the last product of each sum": lambda m, n: m[:, :-1] @ n[:-1],
    "one that is 5 % too large": lambda m, n: 1.05 * (m @ n),
    "one that computes in 16 bits": lambda m, n: (m.half().float() @ n.half().float()).half().float(),
    "one that leaves the last row as zeros": lambda m, n: torch.cat([m[:-1] @ n, torch.zeros(1, n.shape[1])]),
    "one that transposes n where n is square": lambda m, n: m @ (n.t() if n.shape[0] == n.shape[1] else n),
}
_GOOD = {
    "PyTorch's own": torch.matmul,
    "one that adds up from the other end": lambda m, n: m.flip(1) @ n.flip(0),
    "one that computes in 64 bits": lambda m, n: (m.double() @ n.double()).float(),
}


def _wrong_test(test_matmul):
    calls = []

    def passes(product):
        try:
            test_matmul(lambda m, n: calls.append(1) or product(m, n))
        except AssertionError:
            return False
        return True

    for what, product in _GOOD.items():
        if not passes(product):
            return f"it rejects a correct product, {what}"
    if not calls:
        return "it never calls product"
    passed = []
    for what, product in _FAULTY.items():
        try:
            if passes(product):
                passed.append(what)
        except Exception as error:
            return f"it should raise an AssertionError, but with {what} it raises {type(error).__name__}: {error}"
    return f"it accepts {len(passed)} of {len(_FAULTY)} wrong products, first {passed[0]}" if passed else ""


_LINES = {"runs what the file says": 4, "asks for 40 GB": 6, "may be refused": 3}


EXERCISES = [
    Question("04-outer", _wrong_outer, takes=("a", "b")),
    Question("04-groups", _wrong_groups, takes=("a", "b", "rows")),
    Kernel(
        "04-guess",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (17, 10), (256, 3), (300, 10))],
        arguments=lambda h, w: {"scores": torch.randn(h * w) - 2, "out": poison(h, dtype=torch.int64), "h": h, "w": w},
        outputs=("out",),
        launch=lambda h, w: (cdiv(h, 256), 256),
        expected=lambda scores, out, h, w: scores.view(h, w).argmax(dim=1),
        run=blk_kernel,
    ),
    Question("04-pair", _wrong_pair, takes="two matrices (m, n), both tensors"),
    Question("04-test", _wrong_test, takes=("product",)),
    Question("04-data", partial(wrong_lines, _LINES), takes="a dictionary with the number of a line for each mistake"),
]
