"""Lesson 09: banks for numbers of 8 bytes."""

import torch

from utils.exercises.exercise import Kernel, poison
from utils.lesson.simulator import cdiv

EXERCISES = [
    Kernel(
        "09-padding",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (33, 5), (40, 70), (64, 64))],
        arguments=lambda h, w: {
            "x": torch.randn(h, w, dtype=torch.float64),
            "out": poison(w, h, dtype=torch.float64),
            "h": h,
            "w": w,
        },
        outputs=("out",),
        launch=lambda h, w: ((cdiv(w, 32), cdiv(h, 32)), (32, 32)),
        expected=lambda x, out, h, w: x.t(),
        cuda="transpose_double",
        traffic=lambda h, w: {"bank_conflicts": 0, "sectors": 2 * h * w // 4},
    ),
]
