"""`Moment`: the state after the first steps of a recording, for pictures and for the page's tests."""

from dataclasses import dataclass

from utils.cuda.player.recording import Recording, Step, Value

LANES = 32
#: What one lane does in a step of each kind, and what several do.
VERBS = {
    "read": ("reads", "read"),
    "write": ("writes", "write"),
    "atomic": ("updates atomically", "update atomically"),
    "copy": ("begins to copy into", "begin to copy into"),
    "barrier": ("waits at the barrier", "wait at the barrier"),
    "passed": ("goes on: all have arrived at the barrier", "go on: all have arrived at the barrier"),
    "shuffle": ("takes a value from another lane", "exchange values by a shuffle"),
    "exit": ("exits", "exit"),
    "line": ("runs this line", "run this line"),
    "product": ("multiplies", "multiply on the tensor cores"),
}
#: An asynchronous copy is two steps: this is the second.
ARRIVES = ("has its copy arrive in", "have their copies arrive in")


@dataclass
class Moment:
    """The state after `position` steps: memories, threads that wait (and where) or have exited, and variables.

    Threads are keys (kept block, number in the block); an element of `held` that was never written is None.
    """

    position: int
    step: Step | None
    held: list[list[Value]]
    waits: dict[tuple[int, int], str]
    exited: set[tuple[int, int]]
    variables: dict[tuple[int, int], dict[str, Value]]


def moment(recording: Recording, position: int) -> Moment:
    """Replay the first `position` steps."""
    now = Moment(position, None, [list(memory.values) for memory in recording.memories], {}, set(), {})
    for step in recording.steps[:position]:
        now.step = step
        if step.kind in ("write", "atomic", "copy") and step.memory is not None and step.values is not None:
            memory, held = recording.memories[step.memory], now.held[step.memory]
            first = memory.window[0] if memory.window else 0
            for _, element, value in elements(step):
                if 0 <= element - first < len(held):
                    held[element - first] = value
        for at, lane in enumerate(step.lanes):
            thread = (step.block, step.warp * LANES + lane)
            if step.kind == "barrier":
                now.waits[thread] = step.barrier
            elif step.kind == "passed":
                now.waits.pop(thread, None)
            elif step.kind == "exit":
                now.exited.add(thread)
            known = now.variables.setdefault(thread, {})
            for name, values in step.variables.items():
                known[name] = values[at]
                if values[at] is None:
                    del known[name]
    return now


def elements(step: Step) -> list[tuple[int, int, Value]]:
    """(lane, flat element, value) of everything that a step touches inside its memory."""
    found = []
    for at, lane in enumerate(step.lanes):
        if step.elements is not None and step.elements[at] is not None:
            for k in range(step.width):
                value = step.values[at * step.width + k] if step.values is not None else None
                found.append((lane, step.elements[at] + k, value))
    return found


def telling_position(recording: Recording) -> int:
    """The position for a single picture: after the first problem's last step, otherwise after a middle access."""
    if recording.problems and recording.problems[0].steps:
        return max(recording.problems[0].steps) + 1
    accesses = [k + 1 for k, step in enumerate(recording.steps) if step.memory is not None]
    return accesses[len(accesses) // 2] if accesses else len(recording.steps)


def sentence(recording: Recording, position: int) -> str:
    """One sentence on what the last step did."""
    if not position:
        return "Before the first step: no thread has run yet."
    step = recording.steps[position - 1]
    arrives = step.kind == "copy" and step.values is not None
    verbs = ARRIVES if arrives else VERBS[step.kind]
    text = f"{lanes_text(step.lanes)} {verbs[len(step.lanes) > 1]}"
    if step.product is not None:
        text += f", {recording.products[step.product]['shape']}"
    if step.memory is not None:
        touched = sorted({element for _, element, _ in elements(step)})
        memory = recording.memories[step.memory]
        if len(touched) == 1:
            text += f" {name_of(memory, touched[0])}"
        elif touched:
            text += f" {name_of(memory, touched[0])} to {name_of(memory, touched[-1])}"
        else:
            text += f" {memory.name}"
        if step.outside:
            text += f", {lanes_text([lane for lane, _ in step.outside])}: {step.outside[0][1]}"
    where = f"block ({','.join(map(str, recording.blocks[step.block].index))}), warp {step.warp}, line {step.line}"
    return f"Step {position:,} of {len(recording.steps):,}, {where}: {text}."


def lanes_text(lanes: list[int]) -> str:
    """Lanes in words: `lanes 0-7, 16`."""
    parts, k = [], 0
    while k < len(lanes):
        first = k
        while k + 1 < len(lanes) and lanes[k + 1] == lanes[k] + 1:
            k += 1
        parts.append(f"{lanes[first]}-{lanes[k]}" if k > first else str(lanes[k]))
        k += 1
    return ("lane " if len(lanes) == 1 else "lanes ") + ", ".join(parts)


def name_of(memory, element: int) -> str:
    """An element's name: `tile[3][5]`."""
    if not memory.shape:
        return memory.name
    indices = []
    for side in reversed(memory.shape[1:]):
        indices.append(element % side)
        element //= side
    return memory.name + "".join(f"[{index}]" for index in [element, *reversed(indices)])
