"""Lesson 00: the first kernel, on a picture."""

import torch

from utils.exercises.exercise import Kernel, once, poison
from utils.lesson.simulator import cdiv

EXERCISES = [
    Kernel(
        "00-brighten",
        sizes=[{"n": n} for n in (1, 17, 255, 256, 1009)],
        arguments=lambda n: {
            "x": torch.randint(0, 256, (n,), dtype=torch.uint8),
            "out": poison(n, dtype=torch.uint8),
            "n": n,
        },
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda x, out, n: (x.int() + 60).clamp(max=255).to(torch.uint8),
        cuda="brighten",
        traffic=lambda n: once(torch.empty(2 * n, dtype=torch.uint8)),
    ),
]
