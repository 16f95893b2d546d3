"""utils/manage/present.py: the copy that is presented, and what runs before a cell of a slide."""

import json
import os
import sys
from types import SimpleNamespace

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.manage.test_slides import code, text
from utils.manage import present

pytestmark = pytest.mark.usefixtures("environment")


def written(root, *cells):
    path = root / "notebooks" / "03_made.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return path


def test_the_copy_has_the_slides_and_no_outputs(tmp_path):
    path = written(tmp_path, code("0"), text("# T\n\nlong", "slide", [1]), code("1", shown="output", output="gone"))
    copy = present.copy_for_slides(path, tmp_path)
    assert copy == tmp_path / "build" / "present" / "03_made.ipynb"
    cells = json.loads(copy.read_text())["cells"]
    assert [cell["metadata"]["slideshow"]["slide_type"] for cell in cells] == ["skip", "slide", "notes", "-"]
    assert cells[3]["outputs"] == [] and cells[3]["metadata"]["jupyter"] == {"source_hidden": True}
    assert "--jp-code-font-size" in (copy.parent / "rise.css").read_text()
    nbformat.validate(nbformat.read(copy, as_version=4))


def test_command_line(tmp_path, monkeypatch, capsys):
    written(tmp_path, text("# T", "slide"))
    ran = []
    monkeypatch.setattr(os, "execv", lambda program, command: ran.append(command) or sys.exit(0))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):  # it does not come back
        present.main(["3", "--no-browser"], tmp_path)
    (command,) = ran
    assert command[:3] == [sys.executable, "-m", "jupyterlab"] and command[-1] == "--no-browser"
    assert "--LabApp.default_url=/rise/build/present/03_made.ipynb" in command
    kernel = json.loads((tmp_path / "build" / "present" / "kernels" / "python3" / "kernel.json").read_text())
    assert "--ext=utils.manage.present" in kernel["argv"]
    assert kernel["env"][present.PRESENTED] == str(tmp_path / "build" / "present" / "03_made.ipynb")
    assert present.main([], tmp_path) == 2 and "make present LESSON=07" in capsys.readouterr().err


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Runs the cell of a presented notebook as JupyterLab does, with its id."""
    shell = InteractiveShell()
    cells = [
        code("ran = [0]"),
        text("# T", "slide"),
        code("ran.append(1)"),
        code("ran += 1 / 0", "skip"),
        code("ran.append(3)"),
    ]
    path = present.copy_for_slides(written(tmp_path, *cells), tmp_path)
    monkeypatch.setenv(present.PRESENTED, str(path))
    present.load_ipython_extension(shell)
    presented = nbformat.read(path, as_version=4).cells
    shell.play = lambda index: shell.run_cell(presented[index].source, cell_id=presented[index].id)
    return shell


def test_what_comes_before_a_cell_runs_once_and_first(shell):
    shell.play(2)
    assert shell.user_ns["ran"] == [0, 1]
    shell.play(2)
    assert shell.user_ns["ran"] == [0, 1, 1]


def test_what_fails_before_a_cell_is_shown_with_the_name_of_its_cell(shell, capsys):
    shell.play(4)
    said = capsys.readouterr().out
    assert "first, 3 cells before this one" in said
    assert "ZeroDivisionError" in said and "which comes before" in said
    assert shell.user_ns["ran"] == [0, 1, 3]  # the cell itself still runs


def test_a_cell_of_another_notebook_is_left_alone(shell):
    assert shell.run_cell("x = 1").success
    shell.events.trigger("pre_run_cell", SimpleNamespace(cell_id="unknown"))
    assert "ran" not in shell.user_ns
