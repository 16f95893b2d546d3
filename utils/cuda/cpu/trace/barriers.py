"""Barriers in memory and bulk copies in a recording: what each barrier holds after each step, and in which order the
warps' steps come, as those of one warp may depend on what another has done."""

import math
import re
from collections import Counter, deque
from dataclasses import dataclass

from utils.cuda.player.recording import Barrier, Step

__all__ = ["Barriers"]

_CHANGES = ("begins", "ends", "arrives", "waits", "phase_ends", "copies_land", "copy_begins", "copy_lands")  # trace.h
_COUNTED = ("begins", "arrives", "copies_land", "copy_lands")  # a phase is not over before these have come
_NOWHERE = 2**64 - 1  # no values were kept
_NONE = 2**32 - 1
_AFTER_ALL = 2**32  # comes after every phase


@dataclass
class Change:
    """What happens to a barrier, or a bulk copy that begins or lands: trace.h, BarrierChange."""

    what: str
    barrier: int | None
    key: tuple[int, int]  # which of the barriers at this address it is, and the phase; -1: it begins
    phase: int
    count: int
    bytes: int
    copy: int  # its number, from 1; 0: none
    block: int  # the kept block of the thread that does it


class Barriers:
    """The barriers of the kept blocks, and the bulk copies, as the runtime has recorded them.

    `numbers` has the kept blocks' numbers in the recording, `places` the memories; `source` is the learner's. Call
    `take` for each step that is made, then `ordered` with all of them.
    """

    def __init__(self, made, numbers, places, source):
        self.made, self.numbers, self.places = made, numbers, places
        ordered = sorted(range(len(made.barriers)), key=lambda k: made.barriers[k][1:])  # by block and address
        place = {k: at for at, k in enumerate(ordered)}
        names = _names([made.barriers[k] for k in ordered], source)
        self.listed = [Barrier(names[at], numbers.get(made.barriers[k][1])) for at, k in enumerate(ordered)]
        self._changes, self._of_event = [], {}
        for row in made.changes.tolist() if len(made.changes) else ():
            of = dict(zip(made.changes.dtype.names, row, strict=True))
            what = _CHANGES[of["what"]]
            phase = {"begins": -1, "ends": _AFTER_ALL, "waits": of["count"]}.get(what, of["phase"])
            barrier = place.get(of["barrier"])
            key = (of["life"], phase)
            block = numbers.get(of["block"])
            self._changes.append(Change(what, barrier, key, of["phase"], of["count"], of["bytes"], of["copy"], block))
            if of["seen"]:
                self._of_event.setdefault(of["seen"] - 1, []).append(len(self._changes) - 1)
        self._of_step, self._epochs = {}, {}

    # ---- steps ------------------------------------------------------------------------------------------------------

    def shape(self, one, reads):
        """What lanes of one step must have in common: the memory and the size of their bulk copies."""
        copy = self.made.copies[int(one["value"][:8].view("<u8")[0]) - 1]
        runs = self._runs(copy, reads)
        return (runs[0][2] if len(runs) else None, *((end - begin) for begin, end, _ in runs))

    def take(self, step, events, epoch):
        """Note which changes a step makes. `events` are the numbers of its lanes' events."""
        self._epochs[id(step)] = epoch
        own = [k for event in events for k in self._of_event.get(int(event), ())]
        if not own:
            return
        self._of_step[id(step)] = own
        change = self._changes[own[0]]
        if change.what in ("begins", "ends"):
            step.operation = {"begins": "init", "ends": "inval"}[change.what]
        elif change.what == "waits" and step.kind != "line":
            step.phase = change.count
        elif change.what == "arrives" and change.bytes:
            step.bytes = abs(change.bytes)
            if not change.count:
                step.operation = "expect_tx" if change.bytes > 0 else "complete_tx"
        if step.kind in ("arrive", "barrier", "passed") and change.barrier is not None:
            step.barrier = self.listed[change.barrier].name

    def bulk(self, step, part):
        """Fill in what the lanes' bulk copies read or write. `part` are the lanes' events."""
        copies = [int(one["value"][:8].view("<u8")[0]) for one in part]
        lands = step.kind == "copy" and part["source"].any()
        self._fill(step, copies, reads=step.kind == "read", lands=lands)

    def _fill(self, step, copies, reads=False, lands=False):
        step.elements, values = [], []
        for number in copies:
            copy = self.made.copies[number - 1]
            runs = self._runs(copy, reads)
            if not len(runs):
                continue
            step.memory = runs[0][2]
            step.bytes = int(copy["bytes"])
            place = self.places[step.memory]
            step.width = math.gcd(*((end - begin) // place.itemsize for begin, end, _ in runs)) or 1
            for begin, end, _ in runs:
                first, last = (begin - place.begin) // place.itemsize, (end - place.begin) // place.itemsize
                step.elements += range(first, last, step.width)
            values += self._landed(copy, runs, place) if lands else []
        step.values = values or None
        if step.memory is None:
            step.elements = None

    def _runs(self, copy, reads):
        """Begin, end and memory of each run of bytes that a copy reads or writes, those in the first one's memory."""
        first = int(copy["first"]) + (0 if reads else int(copy["from"]))
        rows = self.made.runs[first : first + int(copy["from" if reads else "to"])].tolist()
        return [(a, a + size, memory) for a, size, memory in rows if memory == rows[0][2]]

    def _landed(self, copy, runs, place):
        size = sum(end - begin for begin, end, _ in runs)
        if int(copy["landed"]) == _NOWHERE:
            return ["?"] * (size // place.itemsize)
        return place.values(self.made.landed[int(copy["landed"]) : int(copy["landed"]) + size])

    def waited_for(self, events):
        """Whether these are cp.async copies that land because a barrier waits for them, as another thread has asked."""
        first = self._of_event.get(int(events[0]), ())
        return bool(first) and self._changes[first[0]].what == "copies_land"

    # ---- order ------------------------------------------------------------------------------------------------------

    def ordered(self, steps) -> list[Step]:
        """The steps in an order in which each thread that goes on after a phase has seen it end, with `Step.barriers`.

        As many steps of a warp follow each other as its barriers allow, the first warp first. A bulk copy that a
        barrier counts lands when no thread can go on without it.
        """
        return _Order(self, steps).run() if self._changes else steps


def _names(barriers, source) -> list[str]:
    """The barriers' names. Those of a `cuda::pipeline` are its stages': `state.produced[1]`, `state.consumed[1]`."""
    names, inside = [name for name, _, _ in barriers], {}
    for k, (name, block, _) in enumerate(barriers):
        if found := re.fullmatch(r"(?:byte \d+ of )?(\w+)", name):
            inside.setdefault((found[1], block), []).append(k)
    for (name, _), own in inside.items():
        if re.search(rf"\bpipeline_shared_state\s*<[^;]*>\s*{name}\b", source):
            half = len(own) // 2
            for at, k in enumerate(own):
                names[k] = f"{name}.produced[{at}]" if at < half else f"{name}.consumed[{at - half}]"
    return names


class _Order:
    def __init__(self, barriers, steps):
        self.all, self.changes = barriers, barriers._changes
        self.queues = _queues(steps, barriers._epochs)
        own = {k for step in steps for k in barriers._of_step.get(id(step), ())}
        self.left = {}  # by barrier: how many changes of each phase are still to come, in the phases' order
        for change in self.changes:
            if change.what in _COUNTED and change.barrier is not None:
                self.left.setdefault(change.barrier, Counter())[change.key] += 1
        self.left = {barrier: dict(sorted(count.items())) for barrier, count in self.left.items()}
        self.ends = {(c.barrier, c.key): c.count for c in self.changes if c.what == "phase_ends"}
        self.foreign = [
            k for k, c in enumerate(self.changes) if k not in own and c.what in (*_COUNTED, "copy_begins", "ends")
        ]
        self.begun, self.states, self.found = {}, {}, []
        self.pending = {}  # by block: what the next step shows of barriers, as no recorded thread did it

    def run(self):
        while any(self.advance(block) or self.land(block) for block in self.queues) or self.jump():
            pass
        return self.found

    def heads(self, block):
        """The warps of a block that have steps to do, the first one first."""
        epochs = self.queues[block]
        return [queue for queue in epochs[0][1].values() if queue.steps] if epochs else []

    def advance(self, block):
        """Play the next step of the first warp that can go on; if some of its lanes cannot, the next of the others."""
        for queue in self.heads(block):
            for k in queue.heads():
                if self.is_free(queue.steps[k]):
                    return self.play(queue, k)
        return False

    def jump(self):
        """What a thread waits for was not recorded: it goes on without."""
        queue = next((queue for block in self.queues for queue in self.heads(block)), None)
        return queue is not None and self.play(queue, 0)

    def play(self, queue, k):
        step = queue.take(k)
        own = self.all._of_step.get(id(step), ())
        if step.kind == "barrier" and step.phase is not None:
            after = queue.after(step, k)
            if (
                after and after.kind == "passed" and after.lanes == step.lanes and self.is_free(after)
            ):  # it need not wait
                after.variables = step.variables | after.variables
                return True
        if step.kind == "copy" and not step.line and self.found:
            step.line = next((s.line for s in reversed(self.found) if (s.block, s.warp) == (step.block, step.warp)), 0)
        for k in own:
            if self.changes[k].what == "copy_begins":
                self.begun[self.changes[k].copy] = step
        self.emit(step, own)
        epochs = self.queues[step.block]
        while epochs and not any(queue.steps for queue in epochs[0][1].values()):
            epochs.popleft()
        return True

    def emit(self, step, own):
        touched = {}
        for k in sorted(own):
            self.apply(self.changes[k], touched)
        touched |= {k: state for k, state in self.pending.pop(step.block, {}).items() if k not in touched}
        step.barriers = [[barrier, *state] for barrier, state in touched.items()]
        self.found.append(step)

    def first(self, barrier):
        """The first phase of a barrier in which something is still to come."""
        return next(iter(self.left.get(barrier, ())), (_NONE, 0))

    def is_free(self, step):
        changes = [self.changes[k] for k in self.all._of_step.get(id(step), ())]
        waits = step.kind == "passed"
        for change in changes:
            if change.barrier is None or (change.what == "waits" and not waits):
                continue
            first = self.first(change.barrier)
            if first <= change.key if waits else first < change.key:
                return False
        return True

    def land(self, block):
        """Let the next copy land that is free to, or what no recorded thread does happen."""
        free = []
        for k in self.foreign:
            change = self.changes[k]
            if self.block_of(change) != block:
                continue
            if change.what == "copy_lands" and change.copy not in self.begun:
                continue
            if change.barrier is None or self.first(change.barrier) >= change.key:
                free.append(k)
        if not free:
            return False
        wanted = {
            (self.changes[k].barrier, self.changes[k].key)
            for queue in self.heads(block)
            for at in queue.heads()
            for k in self.all._of_step.get(id(queue.steps[at]), ())
        }
        k = min(free, key=lambda k: ((self.changes[k].barrier, self.changes[k].key) not in wanted, k))
        self.foreign.remove(k)
        change = self.changes[k]
        if change.what == "copy_lands":
            self.emit(self.landing(change), [k])
            return True
        if change.copy:
            self.begun[change.copy] = None
        self.apply(change, self.pending.setdefault(block, {}))
        return True

    def block_of(self, change):
        """The kept block in whose memory a change is."""
        if change.barrier is not None:
            return self.all.listed[change.barrier].block
        return self.all.numbers.get(int(self.all.made.copies[change.copy - 1]["block"]), change.block)

    def landing(self, change):
        """The step in which a bulk copy lands that a barrier counts."""
        copy, begun = self.all.made.copies[change.copy - 1], self.begun[change.copy]
        warp, lane = divmod(int(copy["thread"]), 32)
        block = self.all.numbers.get(int(copy["block"]), 0)
        line = begun.line if begun else next((s.line for s in reversed(self.found) if s.block == block), 0)
        step = Step(block, warp, line, "copy", [lane])
        self.all._fill(step, [change.copy], lands=True)
        return step

    def apply(self, change, touched):
        """Change a barrier's state, which is as in `Step.barriers`, without its number."""
        barrier = change.barrier
        if barrier is None:
            return
        state = self.states.setdefault(barrier, [0, 0, 0, 0, 0, 0, 0])
        if change.what == "begins":
            state[:] = [0, 0, change.count, 0, 0, 0, 0]
        elif state[6]:
            state[:] = [state[0] + 1, 0, state[6], 0, 0, state[5], 0]
        if change.what == "arrives":
            state[1] += change.count
            state[3] += max(0, change.bytes)
            state[4] += max(0, -change.bytes)
        elif change.what == "copy_begins":
            state[5] += change.bytes
        elif change.what == "copy_lands":
            state[4] += change.bytes
            state[5] -= change.bytes
        elif change.what == "ends":
            state[2] = 0
        if change.what in _COUNTED:
            left = self.left[barrier]
            left[change.key] -= 1
            if not left[change.key]:
                del left[change.key]
                state[6] = self.ends.get((barrier, change.key), 0)
        touched[barrier] = list(state)


class _Queue:
    """The steps that a warp has still to do."""

    def __init__(self):
        self.steps, self.left = [], Counter()  # left: how many steps each lane has

    def add(self, step):
        self.steps.append(step)
        self.left.update(step.lanes)

    def take(self, k):
        step = self.steps.pop(k)
        self.left.subtract(step.lanes)
        self.left = +self.left
        return step

    def heads(self):
        """The numbers of the steps before which their lanes have nothing else to do."""
        seen = set()
        for k, step in enumerate(self.steps):
            if seen.isdisjoint(step.lanes):
                yield k
            seen.update(step.lanes)
            if len(seen) >= len(self.left):
                return

    def after(self, step, k):
        """What a lane of a step does next, of the steps from number k on."""
        return next((other for other in self.steps[k:] if not set(step.lanes).isdisjoint(other.lanes)), None)


def _queues(steps, epochs):
    """The steps of each block that have not been played: first those before all its threads have met, by warp."""
    last, found = {}, {}
    for step in steps:
        epoch = last[step.block] = epochs.get(id(step), last.get(step.block, 0))
        of_block = found.setdefault(step.block, deque())
        if not of_block or of_block[-1][0] != epoch:
            of_block.append((epoch, {}))
        of_block[-1][1].setdefault(step.warp, _Queue()).add(step)
    return {
        block: deque((epoch, dict(sorted(warps.items()))) for epoch, warps in of_block)
        for block, of_block in sorted(found.items())
    }
