"""Runs the lessons and looks after the learner's copies:  python -m utils.manage.course COMMAND

    run [LESSON ...]      execute the lessons headless, into build/course/; committed notebooks stay as they are
    outputs [LESSON ...]  execute them in place, to refresh the committed outputs
    lab [OPTION ...]      copy them to lab/, where no copy is ever overwritten, and open JupyterLab
    reset LESSON          renew one copy; the old one stays beside it under a number
    list                  the lessons

A lesson is named by its number (3 or 03) or its file's name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CELL_TIMEOUT = 1800  # seconds; the longest cell of the course takes well under a minute on two cores
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class CourseError(Exception):
    """Something the person at the keyboard can put right; the message says what and how."""


# ---------------------------------------------------------------- lessons


def lessons(wanted: Iterable[str] = (), root: Path = ROOT) -> list[Path]:
    """The notebooks in reading order, or those asked for by number or name."""
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


# ---------------------------------------------------------------- running one


@dataclass
class Result:
    lesson: str
    device: str = "-"
    ran: int = 0
    cells: int = 0
    seconds: float = 0.0
    result: str = "FAILED"
    failure: str = ""
    notebook: dict | None = None


def this_python(root: Path = ROOT) -> None:
    """Make the kernel `python3` mean the interpreter in use, whatever else is registered under that name."""
    folder = root / "build" / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": KERNELSPEC["display_name"], "language": "python"}
    write(folder / "kernel.json", json.dumps(spec))
    former = os.environ.get("JUPYTER_PATH", "")
    mine = str(folder.parents[1])
    if mine not in former.split(os.pathsep):
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [mine, former]))


def write(path: Path, text: str) -> None:
    """Write a file in one step, so that an interruption leaves the old one or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False)
    try:
        with file:
            file.write(text)
        os.chmod(file.name, path.stat().st_mode if path.exists() else 0o644)
        os.replace(file.name, path)
    finally:
        Path(file.name).unlink(missing_ok=True)


