"""Lesson 01: pictures as memory, loops, and clocks."""

from numbers import Real

import torch

from utils.exercises.exercise import Function, Question, given, is_ordinary
from utils.exercises.verdicts import shown


def _wrong_list(rgb2grey_list):
    """Compare in whole ten-thousandths. A sum that is a whole number may come out just below it in floating point."""
    for h, w in ((1, 1), (1, 17), (17, 1), (5, 7), (31, 23)):
        x = torch.randint(0, 256, (3, h, w), dtype=torch.uint8)
        got, case = given(rgb2grey_list(x.clone())), f"(h = {h}, w = {w})"
        if not is_ordinary(got) or got.shape != (h, w) or got.dtype != torch.uint8:
            yours = f"{got.dtype} of {tuple(got.shape)}" if is_ordinary(got) else shown(got)
            return f"the result should be torch.uint8 of {(h, w)}, but yours is {yours} {case}"
        r, g, b = x.long()
        exact = 2989 * r + 5870 * g + 1140 * b
        differ = (got != exact // 10_000) & (got != (exact - 1) // 10_000)
        if differ.any():
            row, col = differ.nonzero()[0].tolist()
            wrong = f"element [{row}, {col}] of the result should be {exact[row, col] // 10_000}"
            why = f"the weighted sum is {exact[row, col] / 10_000:.4f} {case}"
            return f"{wrong}, but yours is {got[row, col]}: {why}"
    return ""


def _places():
    for h, w in ((1, 1), (2, 3), (5, 7), (17, 1)):
        for c, r, col in ((0, 0, w - 1), (1, 0, 0), (2, h - 1, w - 1), (1, h // 2, w // 2), (0, h - 1, 0)):
            yield {"c": c, "r": r, "col": col, "h": h, "w": w}


def _wrong_stopwatch(best_time):
    """Pass a clock that only the function moves: the first run takes 100 seconds, the others a few."""
    for runs in ([100, 5, 3, 4, 7, 6, 2, 1], [100, 9, 9, 9, 9, 9, 9, 9], [100, 8, 7, 6, 5, 4, 3, 2]):
        now, left = [50.0], list(runs)

        def f(now=now, left=left):
            if not left:
                raise RuntimeError("that is one run too many: one to warm up, then five")
            now[0] += left.pop(0)

        got = given(best_time(f, lambda now=now: now[0]), Real, "a number of seconds")
        ran = runs[: len(runs) - len(left)]
        took = f"the runs took {', '.join(map(str, ran)) or 'no'} seconds"
        if len(ran) != 6:
            return f"f ran {len(ran)} time{'s' * (len(ran) != 1)}, but one run to warm up and five timed runs make 6"
        if got != min(runs[1:6]):
            return f"{took}: the shortest after the first is {min(runs[1:6])}, but yours is {got}"
    return ""


EXERCISES = [
    Function(
        "01-hwc",
        cases=list(_places()),
        expected=lambda c, r, col, h, w: torch.arange(3 * h * w).view(h, w, 3)[r, col, c].item(),
    ),
    Question("01-list", _wrong_list, takes=("x",)),
    Function(
        "01-film",
        cases=[{"per_pixel": seconds} for seconds in (1e-6, 1e-5, 2.5e-5)],
        expected=lambda per_pixel: 90 * 60 * 24 * 1920 * 1080 * per_pixel / 86_400,
    ),
    Question("01-cold", _wrong_stopwatch, takes=("f", "clock")),
]
