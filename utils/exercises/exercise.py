"""What an exercise is, and how to write one.

To add an exercise, write it into `EXERCISES` of utils/exercises/lesson_NN.py, as one of three kinds:

- `Question(name, wrong)`: `wrong(answer)` returns what is wrong with it in a sentence, or "" if it is right. For
  values, and for functions where more than the result counts. `given(f(...))` says "not yet" if a None is in there.
  An error that `wrong` raises about a value means that it is not what the exercise `takes`, "two numbers" for instance.
- `Function(name, cases, expected)`: the answer is a Python function, and each case the dictionary of its arguments.
- `Kernel(name, sizes, arguments, outputs, launch, expected)`: the answer is a kernel, in Python where `run` is one of
  lesson/simulator.py's functions, in CUDA C++ where `cuda` is the kernel's name. For each of `sizes`, a dictionary,
  `arguments(**sizes)` makes the kernel's arguments by name and in order, `poison(...)` those of `outputs`;
  `launch(**sizes)` is (blocks, threads), or with a third number what the launch takes for shared memory;
  `expected(**arguments)` is what must be in the output, or a dictionary of several tensors by name. `traffic(**sizes)`
  is what a good kernel needs: a dictionary of columns of `trace.requests` (utils/cuda/cpu/trace), for which `once` and
  `like` exist. It is compared for the last of the sizes only, and more than 1.5 times as much is called slow.
  `why_slow(source)` says why CUDA source that is right is slow although its counts are good, or "".

The notebook holds the rest: a sentence that says what is asked, a cell with the stub and `check(...)`, and under it,
folded, hints and the solution, which is written nowhere else. tests/exercises/lesson_NN.py holds other answers, most of
them wrong.
"""

import types
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from utils.exercises.watched import SECTOR, WARP
from utils.lesson.simulator import cdiv

__all__ = [
    "Function",
    "Kernel",
    "Question",
    "Unsolved",
    "given",
    "is_blank",
    "like",
    "once",
    "poison",
    "traffic_of",
    "uses_name",
    "wrong_lines",
]


# ---- the three kinds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """See the top of this file."""

    name: str
    wrong: Callable[[object], str]
    takes: str = "another kind of answer"


@dataclass(frozen=True)
class Function:
    """See the top of this file. A case may be a function that makes the dictionary; `close` goes to torch.isclose."""

    name: str
    cases: list
    expected: Callable
    close: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """See the top of this file. `prepare(answer)` turns an answer into what is run, where it is not that already: a
    part of CUDA source into the whole, or a kernel of Numba into one that the simulator can call."""

    name: str
    sizes: list
    arguments: Callable[..., dict]
    outputs: tuple
    launch: Callable[..., tuple]
    expected: Callable
    run: Callable | None = None
    cuda: str = ""
    prepare: Callable = lambda answer: answer
    close: dict = field(default_factory=dict)
    traffic: Callable[..., dict] | None = None
    why_slow: Callable[[str], str] | None = None


# ---- for answers ----------------------------------------------------------------------------------------------------


class Unsolved(Exception):
    """The answer is still what the stub returns."""


def given(value):
    """`value`, unless it is the None that a stub returns: then the exercise is not solved yet (`Unsolved`)."""
    if is_blank(value):
        raise Unsolved
    return value


def is_blank(value) -> bool:
    """Whether this is None, `...`, an empty text, or something that holds None or `...`."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if value is None or value is ... or (isinstance(value, str) and not value.strip()):
            return True
        if isinstance(value, (tuple, list, set, dict)) and id(value) not in seen:  # a list may contain itself
            seen.add(id(value))
            waiting += value.values() if isinstance(value, dict) else value
    return False


def uses_name(function, name) -> bool:
    """Whether the code of a Python function, or of a function inside it, looks `name` up; False for anything else."""
    return isinstance(function, types.FunctionType) and _looks_up(function.__code__, name)


def _looks_up(code, name):
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return name in code.co_names or any(_looks_up(each, name) for each in inner)


def wrong_lines(right, answer) -> str:
    """What is wrong with an answer that names a line for each mistake; `right` maps what the mistake does to its line.

    For a Question: `Question(name, partial(wrong_lines, {"stops too early": 9}))`.
    """
    for mistake, line in right.items():
        if not isinstance(given(answer[mistake]), int | float):
            return f"a line is a number, such as 3, but for the one that {mistake} yours is {answer[mistake]!r}"
        if answer[mistake] != line:
            return f"line {answer[mistake]} is not the one that {mistake}"
    return ""


# ---- for kernels ----------------------------------------------------------------------------------------------------


def poison(*shape, dtype=torch.float32) -> torch.Tensor:
    """A tensor of what no kernel writes by chance: NaN, or bytes of 0xA5 for whole numbers."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=dtype)
    return torch.full((*shape, dtype.itemsize), 0xA5, dtype=torch.uint8).view(dtype).squeeze(-1)


def once(*tensors) -> dict:
    """The traffic of a kernel that touches each element of `tensors` once, neighbours with neighbouring threads."""
    return {
        "requests": sum(cdiv(x.numel(), WARP) for x in tensors),
        "sectors": sum(cdiv(x.nbytes, SECTOR) for x in tensors),
    }


def like(source, kernel, launch, arguments, columns=("requests", "sectors")) -> dict:
    """The traffic of `kernel`, a name in the CUDA text `source`, in that launch with these arguments, by a trace."""
    from utils.cuda.kernel import Tracer

    traffic = traffic_of(Tracer(source, kernel)[launch](*arguments))
    return {column: traffic[column] for column in columns}


def traffic_of(trace) -> dict:
    """The sums of a trace: requests and sectors of global memory, wavefronts and bank conflicts of shared memory."""
    table = trace.requests
    spaces = {
        "requests": "global",
        "sectors": "global",
        "wavefronts": "shared",
        "bank_conflicts": "shared",
    }
    return {column: int(table[table["space"] == space][column].sum()) for column, space in spaces.items()}
