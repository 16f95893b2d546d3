"""bench/: the benchmark's pieces on small sizes, its verdicts, and the status it ends with."""

import os
import subprocess
import sys

import pytest
import torch

from bench import engine
from utils.cuda.common import toolchain
from utils.lesson.timing import Timing

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark is of the CPU and hides the GPU")


@pytest.fixture
def limits(monkeypatch):
    """Set every target, those of times and memory to the first number, those of 'times faster' to the second."""

    def set_limits(most, least):
        for key in engine.TARGETS:
            monkeypatch.setitem(engine.TARGETS, key, least if key.startswith("faster") else most)

    return set_limits


def verdicts(rows):
    return [row.verdict for row in rows if row.verdict]


def test_a_time_is_held_against_its_target(limits):
    limits(0.5, 0)
    assert engine.at_most("x", Timing((0.5, 9.0)), "cold").verdict == "met"
    missed = engine.at_most("x", Timing((0.6,)), "cold")
    assert (missed.verdict, missed.target) == ("missed", "at most 500 ms") and missed.measured == "600 ms (one run)"


def test_times_faster_is_held_against_its_target(limits):
    limits(0, 100)
    fast, slow = Timing((0.01, 0.02)), Timing((1.0,))
    met = engine.times_faster("x", fast, slow, "faster than Numba")
    assert (met.verdict, met.target) == ("met", "at least 100 times") and met.measured.startswith(
        "100 times (quartiles 57 and 80)"
    )
    assert engine.times_faster("x", fast, Timing((0.9,)), "faster than Numba").verdict == "missed"


def test_matmul_trace_and_launches_follow_their_targets(limits):
    def rows():
        return engine.matmul(20) + engine.tracing(16) + engine.launches(20, 5, 20)

    limits(10**9, 0)
    found = rows()
    assert verdicts(found) == ["met"] * 3
    assert any(f"of {2 * 16**3 + 16**2:,}" in row.measured for row in found)  # two loads a step, one store an element
    limits(-(10**9), 0)
    assert verdicts(rows()) == ["missed"] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_that_is_held_counts():
    before = engine.memory()
    held = bytearray(os.urandom(1)) * 100_000_000  # above 32 MB malloc always takes new pages, never freed ones
    assert 99e6 < engine.memory() - before < 130e6 and len(held)


def test_what_computes_wrongly_is_not_timed(monkeypatch):
    monkeypatch.setattr(engine, "plain_c", lambda folder: lambda *args: None)
    with pytest.raises(AssertionError, match="not close"):
        engine.matmul(20)


def test_numba_beside_the_engine(limits, monkeypatch):
    limits(0, 1e-9)
    monkeypatch.setattr(engine, "numba_run", lambda height, width: {"seconds": 2.0})
    rows = engine.grayscale((20, 30), (4, 5))
    assert verdicts(rows) == ["met", "met"] and "100 ms (one run)" in [row.measured for row in rows]
    limits(0, 1e12)
    assert verdicts(engine.grayscale((20, 30), (4, 5))) == ["missed", "missed"]


def test_where_numba_is_missing_its_row_says_so(limits, monkeypatch, tmp_path):
    limits(0, 0)
    (tmp_path / "numba.py").write_text("raise ImportError('there is no numba')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rows = engine.grayscale((20, 30), (4, 5))
    (skipped,) = [row for row in rows if "Numba" in row.name]
    assert skipped.verdict == "skipped" and skipped.measured.endswith("cannot be imported: there is no numba")
    assert verdicts(rows) == ["skipped", "met"]


def test_numba_runs_the_same_kernel():
    pytest.importorskip("numba")
    assert engine.numba_run(4, 5)["seconds"] > 0


def test_compile_kernel_is_timed_in_a_new_process():
    source = engine.kernels.source("matmul")
    assert 0 < engine.compile_seconds(source, "matmul_kernel", toolchain.cache_folder()) < 60
    with pytest.raises(subprocess.CalledProcessError):
        engine.compile_seconds(source, "no_such_kernel", toolchain.cache_folder())


def test_cold_is_a_source_that_the_cache_has_not_and_warm_one_that_it_has(limits, monkeypatch):
    limits(0.5, 0)
    seen = []

    def fake(source, name, cache):
        seen.append((source, cache))
        return 1.0 if seen.count((source, cache)) == 1 else 0.25

    monkeypatch.setattr(engine, "compile_seconds", fake)
    rows = engine.compiling()
    assert verdicts(rows) == ["missed", "met", "missed"] and len({cache for _, cache in seen}) == 1


@pytest.mark.parametrize(("verdict", "status"), [("met", 0), ("skipped", 0), ("", 0), ("missed", 1)])
def test_the_status_is_that_of_the_table(monkeypatch, capsys, verdict, status):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    sections = [lambda: [engine.Row("one", "1 s")], lambda: [engine.Row("two", "2 s", "at most 1 s", verdict)]]
    for section in sections:
        section.__name__ = "section"
    monkeypatch.setattr(engine, "SECTIONS", sections)
    assert engine.main() == status
    out, err = capsys.readouterr()
    heading, first, second, _, machine = out.splitlines()
    assert f"{os.cpu_count()} cores" in machine
    assert heading.split() == ["measured", "target", "verdict"] and first.split()[:3] == ["one", "1", "s"]
    assert second.split()[1:] == ["2", "s", "at", "most", "1", "s", *([verdict] if verdict else [])]
    assert ("two" in err) == bool(status)
