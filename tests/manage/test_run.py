"""utils/manage/run.py: running lessons."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from tests.manage.made import lesson, rows
from utils.manage import run
from utils.manage.lessons import use_this_python

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("environment")


def test_run_executes_all_and_shows_what_failed(tmp_path, capsys):
    root = tmp_path / "my course"
    lesson(root, "00_fine", "print('Device: CPU, 2 cores (no GPU found)')", "x = 6 * 7", "x")
    lesson(root, "01_broken", "x = 1", "def f(v):\n    return v / 0\n\nprint('so far')\nf(x)", "print('never')")
    lesson(root, "02_dies", "import os\nos._exit(1)")
    lesson(root, "03_headless", "import os\nassert os.environ['COURSE_HEADLESS'] == '1'", "import sys\nsys.executable")
    (root / "notebooks" / "04_torn.ipynb").write_text('{"cells": [')
    (root / "notebooks" / "notes.ipynb").write_text("not a lesson")
    before = {path: path.read_bytes() for path in (root / "notebooks").iterdir()}

    assert run.main([], root) == 1
    said = capsys.readouterr().out

    assert rows(said) == {
        "00_fine": ("CPU, 2 cores", "3/3", "passed"),
        "01_broken": ("-", "1/3", "FAILED"),
        "02_dies": ("-", "0/1", "FAILED"),
        "03_headless": ("-", "2/2", "passed"),
        "04_torn": ("-", "0/0", "FAILED"),
    }
    assert said.splitlines()[-1].startswith("5 lessons: 2 passed, 3 failed in ")
    assert "01_broken: code cell 2 of 3 failed" in said
    assert "    | def f(v):" in said and "ZeroDivisionError: division by zero" in said
    assert "Cell In[2], line 5" in said and "\x1b" not in said
    assert "02_dies: code cell 1 of 1 failed" in said and "DeadKernelError" in said
    assert "04_torn: not a readable notebook" in said

    assert before == {path: path.read_bytes() for path in (root / "notebooks").iterdir()}
    executed = nbformat.read(root / "build" / "course" / "00_fine.ipynb", as_version=4)
    assert executed.cells[3].outputs[0]["data"]["text/plain"] == "42"
    broken = nbformat.read(root / "build" / "course" / "01_broken.ipynb", as_version=4)
    assert broken.cells[2].outputs[0]["text"] == "so far\n" and broken.cells[3].outputs == []
    kernel = nbformat.read(root / "build" / "course" / "03_headless.ipynb", as_version=4)
    assert kernel.cells[2].outputs[0]["data"]["text/plain"] == repr(sys.executable)


def test_a_cell_that_never_ends(tmp_path):
    use_this_python(tmp_path)
    result = run.run_lesson(lesson(tmp_path, "00_slow", "import time\ntime.sleep(600)"), timeout=1)
    assert result.result == "FAILED" and "CellTimeoutError" in result.failure and "time.sleep(600)" in result.failure


def test_ctrl_c_ends_with_what_was_done(tmp_path):
    lesson(tmp_path, "00_fine", "1 + 1")
    flag = tmp_path / "started"
    lesson(tmp_path, "01_long", f"import pathlib, time\npathlib.Path({str(flag)!r}).touch()\ntime.sleep(600)")
    lesson(tmp_path, "02_later", "1")
    code = "import pathlib, sys; from utils.manage import run; "
    code += "sys.exit(run.main([], pathlib.Path(sys.argv[1])))"
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.time() + 600
        while not flag.exists():
            assert time.time() < deadline and run.poll() is None, "the second lesson did not start"
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=300)
    finally:
        run.kill()
    assert run.returncode == 130, said
    assert rows(said) == {"00_fine": ("-", "1/1", "passed"), "01_long": ("-", "0/1", "interrupted")}
    assert "interrupted after 1 of 3 lessons: 1 passed, 0 failed" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_no_lessons_at_all(tmp_path, capsys):
    assert run.main([], tmp_path) == 2
    assert "no lessons" in capsys.readouterr().err
