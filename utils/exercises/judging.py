"""Judging: `check("02-guard", answer)` runs a learner's answer on awkward sizes, prints what it does, and never raises.

A kernel runs on watched memory (Python) or in a trace (CUDA C++). An answer is right if every case has passed, the last
one with fresh random numbers too.
"""

import re
from copy import deepcopy
from functools import partial
from secrets import randbits

import torch

from utils.cuda.common import cxx
from utils.cuda.common.grid import launch_sizes
from utils.exercises.exercise import (
    Function,
    Kernel,
    Question,
    does_nothing,
    given,
    is_blank,
    misfit,
    traffic_of,
    uses_name,
)
from utils.exercises.lessons import find, note, unknown
from utils.exercises.removed import kept_loads
from utils.exercises.running import failure, learners_limit, outcome, watched_kernel
from utils.exercises.verdicts import (
    Verdict,
    case_text,
    counts,
    difference,
    function_of,
    is_a,
    not_taken,
    printable,
    unwritten,
    worst,
)
from utils.exercises.watched import Memory
from utils.lesson.simulator import blk_kernel2d_shared, run_kernel

__all__ = ["check", "judged"]

MOST_STEPS = 50_000  # of a thread of a traced kernel
SLOW = 1.5  # times the traffic that is needed
_KINDS = {  # what a trace calls a problem, and what it is called here; everything else has crashed
    "out_of_bounds": "out of bounds",
    "divergent_barrier": "stuck",
    "race": "raced",
    "runaway": "too long",
    "uninitialized": "uninitialized",
    "unwritten": "unwritten",
}
_GO_ON = {"race", "uninitialized", "unwritten"}  # a larger size may have something worse
_UNTOUCHED = Verdict("not yet", "no thread has read or written anything")


def check(name, answer) -> None:
    """Print what an answer to the exercise `name` does. `answer` is a function, source text or a value, as it asks."""
    exercise = find(name)
    if exercise is None:
        print(printable(unknown(name)))
        return
    with torch.random.fork_rng(devices=[]):  # the learner's random numbers stay as they would be
        verdict = judged(exercise, answer)
    if verdict.kind == "right":
        note(name)
    print(printable(str(verdict)))


