"""What an exercise is, and how to write one.

To add an exercise, write it into `EXERCISES` of utils/exercises/lesson_NN.py, as one of three kinds:

- `Question(name, wrong, takes)`: `wrong(answer)` returns what is wrong with it in a sentence, or "" if it is right. For
  values, and for functions where more than the result counts. `takes` is a text, "two numbers" for instance, if the
  answer is a value: an error that `wrong` raises means that it was something else. Otherwise the answer is a Python
  function, and `takes` has the names of its arguments. `given(f(...), torch.Tensor, "a tensor")` is what it returned,
  if that is a tensor, and otherwise ends `wrong` with a sentence; so does `raise Rejected(sentence)` anywhere.
- `Function(name, cases, expected)`: the answer is a Python function, and each case the dictionary of its arguments.
- `Kernel(name, sizes, arguments, outputs, launch, expected)`: the answer is a kernel, in Python where `run` is one of
  lesson/simulator.py's functions, in CUDA C++ where `cuda` is the kernel's name. For each of `sizes`, a dictionary,
  `arguments(**sizes)` makes the kernel's arguments by name and in order, `poison(...)` those of `outputs`;
  `launch(**sizes)` is (blocks, threads), or with a third number what the launch takes for shared memory;
  `expected(**arguments)` is what must be in the output, or a dictionary of several tensors by name. `traffic(**sizes)`
  is what a good kernel needs: a dictionary of columns of `trace.requests` (utils/cuda/cpu/trace), for which `once`,
  `runs` and `like` exist. It is compared for the last of the sizes only, and more than 1.5 times as much is called
  slow. `why_wrong(source)` says what is wrong with CUDA source in which no trace has found anything, or ""; `why_slow`
  in the same way why it is slow although its counts are good.

The notebook holds the rest: a sentence that says what is asked, a cell with the stub and `check(...)`, and under it,
folded, hints and the solution, which is written nowhere else. tests/exercises/lesson_NN.py holds other answers, most of
them wrong.
"""

import dis
import inspect
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real

import torch

from utils.cuda.common import cxx
from utils.exercises.verdicts import function_of, is_a, not_taken, shown
from utils.exercises.watched import SECTOR, WARP
from utils.lesson.simulator import cdiv

