"""Lesson 11: the limit that counts give, sums in registers, the order of the lanes."""

from numbers import Integral
from random import randint, uniform

from utils.exercises.exercise import Function, Kernel, Question, given
from utils.exercises.lesson_07 import factors
from utils.exercises.verdicts import is_a, shown
from utils.lesson.simulator import cdiv


def _shared_by_pairs(wanted):
    """Whether neighbours want the same: each lane the same as lane i ^ 1, or each the same as lane i ^ 2."""
    return any(all(wanted[i] == wanted[i ^ by] for i in range(len(wanted))) for by in (1, 2))


def _wrong_order(place_of):
    places = [tuple(given(place_of(lane), tuple | list, "a row and a column")) for lane in range(32)]
    halves = range(16), range(16, 32)  # of the warp: the hardware looks at each by itself
    for lane, place in enumerate(places):
        if len(place) != 2 or not all(is_a(number, Integral) for number in place):
            return f"the place of a lane is its row and its column, but for lane {lane} it is {shown(place)}"
        if place not in [(r, c) for r in range(4) for c in range(8)]:
            return f"lane {lane} is at {place}, which is outside the 4 rows and 8 columns"
        if place in places[:lane]:
            return f"lanes {places.index(place)} and {lane} are both at {place}"
    for number, which in enumerate(("row", "column")):
        if not all(_shared_by_pairs([places[i][number] for i in half]) for half in halves):
            example = f"lanes 0, 1 and 2 have the {which}s {', '.join(str(places[i][number]) for i in range(3))}"
            return (
                f"a read by {which} takes four passes: not all pairs i and i ^ 1, or i and i ^ 2, share it ({example})"
            )
    return ""


def _traffic_of_rows(h, k, w):
    """For 8 warps per block: in each step of 16 they load 1 + 4 times and store that into the tiles with 1 + 8 passes
    (rows of n_tile share banks), then read 1 + 4 for each of 16; in the end each stores 4 times."""
    warps, steps = 8 * cdiv(w, 64) * cdiv(h, 16), cdiv(k, 16)
    return {"requests": warps * (5 * steps + 4), "wavefronts": warps * steps * (9 + 16 * 5)}


def _traffic_of_squares(h, k, w):
    """For 8 warps per block: in each step of 16 they load twice from either matrix and store that into the tiles, then
    read 2 + 2 for each of 16; in the end each stores 4 times."""
    warps, steps = 8 * cdiv(w, 32) * cdiv(h, 32), cdiv(k, 16)
    return {"requests": warps * (4 * steps + 4), "wavefronts": warps * steps * (4 + 16 * 4)}


EXERCISES = [
    Function(
        "11-cycles",
        cases=[
            {"fmas": 1000, "reads": 2, "passes": 2},
            {"fmas": 4000, "reads": 1, "passes": 0.25},
            {"fmas": 4000, "reads": 0.5, "passes": 0.375},
            lambda: {"fmas": randint(1, 10_000), "reads": uniform(0, 4), "passes": uniform(0, 4)},
        ],
        expected=lambda fmas, reads, passes: max(fmas * (1 + reads) / 4, fmas * passes),
    ),
    Kernel(
        "11-row",
        sizes=[{"h": h, "k": k, "w": w} for h, k, w in ((1, 1, 1), (17, 5, 65), (16, 33, 70), (32, 32, 128))],
        arguments=factors,
        outputs=("out",),
        launch=lambda h, k, w: ((cdiv(w, 64), cdiv(h, 16)), (16, 16)),
        expected=lambda m, n, out, h, w, k: m @ n,
        cuda="matmul_row",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_traffic_of_rows,
    ),
    Kernel(
        "11-square",
        sizes=[
            {"h": h, "k": k, "w": w} for h, k, w in ((1, 1, 1), (17, 5, 33), (33, 20, 17), (70, 33, 65), (64, 32, 96))
        ],
        arguments=factors,
        outputs=("out",),
        launch=lambda h, k, w: ((cdiv(w, 32), cdiv(h, 32)), (16, 16)),
        expected=lambda m, n, out, h, w, k: m @ n,
        cuda="matmul_2x2",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_traffic_of_squares,
    ),
    Question("11-lanes", _wrong_order, takes=("lane",)),
]
