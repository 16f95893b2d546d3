"""Recorded figures: who measures, who keeps them, who reads them, and what lessons get from Nsight Compute."""

import json
from types import SimpleNamespace

import pytest
import torch

from utils.ground.errors import CourseError
from utils.lesson import figures
from utils.lesson.profiling import bars_of

GPU = {"device": "NVIDIA Fake", "torch": "9.9", "cuda": "99.0"}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder for what is recorded, and no GPU."""
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(figures, "device", lambda: torch.device("cpu"))
    return tmp_path


@pytest.fixture
def fake_gpu(monkeypatch, folder):
    monkeypatch.setattr(figures, "device", lambda: SimpleNamespace(type="cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: GPU["device"])
    monkeypatch.setattr(figures, "versions", lambda: {"torch": "9.9", "cuda": "99.0"})


def never():
    raise AssertionError("it should not measure")


def test_what_a_lesson_measures_on_a_gpu_is_kept_if_outputs_are_made(fake_gpu, monkeypatch, folder):
    file = folder / "fake.json"
    monkeypatch.delenv("COURSE_RECORD", raising=False)
    assert figures.recorded("curve", lambda: {"a": [1, 2.5]}) == ({"a": [1, 2.5]}, "NVIDIA Fake")
    assert not file.exists()
    file.write_text(json.dumps(GPU | {"narrow": 7, "lessons": {"curve": 0, "other": 3}}))
    monkeypatch.setenv("COURSE_RECORD", "1")
    assert figures.recorded("curve", lambda: {"a": [1, 2.5]}) == ({"a": [1, 2.5]}, "NVIDIA Fake")
    kept = GPU | {"narrow": 7, "lessons": {"curve": {"a": [1, 2.5]}, "other": 3}}
    assert json.loads(file.read_text()) == kept | {"versions of lessons": {"curve": {"torch": "9.9", "cuda": "99.0"}}}


def test_without_a_gpu_a_lesson_gets_what_a_gpu_measured(folder):
    with pytest.raises(CourseError, match="no GPU has measured 'curve' yet"):
        figures.recorded("curve", never)
    (folder / "a.json").write_text(json.dumps(GPU | {"device": "another"}))
    (folder / "b.json").write_text(json.dumps(GPU | {"lessons": {"curve": [3, 4]}}))
    (folder / "cases.json").write_text(json.dumps({"cases": {}}))  # what another program recorded
    assert figures.recorded("curve", never) == ([3, 4], "NVIDIA Fake")


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_a_damaged_file_is_named(folder, text):
    (folder / "broken.json").write_text(text, encoding="latin-1")
    for ask in (lambda: figures.recorded("curve", never), lambda: figures.benchmark("broken")):
        with pytest.raises(CourseError, match=r"broken\.json is damaged \(.*`git checkout "):
            ask()


def test_a_file_without_a_device_is_not_a_gpus(folder):
    (folder / "odd.json").write_text('{"torch": 3}')
    with pytest.raises(CourseError, match="it names no device"):
        figures.benchmark("odd")


def test_the_counters_are_those_of_the_recording():
    recording = json.loads((figures.FOLDER / "nsight.json").read_text())
    found = figures.nsight_counters()
    assert {"gpu", "driver", "nvcc", "ncu"} <= found.keys() and found["launches"].keys() == recording["launches"].keys()
    for name, counters in found["launches"].items():
        assert counters.items() <= recording["launches"][name]["counters"].items()
        assert tuple(counters) == figures.COUNTERS


def test_the_recorded_tables_and_reports_are_there():
    assert (
        figures.benchmark("H200")["device"] == "NVIDIA H200" and {"bandwidth", "matmul"} <= figures.benchmark().keys()
    )
    for launch in figures.nsight_reports()["launches"].values():
        value, unit = launch["sections"]["GPU Speed Of Light Throughput"]["Duration"]
        assert value > 0 and unit == "ns"


def test_the_timelines_are_traces_that_can_be_drawn():
    for loop in figures.timelines()["loops"].values():
        assert "def " in loop["source"] and {"thread 1", "stream 7"} == {bar.row for bar in bars_of(loop)}
