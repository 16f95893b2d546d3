"""utils/manage/lab.py: the learner's copies."""

import json
import os
import sys

import pytest

from tests.manage.made import lesson
from utils.manage import lab

pytestmark = pytest.mark.usefixtures("environment")


def test_lab_copies_and_never_overwrites(tmp_path, capsys):
    first, second = lesson(tmp_path, "00_a", "1"), lesson(tmp_path, "01_b", "2")
    assert lab.copy_lessons(tmp_path) == []
    copy = tmp_path / "lab" / "00_a.ipynb"
    assert lab.digest(copy) == lab.digest(first)
    copy.write_text("the learner's work")
    assert lab.copy_lessons(tmp_path) == []
    assert copy.read_text() == "the learner's work"

    lesson(tmp_path, "00_a", "1 + 1")  # a newer course
    lesson(tmp_path, "02_c", "3")
    assert lab.copy_lessons(tmp_path) == [first]
    assert copy.read_text() == "the learner's work"
    assert {path.name for path in (tmp_path / "lab").glob("*.ipynb")} == {"00_a.ipynb", "01_b.ipynb", "02_c.ipynb"}
    assert lab.digest(second) == lab.digest(tmp_path / "lab" / "01_b.ipynb") != lab.digest(first)


SET_UP = """# Set-up, the same in every lesson
REPO, REF = "", ""
from utils.lesson.start import start

start()"""


@pytest.fixture
def opened(tmp_path, monkeypatch, capsys):
    """Runs `lab` and returns what it printed, without opening JupyterLab."""
    monkeypatch.setattr(os, "execv", lambda program, command: None)
    monkeypatch.chdir(tmp_path)

    def opened():
        lab.main([], tmp_path)
        return capsys.readouterr().out

    return opened


def test_copies_from_an_older_course_are_named(tmp_path, opened, capsys):
    old = SET_UP.replace("utils.lesson.start", "utils.start")
    for name in ("02_a", "03_b", "04_c", "05_d"):
        lesson(tmp_path, name, old, "1")
    (tmp_path / "notebooks" / "06_e.ipynb").write_text(json.dumps({"cells": [], "nbformat": 4}))
    assert "set-up cell" not in opened()
    for name in ("02_a", "03_b", "04_c"):
        lesson(tmp_path, name, SET_UP, "1")
    published = SET_UP.replace('"", ""', '"https://example.org/course", "v1"')
    lesson(tmp_path / "mine", "02_a", "import os", published, "2")  # a cell of their own above it, and the address
    (tmp_path / "mine" / "notebooks" / "02_a.ipynb").replace(tmp_path / "lab" / "02_a.ipynb")
    (tmp_path / "lab" / "04_c.ipynb").write_text("torn")
    said = [line for line in opened().splitlines() if "set-up cell" in line]
    assert len(said) == 1 and "lab/03_b.ipynb" in said[0] and "`make reset LESSON=03`" in said[0]
    assert lab.main(["--reset", "03"], tmp_path) == 0
    capsys.readouterr()
    assert "03_b" not in opened() and (tmp_path / "lab" / "03_b.1.ipynb").is_file()


def test_a_newer_lesson_is_named_once(tmp_path, opened):
    lesson(tmp_path, "03_b", SET_UP, "1")
    opened()
    lesson(tmp_path, "03_b", SET_UP, "2")
    assert opened().count("make reset LESSON=03") == 1
    lesson(tmp_path, "03_b", SET_UP + "\n", "2")
    assert opened().count("make reset LESSON=03") == 1


def test_a_copy_under_an_old_number_is_kept_and_named(tmp_path, opened):
    lesson(tmp_path, "10_measuring", SET_UP, "1")
    old = tmp_path / "lab" / "09_measuring.ipynb"
    old.parent.mkdir(exist_ok=True)
    old.write_text("my notes")
    said = [line for line in opened().splitlines() if "09_measuring" in line]
    assert len(said) == 1 and "lesson 10" in said[0] and old.read_text() == "my notes"
    assert (tmp_path / "lab" / "10_measuring.ipynb").is_file()


