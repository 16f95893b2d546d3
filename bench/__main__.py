"""Times the course's operations beside their peers, and fills the figures into the tables of README and lessons.

    python -m bench                    measure everything on this machine
    python -m bench --only matmul      measure only that table
    python -m bench --only transpose   show the figures of that operation in kernels/ and of its peers; write nothing
    python -m bench --fill h200.json   fill the tables from a file recorded earlier

Every result is verified before it is timed, and again afterwards, on new inputs. On a GPU the figures go to
bench/recorded/, into a file named after the device. Without one the CPU engine is timed: its tables are printed and not
saved.
"""

import argparse
import json
import os
import platform
import sys

import torch

import kernels
from bench import measuring, tables
from bench.measuring import Refused, WrongResult
from bench.operations import GROUPS
from utils.cuda.common.diagnostics import CompileError
from utils.cuda.common.toolchain import device
from utils.ground.errors import CourseError, ToolchainError
from utils.ground.system import write
from utils.lesson import figures


def measure_and_print(only) -> None:
    """Measure all groups, the one named, or what concerns one operation in kernels/. Complete groups from a GPU are
    written as soon as they are measured, and filled in even if a later one fails."""
    groups, of = ([only], "") if only in GROUPS else (list(GROUPS), only)
    rows = {group: kind.operations(kind.sizes()[0]) for group, kind in GROUPS.items()}
    groups = [group for group in groups if not of or any(operation.of == of for operation in rows[group])]
    if not groups:
        raise Refused(f"--only takes {', '.join(dict.fromkeys([*GROUPS, *kernels.names()]))}, not {only!r}")
    gpu = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {platform.machine()}"
    found, written = {"device": gpu}, False
    path, kept = figures.file_of(gpu), device().type == "cuda" and not of
    if kept:
        writable(figures.FOLDER)
        found = {**(figures.read(path) if path.exists() else {}), **found}  # other groups keep what they have
    if device().type == "cpu":
        print("There is no GPU here: what is timed is the CPU engine, and the figures are kept nowhere.\n", flush=True)
    try:
        for group in groups:
            parts = [measuring.measured(group, size, of) for size in GROUPS[group].sizes()]
            found[group] = parts if len(parts) > 1 else parts[0]
            print(f"{group}{', for ' if of else ''}{of}\n\n{tables.table(group, found, aligned=True)}\n", flush=True)
            if kept:
                write(path, json.dumps(found, indent=1) + "\n")
                written = True
    finally:
        if written:
            print(f"written to {path.relative_to(tables.ROOT)}")
            fill_and_print(path, found)


def fill_and_print(path, found) -> None:
    for changed in tables.fill(found):
        print(f"filled in {changed.relative_to(tables.ROOT)}")
    for lesson in sorted((tables.ROOT / "notebooks").glob("*.ipynb")):
        if f'benchmark(\\"{path.stem}\\")' in lesson.read_text().lower():
            print(f"{lesson.relative_to(tables.ROOT)} prints figures of {path.name}: run it again by `make outputs`")


def writable(*folders) -> None:
    """Raise Refused if the figures or the pages could not be written."""
    for folder in (*folders, tables.ROOT, tables.ROOT / "notebooks"):
        if not os.access(folder, os.W_OK):
            raise Refused(f"nothing can be written to {folder}", "run this in a copy of the course that is yours")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--only", metavar="NAME", help=f"a table ({', '.join(GROUPS)}), or an operation of kernels/")
    asked.add_argument("--fill", metavar="FILE", help="measure nothing: fill the tables from this recorded file")
    asked = parser.parse_args()
    try:
        if asked.fill is None:
            measure_and_print(asked.only or "")
        elif (path := figures.FOLDER / asked.fill).is_file():
            writable()
            fill_and_print(path, figures.read(path))
        else:
            raise Refused(f"there is no {asked.fill} in bench/recorded/")
    except WrongResult as wrong:
        print(f"No time is reported for a wrong result: {wrong}", file=sys.stderr)
    except (CompileError, CourseError, OSError, ToolchainError) as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped: what was not printed is not measured.", file=sys.stderr)
        return 130
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
