"""Where a source waits, and where it should: the barriers that hints speak of."""

import re
from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.loops import changes_memory, never_changes, reads_memory
from utils.cuda.cpu.trace.source import LOOPS, Branch, alternatives, branches, code_around, left_before, loop_around

__all__ = ["breaks_out", "counts_early", "is_cooperative", "is_of_some", "may_come_again", "skipped_wait"]
__all__ += ["waits_between", "waits_in_loop", "where_to_wait"]

_BARRIERS = ("__syncthreads", "__syncwarp")


def waits_between(source, first, last) -> str:
    """'__syncthreads' if a line between these two always calls it, otherwise '__syncwarp' if one always calls that; or
    empty."""
    return _first(_calls(source, first + 1, last - 1, (first, last)))


def waits_in_loop(source, line) -> str:
    """The same of the loop around a line."""
    loop = loop_around(source, line, line)
    return _first(_calls(source, loop.line, loop.last, (line,))) if loop else ""


def may_come_again(source, first, last) -> bool:
    """Whether a thread may come to two lines more than once: they are in a loop, or not both of one kernel."""
    kernels = [f for f in cxx.functions(source) if "__global__" in f.words]
    both = any(k.tokens[0].line <= first and last <= k.tokens[-1].line for k in kernels)
    return bool(loop_around(source, first, last)) or not both


def is_of_some(source, loop) -> bool:
    """Whether a loop is in an `if` or `else` that not all threads of a block may enter."""
    around = (b for b in branches(source) if b.line <= loop.line and loop.last <= b.last)
    return any(b.divergent and b.word not in LOOPS for b in around)


def skipped_wait(source, first, last, one_warp=False) -> tuple[int, Branch] | None:
    """The line of a barrier between two lines, and the `if` or `else` it is in, which may skip it.

    For a single line, the barrier is in the loop around it. Only with `one_warp` it may be a `__syncwarp`.
    """
    loop = loop_around(source, first, last) if first == last else None
    between = (loop.line, loop.last) if loop else (first + 1, last - 1)
    called = ((line, name) for line, name in _called(source, *between) if one_warp or name != "__syncwarp")
    skipped = ((line, _skips(source, line, name, (first, last))) for line, name in called)
    return next((found for found in skipped if found[1]), None)


def _first(called):
    return next((barrier for barrier in _BARRIERS if barrier in called), "")


def _calls(source, first, last, ends):
    """The barriers that the lines from `first` to `last` call whenever a thread comes from or to the lines `ends`."""
    return {name for line, name in _called(source, first, last) if not _skips(source, line, name, ends)}


def _called(source, first, last):
    """The lines from `first` to `last` that call a barrier, with its name."""
    return [
        (a.line, a.text)
        for a, b in pairwise(cxx.tokens(source))
        if b.text == "(" and a.text in _BARRIERS and first <= a.line <= last
    ]


def _skips(source, line, barrier, ends) -> Branch | None:
    """The outermost `if` or `else` that holds a line with a barrier, and none of the lines `ends`. `__syncthreads` is
    skipped, too, if threads come to one of `ends` without it."""
    for branch in (b for b in branches(source) if b.word not in LOOPS and b.holds(line)):
        held = [branch.holds(end) for end in ends]
        if not any(held) or (not all(held) and branch.divergent and barrier == "__syncthreads"):
            return branch
    return None


def is_cooperative(source, line) -> bool:
    """Whether the kernel of this line has a barrier of the whole grid: `cg::this_grid()`."""
    return any(token.text == "this_grid" for token in cxx.tokens(code_around(source, line)))


# What roles that have parted meet at.
_PARTED = re.compile(r"\bmbarrier\b|\bbar(?:rier)?\.(?:cta\.)?arrive\b|[.>]arrive\w*\s*\(")


