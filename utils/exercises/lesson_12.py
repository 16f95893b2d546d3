"""Lesson 12: how full the last round is, sums over a warp, copies in flight."""

import re
from random import randint

import torch

from utils.cuda.common import cxx
from utils.exercises.exercise import Function, Kernel, poison
from utils.exercises.lesson_07 import factors
from utils.lesson.simulator import cdiv

_TILES, _TILE = 8, 64  # of a block


def _no_copy_in_flight(source):
    """Follow the source: is no copy in flight at any sum? Then why that is slow, otherwise ""."""
    code = cxx.code(source)
    if "__pipeline_memcpy_async" not in code:
        return "no copy is under way while a tile is added: begin each with __pipeline_memcpy_async"
    copies = "|".join(["__pipeline_memcpy_async", *re.findall(r"\bauto\s+(\w+)\s*=\s*\[", code)])
    steps = rf"__pipeline_wait_prior\(\s*(.*?)\s*\)|\b({copies})\s*\(|\bsum\s*(?:\+=|=\s*sum\s*\+)"
    in_flight = waited = False
    for left, copy in re.findall(steps, code):
        if left:  # of two waits in a row, the branches of an `if`, one is enough
            in_flight, waited = left != "0" or (waited and in_flight), True
        elif copy:
            in_flight, waited = True, False
        elif in_flight:
            return ""
        else:
            waited = False
    return "every wait is for all copies, so none is under way while a tile is added"


def _fewer_than_two_in_flight(source):
    """Why not two copies are in flight at a sum, otherwise ""."""
    if why := _no_copy_in_flight(source):
        return why
    left = re.findall(r"__pipeline_wait_prior\(\s*(.*?)\s*\)", cxx.code(source))
    return "" if set(left) - {"0"} else "every wait is for all copies, so only those begun after it are under way"


def _no_shuffle(source):
    """Why lanes that add up their sums without a shuffle are slow, otherwise ""."""
    return "" if "__shfl" in cxx.code(source) else "the sums of the lanes go through memory: hand them on by shuffles"


def _busy(h, w, rows, columns, slots):
    blocks = cdiv(h, rows) * cdiv(w, columns)
    return blocks / (slots * cdiv(blocks, slots)) if blocks else 0


def _traffic_of_sums(h, w):
    """A warp loads a row in steps of 32 numbers, whose sectors are used in full, and stores one."""
    return {"requests": h * (cdiv(w, 32) + 1), "sectors": h * (cdiv(w, 8) + 1)}


def _traffic_of_two_rows(h, w, k):
    """In each step of 32 a warp loads two rows of m, and w times 32 numbers of n that are w apart; it stores 2 * w."""
    warps, steps = cdiv(h, 2), cdiv(k, 32)
    requests, sectors = steps * (2 + w) + 2 * w, steps * (2 * 4 + w * 4 * w) + 2 * w
    return {"requests": warps * requests, "sectors": warps * sectors}


_TILE_SUMS = {
    "sizes": [{"blocks": blocks} for blocks in (1, 2, 5)],
    "arguments": lambda blocks: {"x": torch.rand(blocks * _TILES * _TILE), "out": poison(blocks * _TILE)},
    "outputs": ("out",),
    "launch": lambda blocks: (blocks, _TILE),
    "expected": lambda x, out: x.view(-1, _TILES, _TILE).sum(1).flip(1).flatten(),
    "cuda": "tile_sums",
    "close": {"rtol": 1e-4, "atol": 1e-4},
    # Each number is loaded once by a copy: 2 warps, 8 tiles, and a store.
    "traffic": lambda blocks: {"sectors": blocks * 2 * (_TILES + 1) * 4},
}


EXERCISES = [
    Function(
        "12-busy",
        cases=[
            {"h": 3072, "w": 3072, "rows": 128, "columns": 256, "slots": 132},
            {"h": 1, "w": 1, "rows": 64, "columns": 128, "slots": 264},
            {"h": 100, "w": 260, "rows": 64, "columns": 128, "slots": 3},
            {"h": 0, "w": 5, "rows": 64, "columns": 128, "slots": 4},
            lambda: {name: randint(1, 300) for name in ("h", "w", "rows", "columns", "slots")},
        ],
        expected=_busy,
    ),
    Kernel(
        "12-sums",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (9, 31), (16, 33), (7, 64), (40, 200))],
        arguments=lambda h, w: {"x": torch.rand(h, w), "out": poison(h), "h": h, "w": w},
        outputs=("out",),
        launch=lambda h, w: (cdiv(h, 8), 256),
        expected=lambda x, out, h, w: x.sum(1),
        cuda="row_sums",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_traffic_of_sums,
        why_slow=_no_shuffle,
    ),
    Kernel(
        "12-rows",
        sizes=[{"h": h, "k": k, "w": w} for h, k, w in ((1, 1, 1), (2, 40, 4), (17, 33, 3), (32, 96, 4))],
        arguments=factors,
        outputs=("out",),
        launch=lambda h, k, w: (cdiv(h, 16), 256),
        expected=lambda m, n, out, h, w, k: m @ n,
        cuda="two_rows",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_traffic_of_two_rows,
    ),
    Kernel("12-pipeline", **_TILE_SUMS, why_slow=_no_copy_in_flight),
    Kernel("12-three", **_TILE_SUMS, why_slow=_fewer_than_two_in_flight),
]
