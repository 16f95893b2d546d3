"""Races that are meant: a volatile variable by which another thread goes on, and a read that `atomicCAS` verifies."""

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.loops import reads_memory
from utils.cuda.cpu.trace.source import branches, computed_from, loop_around

__all__ = ["is_signal"]


def is_signal(source, array, record, line, other) -> bool:
    """Whether a race at `array` is meant: a `record` of the runtime's, its line, and the other `Side`."""
    lines = {record["op"]: line, other.op: other.line}
    if lines.keys() == {"load", "atomic"}:
        return _is_verified(source, lines["load"], lines["atomic"])
    if not record.get("both_volatile"):
        return False
    return _decides(source, lines["load"], array) if "load" in lines else _is_awaited(source, array)


def _decides(source, line, array) -> bool:
    """Whether what a line reads of `array`, or through a pointer, decides how its thread goes on.

    `while (flag[b] == 0) {}` and `if (*stop) return;` do, and so does `f = flag[b];` in a loop that asks for `f`.
    """
    named = any(token.text == array for token in cxx.tokens(source) if token.line == line)
    for branch in branches(source):
        asked = [token for token in branch.condition if token.line == line]
        if any(token.text == array for token in asked) or (reads_memory(asked) and not named):
            return True
    loop, set_here = loop_around(source, line, line), _set_in(source, line, array)
    if not loop:
        return False
    inside = [b for b in branches(source) if b is loop or (b.word == "if" and line <= b.line <= loop.last)]
    return any(token.text in set_here for branch in inside for token in branch.condition)


def _is_awaited(source, array) -> bool:
    """Whether a loop of the source waits until `array` has some value: whoever sets it next has seen that."""
    loops = (branch for branch in branches(source) if branch.word in ("while", "do"))
    return any(token.text == array for loop in loops for token in loop.condition)


def _is_verified(source, line, atomic) -> bool:
    """Whether the `atomicCAS` in the line `atomic` compares with what a line has read, and so finds out if it changed:
    `old = *x; do { seen = old; old = atomicCAS(x, seen, f(seen)); } while (seen != old);`"""
    part = [token for token in cxx.tokens(source) if token.line == atomic]
    if not any(token.text == "atomicCAS" for token in part):
        return False
    names = {token.text for piece in computed_from(source, atomic, part) for token in piece}
    return bool(names & _set_in(source, line, ""))


def _set_in(source, line, array) -> set[str]:
    """The variables that a line sets to what it reads of `array`, or through a pointer: {'f'} of `int f = flag[b];`."""
    part, found = [token for token in cxx.tokens(source) if token.line == line], set()
    for k, token in enumerate(part):
        if token.text == "=" != cxx.text_at(part, k + 1) and k and part[k - 1].text.isidentifier():
            ends = next((at for at in range(k, len(part)) if part[at].text == ";"), len(part))
            read = part[k + 1 : ends]
            if reads_memory(read) or any(token.text == array for token in read):
                found.add(part[k - 1].text)
    return found
