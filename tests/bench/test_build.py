"""The benchmark of builds: its sources are those of the lessons, and its rows say met or missed as they should."""

import pytest

import kernels
from bench import build
from tests.notebooks.test_notebooks import NOTEBOOKS, code_cells
from utils.lesson.timing import Timing


@pytest.mark.parametrize("name", build.LECTURES)
def test_a_lesson_s_text_is_whole(name):
    source = build.lecture(name)
    assert source.cuda_src.count(kernels.cuda_begin) == 1 and source.functions and source.cpp_src.count(";") == 1
    assert set(source.functions) <= set(kernels.functions(name)), "the same operation as the one of kernels/"


def test_the_texts_are_the_lessons_own():
    shown = "\n".join(cell for path in NOTEBOOKS for cell in code_cells(path))
    for name in ("grayscale", "matmul"):
        for part in build.lecture(name).cuda_src.partition(kernels.cuda_begin)[2].split("\n\n"):
            assert part.strip() in shown, f"{name}: no lesson has\n{part}"


@pytest.mark.parametrize(
    ("seconds", "at_most", "stock", "at_least", "verdict"),
    [
        (1.0, 4.0, 20.0, 15, "met"),
        (1.0, 4.0, 14.0, 15, "missed"),
        (5.0, 4.0, 200.0, 15, "missed"),
        (5.0, None, None, None, ""),
        (5.0, None, 20.0, None, ""),
    ],
)
def test_verdicts(seconds, at_most, stock, at_least, verdict):
    line = build.row("x", Timing((seconds,)), at_most, stock and Timing((stock,)), at_least)
    assert line.verdict == verdict
    assert line.times == (f"{stock / seconds:.1f} times" if stock else "")


def test_a_fresh_source_is_the_same_code_under_another_hash():
    source = build.lecture("square")
    assert build.fresh(source, 1).cuda_src != build.fresh(source, 2).cuda_src
    assert build.fresh(source, 1).cuda_src.startswith(source.cuda_src)