def plain(text: str) -> str:
    """Text without a terminal's colour codes."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def indent(text: str, by: str = "    ", lines: int = 40) -> str:
    rows = text.rstrip("\n").split("\n")
    if len(rows) > lines:
        rows = [*rows[:lines], f"... ({len(rows) - lines} more lines)"]
    return "\n".join(by + row for row in rows)


def learners_frames(traceback: list[str]) -> str:
    """The parts of an IPython traceback that stand in notebook cells, without those inside libraries."""
    frames = [plain(part).strip("\n") for part in traceback]
    return "\n".join(part for part in frames if part.lstrip().startswith("Cell In["))


def device_of(nb: dict) -> str:
    """What the set-up cell printed after `Device:`, without the details in brackets."""
    for cell in nb["cells"]:
        for output in cell.get("outputs", []):
            found = re.search(r"^Device: ([^(\n]+)", str(output.get("text", "")), re.M)
            if found:
                return found.group(1).strip()
    return "-"


def show_failure(lesson: str, number: int, cells: int, source: str, problem: BaseException, outputs: list) -> str:
    error = next((o for o in outputs if o["output_type"] == "error"), None)
    parts = [f"{lesson}: code cell {number} of {cells} failed", indent(source, "    | ", lines=12)]
    if error is not None:
        frames = learners_frames(error["traceback"])
        parts += [indent(frames)] if frames else []
        parts.append(indent(f"{error['ename']}: {plain(error['evalue'])}"))
    if error is None or isinstance(problem, TimeoutError):  # the kernel died, or had to be interrupted
        parts.append(indent(f"{type(problem).__name__}: {plain(str(problem))}"))
    return "\n".join(parts)


def run_lesson(path: Path, tick: Callable[[], object] = lambda: None, timeout: int = CELL_TIMEOUT) -> Result:
    """Execute one notebook from its own folder in a fresh kernel. Errors and Ctrl-C end up in the result."""
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
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:  # what the kernel's process says
        try:
            with client.setup_kernel(stderr=log):
                for n, cell in code:
                    client.execute_cell(cell, n)
                    result.ran += 1
                    tick()
            result.result = "passed"
        except KeyboardInterrupt:
            result.result = "interrupted"
        except Exception as problem:
            source, outputs = (cell.source, cell.outputs) if cell else ("(the kernel did not start)", [])
            result.failure = show_failure(path.stem, result.ran + 1, len(code), source, problem, outputs)
            if isinstance(problem, RuntimeError):  # the kernel died, or did not start
                log.seek(0)
                result.failure += "".join("\n    " + line.rstrip() for line in log.readlines()[-5:])
    result.device, result.seconds = device_of(nb), time.perf_counter() - start
    return result


# ---------------------------------------------------------------- running all


@contextmanager
def progress_bar(total: int):
    """A bar over all cells whose clock goes on while one cell works. Only on a terminal: a log gets lines instead."""
    from tqdm import tqdm

    shape = "{desc} |{bar}| {n_fmt} of {total_fmt} cells, {elapsed}"  # no guess of the rest: cells differ too much
    with tqdm(total=total, bar_format=shape, disable=None, dynamic_ncols=True, leave=False) as bar:
        done = threading.Event()

        def clock():
            while not done.wait(1.0):
                bar.refresh()

        thread = threading.Thread(target=clock, daemon=True)
        thread.start()
        try:
            yield bar
        finally:
            done.set()
            thread.join()


def run_lessons(paths: list[Path], each: Callable[[Path, Result], None]) -> list[Result]:
    """Execute notebooks one after the other, up to Ctrl-C; `each` gets every result as it comes."""
    from tqdm import tqdm

    counts = {path: cells_in(path) for path in paths}
    results: list[Result] = []
    with progress_bar(sum(counts.values())) as bar:
        for number, path in enumerate(paths, 1):
            bar.set_description(path.stem)
            if bar.disable:
                print(f"{number} of {len(paths)}: {path.stem}", flush=True)
            result = run_lesson(path, bar.update)
            results.append(result)
            each(path, result)
            if result.result == "interrupted":
                break
            if result.failure:
                tqdm.write("\n" + result.failure + "\n", file=sys.stdout)
            bar.update(counts[path] - result.ran)
    return results


def cells_in(path: Path) -> int:
    try:
        return sum(cell["cell_type"] == "code" for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
    except (ValueError, KeyError, TypeError):
        return 0


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


def report(results: list[Result], asked: int, seconds: float) -> int:
    """Print the table and the count; return the exit status."""
    print("\n" + table(results) + "\n")
    passed, failed = (sum(r.result == kind for r in results) for kind in ("passed", "FAILED"))
    count = f"{passed} passed, {failed} failed in {seconds:.0f} s"
    if passed + failed < len(results):
        print(f"interrupted after {passed + failed} of {asked} lessons: {count}")
        return 130
    print(f"{asked} lesson{'s' * (asked != 1)}: {count}")
    return 0 if passed == asked else 1


def headless(root: Path) -> None:
    os.environ["COURSE_HEADLESS"] = "1"
    os.environ.pop("MPLBACKEND", None)  # the kernel chooses the one that shows pictures in the notebook
    this_python(root)


def run(wanted: Iterable[str] = (), root: Path = ROOT) -> int:
    """Execute lessons and keep the executed copies in build/course/."""
    import nbformat

    paths, start = lessons(wanted, root), time.perf_counter()
    headless(root)

    def keep(path: Path, result: Result) -> None:
        if result.notebook is not None:
            write(root / "build" / "course" / path.name, nbformat.writes(result.notebook) + "\n")

    results = run_lessons(paths, keep)
    if any(result.failure for result in results):
        print("Executed copies, up to where they came: build/course/")
    return report(results, len(paths), time.perf_counter() - start)


# ---------------------------------------------------------------- outputs that may be committed


def places(root: Path = ROOT) -> dict[str, str]:
    """Folders of this machine and what stands for them in a committed output, longest first."""
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
            if text.startswith("/") and text not in ("/", "/usr", "/usr/local"):  # those stand in every machine's paths
                short[text] = name
    return dict(sorted(short.items(), key=lambda item: -len(item[0])))


def shorten(text: str, short: dict[str, str]) -> str:
    """Replace folders of this machine in a text."""
    for folder, name in short.items():
        text = re.sub(rf"(?<![\w.~-]){re.escape(folder)}(?![\w-])", lambda _, name=name: name, text)
    return text


PERSONAL = "home|root|Users|tmp|mnt|media|srv|work|workspace|scratch|var/folders|private"


def machine_paths(text: str) -> list[str]:
    """Absolute paths in a text that say where somebody keeps things: /home/ann/x, /tmp/x; not /usr/bin/x."""
    return re.findall(rf"(?<![\w.~-])/(?:{PERSONAL})/[\w.@+-][\w./@+-]*|(?<![\w.~/-])/root\b", text)


def texts(output: dict) -> Iterable[tuple[dict, str]]:
    """Each (mapping, key) under which an output keeps text, pictures left out."""
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
    """Drop what changes from run to run or names this machine; returns what could not be dropped."""
    nb["metadata"] = {"kernelspec": dict(KERNELSPEC), "language_info": {"name": "python"}}
    left = []
    for number, cell in enumerate(nb["cells"], 1):
        cell["metadata"] = {name: cell["metadata"][name] for name in ("jupyter", "tags") if name in cell["metadata"]}
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
    headless(root)
    os.environ["COURSE_RECORD"] = "1"  # utils.lesson.figures.recorded keeps what is measured on a GPU
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

    results = run_lessons(paths, keep)
    if any(result.device.startswith("CPU") for result in results):
        print("note: these outputs come from a machine without a GPU; the committed ones should come from one with.")
    return report(results, len(paths), time.perf_counter() - start)


# ---------------------------------------------------------------- the learner's copies


def handed_out(path: Path) -> str:
    """The lesson as a learner gets it: without outputs, which would give away what a cell asks to predict."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def digest(path: Path) -> str:
    """A hash of what the cells say; for a file that is no notebook, of all it holds. Outputs do not count."""
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
    with copy.open("x", encoding="utf-8") as target:  # x: never over a file that is there
        target.write(handed_out(path))
    write(copy.parent / ".origins.json", json.dumps({**origins(root), path.name: digest(path)}, indent=1))


