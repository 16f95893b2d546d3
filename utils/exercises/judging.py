"""Exercises: `check("02-guard", answer)` runs a learner's answer, says what it does, and never raises.

To add an exercise, write it into `EXERCISES` of utils/exercises/lesson_NN.py, as one of three kinds:

- `Question(name, wrong)`: `wrong(answer)` returns what is wrong with it in a sentence, or "" if it is right. For
  values, and for functions of which more is asked than a result. `given(f(...))` says "not yet" for a None in there.
- `Function(name, cases, expected)`: the answer is a Python function, and each case the dictionary of its arguments.
- `Kernel(name, sizes, arguments, outputs, launch, expected)`: the answer is a kernel, in Python where `run` is one of
  lesson/simulator.py's functions, in CUDA C++ where `cuda` is the kernel's name. For each of `sizes`, a dictionary,
  `arguments(**sizes)` makes the kernel's arguments by name and in order, `poison(...)` those of `outputs`;
  `launch(**sizes)` is (blocks, threads), or with a third number what the launch takes for shared memory;
  `expected(**arguments)` is what must be in the output, or a dictionary of several tensors by name. `traffic(**sizes)`
  is what a good kernel needs: a dictionary of columns of `trace.requests` (utils/cuda/cpu/trace/tables.py), for which
  `once` and `like` exist. It is looked at for the last of the sizes, and more than 1.5 times as much is called slow.
  `slow_by(source)` says why CUDA source that is right is slow although its counts are good, or "".

The notebook holds the rest: a sentence that says what is asked, a cell with the stub and `check(...)`, and under it,
folded, hints and the solution, which stands nowhere else. tests/exercises/lesson_NN.py holds other answers, most of
them wrong.
"""

import importlib
import linecache
import re
import sysconfig
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isclose
from pathlib import Path
from secrets import randbits

import torch

from utils.cuda.common.grid import check_launch
from utils.exercises.watched import SECTOR, WARP, Endless, Memory, Outside, limited, poison, traced
from utils.lesson.simulator import cdiv, run_kernel

__all__ = ["Function", "Kernel", "Question", "check", "given", "like", "once", "poison", "progress_line"]

# From worst to best. The worst that was met on any size is what `check` tells.
KINDS = (
    "not yet",
    "does not compile",
    "out of bounds",
    "crashed",
    "raced",
    "uninitialized",
    "unwritten",
    "wrong",
    "right, but slow",
    "right",
)
_GO_ON = {"race", "uninitialized", "unwritten"}  # behind which a larger size may have something worse
_TRACED = {  # what a trace calls a problem, and what it is called here; everything else has crashed
    "out_of_bounds": "out of bounds",
    "race": "raced",
    "uninitialized": "uninitialized",
    "unwritten": "unwritten",
}
MOST_INSTRUCTIONS = 1_000_000  # of a learner's Python code, for one call or launch
MOST_STEPS = 50_000  # of a thread of a traced kernel
SLOW = 1.5  # times the traffic that is needed

_solved: dict[str, set] = {}  # lesson -> names, of this process


@dataclass(frozen=True)
class Verdict:
    kind: str
    text: str = ""

    def __str__(self):
        return f"{self.kind}: {self.text}" if self.text else self.kind


def check(name, answer) -> None:
    """Print what an answer to the exercise `name` does. `answer` is a function, source text or a value, as it asks."""
    lesson, exercise = _find(name)
    if exercise is None:
        return
    with torch.random.fork_rng(devices=[]):  # the learner's random numbers stay as they would be
        verdict = _judged(exercise, answer)
    (set.add if verdict.kind == "right" else set.discard)(_solved.setdefault(lesson, set()), exercise.name)
    print(verdict)


def progress_line(lesson) -> None:
    """Print which exercises of a lesson, such as "02", have been solved since the notebook's kernel started."""
    try:
        names = [exercise.name for exercise in _exercises(lesson)]
    except ModuleNotFoundError:
        print(f"There is no lesson {lesson!r} with exercises. The number has two digits, as in '02'.")
        return
    solved = [name for name in names if name in _solved.get(lesson, ())]
    rest = [name for name in names if name not in solved]
    groups = {"Solved": solved, "Open": rest}
    parts = [f"{what}: {', '.join(name[3:] for name in some)}" for what, some in groups.items() if some]
    print(". ".join(parts))


def given(value):
    """`value`, unless it is the nothing that a stub returns: then the exercise is not solved yet."""
    if _is_blank(value):
        raise _Unsolved
    return value


class _Unsolved(Exception):
    pass


@dataclass(frozen=True)
class Question:
    """See the top of this file."""

    name: str
    wrong: Callable[[object], str]

    def judge(self, answer):
        text = _called(lambda: self.wrong(answer))
        yield text if isinstance(text, Verdict) else Verdict("wrong", text) if text else Verdict("right")


