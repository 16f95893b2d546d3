"""Lesson 04: the matrix product in Python, and tests of it."""

import torch

from utils.exercises import Function, Question, given

_CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def _pair(h, k, w):
    return lambda: {"a": torch.randn(h, k), "b": torch.randn(k, w)}


_SIZES = [(1, 1, 1), (1, 17, 1), (5, 784, 10), (17, 3, 31), (65, 100, 70)]


class _Largest(torch.overrides.TorchFunctionMode):
    """Notes the size of the largest tensor that is made."""

    numbers = 0

    def __torch_function__(self, f, types, args=(), kwargs=None):
        result = f(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


def _wrong_groups(matmul_groups):
    for h, k, w, rows in ((1, 1, 1, 1), (5, 784, 10, 2), (65, 100, 70, 13), (31, 7, 5, 500), (0, 3, 4, 10)):
        a, b = torch.randn(h, k), torch.randn(k, w)
        with _Largest() as largest:
            out = given(matmul_groups(a, b, rows))
        case = f"(h = {h}, k = {k}, w = {w}, rows = {rows})"
        if tuple(out.shape) != (h, w):
            return f"the result should have the shape {(h, w)}, but yours has {tuple(out.shape)} {case}"
        if not torch.allclose(out, a @ b, **_CLOSE):
            row = int(((out - a @ b).abs() > 1e-4).any(dim=1).nonzero()[0])
            return f"row {row} of the result is wrong {case}"
        most = max(min(rows, max(h, 1)) * k * w, a.numel(), b.numel(), h * w)
        if largest.numbers > most:
            return f"a tensor of {largest.numbers:,} numbers is too large: {rows} rows make {most:,} products {case}"
    return ""


def _matmul_wrong(m, n):
    """The product of the lesson's third exercise, with its mistake; None where it does not run through."""
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
        return f"on {tuple(m.shape)} and {tuple(n.shape)} it does not run through, so somebody notices"
    difference = (yours - m @ n).abs().max().item()
    return "" if difference > 0.1 else f"the wrong product is right here: the largest difference is {difference:.2g}"


# What a test of a matrix product must find, and what it must let pass.
_FAULTY = {
    "one that forgets the last product of each sum": lambda m, n: m[:, :-1] @ n[:-1],
    "one that is 5 % too large": lambda m, n: 1.05 * (m @ n),
    "one that computes in 16 bits": lambda m, n: (m.half().float() @ n.half().float()).half().float(),
    "one that leaves the last row as zeros": lambda m, n: torch.cat([m[:-1] @ n, torch.zeros(1, n.shape[1])]),
    "one that uses n turned round where n is square": lambda m, n: m @ (n.t() if n.shape[0] == n.shape[1] else n),
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
        given(calls or None)
        return True

    for what, product in _GOOD.items():
        if not passes(product):
            return f"it refuses a right product, {what}"
    passed = [what for what, product in _FAULTY.items() if passes(product)]
    return f"it lets {len(passed)} of {len(_FAULTY)} wrong products pass, first {passed[0]}" if passed else ""


def _wrong_lines(answer):
    right = {"runs what the file says": 4, "asks for 40 GB": 6, "may be refused": 3}
    for trouble, line in right.items():
        if given(answer[trouble]) != line:
            return f"line {answer[trouble]} is not the one that {trouble}"
    return ""


EXERCISES = [
    Function(
        "04-outer",
        cases=[_pair(*size) for size in _SIZES],
        expected=lambda a, b: a @ b,
        close=_CLOSE,
    ),
    Question("04-groups", _wrong_groups),
    Question("04-pair", _wrong_pair),
    Question("04-test", _wrong_test),
    Question("04-data", _wrong_lines),
]
