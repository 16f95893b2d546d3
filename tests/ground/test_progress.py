"""Bars appear for long work only, never in tests or headless, and always go away."""

import io
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from utils.ground import progress as module
from utils.ground.progress import progress, waiting


@pytest.fixture
def shown(monkeypatch):
    """What a person would see: a stream in place of the terminal, quick clocks, no test environment."""
    monkeypatch.setattr(module, "os", SimpleNamespace(environ={}))  # pytest keeps putting its own names back
    monkeypatch.setattr(module, "DELAY", 0.2)
    monkeypatch.setattr(module, "TICK", 0.05)
    stream = io.StringIO()
    monkeypatch.setattr(module, "_file", lambda: stream)
    return stream


def last_line(stream):
    return stream.getvalue().split("\r")[-1].strip()


def test_short_work_leaves_nothing(shown):
    assert list(progress([3, 1, 2], "short")) == [3, 1, 2]
    assert list(progress((i for i in range(1000)), "generator")) == list(range(1000))
    assert list(progress([], "empty")) == []
    with waiting("short"):
        pass
    with waiting("short", expected=5):
        pass
    time.sleep(0.3)
    assert shown.getvalue() == ""


def test_two_seconds_is_the_limit():
    assert module.DELAY == 2.0


def test_long_work_shows_a_bar_that_goes_away(shown):
    seen = []
    for i in progress(range(8), "rows of the picture"):
        seen.append(i)
        time.sleep(0.06)
    assert seen == list(range(8))
    assert "rows of the picture" in shown.getvalue()
    assert "/8" in shown.getvalue()
    assert last_line(shown) == ""


def test_one_long_step_shows_a_bar_too(shown):
    for _ in progress(["one"], "one long step"):
        time.sleep(0.4)
    assert "one long step" in shown.getvalue()
    assert last_line(shown) == ""


@pytest.mark.parametrize("expected", [None, 0.3, 60])
def test_waiting_counts_the_seconds(shown, expected):
    with waiting("compiling", expected=expected):
        time.sleep(0.8)
    text = shown.getvalue()
    assert "compiling: 0" in text and "compiling: 1" in text
    assert ("of about 60 s" in text) == (expected == 60)
    assert last_line(shown) == ""


def test_errors_pass_and_no_thread_stays(shown):
    before = threading.active_count()
    with pytest.raises(ValueError, match="inside"), waiting("fails"):
        time.sleep(0.3)
        raise ValueError("inside")
    with pytest.raises(ValueError, match="inside"):
        for _ in progress(range(3), "fails"):
            time.sleep(0.3)
            raise ValueError("inside")
    for _ in progress(range(3), "left early"):
        break
    ours = [thread for thread in threading.enumerate() if "run" in thread.name]
    assert not ours
    assert threading.active_count() <= before + 1  # tqdm keeps one thread of its own
    assert last_line(shown) == ""


@pytest.mark.parametrize(
    "name, value", [("PYTEST_VERSION", "9"), ("PYTEST_CURRENT_TEST", "x"), ("COURSE_HEADLESS", "1")]
)
def test_silent_in_tests_and_headless(shown, name, value):
    module.os.environ[name] = value
    for _ in progress(range(4), "silent"):
        time.sleep(0.08)
    with waiting("silent", expected=1):
        time.sleep(0.3)
    assert shown.getvalue() == ""


def test_silent_here_without_any_help(capsys, monkeypatch):
    monkeypatch.setattr(module, "DELAY", 0.05)
    with waiting("silent"):
        time.sleep(0.2)
    list(progress(range(3), "silent"))
    assert capsys.readouterr() == ("", "")


def test_headless_zero_means_no(shown):
    module.os.environ["COURSE_HEADLESS"] = "0"
    with waiting("seen"):
        time.sleep(0.4)
    assert "seen" in shown.getvalue()


def test_stream(monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert module._file() is sys.stderr
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    assert module._file() is sys.stdout
