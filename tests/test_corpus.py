"""The engine's checker on tests/corpus: it finds every planted bug where it is, and says nothing of sound kernels."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import pytest
import torch

import kernels
from tests.corpus.cases import CASES, KINDS, MAX_STEPS, ORDERS, answer, false_alarms
from tests.corpus.sanitize import FOUND, README, table
from tests.launches import Launch, bytes_, empty, floats
from utils.arguments import kernels_of
from utils.cuda_on_cpu import module as engine

BUGS = [case for case in CASES if case.twin]
CLEAN = [case for case in CASES if not case.twin]
SOUND = [case.twin for case in BUGS] + [case.launch for case in CLEAN]


def _square(n):
    return Launch(
        f"square_{n}",
        kernels.source("square"),
        "square_kernel",
        -(-n // 64),
        64,
        lambda: [floats(n), empty(n), n],
        outputs=(1,),
    )


def _grayscale(h, w):
    def args(*sizes):
        return lambda: [bytes_(3, h, w), empty(h, w, dtype=torch.uint8), *sizes]

    source, name, n = kernels.source("grayscale"), f"grayscale_{h}x{w}", h * w
    flat = Launch(name, source, "rgb_to_grayscale_kernel", -(-n // 96), 96, args(n), outputs=(1,))
    blocks = (-(-w // 16), -(-h // 16))
    return [
        flat,
        Launch(f"{name}_2d", source, "rgb_to_grayscale_2d_kernel", blocks, (16, 16), args(h, w), outputs=(1,)),
    ]


def _matmul(h, w, k):
    blocks = (-(-w // 16), -(-h // 16))
    return Launch(
        f"matmul_{h}x{w}x{k}",
        kernels.source("matmul"),
        "matmul_kernel",
        blocks,
        (16, 16),
        lambda: [floats(h, k), floats(k, w, seed=1), empty(h, w), h, w, k],
        outputs=(2,),
    )


COURSE = [_square(n) for n in (1, 17, 1000)]
COURSE += [launch for size in ((1, 1), (17, 5), (40, 33)) for launch in _grayscale(*size)]
COURSE += [_matmul(*sizes) for sizes in ((1, 1, 1), (17, 3, 5), (33, 40, 25))]


@pytest.fixture(scope="module")
def built():
    """Build what the tests trace, on all cores. The library without a trace, which nothing here runs, is left out."""
    traced = partial(engine.module, traced=True)
    launches = {(launch.source, launch.kernel) for launch in [*(case.launch for case in BUGS), *SOUND, *COURSE]}
    with ThreadPoolExecutor(os.cpu_count()) as pool, pytest.MonkeyPatch.context() as patch:
        wait([pool.submit(traced, *wanted) for wanted in launches])  # what does not build fails in its own test
        patch.setattr(engine, "module", lambda *args, **options: traced(*args, **{**options, "traced": True}))
        yield


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("case", BUGS, ids=lambda case: case.name)
def test_the_bug_is_found(case):
    expected = f"{case.kind} on line {' or '.join(map(str, case.lines))}, other line {case.other_lines}"
    for order in ORDERS:
        problems = case.launch.trace(order=order, max_steps=MAX_STEPS).problems
        assert answer(case, problems), f"order {order}: expected {expected}, found {problems}"
        assert false_alarms(case, problems) == [], order


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("launch", SOUND + COURSE, ids=lambda launch: launch.name)
def test_nothing_is_said_of_a_sound_kernel(launch):
    for order in ORDERS:
        assert launch.trace(order=order, max_steps=MAX_STEPS).problems == [], order


def test_every_kernel_of_the_course_is_traced():
    traced = {(launch.source, launch.kernel.split("<")[0]) for launch in COURSE}
    sources = [kernels.source(name) for name in kernels.names()]
    assert traced == {(source, kernel) for source in sources for kernel in kernels_of(source)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_cases(kind):
    assert sum(case.kind == kind for case in BUGS) >= (3 if kind in KINDS[4:] else 4)


def test_every_file_is_a_case_and_marks_its_bug():
    assert sorted(case.name for case in CASES) == sorted(
        path.stem for path in Path(__file__).parent.glob("corpus/*.cu")
    )
    for case in BUGS:
        assert case.lines or case.kind == "unwritten", case.name
        by_launch = case.launch.shared_bytes != case.twin.shared_bytes
        assert by_launch or re.search(r"^#ifn?def MENDED$", case.launch.source, re.MULTILINE), case.name
    assert not any("BUG" in case.launch.source for case in CLEAN)


def test_the_table_is_the_one_that_the_script_writes():
    found = json.loads(FOUND.read_text())
    assert README.read_text() == table(found)
    for case in CASES:  # measured on these very sources
        assert found["cases"][case.name]["lines"] == list(case.lines), case.name
    assert set(found["cases"]) == {case.name for case in CASES}
