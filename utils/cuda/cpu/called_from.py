"""Which call of a function leads to a barrier or to a warp function: in a trace, device code says it.

    if (t < 40) r = block_sum(a);
    else r = block_sum(b);

The threads of a warp meet at two calls of `block_sum`, where a GPU may wait forever, though the barrier is one line. So
such a call becomes `(CUDA_ON_CPU_FROM(number), block_sum(a))` if the function has several, and so does a barrier that
shares its line with another (include/cuda_on_cpu/called_from.h).
"""

import re
from collections import defaultdict

from utils.cuda.common import cxx

__all__ = ["with_calls_marked"]

_WAITS = re.compile(r"__sync(?:threads|warp)\w*|__(?:shfl|match|reduce|ballot|any|all|uni)\w*_sync|barrier")
_MARKS = {"__device__", "__global__"}
_BEFORE = {*"( ) , ; { } [ : ? return else do case = + - * / % & | ^ ! ~ < > == != <= >= && || << >>".split()}
_BEFORE |= {f"{operator}=" for operator in "+-*/%&|^"}


def with_calls_marked(source) -> str:
    """The source with these marks, line for line."""
    functions = [f for f in cxx.functions(source) if f.defined and _MARKS & set(f.words)]
    waits = _that_wait(functions)
    calls = defaultdict(list)  # where each call begins and ends in the source, by what it shares
    for function in functions:
        part = function.tokens
        own = cxx.own_names(function)
        for k in range(function.head, len(part) - 1):
            name = part[k].text
            is_own = name in waits and name not in own
            if part[k].directive or not (is_own or _WAITS.fullmatch(name)):
                continue
            if found := _call(part, k):
                first, closes = found
                calls[name if is_own else (name, part[k].line)].append((part[first].start, part[closes].end))
    marked = sorted(place for places in calls.values() if len(places) > 1 for place in places)
    edits = []
    for number, (start, end) in enumerate(marked, 1):
        edits += [(start, 1, f"(CUDA_ON_CPU_FROM({number}), "), (end, 0, ")")]
    pieces, at = [], 0
    for place, _, text in sorted(edits):
        pieces += [source[at:place], text]
        at = place
    return "".join(pieces) + source[at:]


def _that_wait(functions) -> set[str]:
    """The names of functions, not kernels, that wait for other threads, by themselves or in what they call."""
    inside = {f.name: {token.text for token in f.tokens[f.head :]} for f in functions if "__global__" not in f.words}
    waits = {name for name, words in inside.items() if any(map(_WAITS.fullmatch, words))}
    while more := {name for name, words in inside.items() if waits & words} - waits:
        waits |= more
    return waits


def _call(part, k):
    """The indices of the first and the last token of the call of the function at index `k`, if it is one."""
    opens = k + 1
    if part[opens].text == "<":
        opens = next((i for i in range(opens, len(part)) if part[i].text in (">", ";", "{")), k)
        opens += part[opens].text == ">"
    if opens >= len(part) or part[opens].text != "(" or (closes := cxx.matching(part, opens)) is None:
        return None
    while cxx.text_at(part, k - 1) == "::":
        k -= 2 if part[k - 2].text.isidentifier() else 1
    return (k, closes) if cxx.text_at(part, k - 1) in _BEFORE else None
