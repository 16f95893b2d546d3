"""The lessons, and what every command that runs them needs.  python -m utils.manage.lessons  lists them."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from utils.ground.errors import CourseError
from utils.ground.system import write

ROOT = Path(__file__).resolve().parents[2]
#: What is code in Markdown: fenced blocks and spans.
CODE = re.compile(r"^```.*?^```[^\n]*$|`+[^`\n]+`+", re.S | re.M)
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def lessons(wanted: Iterable[str] = (), root: Path = ROOT) -> list[Path]:
    """The notebooks in reading order, or those that `wanted` names, by number (3 or 03) or by file name."""
    every = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    if not every:
        raise CourseError(f"There are no lessons in {root / 'notebooks'}.")
    chosen = []
    for want in wanted:
        name = Path(want).stem
        number = name.zfill(2) if name.isdigit() else None
        found = [path for path in every if path.stem == name or path.stem[:2] == number]
        if not found:
            raise CourseError(f"There is no lesson {want!r}. The lessons are: {', '.join(p.stem for p in every)}.")
        chosen += found
    return sorted(set(chosen)) if wanted else every


def title(path: Path) -> str:
    """The text of a notebook's first heading."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        heading = re.search(r"^# +(.+)$", "".join(cell["source"]), re.M) if cell["cell_type"] == "markdown" else None
        if heading:
            return heading.group(1).strip()
    return path.stem


def handed_out(text: str) -> str:
    """A lesson's file as a learner gets it: without outputs, which would give away what a cell asks to predict."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def in_prose(change: Callable[[str], str], text: str) -> str:
    """Markdown with everything changed that is not code."""
    parts, at = [], 0
    for code in CODE.finditer(text):
        parts += [change(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, change(text[at:])])


def use_this_python(root: Path = ROOT, where: str = "jupyter", *options: str, **environment: str) -> None:
    """Have notebooks run in the current interpreter, whatever Jupyter knows under the name `python3`.

    `options` and `environment` are for the notebook's process, `where` is a folder of build/.
    """
    folder = root / "build" / where / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", *options]
    spec = {"argv": argv, "display_name": KERNELSPEC["display_name"], "language": "python", "env": environment}
    write(folder / "kernel.json", json.dumps(spec))
    _search_first("JUPYTER_PATH", folder.parents[1])


def use_our_settings() -> None:
    """Have JupyterLab highlight CUDA C++, and not ask whether to fetch its news: see the folder jupyter/ here."""
    ours = Path(__file__).parent / "jupyter"
    _search_first("JUPYTER_PATH", ours)  # labextensions/
    _search_first("JUPYTER_CONFIG_PATH", ours)  # labconfig/


def _search_first(variable: str, folder: Path) -> None:
    """Put a folder at the front of the list in an environment variable."""
    former = [place for place in os.environ.get(variable, "").split(os.pathsep) if place not in ("", str(folder))]
    os.environ[variable] = os.pathsep.join([str(folder), *former])


def lessons_asked_for(arguments: list[str] | None, command: str, description: str | None) -> list[str]:
    """The lessons that a command line names; none if it means all."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=command, description=description, formatter_class=shape)
    parser.add_argument("lesson", nargs="*", help="its number (3 or 03) or its file's name; all lessons without one")
    return parser.parse_args(arguments).lesson


def exit_status(command: Callable[..., int], *arguments) -> int:
    """The exit status of a command that ends without a traceback: 2 on a CourseError, 130 on Ctrl-C."""
    try:
        return command(*arguments)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def main(root: Path = ROOT) -> int:
    for path in lessons(root=root):
        print(f"{path.stem[:2]}  {title(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(main))
