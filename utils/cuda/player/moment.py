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
    "arrive": ("arrives at", "arrive at"),
    "init": ("initialises", "initialise"),
    "expect_tx": ("announces {:,} bytes to", "announce {:,} bytes to"),
    "complete_tx": ("counts {:,} bytes as come at", "count {:,} bytes as come at"),
    "inval": ("invalidates", "invalidate"),
}
#: An asynchronous copy is two steps: this is the second.
ARRIVES = ("has its copy arrive in", "have their copies arrive in")
#: Of the bulk copy engine: it reads, begins to write, and has written.
BULK = {
    "read": ("has a bulk copy read", "have bulk copies read"),
    "begins": ("begins a bulk copy into", "begin bulk copies into"),
    "copy": ("has its bulk copy arrive in", "have their bulk copies arrive in"),
}


@dataclass
class Moment:
    """The state after `position` steps: memories, threads that wait (and where) or have exited, and variables.

    Threads are keys (kept block, number in the block); an element of `held` that was never written is None. `barriers`
    has the last of each barrier in memory, by its number: what `Step.barriers` says of it. In an `over` phase, the next
    one is under way.
    """

    position: int
    step: Step | None
    held: list[list[Value]]
    waits: dict[tuple[int, int], str]
    exited: set[tuple[int, int]]
    variables: dict[tuple[int, int], dict[str, Value]]
    barriers: dict[int, list[int]]


def moment(recording: Recording, position: int) -> Moment:
    """Replay the first `position` steps."""
    now = Moment(position, None, [list(memory.values) for memory in recording.memories], {}, set(), {}, {})
    for step in recording.steps[:position]:
        now.step = step
        now.barriers = {number: _next_phase(state) for number, state in now.barriers.items()}
        now.barriers |= {number: state for number, *state in step.barriers}
        if step.kind in ("write", "atomic", "copy") and step.memory is not None and step.values is not None:
            memory, held = recording.memories[step.memory], now.held[step.memory]
            first = memory.window[0] if memory.window else 0
            for _, element, value in elements(step):
                if 0 <= element - first < len(held):
                    held[element - first] = value
        for at, lane in enumerate(step.lanes):
            thread = (step.block, step.warp * LANES + lane)
            if _by_engine(step):
                break
            now.waits.pop(thread, None)
            if step.kind == "barrier":
                now.waits[thread] = step.barrier
            elif step.kind == "exit":
                now.exited.add(thread)
            known = now.variables.setdefault(thread, {})
            for name, values in step.variables.items():
                known[name] = values[at]
                if values[at] is None:
                    del known[name]
    return now


def _by_engine(step):
    """Whether no thread does this: a bulk copy arrives."""
    return step.kind == "copy" and step.bytes is not None and step.values is not None


def _next_phase(state):
    """A barrier's state in the next step, if nothing happens to it."""
    phase, _, _, _, _, flying, over = state
    return [phase + 1, 0, over, 0, 0, flying, 0] if over else state


def elements(step: Step) -> list[tuple[int, int, Value]]:
    """(lane, flat element, value) of everything that a step touches inside its memory."""
    found = []
    of_lane = len(step.elements or ()) // len(step.lanes)  # more than one only in a bulk copy
    for at, element in enumerate(step.elements or ()):
        if element is not None:
            for k in range(step.width):
                value = step.values[at * step.width + k] if step.values is not None else None
                found.append((step.lanes[at // of_lane], element + k, value))
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
    several = len(step.lanes) > 1
    arrives = step.kind == "copy" and step.values is not None
    verbs = ARRIVES if arrives else VERBS[step.operation or step.kind]
    if step.memory is not None and step.bytes is not None:
        verbs = BULK["begins" if step.kind == "copy" and not arrives else step.kind]
    text = f"{lanes_text(step.lanes)} {verbs[several].format(step.bytes)}"
    if step.kind == "arrive":
        text += f" {_barrier_name(recording, step, step.barriers[0][0])}"
        if step.bytes and not step.operation:
            text += f" and {VERBS['expect_tx'][several].format(step.bytes).removesuffix(' to')}"
    elif step.phase is not None:
        text = f"{lanes_text(step.lanes)} {_at_phase(step, several)}"
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
    if step.kind != "passed":
        for k, (number, *state) in enumerate(step.barriers):
            name = "" if step.barrier and k == 0 else f"; {_barrier_name(recording, step, number)}"
            text += f"{name}: {barrier_text(state)}"
    where = f"block ({','.join(map(str, recording.blocks[step.block].index))}), warp {step.warp}, line {step.line}"
    return f"Step {position:,} of {len(recording.steps):,}, {where}: {text}."


def _barrier_name(recording, step, number):
    """A barrier's name; if it is in another block of the cluster, with that block."""
    barrier = recording.barriers[number]
    if barrier.block == step.block:
        return barrier.name
    return f"{barrier.name} of block ({','.join(map(str, recording.blocks[barrier.block].index))})"


def _at_phase(step, several):
    phase = f"phase {step.phase} of" if step.phase >= 0 else "the phase before the first of"
    if step.kind == "barrier":
        return f"{'wait' if several else 'waits'} for the end of {phase} {step.barrier}"
    return f"{'go' if several else 'goes'} on: {phase} {step.barrier} {'is' if step.phase >= 0 else 'counts as'} over"


def barrier_text(state: list[int]) -> str:
    """What a barrier holds: `phase 2, 1 of 1 arrived, 512 of 512 bytes pending`. `state` is as in `Moment.barriers`."""
    phase, arrived, expected, announced, come, flying, over = state
    if not expected:
        return "not initialised"
    text = f"phase {phase}{' is over' if over else ''}, {arrived:,} of {expected:,} arrived"
    if come > announced:
        text += f", {come - announced:,} bytes not announced"
    elif announced:
        text += f", {announced - come:,} of {announced:,} bytes pending"
    return text + (f", {flying:,} in flight" if flying else "")


def barriers_text(recording: Recording, position: int) -> list[str]:
    """What each barrier in memory holds after `position` steps, in the block of the last one."""
    now = moment(recording, position)
    block = now.step.block if now.step else 0
    shown = [(recording.barriers[number], state) for number, state in sorted(now.barriers.items()) if state[2]]
    return [f"{barrier.name}: {barrier_text(state)}" for barrier, state in shown if barrier.block == block]


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
