"""Judges notebooks that participants have handed in:  python -m utils.manage.grade FOLDER

Runs every notebook below FOLDER from top to bottom, each in a process of its own, and writes FOLDER/grades.csv: the
file, its lesson, the exercises that `check` called right, those that are open, and what went wrong. The notebooks are
not changed. A cell that fails is left behind, and the next one runs.

What others have written is run here. So each process works in a folder of its own that is removed afterwards, without a
network (in a network namespace of its own, where the kernel allows that), and with limits on time, memory and the size
of files. That keeps mistakes in; against somebody who means harm, use a container or another machine.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from utils.ground.errors import CourseError
from utils.ground.progress import bar_hidden, progress
from utils.manage.lessons import ROOT, exit_status

MINUTES = 15  # at most, for one notebook; the longest lesson takes one or two
MEMORY, FILE = 48 * 2**30, 2 * 2**30  # bytes: of address space, most of which is never used, and of a file
COLUMNS = ("file", "lesson", "solved", "of", "open", "remark")


@dataclass
class Grade:
    """What a notebook's answers are worth."""

    file: str
    lesson: str = ""
    solved: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    remark: str = ""

    def row(self) -> dict:
        """For the table: exercises without the number of their lesson."""
        known = self.solved + self.left
        values = (self.file, self.lesson, len(self.solved), len(known), " ".join(name[3:] for name in self.left))
        return dict(zip(COLUMNS, (*values, self.remark), strict=True))


# ---- in the process of a notebook ----------------------------------------------------------------------------------


def answers_of(path: Path) -> dict:
    """Run a notebook's cells in this process: the exercises it checks, those that are right, the cells that failed."""
    from IPython.core.interactiveshell import InteractiveShell

    from utils.exercises import lessons as exercises

    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shell, failed = InteractiveShell.instance(), []
    for number, source in enumerate(cells, 1):
        if not shell.run_cell(source, store_history=False).success:
            failed.append(number)
    asked = dict.fromkeys(re.findall(r"\bcheck\(\s*[\"'](\d\d-\w+)", "\n".join(cells)))
    asked = list(dict.fromkeys(exercise.name for name in asked if (exercise := exercises.find(name))))
    return {"asked": asked, "solved": exercises.solved(), "failed": failed, "cells": len(cells)}


def run_here(path: Path, result: Path) -> None:
    """What the process of a notebook does: it shows nothing, and writes `answers_of` to `result` as JSON."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        found = answers_of(path)
    result.write_text(json.dumps(found))


# ---- outside -------------------------------------------------------------------------------------------------------


@cache
def without_network() -> tuple[str, ...]:
    """What goes in front of a command so that it has no network; () if this machine does not allow that."""
    command = ("unshare", "--user", "--map-root-user", "--net")
    allowed = shutil.which("unshare") and not subprocess.run([*command, "true"], capture_output=True).returncode
    return command if allowed else ()


def grade(path: Path, name: str, minutes: float = MINUTES) -> Grade:
    """Run one notebook in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="grade-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        try:
            shutil.copy(path, work / "notebook.ipynb")
            json.loads((work / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
        except (OSError, ValueError, LookupError, TypeError) as problem:
            return Grade(name, remark=f"not a readable notebook: {problem}")
        environment = {key: os.environ[key] for key in ("PATH", "LANG", "LD_LIBRARY_PATH") if key in os.environ}
        environment |= {"HOME": folder, "TMPDIR": folder, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
        environment |= {
            "CUDA_COURSE_CACHE": f"{folder}/cache",
            "COURSE_HEADLESS": "1",
            "IPYTHONDIR": f"{folder}/ipython",
        }
        result = Path(folder) / "result.json"
        command = [
            *without_network(),
            sys.executable,
            "-m",
            "utils.manage.grade",
            "--one",
            work / "notebook.ipynb",
            result,
        ]
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                process.wait(60 * minutes)
            except subprocess.TimeoutExpired:
                return Grade(name, remark=f"stopped after {minutes:g} minutes")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()
        try:
            found = json.loads(result.read_text())
        except (OSError, ValueError):
            last = said[-1] if said else f"exit status {process.returncode}"
            return Grade(name, remark=f"its process ended: {last}"[:200])
    return _graded(name, **found)


def _graded(name, asked, solved, failed, cells):
    right = [exercise for exercise in asked if exercise in solved]
    lesson = " ".join(sorted({exercise[:2] for exercise in asked}))
    remark = "" if asked else "it checks no exercise"
    if failed:
        numbers = ", ".join(map(str, failed[:5])) + (", ..." if len(failed) > 5 else "")
        remark = f"{len(failed)} of {cells} code cells failed: {numbers}"
    return Grade(name, lesson, right, [exercise for exercise in asked if exercise not in solved], remark)


def grade_all(folder: Path, minutes: float = MINUTES) -> int:
    """Judge every notebook below `folder`, show the table and write grades.csv."""
    if not folder.is_dir():
        raise CourseError(f"{folder} is not a folder. For instance: make grade FOLDER=returned")
    paths = sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    if not paths:
        raise CourseError(f"There are no notebooks (*.ipynb) in {folder}.")
    if not without_network():
        print("This machine does not let a process do without the network: the notebooks can reach it.")
    grades = []
    for path in progress(paths, "notebooks", lambda path: path.stem):
        grades.append(grade(path, str(path.relative_to(folder)), minutes))
        with bar_hidden():
            print(in_a_line(grades[-1]), flush=True)
    write_table(grades, folder / "grades.csv")
    print(f"{folder / 'grades.csv'} has the table.")
    return 0


def in_a_line(grade: Grade) -> str:
    row = grade.row()
    still = f", open: {row['open']}" if row["open"] else ""
    remark = f" ({grade.remark})" if grade.remark else ""
    return f"{grade.file}: {row['solved']} of {row['of']} solved{still}{remark}"


def write_table(grades: Iterable[Grade], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(grade.row() for grade in grades)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m utils.manage.grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the notebooks are, in folders of their own if you like")
    parser.add_argument("result", type=Path, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"at most for one notebook (default: {MINUTES})")
    asked = parser.parse_args(arguments)
    if asked.one:
        run_here(asked.folder, asked.result)
        return 0
    return exit_status(grade_all, asked.folder, asked.minutes)


if __name__ == "__main__":
    sys.exit(main())
