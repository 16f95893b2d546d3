"""Packs lessons for a class:  python -m utils.manage.handout [LESSON ...]

Writes two archives into build/handout/. handout.zip is for participants: the lessons without outputs and without the
folded solutions, and what to do with them. solutions.zip has the same lessons with their solutions. Standard library
only.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from utils.manage.lessons import ROOT, exit_status, handed_out, lessons, lessons_asked_for, title

_SOLUTION = re.compile(r"\n*<details><summary>Solution\b.*?</details>", re.DOTALL)
_READ_ME = """\
{lessons}

Put these notebooks into the folder lab/ of the course, and run `make lab` in the folder of the course. Open them from
lab/ in JupyterLab. Without the course beside them they say so in their first cell.

Save a notebook before you hand it in. Its file is all that is needed.
"""


def without_solutions(text: str) -> str:
    """A lesson's file without its folded solutions; the hints stay. A text that was only a solution goes."""
    notebook = json.loads(text)
    kept = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"])
            new = _SOLUTION.sub("", source)
            if new != source:
                cell["source"] = new.strip("\n").splitlines(keepends=True)
        if cell["source"]:
            kept.append(cell)
    return json.dumps(notebook | {"cells": kept}, indent=1, ensure_ascii=False) + "\n"


def pack(paths: list[Path], folder: Path) -> tuple[Path, Path]:
    """Write both archives into `folder`; returns their paths, the participants' first."""
    folder.mkdir(parents=True, exist_ok=True)
    read_me = _READ_ME.format(lessons="\n".join(f"{path.name}: {title(path)}" for path in paths))
    archives = folder / "handout.zip", folder / "solutions.zip"
    for archive, change in zip(archives, (without_solutions, str), strict=True):
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in paths:
                file.writestr(f"lessons/{path.name}", change(handed_out(path.read_text(encoding="utf-8"))))
            file.writestr("lessons/README.txt", read_me)
    return archives


def handout(wanted: Iterable[str], root: Path = ROOT) -> int:
    paths = lessons(wanted, root)
    for archive, what in zip(pack(paths, root / "build" / "handout"), ("for participants", "for you"), strict=True):
        print(f"{archive.relative_to(root)}: {what}, {len(paths)} {'lesson' if len(paths) == 1 else 'lessons'}")
    return 0


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    wanted = lessons_asked_for(arguments, "python -m utils.manage.handout", __doc__)
    return exit_status(handout, wanted, root)


if __name__ == "__main__":
    sys.exit(main())
