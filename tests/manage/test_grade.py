"""utils/manage/grade.py: notebooks that others have handed in are run apart, and judged."""

import csv
import json

import pytest

from utils.manage import grade

BEGIN = "from utils.exercises import check"
RIGHT = 'check("08-stride", {0: 1, 3: 12, 6: 24, 9: 32})'
WRONG = 'check("08-rows", "___")'


def hand_in(folder, name, *cells):
    path = folder / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c} for c in cells]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_a_folder_of_notebooks_becomes_a_table(tmp_path, capsys):
    both = hand_in(tmp_path, "anna/lesson", BEGIN, RIGHT, WRONG)
    hand_in(tmp_path, "ben", BEGIN, "1 / 0", RIGHT)  # a cell that fails does not end it
    hand_in(tmp_path, ".ipynb_checkpoints/ben", BEGIN)
    (tmp_path / "torn.ipynb").write_text("{")
    before = both.read_text()
    assert grade.main([str(tmp_path)]) == 0
    rows = {row["file"]: row for row in csv.DictReader((tmp_path / "grades.csv").open())}
    assert set(rows) == {"anna/lesson.ipynb", "ben.ipynb", "torn.ipynb"}
    assert rows["anna/lesson.ipynb"] == {
        "file": "anna/lesson.ipynb",
        "lesson": "08",
        "solved": "1",
        "of": "2",
        "open": "rows",
        "remark": "",
    }
    assert rows["ben.ipynb"]["solved"] == "1" and rows["ben.ipynb"]["remark"] == "1 of 3 code cells failed: 2"
    assert rows["torn.ipynb"]["remark"].startswith("not a readable notebook")
    assert both.read_text() == before
    assert "anna/lesson.ipynb: 1 of 2 solved, open: rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    "cell, remark",
    [
        ("while True: pass", "stopped after 0.3 minutes"),
        ("import os; os._exit(3)", "its process ended: exit status 3"),
        ("x = bytearray(2**46)", "1 of 3 code cells failed: 2"),
    ],
)
def test_a_notebook_that_goes_wrong_harms_only_itself(tmp_path, cell, remark):
    path = hand_in(tmp_path, "a", BEGIN, cell, RIGHT)
    minutes = 0.3 if "minutes" in remark else 15
    assert grade.grade(path, "a", minutes).remark == remark


def test_a_notebook_has_no_network_and_a_home_of_its_own(tmp_path):
    if not grade.without_network():
        pytest.skip("this machine does not allow a network namespace")
    reach = "import socket\nwith socket.create_server(('127.0.0.1', 0)) as s:\n    " + (
        "socket.create_connection(s.getsockname(), timeout=5)"
    )
    home = "import pathlib\nassert pathlib.Path.cwd() == pathlib.Path.home() / 'work'"
    graded = grade.grade(hand_in(tmp_path, "a", BEGIN, reach, home, RIGHT), "a")
    assert graded.remark == "1 of 4 code cells failed: 2" and graded.solved == ["08-stride"]


def test_what_cannot_be_judged(tmp_path, capsys):
    assert grade.main([str(tmp_path / "none")]) == 2 and "is not a folder" in capsys.readouterr().err
    assert grade.main([str(tmp_path)]) == 2 and "no notebooks" in capsys.readouterr().err
    assert grade.grade(hand_in(tmp_path, "a", "1"), "a").remark == "it checks no exercise"