def test_old_numbers_are_of_lessons_that_moved():
    today = {path.stem for path in lab.lessons()}
    for stem, numbers in lab.RENUMBERED.items():
        assert stem not in today and all(
            any(name.startswith(f"{one}_") for name in today) for one in numbers.split(" and ")
        )


def test_a_copy_has_no_outputs_to_give_an_answer_away(tmp_path):
    path = lesson(tmp_path, "00_a", "1")
    notebook = json.loads(path.read_text())
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": ["42"]}], "execution_count": 1}
    path.write_text(json.dumps(notebook))
    lab.copy_lessons(tmp_path)
    copy = json.loads((tmp_path / "lab" / "00_a.ipynb").read_text())
    assert all(not cell.get("outputs") for cell in copy["cells"])
    assert [cell["source"] for cell in copy["cells"]] == [cell["source"] for cell in notebook["cells"]]
    code["outputs"][0]["text"] = ["43"]  # refreshed outputs are no newer lesson
    path.write_text(json.dumps(notebook))
    assert lab.copy_lessons(tmp_path) == []


def test_reset_renews_one_copy_and_keeps_the_old_one(tmp_path, capsys):
    path = lesson(tmp_path, "03_c", "3")
    other = lesson(tmp_path, "04_d", "4")
    folder = tmp_path / "lab"
    assert lab.main(["--reset", "03"], tmp_path) == 0  # no copy yet: it makes one
    assert "Reload" not in capsys.readouterr().out
    copy = folder / path.name
    assert lab.main(["--reset", "3"], tmp_path) == 0
    assert "nothing to renew" in capsys.readouterr().out and len(list(folder.glob("*.ipynb"))) == 1
    for number, work in enumerate(["first", "second"], 1):
        copy.write_text(work)
        assert lab.main(["--reset", "03"], tmp_path) == 0
        assert lab.digest(copy) == lab.digest(path)
        assert (folder / f"03_c.{number}.ipynb").read_text() == work
        said = capsys.readouterr().out
        assert f"03_c.{number}.ipynb" in said and "Reload Notebook from Disk" in said
    assert not (folder / other.name).exists()


@pytest.mark.parametrize(
    "arguments, said", [(["--reset", ""], "LESSON=03"), (["--reset"], "LESSON=03"), (["--reset", "9"], "'9'")]
)
def test_reset_needs_a_lesson_that_exists(tmp_path, capsys, arguments, said):
    lesson(tmp_path, "03_c", "3")
    assert lab.main(arguments, tmp_path) == 2
    assert said in capsys.readouterr().err


def test_lab_opens_lesson_00_of_the_copies(tmp_path, monkeypatch, capsys):
    lesson(tmp_path, "00_a", "1")
    called, here = [], os.getcwd()
    monkeypatch.setattr(os, "execv", lambda program, command: called.append((program, command)))
    try:
        lab.main(["--no-browser"], tmp_path)
    finally:
        os.chdir(here)
    ((program, command),) = called
    assert program == command[0] == sys.executable and "jupyterlab" in command
    assert {f"--ServerApp.root_dir={tmp_path}", "--LabApp.default_url=/lab/tree/lab/00_a.ipynb"} < set(command)
    assert command[-1] == "--no-browser"
    assert ("--allow-root" in command) == (os.geteuid() == 0)
    assert (tmp_path / "lab" / "00_a.ipynb").is_file()


def test_binder_only_copies(tmp_path, monkeypatch):
    lesson(tmp_path, "00_a", "1")
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("JupyterLab was started"))
    assert lab.main(["--copy"], tmp_path) == 0 and (tmp_path / "lab" / "00_a.ipynb").is_file()
    assert "utils.manage.lab --copy" in (lab.ROOT / ".binder" / "postBuild").read_text()
