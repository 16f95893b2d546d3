"""What the pointers in a line of the learner's source point to, as far as the source shows."""

from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.source import assigned, computed_from, parameters_around

__all__ = ["follows_list", "overlapping_parts", "own_pointer"]


def overlapping_parts(source, array, first, last) -> tuple[str, ...]:
    """('a', 'b'), if one line indexes `a` and another `b`, which begin at different places of `array`: `a = array` and
    `b = array + n`. Empty if they may change places."""
    one, other = (_parts(source, array, line) for line in (first, last))
    apart = one and other and not {*one.values()} & {*other.values()}
    swaps = any(token.text == "swap" for token in cxx.tokens(source))
    return (min(one), min(other)) if apart and not swaps else ()


def _parts(source, array, line) -> dict[str, str]:
    """The names by which a line indexes an array; for each, the name of the first one that begins at its place."""
    given = assigned(source, line)
    begins = {name: _begin(name, array, given) for name in _followed(source, line, "[")}
    return {name: begin for name, begin in begins.items() if begin}


def _begin(name, array, given):
    """`array`, if a pointer is set to it; the pointer's own name, if it is set once, to another place in it."""
    if name == array:
        return name
    if len(given.get(name, ())) != 1:
        return ""
    part, rest = given[name][0], {other: parts for other, parts in given.items() if other != name}
    bases = {token.text for token, after in pairwise([*part, None]) if not after or after.text != "["}
    begin = next(filter(None, (_begin(base, array, rest) for base in bases)), "")
    return name if begin and any(token.text in ("+", "-") for token in part) else begin


def follows_list(source, line) -> bool:
    """Whether a line uses a pointer that follows a list: `p = p->next`."""
    given = assigned(source, line)
    return any(
        (a.text, b.text) == (name, "->")
        for name in _followed(source, line, "->")
        for part in given.get(name, ())
        for a, b in pairwise(part)
    )


def own_pointer(source, line) -> str:
    """The one pointer that a line uses, if its function sets it, and to nothing that it was passed."""
    names, given = _followed(source, line, "[", "->"), assigned(source, line)
    token = next((t for t in cxx.tokens(source) if t.line == line and t.text in names), None)
    if len(names) != 1 or not given.get(token.text):
        return ""
    reached = {other.text for part in computed_from(source, line, [token]) for other in part}
    return "" if reached & parameters_around(source, line) else token.text


def _followed(source, line, *signs) -> set[str]:
    """The names in a line that one of these signs follows."""
    here = [token for token in cxx.tokens(source) if token.line == line]
    return {token.text for token, after in pairwise(here) if after.text in signs and token.text.isidentifier()}
