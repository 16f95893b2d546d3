"""Runs the lessons:  python -m utils.manage.run [LESSON ...]

Executes them headless, from top to bottom, and prints a table of which passed. Executed copies go to build/course/;
the committed notebooks stay as they are.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from utils.ground.progress import bar_hidden, progress
from utils.ground.system import write
from utils.manage.lessons import ROOT, exit_status, lessons, lessons_asked_for, use_this_python

CELL_TIMEOUT = 1800  # seconds; the longest cell of the course takes well under a minute on two cores


# ---------------------------------------------------------------- running one


@dataclass
class Result:
    """The result of executing one lesson: passed, FAILED or interrupted, and after how many of its code cells."""

    lesson: str
    device: str = "-"
    ran: int = 0
    cells: int = 0
    seconds: float = 0.0
    result: str = "FAILED"
    failure: str = ""
    notebook: dict | None = None


def without_colours(text: str) -> str:
    """Text without a terminal's colour codes."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def indent(text: str, by: str = "    ", lines: int = 40) -> str:
    rows = text.rstrip("\n").split("\n")
    if len(rows) > lines:
        rows = [*rows[:lines], f"... ({len(rows) - lines} more lines)"]
    return "\n".join(by + row for row in rows)


def learners_frames(traceback: list[str]) -> str:
    """The parts of an IPython traceback that are in the notebook's cells, not in libraries."""
    frames = [without_colours(part).strip("\n") for part in traceback]
    return "\n".join(part for part in frames if part.lstrip().startswith("Cell In["))


def device_of(nb: dict) -> str:
    """What the set-up cell printed after `Device:`, without the details in brackets."""
    for cell in nb["cells"]:
        for output in cell.get("outputs", []):
            found = re.search(r"^Device: ([^(\n]+)", str(output.get("text", "")), re.M)
            if found:
                return found.group(1).strip()
    return "-"


def failure_text(lesson: str, number: int, cells: int, source: str, problem: BaseException, outputs: list) -> str:
    error = next((o for o in outputs if o["output_type"] == "error"), None)
    parts = [f"{lesson}: code cell {number} of {cells} failed", indent(source, "    | ", lines=12)]
    if error is not None:
        frames = learners_frames(error["traceback"])
        parts += [indent(frames)] if frames else []
        parts.append(indent(f"{error['ename']}: {without_colours(error['evalue'])}"))
    if error is None or isinstance(problem, TimeoutError):  # the process died or was interrupted
        parts.append(indent(f"{type(problem).__name__}: {without_colours(str(problem))}"))
    return "\n".join(parts)


def run_lesson(path: Path, environment: dict[str, str] | None = None, timeout: int = CELL_TIMEOUT) -> Result:
    """Execute one notebook from its own folder in a fresh process. Errors and Ctrl-C end up in the result.

    `environment` is that of the notebook's Python process, by default this one's; `timeout` is in seconds per cell.
    """
    import nbformat
    from nbclient import NotebookClient

    result, start = Result(path.stem), time.perf_counter()
    try:
        nb = nbformat.read(path, as_version=4)
    except Exception as problem:
        result.failure = f"{path.stem}: not a readable notebook\n" + indent(f"{type(problem).__name__}: {problem}")
        return result
    code = [(n, cell) for n, cell in enumerate(nb.cells) if cell.cell_type == "code"]
    for _, cell in code:
        cell.outputs, cell.execution_count = [], None
    result.cells, result.notebook = len(code), nb
    client = NotebookClient(
        nb,
        kernel_name="python3",
        timeout=timeout,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    cell = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:  # of the notebook's process
        try:
            with client.setup_kernel(stderr=log, env=environment or dict(os.environ)):
                for n, cell in progress(code, "cells"):
                    client.execute_cell(cell, n)
                    result.ran += 1
            result.result = "passed"
        except KeyboardInterrupt:
            result.result = "interrupted"
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report that nobody awaits the cell
        except Exception as problem:
            source, outputs = (
                (cell.source, cell.outputs) if cell else ("(the notebook's Python process did not start)", [])
            )
            result.failure = failure_text(path.stem, result.ran + 1, len(code), source, problem, outputs)
            if isinstance(problem, RuntimeError):  # the process died, or did not start
                log.seek(0)
                result.failure += "".join("\n    " + line.rstrip() for line in log.readlines()[-5:])
    result.device, result.seconds = device_of(nb), time.perf_counter() - start
    return result


# ---------------------------------------------------------------- running all


def run_lessons(paths: list[Path], each: Callable[[Path, Result], None], root: Path, **variables: str) -> list[Result]:
    """Execute notebooks one after the other, until Ctrl-C; `each` gets every result as it arrives.

    `variables` are added to the environment of the notebooks' Python processes.
    """
    use_this_python(root)
    environment = {**os.environ, "COURSE_HEADLESS": "1", **variables}
    environment.pop("MPLBACKEND", None)  # IPython chooses the one that shows pictures in the notebook
    results: list[Result] = []
    for path in progress(paths, "lessons", name=lambda path: path.stem):
        result = run_lesson(path, environment)
        results.append(result)
        each(path, result)
        if result.result == "interrupted":
            break
        if result.failure:
            with bar_hidden():
                print(f"\n{result.failure}\n", flush=True)
    return results


def table(results: list[Result]) -> str:
    rows = [("lesson", "device", "cells", "seconds", "result")]
    rows += [(r.lesson, r.device, f"{r.ran}/{r.cells}", f"{r.seconds:.1f}", r.result) for r in results]
    width = [max(len(row[column]) for row in rows) for column in range(5)]
    right = (2, 3)
    lines = []
    for row in rows:
        fields = [
            text.rjust(size) if column in right else text.ljust(size)
            for column, (text, size) in enumerate(zip(row, width, strict=True))
        ]
        lines.append("  ".join(fields).rstrip())
    lines.insert(1, "  ".join("-" * size for size in width))
    return "\n".join(lines)


def print_summary(results: list[Result], asked: int, seconds: float) -> int:
    """Print the table and the count; return the exit status."""
    print("\n" + table(results) + "\n")
    passed, failed = (sum(r.result == kind for r in results) for kind in ("passed", "FAILED"))
    count = f"{passed} passed, {failed} failed in {seconds:.0f} s"
    if passed + failed < len(results):
        print(f"interrupted after {passed + failed} of {asked} lessons: {count}")
        return 130
    print(f"{asked} lesson{'s' * (asked != 1)}: {count}")
    return 0 if passed == asked else 1


def run(wanted: Iterable[str] = (), root: Path = ROOT) -> int:
    """Execute lessons and keep the executed copies in build/course/."""
    import nbformat

    paths, start = lessons(wanted, root), time.perf_counter()

    def keep(path: Path, result: Result) -> None:
        if result.notebook is not None:
            write(root / "build" / "course" / path.name, nbformat.writes(result.notebook) + "\n")

    results = run_lessons(paths, keep, root)
    if any(result.failure for result in results):
        print("Executed copies, as far as they got: build/course/")
    return print_summary(results, len(paths), time.perf_counter() - start)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    return exit_status(run, lessons_asked_for(arguments, "python -m utils.manage.run", __doc__), root)


if __name__ == "__main__":
    sys.exit(main())
