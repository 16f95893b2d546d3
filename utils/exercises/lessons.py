"""The exercises of each lesson, and which of them have been solved since the notebook's Python process started."""

import importlib
from difflib import get_close_matches
from pathlib import Path

__all__ = ["LESSONS", "exercises_of", "find", "note", "progress_line", "unknown"]

LESSONS = sorted(path.stem[-2:] for path in Path(__file__).parent.glob("lesson_*.py"))

_solved: set[str] = set()  # names of exercises


def exercises_of(lesson) -> list:
    """The exercises of a lesson such as "02", in its order."""
    return importlib.import_module(f"utils.exercises.lesson_{lesson}").EXERCISES if lesson in LESSONS else []


def find(name):
    """The exercise of this name, or None."""
    return next((exercise for exercise in exercises_of(str(name)[:2]) if exercise.name == name), None)


def unknown(name) -> str:
    """That there is no exercise of this name, and which names there are."""
    lesson, names = str(name)[:2], [exercise.name for each in LESSONS for exercise in exercises_of(each)]
    near = get_close_matches(str(name), names, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    own = [one for one in names if one.startswith(lesson)]
    have = f"Lesson {lesson} has {', '.join(own)}" if own else f"The lessons with exercises are {', '.join(LESSONS)}"
    return f"There is no exercise {name!r}.{meant} ({have}.)"


def note(name, solved) -> None:
    """Note whether the last answer to an exercise was right."""
    (_solved.add if solved else _solved.discard)(name)


def progress_line(lesson) -> None:
    """Print which exercises of a lesson, such as "02", have been solved since the notebook's Python process started."""
    if lesson not in LESSONS:
        print(f"There is no lesson {lesson!r} with exercises. The number has two digits, as in '02'.")
        return
    names = [exercise.name for exercise in exercises_of(lesson)]
    groups = {
        "Solved": [name[3:] for name in names if name in _solved],
        "Open": [name[3:] for name in names if name not in _solved],
    }
    print(". ".join(f"{what}: {', '.join(group)}" for what, group in groups.items() if group))
