"""`flag++` on a bool: nvcc accepts it in device code, with a warning, and C++17 does not."""

from itertools import pairwise

from utils.cuda.common import cxx, launched

__all__ = ["edits"]


def edits(tokens, declared) -> list[tuple[int, int, str]]:
    """A call in place of each `++` before or after a variable that is declared as `bool`, as (start, end, text), in
    the bodies of those functions that are the device's alone; `declared` is what the source declares."""
    names = _names(tokens)
    own = [f for f in declared if f.defined and {"__global__", "__device__"} & set(f.words)] if names else []
    bodies = [(f.tokens[f.head].start, f.tokens[-1].end) for f in own if "__host__" not in f.words]
    found = []
    for k, (token, after) in enumerate(pairwise(tokens)):
        if (token.text, after.text) != ("+", "+") or token.end != after.start or token.directive:
            continue
        if not any(start < token.start < end for start, end in bodies):
            continue
        first = launched.begins(tokens, k)
        if first is not None:
            if names & {word.text for word in tokens[first:k]}:
                start = tokens[first].start
                found += [(start, start, "::cuda_on_cpu::increment_after("), (token.start, after.end, ")")]
        elif cxx.text_at(tokens, k + 2) in names:
            end = k + 3
            while cxx.text_at(tokens, end) == "[":
                end = cxx.step_over(tokens, end)
            last = tokens[end - 1].end
            found += [(token.start, after.end, "::cuda_on_cpu::increment("), (last, last, ")")]
    return found


def _names(tokens):
    """What is declared as `bool`, as pointers to it and arrays of it; also what only looks so."""
    if not any(one.text == other.text == "+" for one, other in pairwise(tokens)):
        return set()
    names = set()
    for k, token in enumerate(tokens):
        at = k + 1
        while token.text == "bool" and at < len(tokens) and tokens[at].text not in (";", ")", "{", "}"):
            if tokens[at].text.isidentifier() and cxx.text_at(tokens, at - 1) in ("bool", "*", "&", ",", "const"):
                names.add(tokens[at].text)
            at = cxx.step_over(tokens, at)
    return names