def where_to_wait(source, first, last, one_warp=False) -> str:
    """Where a `__syncthreads` between two lines is reached by every thread; empty if simply between them.

    With `one_warp`, the threads that have to wait are of one warp.
    """
    put, reach = "Put `__syncthreads();`", "every thread must reach it"
    loop = loop_around(source, first, last) if first != last else None
    if loop:
        reach += f". Put another at the end of the loop of line {loop.line}"
    around = [b for b in branches(source) if b.divergent and b.word not in LOOPS]
    inside = [b for b in branches(source) if b.holds(first) and b.holds(last)]
    both = [b for b in inside if b.divergent and (one_warp or b.word not in LOOPS)]
    of_loop = [f"the `{b.word}` of line {b.line}" for b in both if loop and loop.line < b.line]
    asks = next((b for b in branches(source) if b.line == first and b.holds(last) and not b.holds(first)), None)
    if asks and loop and (of_loop or (asks.word == "if" and _swaps(source, asks))):
        behind = of_loop[0] if of_loop else f"the `if` of line {first}"
        return f"{put} behind {behind}, at the end of the loop of line {loop.line}: every thread must reach it."
    parted = alternatives(source, first, last)
    parts = _PARTED.search(code_around(source, first))
    if parted and not parts:
        return _around_alternatives(source, parted, last, both, loop, one_warp)
    if both:
        name = f"the `{both[-1].word}` of line {both[-1].line}"
        if one_warp:
            why = "both threads are of one warp, and every lane of its mask must reach it"
            if first == last:
                return f"Within {name}, `__syncwarp();` instead: {why}."
            also = f", and at the end of the loop of line {loop.line}" if loop else ""
            return f"Put `__syncwarp();` between lines {first} and {last}{also}: {why}."
        if first == last:
            return f"{put} outside {name}: {reach}."
        return (
            f"End {name} after line {first}, put `__syncthreads();` there, and open it again for line {last}: {reach}."
        )
    if (uneven := [b for b in inside if b.divergent and b.word in LOOPS]) and first != last:
        return (
            f"{put} between lines {first} and {last} and at the end of the loop of line {uneven[-1].line}, and let "
            "that run equally often in all threads: every thread must reach it."
        )
    left, right = ([b for b in around if b.holds(line)] for line in (first, last))
    if left and right and parts:
        return (
            f"The threads of lines {first} and {last} have parted, and do not meet at `__syncthreads();`: let those "
            "that come first arrive at an mbarrier after it, and the others wait for that before. In a loop, both "
            "ways: what was read may be overwritten only then."
        )
    if left:
        return f"{put} after the `{left[0].word}` of line {left[0].line}, before line {last}: {reach}."
    gone = [b for b in left_before(source, first) if b.divergent]
    if right:
        reach += f". Let no thread return before it (line {gone[-1].last})" if gone else ""
        if right[0].line == first:
            read = f"Read what the condition of line {first} needs into variables before it"
            return f"{read}, then `__syncthreads();`: {reach}."
        return f"{put} before the `{right[0].word}` of line {right[0].line}, after line {first}: {reach}."
    if gone and first != last:
        instead = f"let no thread return before it (line {gone[-1].last}): guard single lines instead"
        also = f"; put another at the end of the loop of line {loop.line}" if loop else ""
        return f"{put} between lines {first} and {last}, and {instead}{also}."
    return ""


def breaks_out(source, loop) -> bool:
    """Whether a thread may leave a loop by `break`, and nothing in its kernel returns."""
    if not loop:
        return False
    within = {token.text for token in cxx.tokens(source) if loop.line <= token.line <= loop.last}
    return "break" in within and "return" not in {token.text for token in cxx.tokens(code_around(source, loop.line))}


def counts_early(source, line) -> bool:
    """Whether one thread counts for its block, as the last block does, behind a fence, but before the others have
    reached a barrier after `line`, where they write."""
    words = [token.text for token in cxx.tokens(source) if token.line >= line]
    counts = next((k for k, word in enumerate(words) if word in ("atomicAdd", "atomicInc")), 0)
    between = words[:counts]
    return "__threadfence" in between and "if" in between and "__syncthreads" not in between


def _around_alternatives(source, parted, last, both, loop, one_warp):
    """Where a barrier fits, if a thread takes only one of the branches that have the two lines: never between them.

    `both` are the branches around these in which not all threads are.
    """
    if waiting := _waiting(source, parted):
        return (
            f"Line {waiting.line} waits for a flag from the other branch: read and set the flag with atomics or as "
            "`volatile`, and call `__threadfence_block();` before it is set and after the wait."
        )
    if loop and (not parted[0].divergent or _sets(source, parted[0]) & _sets(source, parted[1])):
        return f"Put `__syncthreads();` at the end of the loop of line {loop.line}: every thread must reach it."
    begins = parted[0].begins if one_warp or not both else both[0].begins
    barrier, reach = "__syncthreads", "every thread must reach it"
    if one_warp:
        barrier, reach = "__syncwarp", "both threads are of one warp, and every lane of its mask must reach it"
    also = f". Put another at the end of the loop of line {loop.line}" if loop else ""
    return f"Put `{barrier}();` after the whole `if` of line {begins}, and move line {last} behind it: {reach}{also}."


def _sets(source, branch):
    """The arrays of which a branch writes elements."""
    return {element.partition("[")[0] for element in _set_elements(source, branch)}


def _swaps(source, branch):
    """Whether a branch writes every element that its condition reads, as in `if (x[i] > x[j]) swap`."""
    read = set(re.findall(_ELEMENT, _dense(branch.condition)))
    return len(read) > 1 and read <= _set_elements(source, branch)


_ELEMENT = r"\w+(?:\[[^\[\]]*\])+"


def _set_elements(source, branch):
    """{'x[i]', 'x[i+1]'}: the elements that a branch writes."""
    part = [token for token in cxx.tokens(source) if branch.first <= token.line <= branch.last]
    return set(re.findall(rf"({_ELEMENT})(?:[-+*/%&|^]|<<|>>)?=(?!=)", _dense(part)))


def _dense(part):
    """Tokens as text, with a space only between two words."""
    return re.sub(r" ?([^\w ]) ?", r"\1", " ".join(token.text for token in part))


def _waiting(source, parted) -> Branch | None:
    """A loop in one of two branches that runs until another thread changes what its condition reads."""
    inside = [b for b in branches(source) if b.word in LOOPS and any(part.holds(b.line) for part in parted)]
    return next((b for b in inside if never_changes(source, b) or _reads_only(source, b)), None)


def _reads_only(source, loop):
    return reads_memory(loop.condition) and not changes_memory(source, loop)
