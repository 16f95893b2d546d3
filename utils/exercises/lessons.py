"""The exercises of each lesson, and which of them have been solved.

What is solved stays solved. Beside the learner's copies of the lessons, `.solved.txt` keeps the names, one per line;
delete it to begin again. Notebooks only ever add lines to it, so that several may be open at once.
"""

import importlib
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

__all__ = ["LESSONS", "exercises_of", "find", "note", "progress_line", "solved", "unknown"]

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem[-2:] for path in Path(__file__).parent.glob("lesson_*.py"))

# Exercises of lessons that were numbered otherwise: what older copies of the lessons, and .solved.txt, still say.
_RENAMED = {
    "08-padding": "09-padding",
    **{f"09-{name}": f"10-{name}" for name in ("median", "intensity", "bound", "hunt")},
    **{f"10-{name}": f"11-{name}" for name in ("cycles", "row", "lanes")},
    "10-pipeline": "12-pipeline",
    **{f"11-{name}": f"16-{name}" for name in ("order", "mask", "softmax", "fusion")},
    **{f"12-{name}": f"17-{name}" for name in ("launcher", "schema", "fake", "gradient", "pays")},
}
_solved: set[str] = set()  # names of exercises, since this process started


def exercises_of(lesson) -> list:
    """The exercises of a lesson such as "02", in the lesson's order."""
    return importlib.import_module(f"utils.exercises.lesson_{lesson}").EXERCISES if lesson in LESSONS else []


def find(name):
    """The exercise of this name, whether today's or an older one, or None."""
    name = _RENAMED.get(str(name), str(name))
    return next((exercise for exercise in exercises_of(name[:2]) if exercise.name == name), None)


def unknown(name) -> str:
    """The sentence that there is no exercise of this name, and which names there are."""
    lesson, names = str(name)[:2], [exercise.name for each in LESSONS for exercise in exercises_of(each)]
    near = get_close_matches(str(name), names, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    own = [one for one in names if one.startswith(lesson)]
    have = f"Lesson {lesson} has {', '.join(own)}" if own else f"The lessons with exercises are {', '.join(LESSONS)}"
    return f"There is no exercise {name!r}.{meant} ({have}.)"


# ---- what is solved -------------------------------------------------------------------------------------------------


def note(name) -> None:
    """Note that an exercise is solved, permanently where the file can be written."""
    if name not in _all_solved():
        _solved.add(name)
        if path := _kept_in():
            with suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(f"\n{name}\n")  # on a line of its own, even after one that was cut off


def solved() -> list[str]:
    """The names of the exercises that have been solved since this process started."""
    return sorted(_solved)


def progress_line(lesson) -> None:
    """Print which exercises of a lesson, such as "02", have been solved."""
    if lesson not in LESSONS:
        print(f"There is no lesson {lesson!r} with exercises. The number has two digits, as in '02'.")
        return
    names, done = [exercise.name for exercise in exercises_of(lesson)], _all_solved()
    groups = {
        "Solved": [name[3:] for name in names if name in done],
        "Open": [name[3:] for name in names if name not in done],
    }
    print(". ".join(f"{what}: {', '.join(group)}" for what, group in groups.items() if group))


def _all_solved():
    if path := _kept_in():
        with suppress(OSError):
            names = path.read_text(encoding="utf-8", errors="replace").split()
            return _solved | {_RENAMED.get(name, name) for name in names}
    return _solved


def _kept_in():
    """The file for a notebook among the learner's copies, or one that has fetched the course as Colab does. None for
    every other process, such as a test or `make course`, and where something else has the file's name."""
    with suppress(OSError):
        here, copies = Path.cwd(), ROOT / "lab"
        among_copies = here.is_relative_to(copies)
        if among_copies or (here / "course").resolve() == ROOT:
            path = (copies if among_copies else here) / ".solved.txt"
            return path if path.is_file() or not path.exists() else None
    return None
