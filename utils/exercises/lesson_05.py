"""Lesson 05: the matrix product as a kernel in Python."""

import torch

from utils.exercises.exercise import Kernel, Question, poison
from utils.lesson.simulator import blk_kernel, blk_kernel2d, cdiv

_SIZES = [{"h": h, "k": k, "w": w} for h, k, w in ((1, 1, 1), (1, 17, 1), (5, 7, 10), (17, 3, 31), (13, 20, 14))]
_CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def _matrices(n_shape):
    return lambda h, k, w: {
        "m": torch.rand(h * k),
        "n": torch.rand(n_shape(k, w)).flatten(),
        "out": poison(h * w),
        "h": h,
        "w": w,
        "k": k,
    }


def _wrong_size(answer):
    """The swapped kernel's threads reach as many rows as the grid has threads in x, and as many columns as in y."""
    h, k, w = answer
    if min(h, k, w) < 1:
        return f"a side of {min(h, k, w)} leaves nothing to compute"
    rows, columns = cdiv(w, 16) * 16, cdiv(h, 16) * 16
    missing = h > rows or w > columns
    return "" if missing else f"its threads reach {rows} rows and {columns} columns: all of {h} x {w} is written"


EXERCISES = [
    Question("05-size", _wrong_size, takes="three numbers (h, k, w)"),
    Kernel(
        "05-1d",
        sizes=_SIZES,
        arguments=_matrices(lambda k, w: (k, w)),
        outputs=("out",),
        launch=lambda h, k, w: (cdiv(h * w, 32), 32),
        expected=lambda m, n, out, h, w, k: (m.view(h, k) @ n.view(k, w)).flatten(),
        run=blk_kernel,
        close=_CLOSE,
    ),
    Kernel(
        "05-nt",
        sizes=_SIZES,
        arguments=_matrices(lambda k, w: (w, k)),
        outputs=("out",),
        launch=lambda h, k, w: ((cdiv(w, 8), cdiv(h, 4)), (8, 4)),
        expected=lambda m, n, out, h, w, k: (m.view(h, k) @ n.view(w, k).t()).flatten(),
        run=blk_kernel2d,
        close=_CLOSE,
    ),
    Kernel(
        "05-two",
        sizes=_SIZES,
        arguments=_matrices(lambda k, w: (k, w)),
        outputs=("out",),
        launch=lambda h, k, w: ((cdiv(w, 8), cdiv(h, 8)), (8, 4)),
        expected=lambda m, n, out, h, w, k: (m.view(h, k) @ n.view(k, w)).flatten(),
        run=blk_kernel2d,
        close=_CLOSE,
    ),
]
