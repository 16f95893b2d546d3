"""Lesson 10: a stopwatch, FLOP per byte, what bounds a kernel, a benchmark with four mistakes, two passes in one."""

import statistics
from functools import partial
from math import isclose
from numbers import Real

import torch

from utils.exercises.exercise import Function, Kernel, Question, given, poison, wrong_lines
from utils.exercises.verdicts import counted, is_a, not_taken, shown
from utils.lesson.simulator import cdiv

_LAUNCH = 0.01  # seconds that a submission costs on the machine below


class _Machine:
    """A clock and a queue: `run` submits work and returns, `wait` returns when all of it is done."""

    def __init__(self, works):
        self.works, self.calls, self.now, self.free = works, 0, 0.0, 0.0

    def run(self):
        work = self.works[min(self.calls, len(self.works) - 1)]
        self.calls += 1
        self.now += _LAUNCH
        self.free = max(self.free, self.now) + work

    def wait(self):
        self.now = max(self.now, self.free)

    def clock(self):
        return self.now


def _wrong_median(median_time):
    for works in ([50.0, 3.0], [50.0, 3.0, 4.0, 3.5, 20.0, 5.0], [9.0, 2.0, 1.0, 6.0, 30.0]):
        machine, repeat = _Machine(works), len(works) - 1
        got = given(median_time(machine.run, machine.wait, machine.clock, repeat), Real, "a number of seconds")
        if machine.calls != repeat + 1:
            return (
                f"with repeat = {repeat}, f was called {counted(machine.calls, 'time')}, "
                f"but one warm-up and {counted(repeat, 'sample')} make {repeat + 1}"
            )
        right = statistics.median(work + _LAUNCH for work in works[1:])
        if not isclose(got, right, rel_tol=1e-6):
            later = ", ".join(f"{work:g}" for work in works[1:])
            case = f"the first call takes {works[0]:g} s, the others {later}, and handing over {_LAUNCH} s"
            return f"the median should be {right:g} s, but yours is {got:g} ({case})"
    return ""


# (FLOP, bytes, peak, bandwidth): a square, a matmul, a copy, grayscale; the last on a machine with slow arithmetic.
_BOUNDS = [(1e6, 8e6, 1e12, 1e11), (2e12, 2e8, 6e13, 4e12), (0, 1e9, 1e13, 1e12), (5e6, 4e6, 6e13, 4e12)]
_BOUNDS += [(1e6, 8e6, 1e9, 1e12)]

_PAIR = "a pair, a number of seconds and a word"


def _wrong_bound(bound):
    for flops, size, peak, bandwidth in _BOUNDS:
        arithmetic, memory = flops / peak, size / bandwidth
        case = f"the operations take {arithmetic:g} s, the bytes {memory:g} s (flops = {flops:g}, bytes = {size:g}, "
        case += f"peak = {peak:g}, bandwidth = {bandwidth:g})"
        try:
            answer = given(bound(flops, size, peak, bandwidth), tuple | list, _PAIR)
        except ZeroDivisionError:
            return f"it divides by zero where {case}"
        if len(answer) != 2 or not is_a(answer[0], Real):
            return f"your function should return {_PAIR}, but it returned {shown(answer)}"
        least, limit = max((arithmetic, "arithmetic"), (memory, "memory"))
        if not isclose(answer[0], least, rel_tol=1e-6):
            return f"{answer[0]:g} s is not the least time: {case}"
        if answer[1] != limit:
            return f"{shown(answer[1])} is not what bounds it: {case}"
    return ""


_BYTES = {"two passes": 24, "one pass": 16}  # of a pixel, with 8 operations
_PLACES = 'a dictionary that maps "two passes" and "one pass" to a number'


def _wrong_places(answer):
    if not is_a(answer, dict) or set(answer) != set(_BYTES) or not all(is_a(v, Real) for v in answer.values()):
        return not_taken(_PLACES, answer)
    for what, size in _BYTES.items():
        if not isclose(answer[what], 8 / size, rel_tol=0.02):
            means = f": with 8 operations, that is {8 / answer[what]:.3g} bytes per pixel" if answer[what] > 0 else ""
            return f"{what}: {float(answer[what]):.3g} FLOP per byte is not the intensity{means}"
    return ""


def _contrast_gray(x, out, n):
    r, g, b = x.double().view(3, n)
    return (1.5 * (0.2989 * r + 0.5870 * g + 0.1140 * b - 0.5) + 0.5).float()


_MISTAKES = {"compiles while the clock runs": 6, "stops too early": 9, "fits into the cache": 1, "checks nothing": 10}


EXERCISES = [
    Question("10-median", _wrong_median, takes=("f", "wait", "clock", "repeat")),
    Question("10-bound", _wrong_bound, takes=("flops", "bytes", "peak", "bandwidth")),
    Question(
        "10-hunt", partial(wrong_lines, _MISTAKES), takes="a dictionary with the number of a line for each mistake"
    ),
    Kernel(
        "10-fuse",
        sizes=[{"n": n} for n in (4, 68, 260, 1024)],
        arguments=lambda n: {"x": torch.rand(3 * n), "out": poison(n), "n": n},
        outputs=("out",),
        launch=lambda n: (cdiv(n // 4, 64), 64),
        expected=_contrast_gray,
        cuda="gray_contrast",
        close={"rtol": 1e-4, "atol": 1e-5},
        # A warp loads 3 times 512 bytes and stores 512, each in one request.
        traffic=lambda n: {"requests": 4 * n // 128, "sectors": 4 * n // 8},
    ),
    Question("10-place", _wrong_places, takes=_PLACES),
    Function(
        "10-intensity",
        cases=[
            {"h": 16, "w": 16, "k": 16, "tile": 16},
            {"h": 32, "w": 32, "k": 32, "tile": 16},
            {"h": 64, "w": 96, "k": 320, "tile": 32},  # small enough to be counted tile by tile
            {"h": 256, "w": 64, "k": 32, "tile": 8},
        ],
        expected=lambda h, w, k, tile: 2 * h * w * k / (4 * (2 * h * w * k / tile + h * w)),
    ),
]
