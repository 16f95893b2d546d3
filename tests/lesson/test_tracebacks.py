"""What a notebook shows of an error that the course raises about the learner's code."""

import re
import traceback

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from utils.lesson import tracebacks
from utils.lesson.plots import show_threads


def lines_of(call):
    """The functions that the shown traceback of `call` goes through."""
    try:
        call()
    except Exception as error:
        return [frame.name for frame in traceback.extract_tb(tracebacks.until_ours(error.__traceback__))]
    raise AssertionError("it raised nothing")


def test_it_ends_in_the_line_that_called_the_course():
    assert lines_of(lambda: show_threads(0, 5, 4)) == ["lines_of", "<lambda>"]


def test_an_error_of_another_library_is_shown_in_full():
    with pytest.raises(RuntimeError) as raised:
        torch.zeros(3) @ torch.zeros(4)
    assert lines_of(lambda: torch.zeros(3) @ torch.zeros(4)) == ["lines_of", "<lambda>"]
    assert tracebacks.until_ours(raised.tb).tb_lineno == raised.tb.tb_lineno


def test_lines_of_the_course_alone_stay():
    with pytest.raises(ValueError) as raised:
        show_threads(0, 5, 4)
    ours = raised.tb.tb_next
    assert [frame.name for frame in traceback.extract_tb(tracebacks.until_ours(ours))] == [
        "show_threads",
        "_at_least_1",
    ]
    assert tracebacks.until_ours(None) is None


@pytest.fixture
def said(capsys):
    """What a notebook shows of a cell."""
    shell = InteractiveShell()
    tracebacks.shorten(shell)
    tracebacks.shorten(shell)  # the set-up cell runs twice

    def run(cell):
        shell.run_cell(cell)
        return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)

    return run


def test_a_notebook_shows_the_learners_line_and_the_message(said):
    shown = said("from utils.lesson.plots import show_threads\nshow_threads(150, 225, 16, 16)")
    assert "show_threads(150, 225, 16, 16)" in shown and "plots.py" not in shown
    assert "threads is a number or a pair (x, y): write (16, 16) for two-dimensional blocks" in shown


def test_a_mistake_of_the_course_is_shown_in_full(said, monkeypatch):
    monkeypatch.setattr("utils.lesson.plots._at_least_1", lambda *_: {}["missing"])
    assert "plots.py" in said("from utils.lesson.plots import show_threads\nshow_threads(150, 225, 16)")
    assert "ZeroDivisionError" in said("1 / 0")
