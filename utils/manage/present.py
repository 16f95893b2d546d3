"""Presents a lesson live, in JupyterLab with jupyterlab-rise:  python -m utils.manage.present LESSON [OPTION ...]

Opens a fresh copy of the lesson, in build/present/, as the slides that `make slides` makes of it (see slides.py), but
with cells that can be changed, and run with Ctrl+Enter. A cell runs on its slide as in the lesson: whatever comes
before it and has not run yet runs first, without being shown. Each OPTION is passed to JupyterLab.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from IPython.display import clear_output
from IPython.utils.capture import capture_output

from utils.ground.errors import CourseError
from utils.ground.system import write
from utils.manage.lessons import ROOT, exit_status, handed_out, lessons, use_our_settings, use_this_python
from utils.manage.slides import arranged

STYLE = Path(__file__).parent / "reveal" / "rise.css"  # RISE reads a file of this name beside the notebook
PRESENTED = "CUDA_COURSE_PRESENTED"  # names the copy, for the notebook's process
SETTINGS = {"scroll": True, "center": False, "transition": "none", "theme": "simple", "slideNumber": "c/t"}


def copy_for_slides(path: Path, root: Path = ROOT) -> Path:
    """Write the lesson as its slides need it, without outputs."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = arranged(notebook)
    notebook.metadata["rise"] = SETTINGS
    copy = root / "build" / "present" / path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    write(copy, handed_out(nbformat.writes(notebook)))
    write(copy.parent / STYLE.name, STYLE.read_text(encoding="utf-8"))
    return copy


def present(wanted: str, options: Iterable[str] = (), root: Path = ROOT) -> int:
    """Open the slides of a lesson in JupyterLab."""
    if not wanted:
        raise CourseError("Which lesson? For instance: make present LESSON=07")
    (path,) = lessons([wanted], root)
    copy = copy_for_slides(path, root)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    use_this_python(root, "present", "--ext=utils.manage.present", PYTHONPATH=paths, **{PRESENTED: str(copy)})
    use_our_settings()
    address = f"/rise/{copy.relative_to(root).as_posix()}"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url={address}"]
    command += ["--allow-root"] if os.geteuid() == 0 else []  # as in a container
    print("Click on the slide once. Then Space goes on and Ctrl+Enter runs the chosen cell. Escape leaves a cell that")
    print("you have changed, T opens your notes. To end it, press Ctrl-C here twice.")
    sys.stdout.flush()
    os.chdir(root)
    os.execv(sys.executable, [*command, *options])


# ---------------------------------------------------------------- in the notebook's process


def load_ipython_extension(shell) -> None:
    """Before a cell of a slide runs, run what comes before it and has not run yet."""
    cells = nbformat.read(os.environ[PRESENTED], as_version=4).cells
    sources = {cell.id: cell.source for cell in cells if cell.cell_type == "code"}
    order, done = list(sources), set()

    def catch_up(info):
        if info.cell_id not in sources:  # one that we run ourselves has no id
            return
        missing = [each for each in order[: order.index(info.cell_id)] if each not in done]
        done.add(info.cell_id)
        if missing:
            print(f"first, {len(missing)} cells before this one ...", flush=True)
        for each in missing:
            with capture_output() as shown:
                failed = shell.run_cell(sources[each], store_history=False).success is False
            if failed:
                shown.show()
                print(f"This was cell {each}, which comes before.")
                return
            done.add(each)
        if missing:
            clear_output()

    shell.events.register("pre_run_cell", catch_up)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m utils.manage.present", description=__doc__, formatter_class=shape, allow_abbrev=False
    )
    parser.add_argument("lesson", nargs="?", default="", help="its number (3 or 03) or its file's name")
    asked, options = parser.parse_known_args(arguments)
    return exit_status(present, asked.lesson.strip(), options, root)


if __name__ == "__main__":
    sys.exit(main())
