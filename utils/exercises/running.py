"""Run a learner's code: within a limit of steps, and as the threads of a simulated kernel on watched memory."""

import linecache
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from utils.exercises.exercise import Rejected
from utils.exercises.verdicts import Verdict, in_line
from utils.exercises.watched import Outside

__all__ = ["Limit", "failure", "learners_limit", "outcome", "watched_kernel"]

MOST_INSTRUCTIONS = 1_000_000  # of a learner's Python code, for one call or launch


# ---- a limit --------------------------------------------------------------------------------------------------------


class Endless(BaseException):
    """A learner's code ran longer than allowed. It must get past every `except Exception` on its way."""

    def __init__(self, line, thread=""):
        self.line, self.thread = line, thread  # of a simulated kernel


class Limit:
    """`with Limit(steps, counts):` ends code with `Endless` once it has run more Python instructions than that. Only
    those of files for which `counts(filename)` is true are counted. A thread that is started inside calls `join()` to
    take part.
    """

    def __init__(self, steps: int, counts: Callable[[str], bool]):
        self.left, self._counts, self._known = steps, counts, {}

    def __enter__(self):
        self._before = sys.gettrace()
        self.join()
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def join(self):
        sys.settrace(self._on_call)

    def _on_call(self, frame, event, arg):
        name = frame.f_code.co_filename
        if name not in self._known:
            self._known[name] = self._counts(name)
        if not self._known[name]:
            return None
        frame.f_trace_opcodes = True  # otherwise a loop within one line would go unseen
        return self._on_step

    def _on_step(self, frame, event, arg):
        self.left -= 1
        if self.left < 0:
            raise Endless((frame.f_code.co_filename, frame.f_lineno))
        return self._on_step


def learners_limit() -> Limit:
    """A limit that counts the learner's own code."""
    return Limit(MOST_INSTRUCTIONS, _is_learners)


_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OURS = str(Path(__file__).parents[1])


def _is_learners(filename):
    return not filename.startswith((*_LIBRARIES, _OURS, "<frozen"))


# ---- a call ---------------------------------------------------------------------------------------------------------


def outcome(call, limit=None, unfit=""):
    """What `call()` returns, or the Verdict on what ended it: everything but the stop button. For `unfit` see below."""
    try:
        with limit or learners_limit():
            return call()
    except Endless as error:
        run, where = f"run {MOST_INSTRUCTIONS:,} instructions", in_line(error.line)
        if error.thread:
            said = f"the threads have {run} between them, the last by {error.thread}{where}: does every loop end?"
        else:
            said = f"it has {run}, the last{where}: does it end?"
        return Verdict("too long", said)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failure(error, unfit)


def failure(error, unfit="") -> Verdict:
    """The Verdict on an error that ended a learner's code, with the learner's line that was the last to run.

    If it was raised in our own code, and no line of the learner's has run, a function was called with other arguments
    than it takes, or has returned what cannot be used: then `unfit`, if given, begins the sentence.
    """
    if isinstance(error, NameError) and error.name == "___":
        return Verdict("not yet")
    if isinstance(error, Rejected):
        return Verdict("wrong", str(error))
    place, ours, trace = "", False, error.__traceback__
    while trace:
        if _is_learners(trace.tb_frame.f_code.co_filename):
            line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
            place = f", line {trace.tb_lineno}" + (f": `{line}`" if line else "")
        ours, trace = trace.tb_frame.f_code.co_filename.startswith(_OURS), trace.tb_next
    if unfit and ours and not place:
        return Verdict("wrong", f"{unfit}: {_words(error)}")
    if isinstance(error, Outside):
        return Verdict("out of bounds", f"{error.access}, but {error.limit}{place}")
    words = _words(error)
    return Verdict("crashed", f"{type(error).__name__}{f': {words}' if words else ''}{place}")


def _words(error) -> str:
    try:
        lines = str(error).strip().splitlines()
        return lines[0][:500] if lines else ""  # PyTorch adds a hundred lines about its own kernels
    except Exception:
        return "it cannot be shown"


# ---- a kernel -------------------------------------------------------------------------------------------------------


def watched_kernel(f, memory, limit, one_number, mirrored):
    """`f` as a simulator should call it: with every call, `memory` learns which thread runs.

    `one_number`: the simulator passes i alone (run_kernel); then `mirrored` is the number of calls or None. Otherwise
    it passes block, thread and block size, and `mirrored` is (blocks, threads) or None. Mirrored, the last thread of
    the last block does the work of the first. What a simulator passes on its own, shared memory and a function that
    waits, is watched too.
    """
    shared = {}

    def watch(argument, block):
        if isinstance(argument, np.ndarray):
            key = (block, argument.ctypes.data)
            if key not in shared:  # the array is kept, so that no other array gets its address
                watched = memory.tensor("shared", torch.from_numpy(argument), empty=True, shared=True)
                shared[key] = argument, watched
            return shared[key][1]
        if callable(argument):
            # Calls `argument`, then notes that it let the thread through. All in C: the simulator, which looks for the
            # line that called it, finds the kernel's.
            return partial(next, map(memory.barrier, iter(argument, object())))
        return argument

    def call(*args):
        limit.join()
        if one_number:
            place = (args[0] if mirrored is None else mirrored - 1 - args[0],)
            memory.enter(None, place[0], place[0])
        else:
            block, thread, size = args[:3]
            if mirrored:
                block, thread = _mirror(block, mirrored[0]), _mirror(thread, mirrored[1])
            place = (block, thread, size)
            memory.enter(block, thread, _number(thread, size))
        rest = [watch(argument, place[0]) for argument in args[len(place) :]]
        try:
            f(*place, *rest)
        except Endless as error:
            raise Endless(error.line, str(memory.place())) from None

    return call


def _mirror(place, size):
    if isinstance(place, int):
        return size.x - 1 - place
    return type(place)(*(n - 1 - p for p, n in zip(place, size, strict=True)))


def _number(thread, size):
    """The number of a thread in its block, x fastest."""
    if isinstance(thread, int):
        return thread
    return thread.x + size.x * (thread.y + size.y * thread.z)
