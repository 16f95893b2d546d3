"""The engine's checker on tests/corpus: it finds every planted bug where it is, and says nothing of sound kernels."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from bench.recorded.corpus import FOUND, PAGE, page
from tests.corpus.cases import CASES, KINDS, MAX_STEPS, ORDERS, answer, false_alarms
from utils.cuda import verdict
from utils.cuda.cpu import module as engine

BUGS = [case for case in CASES if case.twin]
CLEAN = [case for case in CASES if not case.twin]
SOUND = [case.twin for case in BUGS] + [case.launch for case in CLEAN]


@pytest.fixture(scope="module")
def built(unjudged):
    """Build what the tests trace, on all cores."""
    launches = [*(case.launch for case in BUGS), *SOUND]
    builds = {(launch.source, launch.together or (launch.kernel,)) for launch in launches}

    def build(source, names):
        judge = verdict.on_kernels(source, names)  # of a trace: without it, this would be another build
        return engine.modules(source, list(names), traced=True, judge=judge)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wait([pool.submit(build, source, names) for source, names in builds])  # failures show in the tests


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("case", BUGS, ids=lambda case: case.name)
def test_the_bug_is_found(case):
    expected = f"{case.kind} on line {' or '.join(map(str, case.lines))}, other line {case.other_lines}"
    for order in ORDERS:
        problems = case.launch.trace(order=order, max_steps=MAX_STEPS).problems
        assert answer(case, problems), f"order {order}: expected {expected}, found {problems}"
        assert false_alarms(case, problems) == [], order


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("launch", SOUND, ids=lambda launch: launch.name)
def test_nothing_is_said_of_a_sound_kernel(launch):
    for order in ORDERS:
        assert launch.trace(order=order, max_steps=MAX_STEPS).problems == [], order


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_cases(kind):
    assert sum(case.kind == kind for case in BUGS) >= (2 if kind in KINDS[7:] else 3 if kind in KINDS[4:] else 4)


def test_every_file_has_cases_which_mark_their_bugs():
    assert {case.file for case in CASES} == {path.stem for path in Path(__file__).parent.glob("*.cu")}
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        headings = re.findall(r"^// ---- (\w+):", case.launch.source, re.MULTILINE)
        assert headings == [other.name for other in CASES if other.file == case.file] or not headings, case.file
    for case in BUGS:
        assert case.lines or case.kind == "unwritten", case.name
        by_launch = case.launch.shared_bytes != case.twin.shared_bytes
        assert by_launch or re.search(r"^#ifn?def MENDED$", case.launch.source, re.MULTILINE), case.name
    assert not any("BUG" in case.launch.source for case in CLEAN)


def test_the_page_is_the_one_that_the_program_writes():
    found = json.loads(FOUND.read_text())
    assert PAGE.read_text() == page(found)
    for case in CASES:  # measured on these very sources
        assert found["cases"][case.name]["lines"] == list(case.lines), case.name
    assert set(found["cases"]) == {case.name for case in CASES}
