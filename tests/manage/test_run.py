"""utils/manage/run.py: running lessons, refreshing outputs, looking after the learner's copies."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager

from utils.manage import run as course

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Give back what running lessons sets in the environment."""
    for name in ("COURSE_HEADLESS", "JUPYTER_PATH", "MPLBACKEND"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("MPLBACKEND")


def lesson(root, name, *cells, tags=()):
    nb = nbformat.v4.new_notebook()
    nb.cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
    nb.cells += [nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)} if tags else {}) for source in cells]
    path = root / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    return path


def rows(text):
    """The table of a report: lesson -> (device, cells, result)."""
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: (" ".join(line[1:-3]), line[-3], line[-1]) for line in lines if len(line) > 4 and "/" in line[-3]}


# ---------------------------------------------------------------- run


def test_run_executes_all_and_shows_what_failed(tmp_path, capsys):
    root = tmp_path / "my course"
    lesson(root, "00_fine", "print('Device: CPU, 2 cores (no GPU found)')", "x = 6 * 7", "x")
    lesson(root, "01_broken", "x = 1", "def f(v):\n    return v / 0\n\nprint('so far')\nf(x)", "print('never')")
    lesson(root, "02_dies", "import os\nos._exit(1)")
    lesson(root, "03_headless", "import os\nassert os.environ['COURSE_HEADLESS'] == '1'", "import sys\nsys.executable")
    (root / "notebooks" / "04_torn.ipynb").write_text('{"cells": [')
    (root / "notebooks" / "notes.ipynb").write_text("not a lesson")
    before = {path: path.read_bytes() for path in (root / "notebooks").iterdir()}

    assert course.main(["run"], root) == 1
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
    course.this_python(tmp_path)
    result = course.run_lesson(lesson(tmp_path, "00_slow", "import time\ntime.sleep(600)"), timeout=1)
    assert result.result == "FAILED" and "CellTimeoutError" in result.failure and "time.sleep(600)" in result.failure


