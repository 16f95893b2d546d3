"""Lesson 13: what diverging warps issue, a shuffle without all lanes, votes, a histogram, lanes out of step."""

from random import random

import torch

from utils.cuda.common import cxx
from utils.exercises.exercise import Function, Kernel, once, poison
from utils.lesson.simulator import cdiv

_BLOCKS, _BINS = 4, 64  # of the histogram


def _slots(left, a, b):
    warps = [left[first : first + 32] for first in range(0, len(left), 32)]
    return sum(a * any(warp) + b * (not all(warp)) for warp in warps)


def _lanes(threads, share):
    """Which side each of so many threads takes, by chance."""
    return lambda: {"left": [random() < share for _ in range(threads)], "a": 7, "b": 3}


def _named_by_chance(source):
    """Why the lanes that happen to be at a line cannot be the mask of a shuffle or a vote, otherwise ""."""
    if "__activemask" not in cxx.code(source):
        return ""
    return (
        "`__activemask()` returns the lanes that are at this line together by chance, and the GPU may split a warp "
        "anywhere: name the lanes that must be there, such as 0xffffffff"
    )


def _numbers(n):
    """Among them a 0 and a positive number next to it."""
    x = torch.randn(n)
    x[n // 2], x[n // 3] = 0.0, 1e-30
    out = {"out": poison(n), "counts": poison(cdiv(n, 32), dtype=torch.int32)}
    return {"x": x, **out, "n": n}


def _kept(x, out, counts, n):
    """The positive numbers of each 32, then zeros; and how many are positive."""
    warps = x.split(32)
    kept = [torch.cat([warp[warp > 0], torch.zeros(int((warp <= 0).sum()))]) for warp in warps]
    return {"out": torch.cat(kept), "counts": torch.tensor([int((warp > 0).sum()) for warp in warps]).int()}


def _traffic_of_kept(n):
    traffic, warps = once(torch.empty(2 * n)), cdiv(n, 32)
    return {"requests": traffic["requests"] + warps, "sectors": traffic["sectors"] + warps}


def _no_vote(source):
    """Why lanes that find their places without asking each other are slow, otherwise ""."""
    if any(name in cxx.code(source) for name in ("__ballot_sync", "__shfl", "__match_any_sync", ".ballot(", ".shfl")):
        return ""
    return "the lanes do not vote: each finds its place by itself, from memory"


def _values(n):
    """Each bin has at least one, and half of the others are in bin 5."""
    x = torch.randint(0, _BINS, (n,))
    x[torch.rand(n) < 0.5] = 5
    x[:_BINS] = torch.arange(_BINS)
    return {"x": x[torch.randperm(n)].int(), "out": torch.zeros(_BINS, dtype=torch.int32), "n": n}


def _rows(rows):
    """The first one is far below 0: no number may stand for its largest."""
    x = torch.randn(rows, 64)
    x[0] = -1e30 * (torch.rand(64) + 0.5)
    return {"x": x.view(-1), "out": poison(rows)}


def _traffic_of_bins(n):
    """x is loaded once, and each block adds each bin once to out."""
    return {"requests": cdiv(n, 32) + _BLOCKS * _BINS // 32}


EXERCISES = [
    Function(
        "13-slots",
        cases=[
            {"left": [True, False] * 32, "a": 10, "b": 20},
            {"left": [True] * 32 + [False] * 32, "a": 10, "b": 20},
            {"left": [True] * 40, "a": 5, "b": 9},
            {"left": [False] * 31 + [True], "a": 5, "b": 9},
            {"left": [], "a": 5, "b": 9},
            _lanes(256, 0.03),
            _lanes(100, 0.98),
        ],
        expected=_slots,
    ),
    Kernel(
        "13-shuffle",
        sizes=[{"n": n} for n in (32, 1, 33, 500, 1024)],
        arguments=lambda n: {"x": torch.rand(n), "out": poison(cdiv(n, 32)), "n": n},
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda x, out, n: torch.stack([warp.sum() for warp in x.split(32)]),
        cuda="warp_sums",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=lambda n: {"requests": 2 * cdiv(n, 32), "sectors": 5 * cdiv(n, 32)},
        why_wrong=_named_by_chance,
    ),
    Kernel(
        "13-keep",
        sizes=[{"n": n} for n in (32, 1, 45, 300, 1024)],
        arguments=_numbers,
        outputs=("out", "counts"),
        launch=lambda n: (cdiv(n, 128), 128),
        expected=_kept,
        cuda="keep_positive",
        traffic=_traffic_of_kept,
        why_wrong=_named_by_chance,
        why_slow=_no_vote,
    ),
    Kernel(
        "13-bins",
        sizes=[{"n": n} for n in (64, 65, 1000, 9001)],
        arguments=_values,
        outputs=("out",),
        launch=lambda n: (_BLOCKS, 256),
        expected=lambda x, out, n: x.bincount(minlength=_BINS).int(),
        cuda="bins",
        traffic=_traffic_of_bins,
    ),
    Kernel(
        "13-step",
        sizes=[{"rows": rows} for rows in (1, 3, 10)],
        arguments=_rows,
        outputs=("out",),
        launch=lambda rows: (rows, 32),
        expected=lambda x, out: x.view(-1, 64).amax(1),
        cuda="row_max",
        traffic=lambda rows: {"requests": 3 * rows, "sectors": 9 * rows},
    ),
]
