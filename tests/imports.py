"""Which room imports which:  python -m tests.imports [FOLDER]

A room is a folder of Python files. Prints every room with the rooms that it imports, then what breaks the rules: an
arrow that ROOMS does not list, and rooms or files that import each other in a circle. Imports inside functions count
like those at the top of a file. FOLDER is another checkout of the course, to print its map instead.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Every room, from the bottom up, with the rooms that it may import. `tests` may import all of them.
ROOMS = {
    "utils/ground": [],
    "utils/cuda/common": ["utils/ground"],
    "utils/cuda/player": ["utils/ground"],
    "utils/cuda/gpu": ["utils/cuda/common", "utils/ground"],
    "utils/cuda/cpu/ptx": ["utils/cuda/common"],
    "utils/cuda/cpu": ["utils/cuda/cpu/ptx", "utils/cuda/common", "utils/ground"],
    "utils/cuda/cpu/trace": [
        "utils/cuda/cpu",
        "utils/cuda/cpu/ptx",
        "utils/cuda/player",
        "utils/cuda/common",
        "utils/ground",
    ],
    "utils/cuda": ["utils/cuda/cpu/trace", "utils/cuda/cpu", "utils/cuda/gpu", "utils/cuda/common", "utils/ground"],
    "utils": ["utils/cuda", "utils/cuda/common"],
    "kernels": ["utils", "utils/cuda/common"],
    "utils/lesson": ["utils/cuda", "utils/cuda/cpu", "utils/cuda/player", "utils/cuda/common", "utils/ground"],
    "utils/exercises": ["kernels", "utils/lesson", "utils/cuda", "utils/cuda/common", "utils/ground"],
    "utils/manage": ["utils/exercises", "utils/lesson", "utils/cuda/common", "utils/ground"],
}
_MEASURED = [name for name in ROOMS if name not in ("utils/exercises", "utils/manage")]
ROOMS["bench"] = _MEASURED
ROOMS["bench/recorded"] = ["tests", "bench", *_MEASURED]  # recorders run the cases of the tests


def files(root=ROOT) -> dict[str, Path]:
    """The Python files of the course by import name."""
    found = {}
    for top in ("utils", "kernels", "bench", "images", "tests"):
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[:2] != ("kernels", "template"):  # a separate project
                found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imported(name, path, known) -> set[str]:
    """The files of the course that one of them imports; where import_module is called, names in strings count too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    text, found = path.read_text(encoding="utf-8"), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import_module(" in text:
            found.add(node.value)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
            submodules = {f"{base}.{alias.name}" for alias in node.names} & known
            found |= submodules if len(submodules) == len(node.names) else submodules | {base}
    return found & known - {name}


def room(path, root=ROOT) -> str:
    """A file's folder, relative to the root; for a test, `tests`."""
    folder = path.relative_to(root).parent.as_posix()
    return "tests" if folder.split("/")[0] == "tests" else folder


def circles(arrows) -> list[list[str]]:
    """The groups of nodes that lead to each other, each sorted. `arrows` maps each node to those it leads to."""

    def reached(start):
        seen, ahead = set(), [start]
        while ahead:
            new = arrows.get(ahead.pop(), set()) - seen
            seen |= new
            ahead += new
        return seen

    behind = {node: reached(node) for node in arrows}
    groups = {frozenset(other for other in behind[node] if node in behind.get(other, ())) for node in arrows}
    return sorted(sorted(group) for group in groups if group)


def import_map(root=ROOT) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The arrows between files, by name, and those between rooms."""
    known = files(root)
    between_files = {name: imported(name, path, known.keys()) for name, path in known.items()}
    rooms = {}
    for name, others in between_files.items():
        here = room(known[name], root)
        rooms.setdefault(here, set()).update({room(known[other], root) for other in others} - {here})
    return between_files, rooms


def broken(between_files, rooms) -> list[str]:
    """The rules that the map breaks, one line each; empty if every arrow is allowed and there is no circle."""
    lines = [
        f"{here} imports {there}: ROOMS in tests/imports.py does not allow it"
        for here, others in sorted(rooms.items())
        for there in sorted(others)
        if here != "tests" and there not in ROOMS.get(here, [])
    ]
    lines += [f"files in a circle: {', '.join(circle)}" for circle in circles(between_files)]
    without_tests = {here: others for here, others in rooms.items() if here != "tests"}
    return lines + [f"rooms in a circle: {', '.join(circle)}" for circle in circles(without_tests)]


def main(root=ROOT) -> int:
    """Print the map and what is wrong with it; 1 if anything is, otherwise 0."""
    between_files, rooms = import_map(root)
    order = [name for name in ROOMS if name in rooms] + sorted(rooms.keys() - ROOMS.keys())
    width = max(map(len, order))
    for here in order:
        print(f"{here:{width}}  {'imports ' + ', '.join(sorted(rooms[here])) if rooms[here] else '-'}")
    own = {name: others for name, others in between_files.items() if not name.startswith("tests")}
    inner = {here: others - {"tests"} for here, others in rooms.items() if here != "tests"}
    counts = {"rooms": len(inner), "arrows between them": sum(map(len, inner.values()))}
    counts |= {"files": len(own), "imports between them": sum(map(len, own.values()))}
    print("\nWithout the tests: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    wrong = broken(between_files, rooms)
    print("\n".join(wrong) or "no circle, and every arrow is allowed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT))