def test_ctrl_c_ends_with_what_was_done(tmp_path):
    lesson(tmp_path, "00_fine", "1 + 1")
    flag = tmp_path / "started"
    lesson(tmp_path, "01_long", f"import pathlib, time\npathlib.Path({str(flag)!r}).touch()\ntime.sleep(600)")
    lesson(tmp_path, "02_later", "1")
    code = "import pathlib, sys; from utils.manage import run as course; "
    code += "sys.exit(course.main(['run'], pathlib.Path(sys.argv[1])))"
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.time() + 60
        while not flag.exists():
            assert time.time() < deadline and run.poll() is None, "the second lesson did not start"
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=30)
    finally:
        run.kill()
    assert run.returncode == 130, said
    assert rows(said) == {"00_fine": ("-", "1/1", "passed"), "01_long": ("-", "0/1", "interrupted")}
    assert "interrupted after 1 of 3 lessons: 1 passed, 0 failed" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_lessons_are_chosen_by_number_or_name(tmp_path, capsys):
    paths = [lesson(tmp_path, name) for name in ("00_start", "03_cuda", "10_limit")]
    assert course.lessons(root=tmp_path) == paths
    assert course.lessons(["3"], tmp_path) == course.lessons(["03"], tmp_path) == [paths[1]]
    assert course.lessons(["10", "notebooks/03_cuda.ipynb"], tmp_path) == paths[1:]
    assert course.main(["run", "07"], tmp_path) == 2
    said = capsys.readouterr().err
    assert "'07'" in said and "00_start, 03_cuda, 10_limit" in said
    assert course.main(["list"], tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == ["00  00_start", "03  03_cuda", "10  10_limit"]


def test_no_lessons_at_all(tmp_path, capsys):
    assert course.main(["run"], tmp_path) == 2
    assert "no lessons" in capsys.readouterr().err


def test_the_kernel_is_the_interpreter_in_use(tmp_path, monkeypatch):
    other = tmp_path / "other" / "kernels" / "python3"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text(json.dumps({"argv": ["/bin/false"], "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "other"))
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == "/bin/false"
    course.this_python(tmp_path)
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == sys.executable


# ---------------------------------------------------------------- outputs


def test_outputs_are_refreshed_in_place(tmp_path, capsys):
    odd = "print(1); import sys; sys.stdout.flush(); print(2)"
    path = lesson(tmp_path, "00_a", odd, "import os\nos.getcwd()", tags=["nbval-ignore-output"])
    ids = [cell["id"] for cell in json.loads(path.read_text())["cells"]]
    bad = lesson(tmp_path, "01_b", "print('see /home/ann/thesis.txt')")
    failing = lesson(tmp_path, "02_c", "1 / 0")
    untouched = bad.read_bytes(), failing.read_bytes()

    assert course.main(["outputs"], tmp_path) == 1
    said = capsys.readouterr().out
    assert rows(said)["00_a"][2] == "passed" and "cell 2: /home/ann/thesis.txt" in said
    assert said.splitlines()[-1].startswith("3 lessons: 1 passed, 2 failed")
    assert (bad.read_bytes(), failing.read_bytes()) == untouched

    nb = json.loads(path.read_text())
    assert nb["metadata"] == {"kernelspec": course.KERNELSPEC, "language_info": {"name": "python"}}
    assert [cell["id"] for cell in nb["cells"]] == ids
    assert [cell["metadata"] for cell in nb["cells"][1:]] == [{"tags": ["nbval-ignore-output"]}] * 2
    assert [cell["execution_count"] for cell in nb["cells"][1:]] == [1, 2]
    assert nb["cells"][1]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["1\n", "2\n"]}]
    assert nb["cells"][2]["outputs"][0]["data"]["text/plain"] == ["'course/notebooks'"]
    assert path.read_text() == json.dumps(nb, indent=1, ensure_ascii=False) + "\n"


def test_normalise_drops_what_changes_from_run_to_run():
    stream = {"output_type": "stream", "name": "stdout"}
    nb = {
        "metadata": {"language_info": {"version": "3.11.7"}, "widgets": {"state": {}}},
        "cells": [
            {"cell_type": "markdown", "metadata": {"collapsed": True}, "source": "# x"},
            {
                "cell_type": "code",
                "metadata": {"execution": {"iopub.status.busy": "2026"}, "tags": ["t"]},
                "outputs": [
                    {**stream, "text": "a"},
                    {**stream, "text": "b\n"},
                    {"output_type": "stream", "name": "stderr", "text": "in /srv/ann/lib/x.py"},
                    {
                        "output_type": "display_data",
                        "data": {
                            "text/html": ["<p>/opt/ann/course", "/utils</p>"],
                            "image/png": "/home/ann/not-a-path==",
                            "application/vnd.jupyter.widget-view+json": {},
                        },
                    },
                ],
            },
        ],
    }
    left = course.normalise(nb, {"/opt/ann/course": "course"})
    assert left == ["cell 2: /srv/ann/lib/x.py"]
    assert nb["metadata"] == {"kernelspec": course.KERNELSPEC, "language_info": {"name": "python"}}
    assert [cell["metadata"] for cell in nb["cells"]] == [{}, {"tags": ["t"]}]
    first, second, third = nb["cells"][1]["outputs"]
    assert first["text"] == "ab\n" and second["name"] == "stderr"
    assert third["data"] == {"text/html": "<p>course/utils</p>", "image/png": "/home/ann/not-a-path=="}


def test_places_are_shortened_and_only_whole_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_CACHE_HOME", "/big/cache")
    short = course.places(Path("/home/ann/cuda"))
    text = (
        "/home/ann/cuda/a.py /home/ann/cudas /home/anna /big/cache/x http://x/home/ann /usr/bin/g++ file:///home/ann/q"
    )
    assert course.shorten(text, short) == (
        "course/a.py ~/cudas /home/anna ~/.cache/x http://x/home/ann /usr/bin/g++ file://~/q"
    )
    assert course.shorten(tempfile.gettempdir() + "/abc", short) == "tmp/abc"
    assert course.shorten(f"{sys.prefix}/lib/x", short).startswith(("python/", "course/", "~/"))
    assert "/usr" not in short and "/" not in short


@pytest.mark.parametrize(
    "text, found",
    [
        ("in /home/ann/x.py, line 3", ["/home/ann/x.py"]),
        ("'/Users/ann/x' (/tmp/tmpab1/main.cpp)", ["/Users/ann/x", "/tmp/tmpab1/main.cpp"]),
        ("HOME=/root", ["/root"]),
        ("/usr/bin/g++ /proc/driver/nvidia/version /usr/local/cuda/bin/nvcc", []),
        ("a/home/b ~/tmp/x course/tmp/y 1/work </tmp> https://site/home/ann", []),
    ],
)
def test_machine_paths(text, found):
    assert course.machine_paths(text) == found


# ---------------------------------------------------------------- the learner's copies


def test_a_file_is_written_as_a_whole_or_not_at_all(monkeypatch, tmp_path):
    file = tmp_path / "page.md"
    file.write_text("old")
    file.chmod(0o640)

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="no space"):
            course.write(file, "new")
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]
    course.write(file, "new")
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_lab_copies_and_never_overwrites(tmp_path, capsys):
    first, second = lesson(tmp_path, "00_a", "1"), lesson(tmp_path, "01_b", "2")
    assert course.copy_lessons(tmp_path) == []
    copy = tmp_path / "lab" / "00_a.ipynb"
    assert course.digest(copy) == course.digest(first)
    copy.write_text("the learner's work")
    assert course.copy_lessons(tmp_path) == []
    assert copy.read_text() == "the learner's work"

    lesson(tmp_path, "00_a", "1 + 1")  # a newer course
    lesson(tmp_path, "02_c", "3")
    assert course.copy_lessons(tmp_path) == ["00"]
    assert copy.read_text() == "the learner's work"
    assert {path.name for path in (tmp_path / "lab").glob("*.ipynb")} == {"00_a.ipynb", "01_b.ipynb", "02_c.ipynb"}
    assert course.digest(second) == course.digest(tmp_path / "lab" / "01_b.ipynb") != course.digest(first)


