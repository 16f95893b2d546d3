"""Lesson 12: copies in flight."""

import re

import torch

from utils.cuda.common import cxx
from utils.exercises.exercise import Kernel, poison

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


EXERCISES = [
    Kernel(
        "12-pipeline",
        sizes=[{"blocks": blocks} for blocks in (1, 2, 5)],
        arguments=lambda blocks: {"x": torch.rand(blocks * _TILES * _TILE), "out": poison(blocks * _TILE)},
        outputs=("out",),
        launch=lambda blocks: (blocks, _TILE),
        expected=lambda x, out: x.view(-1, _TILES, _TILE).sum(1).flip(1).flatten(),
        cuda="tile_sums",
        close={"rtol": 1e-4, "atol": 1e-4},
        # Each number is loaded once by a copy: 2 warps, 8 tiles, and a store.
        traffic=lambda blocks: {"sectors": blocks * 2 * (_TILES + 1) * 4},
        why_slow=_no_copy_in_flight,
    ),
]
