"""The benchmark of builds: its sources are those of the lessons, and its rows say met or missed as they should."""

import json

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
    ("seconds", "recorded", "stock", "at_least", "verdict"),
    [
        (1.0, 2.0, 20.0, 15, "met"),
        (1.0, 2.0, 14.0, 15, "missed"),
        (1.0, 0.9, 20.0, 15, "missed"),
        (1.0, None, 20.0, 15, "met"),
        (5.0, None, 20.0, None, ""),
        (5.0, None, None, None, ""),
        (5.0, 5.0, None, None, "met"),
    ],
)
def test_verdicts_are_about_ratios(seconds, recorded, stock, at_least, verdict):
    """A unit takes 0.5 s here, so a second is two of them; on a machine twice as slow nothing changes."""
    for slow in (1, 2):
        timing, peer = Timing((slow * seconds,)), stock and Timing((slow * stock,))
        line = build.row(build.Build("x", timing, peer, at_least), slow * 0.5, recorded)
        assert line.verdict == verdict
        assert line.measured.startswith(f"{2 * seconds:.3g} units")
        assert (
            (f"{stock / seconds:.1f} times faster than stock" in line.measured)
            if stock
            else "stock" not in line.measured
        )


def test_what_is_recorded_names_its_machine_and_has_a_figure_for_every_build_of_ours(monkeypatch, tmp_path, capsys):
    baseline = tmp_path / "build.json"
    monkeypatch.setattr(build, "BASELINE", baseline)
    found = [
        (build.Build("peer", Timing((9.0,)), ours=False), 0.5),
        (build.Build("ours", Timing((1.0,)), Timing((9.0,)), 4), 0.5),
    ]
    monkeypatch.setattr(build, "measure", lambda: found)
    assert build.main(record=True) == 0
    recorded = json.loads(baseline.read_text())
    assert recorded["units"] == {"ours": 2} and {"machine", "nvcc", "torch"} < recorded.keys()
    found[1] = build.Build("ours", Timing((2.1,)), Timing((9.0,)), 4), 0.5
    assert build.main() == 1 and "1 missed: ours" in capsys.readouterr().err
    assert json.loads(baseline.read_text()) == recorded


def test_units_are_measured_before_and_after_each_step(monkeypatch, tmp_path, capsys):
    def two_builds():
        return [build.Build(name, Timing((1.0,))) for name in ("a", "b")]

    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "load_with", lambda *_: None)
    monkeypatch.setattr(build, "unit_seconds", iter([0.1, 0.3, 0.5]).__next__)
    monkeypatch.setattr(build, "steps", lambda: [("one", two_builds), ("two", two_builds)])
    found = [(one.name, round(unit, 3)) for one, unit in build.measure()]
    assert found == [("a", 0.2), ("b", 0.2), ("a", 0.4), ("b", 0.4)]
    assert capsys.readouterr() == ("", "")  # how far it has come is shown by `progress` alone


def test_a_unit_is_one_compile():
    assert 0 < build.unit_seconds() < 600


def test_a_fresh_source_is_the_same_code_under_another_hash():
    source = build.lecture("square")
    assert build.fresh(source, 1).cuda_src != build.fresh(source, 2).cuda_src
    assert build.fresh(source, 1).cuda_src.startswith(source.cuda_src)