def test_a_copy_has_no_outputs_to_give_an_answer_away(tmp_path):
    path = lesson(tmp_path, "00_a", "1")
    notebook = json.loads(path.read_text())
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": ["42"]}], "execution_count": 1}
    path.write_text(json.dumps(notebook))
    course.copy_lessons(tmp_path)
    copy = json.loads((tmp_path / "lab" / "00_a.ipynb").read_text())
    assert all(not cell.get("outputs") for cell in copy["cells"])
    assert [cell["source"] for cell in copy["cells"]] == [cell["source"] for cell in notebook["cells"]]
    code["outputs"][0]["text"] = ["43"]  # refreshed outputs are no newer lesson
    path.write_text(json.dumps(notebook))
    assert course.copy_lessons(tmp_path) == []


def test_reset_renews_one_copy_and_keeps_the_old_one(tmp_path, capsys):
    path = lesson(tmp_path, "03_c", "3")
    other = lesson(tmp_path, "04_d", "4")
    folder = tmp_path / "lab"
    assert course.main(["reset", "03"], tmp_path) == 0  # no copy yet: it makes one
    copy = folder / path.name
    assert course.main(["reset", "3"], tmp_path) == 0
    assert "nothing to renew" in capsys.readouterr().out and len(list(folder.glob("*.ipynb"))) == 1
    for number, work in enumerate(["first", "second"], 1):
        copy.write_text(work)
        assert course.main(["reset", "03"], tmp_path) == 0
        assert course.digest(copy) == course.digest(path)
        assert (folder / f"03_c.{number}.ipynb").read_text() == work
        assert f"03_c.{number}.ipynb" in capsys.readouterr().out
    assert not (folder / other.name).exists()


@pytest.mark.parametrize(
    "arguments, said", [(["reset"], "LESSON=03"), (["reset", ""], "LESSON=03"), (["reset", "9"], "'9'")]
)
def test_reset_needs_a_lesson_that_exists(tmp_path, capsys, arguments, said):
    lesson(tmp_path, "03_c", "3")
    assert course.main(arguments, tmp_path) == 2
    assert said in capsys.readouterr().err


def test_lab_opens_lesson_00_of_the_copies(tmp_path, monkeypatch, capsys):
    lesson(tmp_path, "00_a", "1")
    called, here = [], os.getcwd()
    monkeypatch.setattr(os, "execv", lambda program, command: called.append((program, command)))
    try:
        course.main(["lab", "--no-browser"], tmp_path)
    finally:
        os.chdir(here)
    ((program, command),) = called
    assert program == command[0] == sys.executable and "jupyterlab" in command
    assert command[-3:] == [
        f"--ServerApp.root_dir={tmp_path}",
        "--LabApp.default_url=/lab/tree/lab/00_a.ipynb",
        "--no-browser",
    ]
    assert (tmp_path / "lab" / "00_a.ipynb").is_file()


def test_writing_is_all_or_nothing(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    path.chmod(0o600)
    with pytest.raises(TypeError):
        course.write(path, None)
    assert path.read_text() == "old"
    course.write(path, "new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600
