"""Manages the learner's copies of the lessons, in lab/:

    python -m utils.manage.lab [OPTION ...]      copy the lessons that are missing, and open JupyterLab
    python -m utils.manage.lab --reset LESSON    make a fresh copy; the old one is kept beside it under a number
    python -m utils.manage.lab --copy            copy the lessons that are missing, and open nothing

No copy is ever overwritten. Each OPTION is passed to JupyterLab.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from utils.ground.errors import CourseError
from utils.ground.system import write
from utils.manage.lessons import ROOT, exit_status, handed_out, lessons, use_our_settings, use_this_python

# The lessons that once had other numbers: the stem of an older copy, and today's numbers.
RENUMBERED = {
    "09_measuring": "10",
    "10_matmul_to_the_limit": "11 and 12",
    "11_numba_and_triton": "16",
    "12_ship_it": "17",
}


def digest(path: Path) -> str:
    """A hash of the cells' text, or of the whole file if it is not a notebook. Outputs do not count."""
    text = path.read_text(encoding="utf-8")
    try:
        text = repr([(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]])
    except (ValueError, LookupError, TypeError):
        pass
    return hashlib.sha256(text.encode()).hexdigest()


def origins(root: Path) -> dict[str, str]:
    """Which version of each lesson was copied: file name -> digest."""
    try:
        return dict(json.loads((root / "lab" / ".origins.json").read_text()))
    except (OSError, ValueError):
        return {}


def copy_lesson(path: Path, root: Path) -> None:
    copy = root / "lab" / path.name
    copy.parent.mkdir(exist_ok=True)
    with copy.open("x", encoding="utf-8") as target:  # x: never overwrites a file
        target.write(handed_out(path.read_text(encoding="utf-8")))
    write(copy.parent / ".origins.json", json.dumps({**origins(root), path.name: digest(path)}, indent=1))


def copy_lessons(root: Path = ROOT) -> list[Path]:
    """Copy the lessons that lab/ lacks; returns the others that have changed since they were copied."""
    changed = []
    for path in lessons(root=root):
        copy = root / "lab" / path.name
        if not copy.exists():
            copy_lesson(path, root)
        elif origins(root).get(path.name) != digest(path) != digest(copy):
            changed.append(path)
    return changed


def code_of(path: Path) -> list[str]:
    """The code cells' sources, without the course's address, which `make publish` writes. None if it is corrupt."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError):
        return []
    return [re.sub(r"^REPO, REF = .*", "", source, flags=re.M) for source in sources]


def outdated_copies(root: Path = ROOT) -> list[Path]:
    """The lessons whose copies do not begin with today's set-up cell: another may look for the course elsewhere."""
    copies = {path: code_of(root / "lab" / path.name) for path in lessons(root=root)}
    return [path for path, code in copies.items() if code and code_of(path)[0] not in code]


def lab(options: Iterable[str] = (), root: Path = ROOT) -> int:
    """Open JupyterLab at lesson 00 in lab/, with notebooks run by the current interpreter."""
    changed, outdated = copy_lessons(root), outdated_copies(root)
    for path in lessons(root=root):
        reset_command = f"`make reset LESSON={path.name[:2]}`"
        if path in outdated:
            print(
                f"lab/{path.name} has the set-up cell of another version of the course and may not find this one. "
                f"{reset_command} makes a fresh copy and keeps the old one."
            )
        elif path in changed:
            print(
                f"Lesson {path.name[:2]} is newer than your copy. {reset_command} renews it; yours is kept beside it."
            )
    for stem, number in RENUMBERED.items():
        if (root / "lab" / f"{stem}.ipynb").exists():
            print(f"lab/{stem}.ipynb is your copy of what is lesson {number} now. It stays as it is.")
    use_this_python(root)
    use_our_settings()
    first = f"/lab/tree/lab/{lessons(root=root)[0].name}"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url={first}"]
    command += ["--allow-root"] if os.geteuid() == 0 else []  # as in a container
    command += options
    print("Your copies of the lessons are in lab/. To end JupyterLab, press Ctrl-C here twice.")
    sys.stdout.flush()
    os.chdir(root)
    os.execv(sys.executable, command)


def reset(wanted: str, root: Path = ROOT) -> int:
    """Make a fresh copy in lab/; an old one that differs is kept as NAME.1.ipynb, NAME.2.ipynb, ..."""
    if not wanted:
        raise CourseError("Which lesson? For instance: make reset LESSON=03")
    (path,) = lessons([wanted], root)
    copy = root / "lab" / path.name
    if copy.exists() and digest(copy) == digest(path):
        print(f"lab/{copy.name} is the lesson as it is today: nothing to renew.")
        return 0
    if copy.exists():
        number = 1
        while (kept := copy.with_name(f"{copy.stem}.{number}.ipynb")).exists():
            number += 1
        copy.rename(kept)
        print(f"Your copy is kept as lab/{kept.name}.")
        print("If it is open in JupyterLab, choose File, Reload Notebook from Disk. If JupyterLab asks whether to")
        print("overwrite or revert, choose Revert: Overwrite would undo this.")
    copy_lesson(path, root)
    print(f"lab/{copy.name} is the lesson as it is today.")
    return 0


def copy_all(root: Path = ROOT) -> int:
    """Copy the lessons that lab/ lacks, and open nothing: for Binder, whose badges lead to the copies."""
    copy_lessons(root)
    return 0


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m utils.manage.lab", description=__doc__, formatter_class=shape, allow_abbrev=False
    )
    parser.add_argument(
        "--reset", metavar="LESSON", nargs="?", const="", help="its number (3 or 03) or its file's name"
    )
    parser.add_argument("--copy", action="store_true", help="copy the lessons, and open nothing")
    asked, options = parser.parse_known_args(arguments)
    if asked.reset is not None:
        return exit_status(reset, asked.reset.strip(), root)
    return exit_status(copy_all, root) if asked.copy else exit_status(lab, options, root)


if __name__ == "__main__":
    sys.exit(main())