@dataclass(frozen=True)
class Function:
    """See the top of this file. `close` is what torch.isclose takes."""

    name: str
    cases: list
    expected: Callable
    close: dict = field(default_factory=dict)

    def judge(self, answer):
        if not callable(answer):
            yield Verdict("wrong", f"this exercise takes a Python function, but got {_shown(answer)}")
            return
        for case, fresh in _with_fresh(self.cases):
            arguments = case() if callable(case) else case
            expected = self.expected(**_copied(arguments))
            got = _called(lambda arguments=arguments: given(answer(*_copied(arguments).values())))
            if isinstance(got, Verdict):
                yield got
                return
            difference = _difference(got, expected, "the result", self.close)
            if difference:
                yield Verdict("wrong", f"{difference} ({_case(arguments, fresh)})")
        yield Verdict("right")


@dataclass(frozen=True)
class Kernel:
    """See the top of this file. `source(answer)` makes the CUDA source of an answer that is only a part of it."""

    name: str
    sizes: list
    arguments: Callable[..., dict]
    outputs: tuple
    launch: Callable[..., tuple]
    expected: Callable
    run: Callable | None = None
    cuda: str = ""
    source: Callable[[str], str] | None = None
    close: dict = field(default_factory=dict)
    traffic: Callable[..., dict] | None = None
    slow_by: Callable[[str], str] | None = None

    def judge(self, answer):
        answer = getattr(answer, "source", answer)  # of a kernel that %%cuda or compile_kernel has made
        fits, takes = isinstance(answer, str), "CUDA source text"
        if not self.cuda:
            fits, takes = callable(answer), "a Python function"
        if not fits:
            yield Verdict("wrong", f"this exercise takes {takes}, but got {_shown(answer)}")
        elif self.cuda:
            yield from self._in_cuda(self.source(answer) if self.source else answer)
        else:
            yield from self._in_python(answer)
        yield Verdict("right")

    def _cases(self):
        """(text about the case, sizes, arguments, what is expected by name) for each run."""
        for sizes, fresh in _with_fresh(self.sizes):
            arguments = self.arguments(**sizes)
            expected = self.expected(**_copied(arguments))
            if isinstance(expected, torch.Tensor):
                expected = {self.outputs[0]: expected}
            yield _case(sizes, fresh), sizes, arguments, expected

    def _in_python(self, answer):
        touched = False
        for case, sizes, arguments, expected in self._cases():
            runs = []
            for mirrored in (False, True):
                error, memory = self._simulated(answer, sizes, arguments, mirrored)
                yield from (Verdict(kind, f"{text} ({case})") for kind, text in memory.problems.items())
                if error:
                    yield Verdict(error.kind, f"{error.text} ({case})")
                    return
                runs.append(memory)
            forward, backward = runs
            touched |= forward.touched
            for name in self.outputs:
                missing = forward.unwritten(name)
                if missing:
                    yield Verdict("unwritten", f"{_unwritten(name, missing, arguments[name])} ({case})")
            yield from self._wrong({name: forward.values(name) for name in expected}, expected, case)
            for name in expected:
                if _difference(backward.values(name), forward.values(name), name, self.close):
                    other = "with the threads in reverse order the result is another"
                    yield Verdict("raced", f"{other}: does one thread use what another leaves behind? ({case})")
        if not touched:
            yield Verdict("not yet")
        elif self.traffic:
            yield from self._slow(forward.traffic(), sizes, case)

    def _simulated(self, answer, sizes, arguments, mirrored):
        """Run a kernel once; the Verdict of what ended it, or None, and the Memory it worked on."""
        memory, launch = Memory(), self.launch(**sizes)
        launch = launch if isinstance(launch, tuple) else (launch,)
        watched = [
            memory.tensor(name, value, empty=name in self.outputs) if isinstance(value, torch.Tensor) else value
            for name, value in arguments.items()
        ]
        flat = self.run is run_kernel
        turned = None
        if mirrored:
            turned = launch[0] if flat else check_launch(*launch[:2])
        limit = _limit()
        error = _called(lambda: self.run(traced(answer, memory, limit, flat, turned), *launch, *watched), limit)
        error = error if isinstance(error, Verdict) else None
        if "out of bounds" in memory.problems:
            error = Verdict("out of bounds", memory.problems.pop("out of bounds"))
        if not error:
            memory.races()
        return error, memory

    def _in_cuda(self, source):
        from utils.cuda.common.diagnostics import CompileError
        from utils.cuda.kernel import Tracer

        touched = False
        try:
            for case, sizes, arguments, expected in self._cases():
                outputs = [arguments[name] for name in self.outputs]
                launch, args = Tracer(source, self.cuda)[self.launch(**sizes)], arguments.values()
                trace = launch(*args, outputs=outputs, max_steps=MOST_STEPS)
                touched |= not trace.requests.empty or {p.kind for p in trace.problems} != {"unwritten"}
                for problem in trace.problems:
                    hint = problem.hint.partition(" If the loop is right")[0]  # nobody can raise max_steps here
                    hint = f"\n    {hint}" if hint else ""
                    yield Verdict(_TRACED.get(problem.kind, "crashed"), f"{problem.message} ({case}){hint}")
                if {problem.kind for problem in trace.problems} - _GO_ON:
                    return
                yield from self._wrong(dict(zip(arguments, trace.args, strict=True)), expected, case)
        except CompileError as error:
            told = "\n".join(line for line in str(error).splitlines() if not line.startswith("The whole log"))
            yield Verdict("does not compile", told)
            return
        except (TypeError, ValueError, RuntimeError) as error:  # a launch, or parameters, that it should not have
            yield Verdict("crashed", str(error))
            return
        if not touched:
            yield Verdict("not yet")
        if self.traffic and trace.ok:
            yield from self._slow(_traffic(trace), sizes, case)
        if trace.ok and self.slow_by and (why := self.slow_by(source)):
            yield Verdict("right, but slow", why)
        if trace.ok:
            yield from self._on_gpu(source)

    def _wrong(self, after, expected, case):
        for name, wanted in expected.items():
            difference = _difference(after[name].cpu().view(wanted.shape), wanted, name, self.close)
            if difference:
                yield Verdict("wrong", f"{difference} ({case})")

    def _on_gpu(self, source):
        """Where there is a GPU, run there too what has passed on the CPU engine."""
        from utils.cuda.common.toolchain import device
        from utils.cuda.kernel import compile_kernel

        if device().type != "cuda":
            return
        kernel = compile_kernel(source, self.cuda)
        for case, sizes, arguments, expected in self._cases():
            there = {name: _to(value, device()) for name, value in arguments.items()}
            kernel[self.launch(**sizes)](*there.values())
            yield from self._wrong(there, expected, f"{case}, on the GPU")

    def _slow(self, used, sizes, case):
        needed = self.traffic(**sizes)
        for what, least in needed.items():
            if used[what] > SLOW * least:
                names = {what: used[what] for what in needed}
                yield Verdict("right, but slow", f"yours makes {_counts(names)}, a good one {_counts(needed)} ({case})")
                return


