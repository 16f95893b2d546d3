"""Lesson 14: sums of rows by warps, a tree with mistakes, parts that merge, positives kept in order, a look-back."""

import math
import re

import torch

from utils.cuda.common import cxx
from utils.exercises.exercise import Kernel, Question, alone, given, poison, runs
from utils.exercises.verdicts import shown
from utils.lesson.simulator import cdiv


def _rows(h, w):
    return {"x": torch.randn(h, w), "out": poison(h), "h": h, "w": w}


def _row_traffic(h, w):
    """A warp reads a row in pieces of 32 elements; each row's sum is stored by one lane."""
    reads = runs([(r * w + c, min(32, w - c)) for r in range(h) for c in range(0, w, 32)])
    stores = runs([(r, 1) for r in range(h)])
    return {column: reads[column] + stores[column] for column in reads}


def _far_below_0(n):
    """Negative numbers of all blocks, the largest in the first: no other number may stand for a missing one."""
    x = -1e30 * (torch.rand(n) + 0.5)
    x[0] = -1e29
    return {"x": x, "out": poison(cdiv(n, 256)), "n": n}


def _part(n, shift=0.0):
    """A part of random numbers around `shift`: how many, their mean, the sum of squared distances from the mean."""
    x = torch.randn(n, dtype=torch.float64) + shift
    return n, x.mean().item(), (x - x.mean()).square().sum().item()


def _merged(a, b):
    n = a[0] + b[0]
    mean = (a[0] * a[1] + b[0] * b[1]) / n
    return n, mean, sum(m2 + count * (own - mean) ** 2 for count, own, m2 in (a, b))


def _wrong_merge(merge):
    parts = [((1, 2.0, 0.0), (1, 4.0, 0.0)), ((3, 1.0, 2.0), (1, 5.0, 0.0)), ((2, 1.0, 2.0), (4, 1.0, 8.0))]
    parts += [(_part(4), _part(4)), (_part(1000, 90.0), _part(7)), (_part(20), _part(3000, 1e4))]
    for a, b in parts:
        found, expected = given(merge(a, b), (tuple, list), "three numbers"), _merged(a, b)
        if len(found) != 3:
            return f"your function should return three numbers, but it returned {shown(found)}"
        for name, number, right in zip(("count", "mean", "sum of squared distances"), found, expected, strict=True):
            if not math.isclose(float(number), right, rel_tol=1e-9, abs_tol=1e-9):
                return f"the {name} of {shown(a)} and {shown(b)} is {shown(right)}, but yours is {shown(number)}"
    return ""


def _some_positive(n):
    x = torch.randn(n)
    return {"x": x, "out": poison(int((x > 0).sum())), "n": n}


def _tiles(n):
    tiles = max(1, cdiv(n, 256))
    state = {"flags": torch.zeros(tiles, dtype=torch.int32), "sums": poison(tiles)}
    return {"x": torch.randn(n), "next": torch.zeros(1, dtype=torch.int32), **state, "out": poison(n), "n": n}


def _order_of_blocks_or_memory(source):
    """Why another order of the blocks, or of the loads and stores, would break a look-back; otherwise ""."""
    from utils.cuda.kernel import Tracer

    trace = Tracer(source, "look_back")[4, 256](*_tiles(1000).values(), order="reversed", max_steps=50_000)
    if any(problem.kind == "runaway" for problem in trace.problems):
        return "if the last block begins first, it waits for tiles whose blocks have not begun"
    if len(re.findall(r"__threadfence(?!_block)|acquire|release", cxx.code(source))) < 2:
        return (
            "no trace sees it, but a GPU may let a sum be seen after its flag, or be loaded before it, `volatile` or "
            "not: two writes and two reads need a fence each"
        )
    return ""


EXERCISES = [
    Kernel(
        "14-rows",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (9, 31), (8, 33), (40, 100))],
        arguments=_rows,
        outputs=("out",),
        launch=lambda h, w: (cdiv(h, 8), 256),
        expected=lambda x, out, h, w: x.double().sum(1).float(),
        cuda="row_sums",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_row_traffic,
    ),
    Kernel(
        "14-largest",
        sizes=[{"n": n} for n in (1, 256, 300, 2000)],
        arguments=_far_below_0,
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda x, out, n: torch.stack([part.max() for part in x.split(256)]),
        cuda="largest",
    ),
    Question("14-merge", _wrong_merge, takes=("a", "b")),
    Kernel(
        "14-positive",
        sizes=[{"n": n} for n in (1, 31, 256, 257, 1000)],
        arguments=_some_positive,
        outputs=("out",),
        launch=lambda n: (1, 256),
        expected=lambda x, out, n: x[x > 0],
        cuda="positive",
        traffic=lambda n: {"requests": 2 * cdiv(n, 32)},
        why_slow=alone,
    ),
    Kernel(
        "14-look-back",
        sizes=[{"n": n} for n in (1, 256, 1000, 2100)],
        arguments=_tiles,
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda x, out, n, **_: x.double().cumsum(0).float(),
        cuda="look_back",
        why_wrong=_order_of_blocks_or_memory,
        close={"rtol": 1e-4, "atol": 1e-3},
    ),
]
