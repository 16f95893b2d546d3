"""Finds each problem of a trace in a recording: the steps of the threads concerned."""

from collections import Counter

from utils.cuda.player.recording import Marked

__all__ = ["marked"]

_WRITES = ("write", "atomic", "copy")
_OF_NO_THREAD = ("unwritten", "refused_launch", "untraced_launch", "failed_call", "host_access", "host_error")


def marked(problems, records, recording) -> list[Marked]:
    """Each problem of a trace with the steps of `recording` that show it, if any were kept.

    `records` are what the problems were made from (records.py): they know which element each is about.
    """
    blocks = {block.index: k for k, block in enumerate(recording.blocks)}
    found = []
    for problem in problems:
        record = next((r for r in records if r.kind == problem.kind and r.line == problem.line), None)
        sides = [(problem.block, problem.thread, problem.line, record)]
        if problem.kind in _OF_NO_THREAD:
            sides = []
        if problem.other_thread:
            other = record.other if record else None
            sides.insert(0, (problem.other_block, problem.other_thread, problem.other_line, other))
        candidates, threads = [], []
        for block, thread, line, side in sides:
            if block is None or tuple(block) not in blocks:
                continue
            place = blocks[tuple(block)], _number(thread, recording.block)
            threads.append(place)
            candidates.append(_steps(recording, place, problem.kind, line, side, record))
        steps = _unordered(recording, *candidates) if len(candidates) == 2 else [own[0] for own in candidates if own]
        lines = list(dict.fromkeys(line for _, _, line, _ in sides if line))
        found.append(Marked(problem.kind, str(problem), problem.line, steps, threads, lines))
    return found


def _number(thread, size):
    return thread[0] + size[0] * (thread[1] + size[1] * thread[2])


def _unordered(recording, ones, others):
    """The first pair of steps, one of each side, with no barrier of their block between them, as in a race;
    without such a pair, the first step of each side."""
    passed, at, since = Counter(), [], {}  # at: for each step its block, and the block's "passed" steps so far
    for step in recording.steps:
        passed[step.block] += step.kind == "passed"
        at.append((step.block, passed[step.block]))
    for other in others:
        since.setdefault(at[other], []).append(other)
    for one in ones:
        for other in since.get(at[one], ()):
            if other != one:
                return [one, other]
    return [own[0] for own in (ones, others) if own]


def _steps(recording, place, kind, line, side, record):
    """The numbers of the steps in which a thread, (kept block, number), does what the problem describes. `side` is the
    problem's side as it was recorded, if it is known."""
    warp, lane = divmod(place[1], 32)
    own = [
        (k, step)
        for k, step in enumerate(recording.steps)
        if (step.block, step.warp) == (place[0], warp) and lane in step.lanes
    ]
    if not own:
        return []
    if kind in ("divergent_barrier", "undefined_shuffle"):
        waits = [(k, step) for k, step in own if step.kind in ("barrier", "shuffle")]
        here = [k for k, step in waits if step.line == line] or [k for k, step in waits if step.phase is not None]
        return here[-1:] or [own[-1][0]]
    if kind in ("runaway", "trap"):
        return [own[-1][0]]
    accesses = [(k, step) for k, step in own if step.memory is not None]
    by_engine = [
        (k, step) for k, step in accesses if step.bytes is not None and not (step.kind == "copy" and step.values)
    ]
    if side and side.by == "bulk copy":
        accesses = by_engine or accesses
    op = side and side.op
    tests = [
        lambda step: _touches(recording, step, lane, record),
        lambda step: step.line == line,
        lambda step: (step.kind in _WRITES) == (op != "load"),
    ]
    for chosen in (tests, tests[:1] + tests[2:], tests[:2], tests[1:], tests[1:2]):
        matching = [k for k, step in accesses if all(test(step) for test in chosen)]
        if matching:
            return matching
    return [own[-1][0]]


def _touches(recording, step, lane, record):
    """Whether a lane's access in a step is to the memory that a problem is about, and to that element."""
    memory, at = recording.memories[step.memory], step.lanes.index(lane)
    of_lane = len(step.elements) // len(step.lanes)  # more than one only in a bulk copy
    if record is None or memory.name != record.region or record.offset is None:
        return False
    elements = step.elements[at * of_lane : (at + 1) * of_lane]
    if elements == [None]:
        return not 0 <= record.offset < record.region_bytes
    first = record.offset // memory.itemsize
    return any(element <= first < element + step.width for element in elements)
