"""`int a[4] = {[2] = 5}`: nvcc accepts C's designators for elements, g++ only those of all elements in order."""

from utils.cuda.common import cxx

__all__ = ["edits"]


def edits(tokens) -> list[tuple[int, int, str]]:
    """What makes the values of each such array a plain list, with `{}` for what is left out, as (start, end, text)."""
    found = []
    for k, token in enumerate(tokens):
        if token.text == "{" and [t.text for t in tokens[k + 1 : k + 2]] == ["["]:
            found += _plain(cxx.at_commas(tokens[k + 1 : cxx.matching(tokens, k)]))
    return found


def _plain(values):
    at = 0
    for value in values:
        if [token.text for token in value[:4:2]] == ["[", "]"] and cxx.text_at(value, 3) == "=":
            if not value[1].text.isdecimal() or int(value[1].text) < at:
                return
            yield value[0].start, value[3].end, "{}, " * (int(value[1].text) - at)
            at = int(value[1].text)
        at += 1
