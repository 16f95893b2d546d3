"""Refreshes the committed outputs:  python -m utils.manage.outputs [LESSON ...]

Executes lessons in place, and leaves out of their outputs what changes from run to run or names this machine.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from utils.ground.system import write
from utils.manage.lessons import KERNELSPEC, ROOT, exit_status, lessons, lessons_asked_for
from utils.manage.run import Result, indent, print_summary, run_lessons

KEPT = ("jupyter", "slideshow", "tags")  # of a cell's metadata


def places(root: Path = ROOT) -> dict[str, str]:
    """Folders on this machine and what a committed output shows instead, longest first."""
    found = [(tempfile.gettempdir(), "tmp"), (Path.home(), "~"), (sys.prefix, "python"), (sys.base_prefix, "python")]
    for variable, name in [
        ("XDG_CACHE_HOME", "~/.cache"),
        ("CUDA_COURSE_CACHE", "~/.cache/cuda-course"),
        ("TORCH_EXTENSIONS_DIR", "~/.cache/torch_extensions"),
    ]:
        found += [(os.environ[variable], name)] if os.environ.get(variable) else []
    short = {}
    for folder, name in [*found, (root, "course")]:
        for text in (str(folder), str(Path(folder).expanduser().resolve())):
            if text.startswith("/") and text not in (
                "/",
                "/usr",
                "/usr/local",
            ):  # paths on every machine begin with these
                short[text] = name
    return dict(sorted(short.items(), key=lambda item: -len(item[0])))


def shorten(text: str, short: dict[str, str]) -> str:
    """Replace this machine's folders in a text."""
    for folder, name in short.items():
        text = re.sub(rf"(?<![\w.~-]){re.escape(folder)}(?![\w-])", lambda _, name=name: name, text)
    return text


PERSONAL = "home|root|Users|tmp|mnt|media|srv|work|workspace|scratch|var/folders|private"


def machine_paths(text: str) -> list[str]:
    """Absolute paths in a text that reveal someone's own folders: /home/ann/x, /tmp/x; not /usr/bin/x."""
    return re.findall(rf"(?<![\w.~-])/(?:{PERSONAL})/[\w.@+-][\w./@+-]*|(?<![\w.~/-])/root\b", text)


def texts(output: dict) -> Iterable[tuple[dict, str]]:
    """Each (mapping, key) under which an output stores text, excluding pictures."""
    if output["output_type"] == "stream":
        yield output, "text"
    for mime in output.get("data", {}):
        if mime.startswith("text/") or mime == "image/svg+xml":
            yield output["data"], mime
    if output["output_type"] == "error":
        yield output, "evalue"


def as_text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def normalise(nb: dict, short: dict[str, str]) -> list[str]:
    """Remove what changes from run to run or names this machine; returns what could not be removed."""
    nb["metadata"] = {"kernelspec": dict(KERNELSPEC), "language_info": {"name": "python"}}
    left = []
    for number, cell in enumerate(nb["cells"], 1):
        cell["metadata"] = {name: value for name, value in cell["metadata"].items() if name in KEPT}
        if cell["cell_type"] != "code":
            continue
        joined: list[dict] = []
        for output in cell["outputs"]:
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            former = joined[-1] if joined else {}
            if output["output_type"] == "stream" == former.get("output_type") and output["name"] == former["name"]:
                former["text"] = as_text(former["text"]) + as_text(output["text"])
            else:
                joined.append(output)
        cell["outputs"] = joined
        for output in joined:
            for mapping, name in texts(output):
                mapping[name] = shorten(as_text(mapping[name]), short)
                left += [f"cell {number}: {path}" for path in machine_paths(mapping[name])]
    return left


def outputs(wanted: Iterable[str] = (), root: Path = ROOT) -> int:
    """Execute lessons in place. A lesson that fails, or that prints a path of this machine, stays as it was."""
    import nbformat

    paths, start = lessons(wanted, root), time.perf_counter()
    short = places(root)

    def keep(path: Path, result: Result) -> None:
        if result.result != "passed":
            return
        left = normalise(result.notebook, short)
        if left:
            result.result = "FAILED"
            result.failure = f"{path.stem}: its outputs name folders of this machine\n" + indent("\n".join(left))
        else:
            write(path, nbformat.writes(result.notebook) + "\n")

    # with COURSE_RECORD, lesson.figures.recorded keeps what is measured on a GPU
    results = run_lessons(paths, keep, root, COURSE_RECORD="1")
    if any(result.device.startswith("CPU") for result in results):
        print("note: these outputs come from a machine without a GPU; the committed ones should come from one with.")
    return print_summary(results, len(paths), time.perf_counter() - start)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    return exit_status(outputs, lessons_asked_for(arguments, "python -m utils.manage.outputs", __doc__), root)


if __name__ == "__main__":
    sys.exit(main())