def judged(exercise, answer) -> Verdict:
    """The worst of the verdicts. Whatever goes wrong on the way is a verdict as well."""
    try:
        if is_blank(answer) or _has_blank(answer) or does_nothing(answer):
            return Verdict("not yet")
        return worst(list(_JUDGES[type(exercise)](exercise, answer)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure(error)


def _has_blank(answer):
    """Whether it still has `___`, where something is to be filled in, or in CUDA C++ a body or a line that is `...`."""
    if is_a(answer, str):
        return re.search(r"(?<!\w)___(?!\w)|(?m:(?:^|\{)[ \t]*\.\.\.[ \t]*;?[ \t]*(?:\}|$))", answer) is not None
    return uses_name(answer, "___")


# ---- questions and functions ----------------------------------------------------------------------------------------


def _verdicts_on_question(question, answer):
    if is_a(question.takes, str):
        text = outcome(lambda: question.wrong(answer))
        if isinstance(text, Verdict) and text.kind == "crashed":
            text = not_taken(question.takes, answer)
    elif not (text := misfit(answer, question.takes)):
        text = outcome(lambda: question.wrong(answer), unfit=_unfit(question.takes))
    yield text if isinstance(text, Verdict) else Verdict("wrong", text) if text else Verdict("right")


def _verdicts_on_function(exercise, answer):
    for case, fresh in _with_fresh(exercise.cases):
        arguments = case() if callable(case) else case
        if text := misfit(answer, arguments):
            yield Verdict("wrong", text)
            return
        got = outcome(lambda arguments=arguments: _wrong_result(exercise, answer, arguments), unfit=_unfit(arguments))
        place = f" ({case_text(arguments, fresh)})"
        if isinstance(got, Verdict):
            yield Verdict(got.kind, got.text + place if got.text else "")
            return
        if got:
            yield Verdict("wrong", got + place)
    yield Verdict("right")


def _wrong_result(exercise, answer, arguments):
    returned = given(answer(*_copied(arguments).values()))
    return difference(returned, exercise.expected(**_copied(arguments)), "the result", exercise.close)


def _unfit(names):
    """The beginning of a sentence for when `misfit` has found nothing, and yet no line of the function has run."""
    return f"this exercise takes {function_of(names)}, and yours does not fit"


def _with_fresh(cases):
    """(case, False) for each, with the same random numbers every time, and once more the last with fresh ones, True."""
    for number, case in enumerate(cases):
        torch.manual_seed(number)
        yield case, False
    torch.manual_seed(randbits(32))
    yield cases[-1], True


def _copied(arguments):
    """What an answer may change: lists and tensors of its own."""
    return {name: deepcopy(value) for name, value in arguments.items()}


# ---- kernels --------------------------------------------------------------------------------------------------------


def _verdicts_on_kernel(exercise, answer):
    try:
        answer = exercise.prepare(_source(answer) if exercise.cuda else answer)
    except ValueError as error:
        wrong = str(error)
    else:
        wrong = _no_source(exercise, answer) if exercise.cuda else misfit(answer, _python_arguments(exercise))
    if wrong:
        yield Verdict("wrong", wrong)
        return
    yield from (_in_cuda if exercise.cuda else _in_python)(exercise, answer)
    yield Verdict("right")


def _source(answer):
    """The text of CUDA source, or of a kernel that %%cuda or compile_kernel has made."""
    from utils.cuda import kernel

    answer = answer.source if is_a(answer, kernel.Kernel) else answer
    if not is_a(answer, str):
        raise ValueError(not_taken("CUDA C++ as text, or a kernel", answer))
    return answer


def _no_source(exercise, text):
    """That a text has no kernel at all, or ""."""
    if cxx.kernels(text):
        return ""
    quotes = ": leave out the quotes" if text.strip() == exercise.cuda else ""
    return not_taken(f"CUDA source with the kernel `{exercise.cuda}`", text) + quotes


def _python_arguments(exercise):
    """The names of the arguments that a simulator passes to a Python kernel."""
    own = ["i"] if exercise.run is run_kernel else ["blockidx", "threadidx", "blockdim"]
    waits = ["syncthreads", "shared"] if exercise.run is blk_kernel2d_shared else []
    return [*own, *waits, *next(_cases(exercise))[2]]


def _cases(exercise):
    """(text about the case, sizes, arguments, what is expected by name) for each run."""
    for sizes, fresh in _with_fresh(exercise.sizes):
        arguments = exercise.arguments(**sizes)
        expected = exercise.expected(**_copied(arguments))
        if isinstance(expected, torch.Tensor):
            expected = {exercise.outputs[0]: expected}
        yield case_text(sizes, fresh), sizes, arguments, expected


def _in_python(exercise, answer):
    """The verdicts on a Python kernel, which runs in the simulator on watched memory: forward, then mirrored."""
    touched = False
    for case, sizes, arguments, expected in _cases(exercise):
        runs = []
        for mirrored in (False, True):
            ended_by, memory = _simulated(exercise, answer, sizes, arguments, mirrored)
            yield from (Verdict(kind, f"{text} ({case})") for kind, text in memory.problems.items())
            if ended_by:
                yield Verdict(ended_by.kind, f"{ended_by.text} ({case})")
                return
            runs.append(memory)
        forward, backward = runs
        touched |= forward.touched
        for name in exercise.outputs:
            if missing := forward.unwritten(name):
                yield Verdict("unwritten", f"{unwritten(name, missing, arguments[name])} ({case})")
        yield from _wrong_outputs(exercise, {name: forward.values(name) for name in expected}, expected, case)
        for name in expected:
            if difference(backward.values(name), forward.values(name), name, exercise.close):
                other = "with the threads in reverse order the result is different"
                yield Verdict("raced", f"{other}: does one thread use what another leaves behind? ({case})")
    if not touched:
        yield _UNTOUCHED
    elif exercise.traffic:
        yield from _slow(exercise, forward.traffic(), sizes, case)


def _simulated(exercise, answer, sizes, arguments, mirrored):
    """Run a kernel once; the Verdict on what ended it, or None, and the Memory it worked on."""
    memory, launch = Memory(), exercise.launch(**sizes)
    launch = launch if isinstance(launch, tuple) else (launch,)
    watched = [
        memory.tensor(name, value, empty=name in exercise.outputs) if isinstance(value, torch.Tensor) else value
        for name, value in arguments.items()
    ]
    one_number = exercise.run is run_kernel
    mirror = None
    if mirrored:
        mirror = launch[0] if one_number else launch_sizes(*launch[:2])
    limit = learners_limit()
    kernel = watched_kernel(answer, memory, limit, one_number, mirror)
    ended_by = outcome(lambda: exercise.run(kernel, *launch, *watched), limit)  # a simulator returns None
    if "out of bounds" in memory.problems:
        ended_by = Verdict("out of bounds", memory.problems.pop("out of bounds"))
    if not ended_by:
        memory.races()
    return ended_by, memory


def _in_cuda(exercise, source):
    """The verdicts on CUDA source: a trace on any machine and then, if that found nothing, a run on the GPU, if any."""
    from utils.cuda.common.diagnostics import CompileError
    from utils.cuda.kernel import Tracer

    touched = False
    try:
        for case, sizes, arguments, expected in _cases(exercise):
            outputs = [arguments[name] for name in exercise.outputs]
            launch = Tracer(source, exercise.cuda)[exercise.launch(**sizes)]
            trace = launch(*arguments.values(), outputs=outputs, max_steps=MOST_STEPS)
            touched |= not trace.requests.empty or {problem.kind for problem in trace.problems} != {"unwritten"}
            for problem in trace.problems:
                yield Verdict(_KINDS.get(problem.kind, "crashed"), f"{problem.message} ({case}){_hint(problem)}")
            if {problem.kind for problem in trace.problems} - _GO_ON:
                return
            yield from _wrong_outputs(exercise, dict(zip(arguments, trace.args, strict=True)), expected, case)
    except CompileError as error:
        yield Verdict("does not compile", error.wrong + (f"\n    {error.hint}" if error.hint else ""))
        return
    except (TypeError, ValueError) as error:  # a kernel of another name, or with other parameters
        passes = (
            f" (the launch of this exercise passes {', '.join(arguments)})"
            if exercise.cuda in cxx.kernels(source)
            else ""
        )
        # How to convert a tensor is no advice here: the launch is not the learner's.
        said = re.sub(r"(but this one is (\w+)): .*", r"\1: declare the parameter for that type", str(error))
        yield Verdict("wrong", f"{said}{passes}")
        return
    except RuntimeError as error:
        yield Verdict("crashed", str(error))
        return
    if not touched:
        yield Verdict("not yet") if _is_empty(source, exercise.cuda) else _UNTOUCHED
    if not trace.ok:
        return
    if why := exercise.why_wrong(source):
        yield Verdict("wrong", why)
    if exercise.traffic:
        yield from _slow(exercise, traffic_of(trace), sizes, case, partial(_in_machine_code, exercise, source, trace))
    if why := exercise.why_slow(source):
        yield Verdict("right, but slow", why)
    yield from _on_gpu(exercise, source)


def _is_empty(source, name):
    """Whether there is nothing between the braces of a kernel."""
    return any(len(each.tokens) - each.head <= 2 for each in cxx.declared_kernels(source) if each.name == name)


def _hint(problem):
    """What to try, on a line of its own. An endless loop gets its own: a learner cannot raise max_steps here."""
    hint = problem.hint
    if problem.kind == "runaway":
        hint = "Does the condition of the loop ever become false? If it does, share the work among more threads."
    return f"\n    {hint}" if hint else ""


def _on_gpu(exercise, source):
    """If there is a GPU, also run on it what has passed on the CPU engine."""
    from utils.cuda.common.toolchain import device
    from utils.cuda.kernel import compile_kernel

    if device().type != "cuda":
        return
    kernel = compile_kernel(source, exercise.cuda)
    for case, sizes, arguments, expected in _cases(exercise):
        there = {
            name: value.to(device()) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()
        }
        kernel[exercise.launch(**sizes)](*there.values())
        yield from _wrong_outputs(exercise, there, expected, f"{case}, on the GPU")


def _wrong_outputs(exercise, after, expected, case):
    inputs = {name: value for name, value in after.items() if name not in expected}
    for name, wanted in expected.items():
        if wrong := difference(after[name].cpu().view(wanted.shape), wanted, name, exercise.close, inputs):
            yield Verdict("wrong", f"{wrong} ({case})")


def _slow(exercise, traffic, sizes, case, in_machine_code=None):
    """The verdict on more traffic than is needed, if there is any. `in_machine_code` returns the traffic that nvcc
    leaves of it, or None if that is not known, and a sentence about it."""
    needed = exercise.traffic(**sizes)
    if not _too_much(traffic, needed):
        return
    yours = counts({what: traffic[what] for what in needed})
    text = f"yours makes {yours}, a good one {counts(needed)} ({case})"
    left, sentence = in_machine_code(needed) if in_machine_code else (traffic, "")
    if left is None:
        yield Verdict("right, but slow", f"{text}\n    {sentence}")
    elif _too_much(left, needed):
        yield Verdict("right, but slow", text)
    else:
        yield Verdict("right", f"{text}\n    {sentence}")


def _too_much(traffic, needed):
    return any(traffic[what] > SLOW * least for what, least in needed.items())


def _in_machine_code(exercise, source, trace, needed):
    kept = kept_loads(source, exercise.cuda)
    if kept is None and _too_much(traffic_of(trace, {"global": 0, "shared": 0}), needed):
        return traffic_of(trace), ""
    if kept is None:
        return None, "That is what the source says. Where it reads an element again, nvcc may remove the second read."
    counted = [f"of {written} loads from {space} memory {few} are left" for space, (few, written) in kept.items()]
    sentence = f"The source reads more, and nvcc removes or merges it: {' and '.join(counted)} in the machine code."
    return traffic_of(trace, {space: few / written for space, (few, written) in kept.items()}), sentence


_JUDGES = {Question: _verdicts_on_question, Function: _verdicts_on_function, Kernel: _verdicts_on_kernel}
