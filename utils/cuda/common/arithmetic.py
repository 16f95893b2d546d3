"""Arithmetic that every compiler accepts and that means something else than it seems to: `1 / 2`, `x ^ 2`.

What suspects.py asks of these lines; the reader of operators is for both.
"""

import re

from utils.cuda.common import cxx
from utils.cuda.common.cxx import text_at
from utils.cuda.common.missing import declared_names

__all__ = ["divisions", "operators", "powers"]


def operators(part) -> list[str]:
    """The texts of the tokens, with operators of several characters as one, followed by empty ones: '==', ''."""
    texts, k = [token.text for token in part], 0
    while k + 1 < len(texts):
        together = texts[k] + texts[k + 1]
        if part[k].end == part[k + 1].start and together in _TWO_CHARACTERS:
            texts[k], texts[k + 1] = together, ""
            if together in ("<<", ">>") and text_at(part, k + 2) == "=" and part[k + 1].end == part[k + 2].start:
                texts[k], texts[k + 2] = together + "=", ""
                k += 1
            k += 1
        k += 1
    return texts


_TWO_CHARACTERS = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "++", "--"} | {c + "=" for c in "+-*/%&|^"}


def divisions(part):
    """`float v = 1 / 2;`"""
    for k, token in enumerate(part):
        one, other = text_at(part, k - 1), text_at(part, k + 1)
        if (
            token.text != "/"
            or not (one.isdecimal() and other.isdecimal())
            or not int(other)
            or int(one) % int(other) == 0
        ):
            continue
        begins = next((b + 1 for b in range(k, -1, -1) if part[b].text in (";", "{", "}")), 0)
        words = [before.text for before in part[begins:k]]
        inside_index = words.count("[") > words.count("]")
        if text_at(part, k - 2) not in ("*", "/", "%") and not inside_index and not _WHOLE & set(words):
            yield token, f"`{one} / {other}` is {int(one) // int(other)}, a whole number: write `{one}.0f / {other}`"


_WHOLE = {*"int unsigned size_t long dim3 <<< short char int64_t uint32_t enum template".split()}


def powers(source, part):
    """`float area = r ^ 2`, but not the partner of a thread in a butterfly, `lane ^ 2`, or a mask among other bits."""
    indexes = None
    for k, token in enumerate(part):
        before, base, exponent = (text_at(part, k + step) for step in (-2, -1, 1))
        literal = base in ("2", "10") and exponent.isdecimal() and before != "%"  # `% 2 ^ 1`: a parity
        square = exponent == "2" and (base.isidentifier() or base in (")", "]"))
        if token.text != "^" or not literal and not square:
            continue
        begins = next((b + 1 for b in range(k, -1, -1) if part[b].text in (";", "{", "}")), 0)
        ends = next((b for b in range(k, len(part)) if part[b].text in (";", "{", "}")), len(part))
        texts = operators(part[begins:ends])
        of_bits = {"<<", ">>", "&", "|", "~", "^="} & set(texts) or texts.count("^") > 1
        in_brackets = texts[: k - begins].count("[") > texts[: k - begins].count("]")
        if of_bits or in_brackets or any("shfl" in text for text in texts):
            continue
        if indexes is None:
            indexes = _indexes(source, part)
        names = _names(part[begins:k]) | ({_function_at(source, token)} if part[begins].text == "return" else set())
        if literal or not names & indexes:
            yield token, f"`^` is the bitwise XOR, not a power: write `a * a` (if XOR is meant: `^ 0x{exponent}`)"


# What threads, lanes and words of bits are called, and the types of the latter.
_CALLED = re.compile(
    r"[ijkt]|t[xyz]|\w*(?:[it]d|idx|index|lane|thread|warp|rank|self|peer|partner|other|buddy|neighbou?r|sibling|bits?|mask|"
    r"flags?|key|hash|seed|state|parity|code|src|dst|source|target|offset|pos|swizzled?)\d*|threadIdx|blockIdx",
    re.IGNORECASE,
)
_OF_BITS = re.compile(r"unsigned|size_t|uint\d+_t|uint|uchar|ushort|ulong")
_TYPES = {*"int long short char float double bool void const __restrict__ * &".split()}


def _indexes(source, part) -> set[str]:
    """The names, of all scopes, that may be a thread's or an element's index, or hold bits: by their name or type, by
    what they are used for, and by what they are computed from."""
    found = {token.text for token in part if _CALLED.fullmatch(token.text)}
    for k, token in enumerate(part):
        if _OF_BITS.fullmatch(token.text):  # `unsigned long long bits`, `(unsigned)n ^ 2`
            found |= {token.text, next((word.text for word in part[k + 1 :] if word.text not in _TYPES), "")}
        closes = cxx.matching(part, k) if token.text in ("[", "(") else None
        if closes and (token.text == "[" or "shfl" in text_at(part, k - 1)):
            found |= {inside.text for inside in part[k + 1 : closes] if inside.text.isidentifier()}
    found -= _TYPES
    declared = declared_names(source)
    parameters = {f.name: {cxx.parameter_name(p) for p in f.parameters} for f in cxx.functions(source)}
    known = -1
    while known < len(found):
        known = len(found)
        for k, token in enumerate(part):
            if token.text == "=" != text_at(part, k + 1) and text_at(part, k - 1).isidentifier():
                ends = next((b for b in range(k, len(part)) if part[b].text in (";", "{", "}")), len(part))
                found |= {text_at(part, k - 1)} if _names(part[k:ends]) & found else set()
            elif token.text == "(" and text_at(part, k - 1) in parameters:
                closes = cxx.matching(part, k)
                given = _names(part[k + 1 : closes]) if closes and part[k - 1].start not in declared else set()
                found |= parameters[text_at(part, k - 1)] if given & found else set()
    return found


def _names(part) -> set[str]:
    """The names in an expression outside `[...]`: of `x[i] + n`, x and n."""
    found, k = set(), 0
    while k < len(part):
        closes = cxx.matching(part, k) if part[k].text == "[" else None
        found |= {part[k].text} if part[k].text.isidentifier() else set()
        k = closes + 1 if closes else k + 1
    return found


def _function_at(source, token) -> str:
    """The name of the function around a token; empty outside of functions."""
    around = (f for f in cxx.functions(source) if f.tokens[0].start <= token.start < f.tokens[-1].end)
    return next((f.name for f in around), "")
