"""Lesson 08: sectors of a stride and of a block, wide loads of structs and bytes, the order of the lanes."""

from numbers import Integral

import torch

from utils.exercises.exercise import Kernel, Question, poison
from utils.exercises.verdicts import is_a, not_taken
from utils.lesson.simulator import cdiv

_STRIDES = (0, 3, 6, 9)
_ROW = 4096  # bytes per row of the picture that a block reads

_SECTORS = "a dictionary that maps each of the strides 0, 3, 6 and 9 to a whole number"
_SHAPE = "a pair (x, y) of whole numbers"


def _wrong_sectors(answer):
    if sorted(answer) != list(_STRIDES) or not all(is_a(answer[stride], Integral) for stride in _STRIDES):
        return not_taken(_SECTORS, answer)
    for stride in _STRIDES:
        sectors = {4 * lane * stride // 32 for lane in range(32)}
        if answer[stride] != len(sectors):
            where = f"each lane is {4 * stride} bytes after the one before it, and the last one at byte {124 * stride}"
            return f"a request with stride {stride} does not touch {answer[stride]} sectors: {where}"
    return ""


def _wrong_shape(answer):
    x, y = answer
    if not (is_a(x, Integral) and is_a(y, Integral)):
        return not_taken(_SHAPE, answer)
    if x < 1 or y < 1 or x * y != 256:
        return f"a block of ({x}, {y}) does not have 256 threads"
    touched = {(lane // x * _ROW + lane % x) // 32 for lane in range(32)}
    where = f"the lanes of a warp are in {cdiv(32, x)} rows, so a request touches {len(touched)} sectors"
    return "" if len(touched) == 1 else f"with a block of ({x}, {y}), {where}"


def _bodies(n):
    return {"bodies": torch.randn(n, 4).abs(), "out": poison(n), "n": n}


def _bytes(n):
    return {"x": torch.randint(256, (n,), dtype=torch.uint8), "out": poison(n, dtype=torch.uint8), "n": n}


def _matrix(h, w):
    return {"x": torch.randn(h, w), "factor": torch.randn(h), "out": poison(h, w), "h": h, "w": w}


EXERCISES = [
    Question("08-stride", _wrong_sectors, takes=_SECTORS),
    Question("08-block", _wrong_shape, takes=_SHAPE),
    Kernel(
        "08-energy",
        sizes=[{"n": n} for n in (1, 31, 129, 256)],
        arguments=_bodies,
        outputs=("out",),
        launch=lambda n: (cdiv(n, 64), 64),
        expected=lambda bodies, out, n: 0.5 * bodies[:, 3] * (bodies[:, :3] ** 2).sum(1),
        cuda="energy",
        # A warp loads 32 bodies of 16 bytes in one request, and stores 32 numbers in another.
        traffic=lambda n: {"requests": 2 * n // 32, "sectors": 20 * n // 32},
    ),
    Kernel(
        "08-negative",
        sizes=[{"n": n} for n in (1, 15, 16, 17, 4095, 4097, 8192)],
        arguments=_bytes,
        outputs=("out",),
        launch=lambda n: (cdiv(n, 16 * 256), 256),
        expected=lambda x, out, n: 255 - x,
        cuda="negative",
        # A warp loads 32 times 16 bytes in one request, and stores them in another.
        traffic=lambda n: {"requests": 2 * n // 512, "sectors": 2 * n // 32},
    ),
    Kernel(
        "08-rows",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (7, 65), (65, 7), (64, 96))],
        arguments=_matrix,
        outputs=("out",),
        launch=lambda h, w: (cdiv(h * w, 256), 256),
        expected=lambda x, factor, out, h, w: x * factor[:, None],
        cuda="scale_rows",
        # With w a multiple of 32, a warp is in one row: one sector for its factor, four for x and four for out.
        traffic=lambda h, w: {"requests": 3 * h * w // 32, "sectors": 9 * h * w // 32},
    ),
]
