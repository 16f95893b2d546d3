"""Verdicts: the words for what an answer does, and the sentences about what it gave and what was expected."""

import inspect
import linecache
import sys
import types
from dataclasses import dataclass
from math import isclose

import numpy as np
import torch

__all__ = ["KINDS", "Verdict", "case_text", "counted", "counts", "difference", "function_of", "in_line", "is_a"]
__all__ += ["not_taken", "printable", "shown", "unwritten", "worst"]

# From worst to best. Of all that was found, `check` prints the worst.
KINDS = (
    "not yet",
    "does not compile",
    "out of bounds",
    "crashed",
    "stuck",
    "too long",
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


def difference(got, expected, name, close, inputs=None) -> str:
    """What distinguishes `got` from `expected`, in a sentence about `name`, or "". `close` goes to torch.isclose.

    The sentence also tells what is at the same place of those `inputs`, tensors by name, that have the same shape.
    """
    if not is_a(expected, torch.Tensor):
        return "" if _same(got, expected, close) else f"{name} should be {shown(expected)}, but yours is {shown(got)}"
    if not is_a(got, torch.Tensor):
        return f"{name} should be a tensor, but yours is {shown(got)}"
    if got.shape != expected.shape:
        return f"{name} should have the shape {tuple(expected.shape)}, but yours has {tuple(got.shape)}"
    if got.dtype != expected.dtype:
        return f"{name} should be {expected.dtype}, but yours is {got.dtype}"
    if got.device != expected.device:
        return f"{name} should be on the device {expected.device}, but yours is on {got.device}"
    if got.layout != expected.layout:
        return f"{name} should be an ordinary tensor, but yours has the layout {got.layout}"
    exact = not expected.dtype.is_floating_point
    close = {"rtol": 0, "atol": 0} | close if exact else {"rtol": 1e-5, "atol": 1e-6} | close
    differ = ~torch.isclose(got.double(), expected.double(), equal_nan=True, **close)
    if not differ.any():
        return ""
    place = tuple(differ.nonzero()[0].tolist())
    count, size = int(differ.sum()), expected.numel()
    index = f"[{', '.join(map(str, place))}]" if place else ""
    where = f"element {index} of {name}" if index and " " in name else f"{name}{index}"
    first = f"the only wrong one out of {size}" if count == 1 else f"the first of {count} wrong values out of {size}"
    more = f", {f'all {size} differ' if count == size else first}" if size > 1 else ""
    inputs = {name: x for name, x in (inputs or {}).items() if is_a(x, torch.Tensor) and x.shape == expected.shape}
    of = " and ".join(f"{name}{index} is {shown(x[place].item())}" for name, x in inputs.items() if place)
    wanted = f"{shown(expected[place].item())}{f' ({of})' * bool(of)}"
    return f"{where} should be {wanted}, but yours is {shown(got[place].item())}{more}"


def _same(got, expected, close):
    """Whether two values are equal; numbers of any kind are compared by value."""
    if is_a(got, (str, torch.Tensor)):
        return False
    try:
        if is_a(expected, float):
            return isclose(got, expected, rel_tol=close.get("rtol", 1e-9), abs_tol=close.get("atol", 0))
        return bool((tuple(got) if is_a(got, list) else got) == expected)
    except Exception:  # it cannot be compared
        return False


def unwritten(name, missing, tensor) -> str:
    """That elements of `tensor` were never written; `missing` are their numbers in the flat tensor."""
    place = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(missing[0]), tensor.shape))
    many = f", the first of {len(missing)} such elements of {tensor.numel()}" if len(missing) > 1 else ""
    return f"{name}[{place}] was never written{many}"


def in_line(line) -> str:
    """' in line 4 (`x[i] = 1`)' for a file and a number, or ' in line 4' where the file's text is unknown."""
    text = linecache.getline(*line).strip()
    return f" in line {line[1]}" + (f" (`{text}`)" if text else "")


def not_taken(takes, answer) -> str:
    """That the exercise takes something else: "two numbers", for instance, or `function_of(names)`."""
    return f"this exercise takes {takes}, but got {shown(answer)}"


def function_of(names) -> str:
    """'a Python function of a and b'."""
    *first, last = map(str, names or [""])
    return "a Python function" + (f" of {', '.join(first)} and {last}" if first else f" of {last}" if last else "")


def case_text(sizes, fresh) -> str:
    """'h = 5, w = 7': the numbers and lists among `sizes`, and the shapes of tensors; `fresh` numbers are random every
    time."""
    numbers = [f"{name} = {value}" for name, value in sizes.items() if isinstance(value, (int, float))]
    numbers += [f"{name} = {shown(value)}" for name, value in sizes.items() if isinstance(value, list)]
    numbers += [f"{name}: {tuple(value.shape)}" for name, value in sizes.items() if isinstance(value, torch.Tensor)]
    return ", ".join([*numbers, *(["with fresh numbers"] if fresh else [])])


def counts(traffic) -> str:
    """'16 requests and 512 sectors'."""
    return " and ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in traffic.items())


def counted(count, what) -> str:
    """'1 time', '2 times'."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def is_a(value, kinds) -> bool:
    """isinstance, but by its type alone: a learner's object may raise as soon as an attribute is looked up."""
    return issubclass(type(value), kinds)


def shown(value) -> str:
    """A value as it appears in a sentence: on one line, shortened, and whatever it is."""
    try:
        text = " ".join(_described(value).split())
    except Exception:  # of the learner's own class
        text = f"an object of the type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:56]} ..."


def _described(value):
    if is_a(value, float):
        return f"{value:.6g}"
    if is_a(value, torch.Tensor) and (value.numel() > 4 or value.device.type != "cpu" or value.layout != torch.strided):
        where = "" if value.device.type == "cpu" else f" on {value.device}"
        where += "" if value.layout == torch.strided else f", {value.layout}"
        return f"a tensor of shape {tuple(value.shape)}, {value.dtype}{where}"
    if is_a(value, np.ndarray) and value.size > 4:
        return f"an array of shape {value.shape}, {value.dtype}"
    if is_a(value, type):
        return f"the class {value.__name__}"
    if is_a(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        yields = "generator " if inspect.isgeneratorfunction(value) else ""
        return f"the {'async ' if inspect.iscoroutinefunction(value) else yields}function {value.__name__}"
    text = repr(value)
    return f"an object of the type {type(value).__name__}" if text.startswith("<") else text


def printable(text) -> str:
    """`text`, with escapes for what the output's encoding lacks: a learner's text may hold anything."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
