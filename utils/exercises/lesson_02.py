"""Lesson 02: kernels in Python, one thread per element."""

import torch

from utils.exercises.exercise import Kernel, Question, once, poison
from utils.lesson.simulator import blk_kernel, cdiv

_THREADS = 32  # in a block: few, so that small pictures have several blocks and an overhang


def _wrong_count(answer):
    blocks, spare = (number + 0 for number in answer)  # an error for text
    right = cdiv(1066 * 1600, 256)
    parts = [
        ("the number of blocks", blocks, right),
        ("the number of threads without a pixel", spare, right * 256 - 1066 * 1600),
    ]
    return " and ".join(f"{what} is not {yours}" for what, yours, expected in parts if yours != expected)


def _wrong_unnoticed(answer):
    sizes = [(16, 16), (150, 225), (1, 1), (20, 64), (100, 100)]
    right = [(h, w) for h, w in sizes if h * w % 256 == 0]
    yours = [(h, w) for h, w in answer]
    for size in yours:
        if size not in sizes:
            return f"{size} is not one of the sizes"
        if size not in right:
            return f"for {size} somebody does notice"
    missing = sum(size not in yours for size in right)
    return f"{missing} of the sizes that go unnoticed {'is' if missing == 1 else 'are'} missing" if missing else ""


def _blocks(h, w):
    return cdiv(h * w, _THREADS), _THREADS


EXERCISES = [
    Question("02-count", _wrong_count, takes="two numbers (blocks, threads without a pixel)"),
    Question("02-unnoticed", _wrong_unnoticed, takes="a list of sizes such as [(150, 225)]"),
    Kernel(
        "02-guard",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (1, 17), (7, 13), (8, 8), (11, 23))],
        arguments=lambda h, w: {
            "x": torch.randint(0, 256, (3 * h * w,), dtype=torch.uint8),
            "out": poison(h * w, dtype=torch.uint8),
            "n": h * w,
        },
        outputs=("out",),
        launch=_blocks,
        expected=lambda x, n, out: (0.2989 * x[:n] + 0.5870 * x[n : 2 * n] + 0.1140 * x[2 * n :]).to(torch.uint8),
        run=blk_kernel,
    ),
    Kernel(
        "02-mirror",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (1, 17), (17, 1), (7, 13), (5, 32))],
        arguments=lambda h, w: {
            "x": torch.randint(0, 256, (h * w,), dtype=torch.uint8),
            "out": poison(h * w, dtype=torch.uint8),
            "h": h,
            "w": w,
        },
        outputs=("out",),
        launch=_blocks,
        expected=lambda x, h, w, out: x.view(h, w).flip(1).flatten(),
        run=blk_kernel,
        traffic=lambda h, w: once(torch.empty(2 * h * w, dtype=torch.uint8)),
    ),
    Kernel(
        "02-stride",
        sizes=[{"n": n, "blocks": blocks} for n, blocks in ((1, 1), (17, 1), (65, 2), (64, 1), (127, 2), (320, 3))],
        arguments=lambda n, blocks: {"x": torch.rand(n), "out": poison(n), "n": n, "blocks": blocks},
        outputs=("out",),
        launch=lambda n, blocks: (blocks, _THREADS),
        expected=lambda x, out, n, blocks: 2 * x,
        run=blk_kernel,
        traffic=lambda n, blocks: once(torch.empty(2 * n)),
    ),
]
