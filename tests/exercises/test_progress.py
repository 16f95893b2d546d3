"""What is solved stays solved: after a wrong try, in another process, and whatever becomes of the file."""

import os
from threading import Thread

import pytest

from utils.exercises import check, lessons, progress_line
from utils.exercises.exercise import Question
from utils.manage.lab import main as lab


def wrong(answer):
    return "" if answer == 1 else "it is not 1"


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """lab/ of a course whose only lesson is 99, as the working directory. 1 is right in both of its exercises."""
    course = tmp_path / "a course"
    (course / "lab").mkdir(parents=True)
    exercises = [Question(f"99-{name}", wrong, takes="a number") for name in ("one", "other")]
    monkeypatch.setattr(lessons, "ROOT", course)
    monkeypatch.setattr(lessons, "LESSONS", ["99"])
    monkeypatch.setattr(lessons, "exercises_of", lambda lesson: exercises if lesson == "99" else [])
    monkeypatch.setattr(lessons, "_solved", set())
    monkeypatch.chdir(course / "lab")
    return course / "lab"


@pytest.fixture
def restart(monkeypatch):
    return lambda: monkeypatch.setattr(lessons, "_solved", set())


@pytest.fixture
def line(capsys):
    """What progress_line prints."""

    def read():
        capsys.readouterr()
        progress_line("99")
        return capsys.readouterr().out.strip()

    return read


FIRST, BOTH, NEITHER = "Solved: one. Open: other", "Solved: one, other", "Open: one, other"


def test_solved_stays_solved(copies, restart, line):
    assert line() == NEITHER
    check("99-one", 5)
    assert line() == NEITHER
    check("99-one", 1)
    check("99-one", 5)  # an experiment
    assert line() == FIRST
    restart()
    assert line() == FIRST
    check("99-one", 1)
    check("99-other", 1)
    assert (copies / ".solved.txt").read_text().split() == ["99-one", "99-other"], "each is written once"


def test_a_fresh_copy_of_the_lesson_keeps_what_is_solved(copies, restart, line):
    (copies.parent / "notebooks").mkdir()
    (copies.parent / "notebooks" / "99_a_lesson.ipynb").write_text('{"cells": []}')
    (copies / "99_a_lesson.ipynb").write_text('{"cells": [{"cell_type": "code", "source": "mine"}]}')
    check("99-one", 1)
    assert lab(["--reset", "99"], copies.parent) == 0 and (copies / "99_a_lesson.1.ipynb").exists()
    restart()
    assert line() == FIRST


def test_a_copy_in_a_folder_of_lab_counts_too(copies, restart, line, monkeypatch):
    (copies / "mine").mkdir()
    monkeypatch.chdir(copies / "mine")
    check("99-one", 1)
    restart()
    assert line() == FIRST and (copies / ".solved.txt").exists()


def test_where_a_notebook_has_fetched_the_course_it_is_beside_the_notebook(
    copies, restart, line, tmp_path, monkeypatch
):
    (tmp_path / "course").symlink_to(copies.parent)
    monkeypatch.chdir(tmp_path)
    check("99-one", 1)
    restart()
    assert line() == FIRST and (tmp_path / ".solved.txt").exists() and not list(copies.iterdir())


@pytest.mark.parametrize("folder", ["a course", "a course/notebooks", "elsewhere"])
def test_nothing_is_written_for_tests_and_make_course(folder, copies, restart, line, tmp_path, monkeypatch):
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    check("99-one", 1)
    assert line() == FIRST
    restart()
    assert line() == NEITHER and not list(tmp_path.rglob("*.txt"))


def test_two_notebooks_at_once(copies, line):
    """Each adds its lines, whatever the other one has added since it looked."""
    names = [f"99-{n}" for n in range(40)]
    threads = [Thread(target=lambda part=names[n::4]: [lessons.note(name) for name in part]) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted((copies / ".solved.txt").read_text().split()) == sorted(names)
    (copies / ".solved.txt").write_text("99-one\n")  # by another process
    check("99-other", 1)
    assert line() == BOTH


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\0\n99-one", b"99-one\n99-ot", b"{}[\n99-one\nnot an exercise\n"])
def test_a_broken_file_keeps_what_can_be_read(text, copies, restart, line):
    (copies / ".solved.txt").write_bytes(text)
    assert line() == (FIRST if b"99-one" in text else NEITHER)
    check("99-other", 1)
    restart()
    assert "other" in line().split("Open")[0] and line() == (BOTH if b"99-one" in text else "Solved: other. Open: one")


def test_something_else_of_that_name_is_left_alone(copies, restart, line):
    os.mkfifo(copies / ".solved.txt")  # opening it would wait for ever
    check("99-one", 1)
    assert line() == FIRST
    (copies / ".solved.txt").unlink()
    (copies / ".solved.txt").mkdir()
    check("99-other", 1)
    assert line() == BOTH


def test_a_folder_that_cannot_be_written(copies, restart, line, monkeypatch):
    (copies / ".solved.txt").write_text("99-one\n")
    opened = type(copies).open

    def refuse(path, mode="r", *args, **kwargs):  # a mode of 0o500 does not stop root, who runs tests in containers
        if "a" in mode:
            raise PermissionError(path)
        return opened(path, mode, *args, **kwargs)

    monkeypatch.setattr(type(copies), "open", refuse)
    check("99-other", 1)
    assert line() == BOTH
    restart()
    assert line() == FIRST


def test_a_working_directory_that_is_gone(copies, line):
    copies.rename(copies.with_name("renamed"))
    check("99-one", 1)
    assert line() == FIRST


def test_exercises_of_renumbered_lessons_keep_their_old_names(copies, restart, line, monkeypatch):
    monkeypatch.setattr(lessons, "_RENAMED", {"98-first": "99-one"})
    check("98-first", 1)
    assert line() == FIRST
    (copies / ".solved.txt").write_text("98-first\n")
    restart()
    assert line() == FIRST


def test_old_names_lead_to_exercises_and_are_not_used_again():
    today = {exercise.name for lesson in lessons.LESSONS for exercise in lessons.exercises_of(lesson)}
    assert today >= set(lessons._RENAMED.values()) and not today & set(lessons._RENAMED)
