"""What the source shows of a mistake beyond a missing barrier: a result that nobody uses, a flag that is only read, a
local variable that one thread sets for all."""

import re
from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.loops import never_changes, reads_memory
from utils.cuda.cpu.trace.source import LOOPS, branches, computed_from, left_before, loop_around

__all__ = ["is_fenced", "polled", "returned", "set_by_one", "uneven", "where_they_meet", "writes_own"]


def uneven(source, line):
    """The innermost branch or loop around a line that a block's threads may come to unequally often, or else the last
    one before it in which some return; None if the conditions show none."""
    inside = [b for b in branches(source) if b.divergent and b.holds(line)]
    return (inside or [b for b in left_before(source, line) if b.divergent] or [None])[-1]


def returned(source, array, line, other) -> str:
    """`atomicAdd(count, 1)`, if one of two lines calls it and drops the result, and the other reads `count` instead, to
    write the element of that number."""
    lines = source.split("\n")
    for adds, reads in ((line, other), (other, line)):
        part = [token for token in cxx.tokens(source) if token.line == adds]
        at = next((k for k, token in enumerate(part) if token.text in ("atomicAdd", "atomicInc")), None)
        closes = at is not None and cxx.matching(part, at + 1)
        if not closes or array not in {token.text for token in part[at:closes]} or _is_used(part, at):
            continue
        if any(b.holds(adds) != b.holds(reads) for b in branches(source)):
            continue
        counts = {array, *re.findall(rf"(\w+)\s*=\s*[(*]*{array}\b", lines[reads - 1])}
        written = "\n".join(lines[reads - 1 : max(adds, reads) + 3])
        if any(re.search(rf"\[[^\[\]]*\b{name}\b(?:\[0\])?[^\[\]]*\]\s*=(?!=)", written) for name in counts):
            return cxx.written(part[at : closes + 1])
    return ""


def _is_used(part, k):
    return cxx.text_at(part, k - 1) not in ("", ";", "{", "}", ")", "else")


def writes_own(source, line, array) -> bool:
    """Whether each thread sets its own element of an array in a line: its index comes from the thread's, and from no
    memory."""
    part = [token for token in cxx.tokens(source) if token.line == line]
    for k, token in enumerate(part):
        closes = cxx.matching(part, k + 1) if token.text == array and cxx.text_at(part, k + 1) == "[" else None
        if closes and re.match(r"(?:\. \w+ )*(?:[-+*/] )?= (?!=)", " ".join(t.text for t in part[closes + 1 :])):
            words = {t.text for piece in computed_from(source, line, part[k + 2 : closes]) for t in piece}
            return "threadIdx" in words and "[" not in words
    return False


def where_they_meet(source, first, last) -> tuple[list, list]:
    """Two lines, in order; instead of one in a function or a lambda that does not hold the other, the line of the call.
    If the text does not tell which call that is, the line stays, and is listed as well."""
    lines, unknown, bodies = [first, last], [], _bodies(source)
    for k, (line, other) in enumerate(((first, last), (last, first))):
        body = next(((n, x, y) for n, x, y in bodies if x <= line <= y and not x <= other <= y), None)
        if body:
            calls = _calls(source, body[0], other)
            lines[k] = calls[0] if len(calls) == 1 else line
            unknown += [line] if len(calls) != 1 or calls[0] == other else []
    return ([first, last], unknown) if unknown else (sorted(lines), [])


