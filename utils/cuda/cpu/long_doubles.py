"""`long double` in device code: nvcc computes it as a double, with a warning. Its size stays that of the host's."""

from itertools import pairwise

from utils.cuda.common import cxx

__all__ = ["edits"]

_SIZES = {"sizeof", "alignof"}


def edits(tokens, declared) -> list[tuple[int, int, str]]:
    """What to remove, as (start, end, ''), in the functions that are the device's alone and in the bodies of kernels:
    the word `long` before or behind `double`, and the `L` of a number; `declared` is what the source declares."""
    if not any({one.text, other.text} == {"long", "double"} for one, other in pairwise(tokens)):
        return []
    spans = []
    for f in declared:
        if f.defined and {"__global__", "__device__"} & set(f.words) and "__host__" not in f.words:
            as_written = "__global__" in f.words or '""' in f.words  # operator""_m takes a long double and nothing else
            first = f.tokens[f.head if as_written else 0]
            spans.append((first.start, f.tokens[-1].end))
    found = []
    for k, token in enumerate(tokens):
        if token.directive or not any(start <= token.start < end for start, end in spans):
            continue
        if token.text == "long" and "double" in (cxx.text_at(tokens, k + 1), cxx.text_at(tokens, k - 1)):
            size = {cxx.text_at(tokens, k - 2), cxx.text_at(tokens, k - 3)} & _SIZES
            if not size:
                found.append((token.start, token.end, ""))
        elif _is_long_number(token.text.lower()):
            found.append((token.end - 1, token.end, ""))
    return found


def _is_long_number(text):
    """Whether it is a floating-point literal with an `l`: '1.l', '1e3l', '0x1p-60l'; `text` is in lower case."""
    exponent = "p" if text.startswith("0x") else "e"
    return text[:1] in set(".0123456789") and text.endswith("l") and ("." in text or exponent in text)