def once(*tensors) -> dict:
    """The traffic of a kernel that touches each element of `tensors` once, neighbours with neighbouring threads."""
    return {
        "requests": sum(cdiv(x.numel(), WARP) for x in tensors),
        "sectors": sum(cdiv(x.nbytes, SECTOR) for x in tensors),
    }


def like(source, kernel, launch, arguments, columns=("requests", "sectors")) -> dict:
    """The traffic of `kernel`, a name in the CUDA text `source`, in that launch with these arguments, by a trace."""
    from utils.cuda.kernel import Tracer

    used = _traffic(Tracer(source, kernel)[launch](*arguments))
    return {column: used[column] for column in columns}


def _traffic(trace):
    """The sums of a trace: requests and sectors of global memory, wavefronts and bank conflicts of shared memory."""
    table = trace.requests
    of_space = {
        "requests": "global",
        "sectors": "global",
        "wavefronts": "shared",
        "bank_conflicts": "shared",
    }
    return {column: int(table[table["space"] == space][column].sum()) for column, space in of_space.items()}


# ---------------------------------------------------------------- finding an exercise


def _exercises(lesson):
    return importlib.import_module(f"utils.exercises.lesson_{lesson}").EXERCISES


def _find(name):
    """Lesson and exercise, or two Nones after saying which names there are."""
    folder = Path(__file__).parent
    lessons = sorted(path.stem[-2:] for path in folder.glob("lesson_*.py"))
    lesson = str(name)[:2]
    for exercise in _exercises(lesson) if lesson in lessons else ():
        if exercise.name == name:
            return lesson, exercise
    names = [exercise.name for each in lessons for exercise in _exercises(each)]
    near = get_close_matches(str(name), names, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    own = [one for one in names if one.startswith(lesson)]
    have = f"lesson {lesson} has {', '.join(own)}" if own else f"the lessons with exercises are {', '.join(lessons)}"
    print(f"There is no exercise {name!r}.{meant} ({have[0].upper()}{have[1:]}.)")
    return None, None


def _with_fresh(cases):
    """(case, False) for each, with the same random numbers every time, and once more the last with fresh ones, True."""
    for number, case in enumerate(cases):
        torch.manual_seed(number)
        yield case, False
    torch.manual_seed(randbits(32))
    yield cases[-1], True


# ---------------------------------------------------------------- running a learner's code


def _judged(exercise, answer):
    """The worst that is to be said. Whatever goes wrong in between is something to say as well."""
    if _is_blank(answer) or _has_blank(answer):
        return Verdict("not yet")
    try:
        verdicts = list(exercise.judge(answer))
    except Exception as error:
        verdicts = [_crashed(error)]
    return min(verdicts, key=lambda verdict: KINDS.index(verdict.kind))


def _called(call, limit=None):
    """What `call()` returns, or the Verdict of what ended it."""
    try:
        with limit or _limit():
            return call()
    except _Unsolved:
        return Verdict("not yet")
    except Endless as error:
        return Verdict("crashed", f"{str(error) or 'it'} has run {MOST_INSTRUCTIONS:,} instructions: does it end?")
    except (Exception, SystemExit) as error:
        return _crashed(error)


def _crashed(error):
    if isinstance(error, NameError) and getattr(error, "name", None) == "___":
        return Verdict("not yet")
    kind = "out of bounds" if isinstance(error, Outside) else "crashed"
    place, trace = "", error.__traceback__
    while trace:
        if _is_learners(trace.tb_frame.f_code.co_filename):
            line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
            place = f", line {trace.tb_lineno}" + (f": `{line}`" if line else "")
        trace = trace.tb_next
    return Verdict(kind, f"{type(error).__name__}: {error}{place}")


_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OURS = str(Path(__file__).parents[1])


def _is_learners(filename):
    return not filename.startswith((*_LIBRARIES, _OURS, "<frozen"))


def _limit():
    return limited(MOST_INSTRUCTIONS, _is_learners)


def _is_blank(value):
    """None, `...`, or something that holds one of them."""
    if isinstance(value, (tuple, list, set)):
        return any(map(_is_blank, value))
    if isinstance(value, dict):
        return any(map(_is_blank, value.values()))
    return value is None or value is ... or (isinstance(value, str) and not value.strip())


def _has_blank(answer):
    """Whether `___` still stands where something is to be filled in."""
    if isinstance(answer, str):
        return re.search(r"(?<!\w)___(?!\w)", answer) is not None
    return isinstance(answer, types.FunctionType) and _names_blank(answer.__code__)


def _names_blank(code):
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return "___" in code.co_names or any(map(_names_blank, inner))


# ---------------------------------------------------------------- saying what was found


def _difference(got, expected, name, close):
    """What tells `got` from `expected`, in a sentence; "" if nothing does."""
    if not isinstance(expected, torch.Tensor):
        same = type(got) is not str and not isinstance(got, torch.Tensor) and _same(got, expected, close)
        return "" if same else f"{name} should be {_shown(expected)}, but yours is {_shown(got)}"
    if not isinstance(got, torch.Tensor):
        return f"{name} should be a tensor, but yours is {_shown(got)}"
    if got.shape != expected.shape:
        return f"{name} should have the shape {tuple(expected.shape)}, but yours has {tuple(got.shape)}"
    if got.dtype != expected.dtype:
        return f"{name} should be {expected.dtype}, but yours is {got.dtype}"
    exact = not expected.dtype.is_floating_point
    close = {"rtol": 0, "atol": 0} | close if exact else {"rtol": 1e-5, "atol": 1e-6} | close
    differ = ~torch.isclose(got.double(), expected.double(), equal_nan=True, **close)
    if not differ.any():
        return ""
    place = tuple(differ.nonzero()[0].tolist())
    count = int(differ.sum())
    where = f"{name}[{', '.join(map(str, place))}]" if place else name
    more = "the only one that differs" if count == 1 else f"the first of {count} that differ"
    more = f", {more} of {expected.numel()}" if place else ""
    return f"{where} should be {_shown(expected[place].item())}, but yours is {_shown(got[place].item())}{more}"


def _same(got, expected, close):
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return isclose(got, expected, rel_tol=close.get("rtol", 1e-9), abs_tol=close.get("atol", 0))
    return bool(got == expected)


def _unwritten(name, missing, tensor):
    place = ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(missing[0]), tensor.shape))
    return f"{name}[{place}] was never written; {len(missing)} of {tensor.numel()} elements are missing"


def _case(sizes, fresh):
    """'h = 5, w = 7', of what is a number."""
    numbers = [f"{name} = {value}" for name, value in sizes.items() if isinstance(value, (int, float))]
    numbers += [f"{name}: {tuple(value.shape)}" for name, value in sizes.items() if isinstance(value, torch.Tensor)]
    return ", ".join([*numbers, *(["with fresh numbers"] if fresh else [])])


def _counts(traffic):
    return " and ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in traffic.items())


def _shown(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    text = repr(value) if not callable(value) else f"the function {getattr(value, '__name__', value)!s}"
    return text if len(text) <= 60 else f"{text[:56]} ..."


def _copied(arguments):
    return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}


def _to(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else value
