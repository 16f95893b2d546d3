"""Verdicts: the words for what an answer does, and the sentences about what it gave and what was expected."""

import sys
from dataclasses import dataclass
from math import isclose

import torch

__all__ = ["KINDS", "Verdict", "case_text", "counts", "difference", "not_taken", "printable", "shown", "unwritten"]
__all__ += ["worst"]

# From worst to best. Of all that was found, `check` prints the worst.
KINDS = (
    "not yet",
    "does not compile",
    "out of bounds",
    "crashed",
    "raced",
    "uninitialized",
    "unwritten",
    "wrong",
    "right, but slow",
    "right",
)


@dataclass(frozen=True)
class Verdict:
    """One of `KINDS` and, where there is more to say, a sentence."""

    kind: str
    text: str = ""

    def __str__(self):
        return f"{self.kind}: {self.text}" if self.text else self.kind


def worst(verdicts) -> Verdict:
    """The first of the worst kind."""
    return min(verdicts, key=lambda verdict: KINDS.index(verdict.kind))


def difference(got, expected, name, close) -> str:
    """What distinguishes `got` from `expected`, in a sentence about `name`, or "". `close` goes to torch.isclose."""
    if not isinstance(expected, torch.Tensor):
        same = type(got) is not str and not isinstance(got, torch.Tensor) and _same(got, expected, close)
        return "" if same else f"{name} should be {shown(expected)}, but yours is {shown(got)}"
    if not isinstance(got, torch.Tensor):
        return f"{name} should be a tensor, but yours is {shown(got)}"
    if got.shape != expected.shape:
        return f"{name} should have the shape {tuple(expected.shape)}, but yours has {tuple(got.shape)}"
    if got.dtype != expected.dtype:
        return f"{name} should be {expected.dtype}, but yours is {got.dtype}"
    exact = not expected.dtype.is_floating_point
    close = {"rtol": 0, "atol": 0} | close if exact else {"rtol": 1e-5, "atol": 1e-6} | close
    differ = ~torch.isclose(got.double(), expected.double(), equal_nan=True, **close)
    if not differ.any():
        return ""
    place = tuple(differ.nonzero()[0].tolist())
    count = int(differ.sum())
    where = f"{name}[{', '.join(map(str, place))}]" if place else name
    more = "the only one that differs" if count == 1 else f"the first of {count} that differ"
    more = f", {more} of {expected.numel()}" if place else ""
    return f"{where} should be {shown(expected[place].item())}, but yours is {shown(got[place].item())}{more}"


def _same(got, expected, close):
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return isclose(got, expected, rel_tol=close.get("rtol", 1e-9), abs_tol=close.get("atol", 0))
    return bool(got == expected)


def unwritten(name, missing, tensor) -> str:
    """That elements of `tensor` were never written; `missing` are their numbers in the flat tensor."""
    place = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(missing[0]), tensor.shape))
    return f"{name}[{place}] was never written; {len(missing)} of {tensor.numel()} elements are missing"


def not_taken(takes, answer) -> str:
    """That the exercise takes something else: "a Python function", for instance."""
    return f"this exercise takes {takes}, but got {shown(answer)}"


def case_text(sizes, fresh) -> str:
    """'h = 5, w = 7': the numbers among `sizes`, and the shapes of tensors; `fresh` numbers are random every time."""
    numbers = [f"{name} = {value}" for name, value in sizes.items() if isinstance(value, (int, float))]
    numbers += [f"{name}: {tuple(value.shape)}" for name, value in sizes.items() if isinstance(value, torch.Tensor)]
    return ", ".join([*numbers, *(["with fresh numbers"] if fresh else [])])


def counts(traffic) -> str:
    """'16 requests and 512 sectors'."""
    return " and ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in traffic.items())


def shown(value) -> str:
    """A value as it appears in a sentence, shortened. Whatever it is: a learner's class may raise when asked for it."""
    try:
        if isinstance(value, float):
            return f"{value:.6g}"
        text = repr(value) if not callable(value) else f"the function {getattr(value, '__name__', value)!s}"
    except Exception:
        text = f"an object of the type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:56]} ..."


def printable(text) -> str:
    """`text` with what the output's encoding lacks written as escapes: a learner's text may hold anything."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