def copy_lessons(root: Path = ROOT) -> list[str]:
    """Copy the lessons that lab/ does not have. Returns the numbers of those that changed since they were copied."""
    changed = []
    for path in lessons(root=root):
        copy = root / "lab" / path.name
        if not copy.exists():
            copy_lesson(path, root)
        elif origins(root).get(path.name) != digest(path) != digest(copy):
            changed.append(path.name[:2])
    return changed


def lab(options: Iterable[str] = (), root: Path = ROOT) -> int:
    """Open JupyterLab at lesson 00 of lab/, with the interpreter in use as its kernel."""
    for number in copy_lessons(root):
        print(
            f"Lesson {number} is newer than your copy. `make reset LESSON={number}` renews it; yours is kept beside it."
        )
    this_python(root)
    first = f"/lab/tree/lab/{lessons(root=root)[0].name}"
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}", f"--LabApp.default_url={first}"]
    command += options
    print("Your copies of the lessons are in lab/. JupyterLab opens in the browser; Ctrl-C here ends it.")
    sys.stdout.flush()
    os.chdir(root)
    os.execv(sys.executable, command)


def reset(wanted: str, root: Path = ROOT) -> int:
    """Renew one copy in lab/; a copy that differs is kept as NAME.1.ipynb, NAME.2.ipynb, ..."""
    if not wanted:
        raise CourseError("Which lesson? For instance: make reset LESSON=03")
    (path,) = lessons([wanted], root)
    copy = root / "lab" / path.name
    if copy.exists() and digest(copy) == digest(path):
        print(f"lab/{copy.name} is the lesson as it stands: nothing to renew.")
        return 0
    if copy.exists():
        number = 1
        while (kept := copy.with_name(f"{copy.stem}.{number}.ipynb")).exists():
            number += 1
        copy.rename(kept)
        print(f"Your copy is kept as lab/{kept.name}.")
    copy_lesson(path, root)
    print(f"lab/{copy.name} is the lesson as it stands.")
    return 0


# ---------------------------------------------------------------- command line


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m utils.manage.course", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["run", "outputs", "lab", "reset", "list"])
    asked, rest = parser.parse_known_args(arguments)
    try:
        if asked.command == "run":
            return run(rest, root)
        if asked.command == "outputs":
            return outputs(rest, root)
        if asked.command == "lab":
            return lab(rest, root)
        if asked.command == "reset":
            return reset(" ".join(rest).strip(), root)
        for path in lessons(root=root):
            print(f"{path.stem[:2]}  {title(path)}")
        return 0
    except CourseError as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