def _bodies(source):
    """The name, the first and the last line of each function and each lambda, except for kernels."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    functions = [d for d in cxx.functions(source) if d.defined and "__global__" not in d.words]
    found = [(d.name, d.tokens[0].line, d.tokens[-1].line) for d in functions]
    for k, token in enumerate(part):
        if token.text == "[" and cxx.text_at(part, k - 1) in ("=", "(", ",", "return"):
            opens = cxx.step_over(part, k)
            opens = cxx.step_over(part, opens) if cxx.text_at(part, opens) == "(" else opens
            closes = cxx.matching(part, opens) if cxx.text_at(part, opens) == "{" else None
            found += [(cxx.text_at(part, k - 2), token.line, part[closes].line)] if closes else []
    return found


def _calls(source, name, line):
    """The lines that call a function, in the loop around a line or else in all of its function."""
    pairs = pairwise(_function_around(source, line))
    calls = sorted({a.line for a, b in pairs if a.text == name and b.text in ("(", "<")})
    loop = loop_around(source, line, line)
    return [at for at in calls if loop and loop.line <= at <= loop.last] or calls


def _function_around(source, line):
    defined = [d.tokens for d in cxx.functions(source) if d.defined]
    return next((part for part in defined if part[0].line <= line <= part[-1].line), [])


def is_fenced(source, line) -> bool:
    """Whether a `__threadfence` comes behind a line, before the next atomic."""
    words = [token.text for token in _function_around(source, line) if token.line >= line]
    return next((word for word in words if word.startswith(("atomic", "__threadfence"))), "") == "__threadfence"


def polled(source, array, line) -> str:
    """How to declare or use a flag that a loop's condition in a line waits for, which is not volatile: '`volatile int*
    flag`, or read and set it with atomics, as in `atomicAdd(flag, 0)`'. Empty if it is none."""
    loops = [b for b in branches(source) if b.word in LOOPS and any(t.line == line for t in b.condition)]
    loop = next((b for b in loops if reads_memory(b.condition) and never_changes(source, b)), None)
    at = [k for k, token in enumerate(loop.condition) if token.text == array] if loop else []
    declared = rf"((?:\w+\s+)*?\w+)(\s*\*\s*(?:__restrict__\s+)?|\s+){array}\s*[,);[=]"
    types = (
        [found for found in re.findall(declared, cxx.code(source)) if found[0] not in ("return", "else")] if at else []
    )
    if not types or "volatile" in types[0][0]:
        return ""
    words, star = types[0]
    words = [word for word in words.split() if word not in ("const", "extern", "static") and word[:2] != "__"]
    declared = f"`volatile {' '.join(words)}{'* ' if '*' in star else ' '}{array}`"
    if words[-1] in ("bool", "char", "short"):
        return declared
    closes = cxx.text_at(loop.condition, at[0] + 1) == "[" and cxx.matching(loop.condition, at[0] + 1)
    element = cxx.written(loop.condition[at[0] : (closes or at[0]) + 1])
    address = element if "*" in star and not closes else f"&{element}"
    return f"{declared}, or read and set it with atomics, as in `atomicAdd({address}, 0)`"


def set_by_one(source, line, name) -> bool:
    """Whether the function of a line sets a variable only where one thread is, as in `if (threadIdx.x == 0)`."""
    part = _function_around(source, line)
    inside = [b for b in branches(source) if b.word == "if" and b.divergent and _picks_one(b.condition)]
    lines = []
    for k, token in enumerate(part):
        if token.text == name:
            after = cxx.text_at(part, k + 1) + cxx.text_at(part, k + 2)
            if cxx.text_at(part, k - 1) == "&" and cxx.text_at(part, k - 2) in ("(", ",", "="):
                return False
            if re.fullmatch(r"=[^=].*|[-+*/%&|^]=|\+\+|--", after):
                lines.append(token.line)
    others = [b for b in branches(source) if b.word == "else"]
    return bool(lines) and all(any(b.holds(k) for b in inside) and not any(b.holds(k) for b in others) for k in lines)


_ONE = r"!?[\w.]+(?:%(?:32|warpSize))?(?:==\w+)?"


def _picks_one(condition) -> bool:
    """Whether it is `(t == 0)`, `(!threadIdx.x)`, `(lane == 0 && warp == 0)` or the like."""
    text = "".join(token.text for token in condition)[1:-1]
    return all(re.fullmatch(_ONE, one) and ("==" in one or one[0] == "!") for one in text.split("&&"))