__all__ = [
    "Function",
    "Kernel",
    "Question",
    "Rejected",
    "alone",
    "does_nothing",
    "given",
    "is_blank",
    "is_ordinary",
    "like",
    "misfit",
    "once",
    "poison",
    "runs",
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
    takes: str | tuple = ()


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
    prepare: Callable = lambda answer: answer  # a ValueError says what is wrong with it
    close: dict = field(default_factory=dict)
    traffic: Callable[..., dict] | None = None
    why_wrong: Callable[[str], str] = lambda source: ""
    why_slow: Callable[[str], str] = lambda source: ""


# ---- for answers ----------------------------------------------------------------------------------------------------


class Rejected(Exception):
    """The answer is wrong, and the text says why: what was expected and what was given."""


def given(returned, kind=object, what=""):
    """What a learner's function returned. Raises Rejected if that is blank or not `what`, an instance of `kind`."""
    if returned is None:
        raise Rejected("your function returned nothing: did you forget `return`?")
    if is_blank(returned):
        raise Rejected(f"your function returned {shown(returned)}, where something is still missing")
    if not is_a(returned, kind):
        raise Rejected(f"your function should return {what}, but it returned {shown(returned)}")
    return returned


def is_ordinary(value) -> bool:
    """Whether this is a tensor in the memory of the CPU, element by element: not sparse, nor on "meta"."""
    return is_a(value, torch.Tensor) and value.device.type == "cpu" and value.layout == torch.strided


def is_blank(value) -> bool:
    """Whether this is None, `...`, an empty text, or something that holds None or `...`."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if value is None or value is ... or (is_a(value, str) and not value.strip()):
            return True
        if is_a(value, (tuple, list, set, dict)) and id(value) not in seen:  # a list may contain itself
            seen.add(id(value))
            waiting += value.values() if is_a(value, dict) else value
    return False


def does_nothing(function) -> bool:
    """Whether all that a Python function does is to return None, as a stub does."""
    if not is_a(function, types.FunctionType):
        return False
    steps = [step for step in dis.get_instructions(function) if step.opname not in ("RESUME", "NOP", "RETURN_VALUE")]
    return all(step.opname in ("LOAD_CONST", "RETURN_CONST") and is_blank(step.argval) for step in steps)


def misfit(answer, names) -> str:
    """Why this is not a Python function that takes these arguments (without `names`, any); "" if it may be one."""
    if not callable(answer) or is_a(answer, type) or _waits(answer):
        return not_taken(function_of(names), answer)
    try:
        signature = inspect.signature(answer)
        if names:
            signature.bind(*names)
    except TypeError:
        return f"this exercise takes {function_of(names)}, but yours is {shown(answer)}{signature}"
    except Exception:  # a built-in function, say
        pass
    return ""


def _waits(function):
    """Whether a call returns a generator or a coroutine, and runs nothing yet."""
    return inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)


def uses_name(function, name) -> bool:
    """Whether the code of a Python function, or of a function inside it, looks `name` up; False for anything else."""
    return is_a(function, types.FunctionType) and _looks_up(function.__code__, name)


def _looks_up(code, name):
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return name in code.co_names or any(_looks_up(each, name) for each in inner)


def wrong_lines(right, answer) -> str:
    """What is wrong with an answer that names a line for each mistake; `right` maps what the mistake does to its line.

    For a Question: `Question(name, partial(wrong_lines, {"stops too early": 9}))`.
    """
    for mistake, line in right.items():
        if not is_a(answer[mistake], Real):
            return f"a line is a number, such as 3, but for the one that {mistake} yours is {answer[mistake]!r}"
        if answer[mistake] != line:
            return f"line {answer[mistake]} is not the one that {mistake}"
    return ""


# ---- for kernels ----------------------------------------------------------------------------------------------------


def poison(*shape, dtype=torch.float32) -> torch.Tensor:
    """A tensor of what torch.empty holds while a trace watches (utils/cuda/cpu/guard/guard.h): a trace reports who
    reads it or adds to it. It is NaN in every floating-point type, and nothing that a kernel would write by chance."""
    size = math.prod(shape) * dtype.itemsize
    return torch.full((cdiv(size, 2),), 0x7FF9, dtype=torch.int16).view(torch.uint8)[:size].view(dtype).view(shape)


def once(*tensors) -> dict:
    """The traffic of a kernel that touches each element of `tensors` once, neighbours with neighbouring threads."""
    return {
        "requests": sum(cdiv(x.numel(), WARP) for x in tensors),
        "sectors": sum(cdiv(x.nbytes, SECTOR) for x in tensors),
    }


def runs(pieces, size=4) -> dict:
    """The traffic of requests that each touch one run of elements: `pieces` has (first element, how many) of each,
    and an element has `size` bytes. A run of no elements is no request."""
    pieces = [(first, count) for first, count in pieces if count > 0]
    last = [((first + count) * size - 1) // SECTOR for first, count in pieces]
    sectors = sum(end - first * size // SECTOR + 1 for end, (first, _) in zip(last, pieces, strict=True))
    return {"requests": len(pieces), "sectors": sectors}


def like(source, kernel, launch, arguments, columns=("requests", "sectors")) -> dict:
    """The traffic of `kernel`, a name in the CUDA text `source`, in that launch with these arguments, by a trace."""
    from utils.cuda.kernel import Tracer

    traffic = traffic_of(Tracer(source, kernel)[launch](*arguments))
    return {column: traffic[column] for column in columns}


def alone(source) -> str:
    """Why a kernel is slow whose warps cannot share the work of a block, since they share no memory; otherwise ""."""
    return "" if "__shared__" in cxx.code(source) else "its warps do not share the work: that takes shared memory"


def traffic_of(trace, kept=None) -> dict:
    """The sums of a trace: requests and sectors of global memory, wavefronts and bank conflicts of shared memory.

    With `kept`, such as {"shared": 0.5}, only that share of the loads from a space counts.
    """
    table = trace.requests
    share = [
        (kept or {}).get(space, 1) if op == "load" else 1 for space, op in zip(table["space"], table["op"], strict=True)
    ]
    spaces = {
        "requests": "global",
        "sectors": "global",
        "wavefronts": "shared",
        "bank_conflicts": "shared",
    }
    return {column: int((table[column] * share)[table["space"] == space].sum()) for column, space in spaces.items()}
