"""Lesson 15: merging what parts of a row have found, RMS norm, softmax and its gradient, sums over rows."""

import math
from random import uniform

import torch

from utils.exercises.exercise import Function, Kernel, alone, poison
from utils.lesson.simulator import cdiv

_SIZES = [{"h": h, "w": w} for h, w in ((1, 1), (9, 17), (5, 40), (16, 64), (8, 320))]


def _rows(h, w):
    """A warp per row, eight to a block."""
    return cdiv(h, 8), 256


def _traffic(loads):
    """A warp loads a row so many times and stores it once, in steps of 32 numbers, whose sectors are used in full."""
    return lambda h, w: {"requests": h * (loads + 1) * cdiv(w, 32), "sectors": h * (loads + 1) * cdiv(w, 8)}


def _merged(a, b):
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def _steep_rows(h, w):
    """Rows that climb or fall, far above 0 or far below, so that neither exp(x) nor a start near 0 survives. Half of
    row 0 is masked: no start at minus infinity survives that."""
    slopes, levels = (
        torch.tensor([3.0, -3.0])[torch.arange(h) % 2],
        torch.tensor([200.0, -1e5, 0.0])[torch.arange(h) % 3],
    )
    x = torch.randn(h, w) + slopes[:, None] * torch.linspace(0, 4, w) + levels[:, None]
    x[0, : w // 2] = -math.inf
    return {"x": x, "out": poison(h, w), "h": h, "w": w}


def _column_traffic(h, w):
    """A warp loads 32 neighbours of a row at a time, and stores 32 sums."""
    return {"requests": (h + 1) * cdiv(w, 32), "sectors": (h + 1) * cdiv(w, 8)}


EXERCISES = [
    Function(
        "15-merge",
        cases=[
            {"a": 0.0, "b": 0.0},
            {"a": 1000.0, "b": 999.0},
            {"a": -1000.0, "b": -1001.5},
            {"a": -2.0, "b": 90.0},
            {"a": 800.0, "b": -800.0},
            {"a": -800.0, "b": 800.0},
            lambda: {"a": uniform(-5, 5), "b": uniform(-5, 5)},
        ],
        expected=_merged,
        close={"rtol": 1e-6, "atol": 1e-6},
    ),
    Kernel(
        "15-rms",
        sizes=_SIZES,
        arguments=lambda h, w: {
            "x": torch.randn(h, w),
            "weight": torch.rand(w) + 0.5,
            "out": poison(h, w),
            "h": h,
            "w": w,
            "eps": 0.25,
        },
        outputs=("out",),
        launch=_rows,
        expected=lambda x, weight, out, h, w, eps: x * weight / (x.square().mean(1, keepdim=True) + eps).sqrt(),
        cuda="rms_norm",
        close={"rtol": 1e-4, "atol": 1e-5},
        # Row and weights: three loads and a store.
        traffic=_traffic(3),
    ),
    Kernel(
        "15-hunt",
        sizes=_SIZES,
        arguments=_steep_rows,
        outputs=("out",),
        launch=_rows,
        expected=lambda x, out, h, w: torch.softmax(x, 1),
        cuda="softmax",
        close={"rtol": 1e-4, "atol": 1e-6},
        traffic=_traffic(2),
    ),
    Kernel(
        "15-gradient",
        sizes=_SIZES,
        arguments=lambda h, w: {
            "dy": torch.randn(h, w),
            "y": torch.softmax(torch.randn(h, w), 1),
            "dx": poison(h, w),
            "h": h,
            "w": w,
        },
        outputs=("dx",),
        launch=_rows,
        expected=lambda dy, y, dx, h, w: y * (dy - (y * dy).sum(1, keepdim=True)),
        cuda="gradient",
        close={"rtol": 1e-4, "atol": 1e-6},
        # Two rows, twice, and a store.
        traffic=_traffic(4),
    ),
    Kernel(
        "15-columns",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (7, 33), (8, 32), (40, 100), (64, 64))],
        arguments=lambda h, w: {"x": torch.randn(h, w), "out": poison(w), "h": h, "w": w},
        outputs=("out",),
        launch=lambda h, w: (cdiv(w, 32), 256),
        expected=lambda x, out, h, w: x.sum(0),
        cuda="column_sums",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_column_traffic,
        why_slow=alone,
    ),
]
