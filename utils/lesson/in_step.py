"""Combines the threads of a warp, which ran one by one, into steps: a GPU runs them in step."""

import math
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from utils.cuda.player.ordering import without_repeated_lines
from utils.cuda.player.recording import Step

__all__ = ["Event", "PythonThread", "in_step", "interleaved"]


@dataclass
class Event:
    """What one thread did. `key` is the place in the program: threads with equal keys are in step."""

    key: tuple
    line: int
    kind: str
    memory: int | None = None
    elements: list = field(default_factory=list)
    values: list = field(default_factory=list)
    outside: str = ""
    variables: dict = field(default_factory=dict)


@dataclass
class PythonThread:
    """What is recorded of a kept thread."""

    events: list = field(default_factory=list)
    loops: dict = field(default_factory=dict)  # by first line: where the loop was entered, and its iteration
    line: int = 0
    times: int = 0  # events so far in this visit of the line
    cut: bool = False  # it did more than is kept
    barriers: int = 0  # how many it has passed
    frame: object = None


def in_step(block, warp, lanes, memories) -> tuple[list[Step], bool]:
    """The steps of a warp, from its threads by lane; and whether none of these was cut.

    Each step is at the place that comes first in the program among those that threads have reached, for all threads at
    that place. So the two branches of an `if` come one after the other, and a thread that has left a loop waits.
    """
    at, known, steps = dict.fromkeys(lanes, 0), {}, []
    while True:
        ahead = {k: t.events[at[k]] for k, t in lanes.items() if at[k] < len(t.events)}
        is_cut = any(t.cut and k not in ahead for k, t in lanes.items())
        if is_cut or not ahead:
            return without_repeated_lines(steps), not is_cut
        first = min(ahead.values(), key=lambda event: event.key)
        same = [k for k, e in ahead.items() if _together(e) == _together(first)]
        for k in same:
            at[k] += 1
        steps.append(_step(block, warp, same, [ahead[k] for k in same], known, memories))


def _step(block, warp, lanes, events, known, memories):
    one = events[0]
    step = Step(block, warp, one.line, one.kind, lanes)
    if one.memory is not None:
        memory = memories[one.memory]
        step.memory = one.memory
        step.elements, step.values = [e.elements[0] for e in events], [e.values[0] for e in events]
        step.outside = [(lane, e.outside) for lane, e in zip(lanes, events, strict=True) if e.outside]
        bytes_at = {e * memory.itemsize for e in step.elements if e is not None}
        if memory.space == "global":
            step.sectors = len({place // 32 for place in bytes_at})
            step.least_sectors = math.ceil(len(bytes_at) * memory.itemsize / 32)
        else:
            banks = [place // 4 % 32 for place in bytes_at]
            step.wavefronts, step.least_wavefronts = max(map(banks.count, banks), default=1), 1
    elif one.kind in ("barrier", "passed"):
        step.barrier = f"line {one.line}"
    for name in dict.fromkeys(name for event in events for name in event.variables):
        values = [event.variables.get(name) for event in events]
        if any(known.get((lane, name)) != value for lane, value in zip(lanes, values, strict=True)):
            step.variables[name] = values
        known |= {(lane, name): value for lane, value in zip(lanes, values, strict=True)}
    return step


def _together(event):
    return event.key, event.kind, event.memory, event.line


def interleaved(warps):
    """The steps of a block's warps: all those before a barrier, then those after it."""
    parts = [_between_barriers(steps) for steps in warps]
    together = [list(chain.from_iterable(part)) for part in zip_longest(*parts, fillvalue=[])]
    return [step for part in together for step in sorted(part, key=lambda step: step.kind != "passed")]


def _between_barriers(steps):
    parts = [[]]
    for step in steps:
        if step.kind == "passed" and parts[-1] and parts[-1][-1].kind != "passed":
            parts.append([])
        parts[-1].append(step)
    return parts
