"""Whether a loop of the learner's source changes what its condition asks for."""

import re
from itertools import pairwise

from utils.cuda.common import cxx

__all__ = ["changes_memory", "never_changes", "reads_memory"]


def reads_memory(condition) -> bool:
    """Whether an expression reads memory, as far as it shows: `atomicAdd(flag, 0) != 1`, `*flag == 0`, `x[i] < 1`."""
    for k, token in enumerate(condition):
        before = cxx.text_at(condition, k - 1)
        ends_operand = before in (")", "]") or before[-1:].isalnum() or before.endswith("_")
        if token.text.startswith("atomic") or token.text in ("[", "->") or (token.text == "*" and not ends_operand):
            return True
    return False


_CHANGE_NOTHING = {"if", "for", "while", "switch", "__nanosleep", "__threadfence", "__threadfence_block", "__syncwarp"}


def changes_memory(source, loop) -> bool:
    """Whether the lines of a loop, without its condition, store or call something, as far as it shows."""
    condition = {token.start for token in loop.condition}
    part = [t for t in cxx.tokens(source) if loop.line <= t.line <= loop.last and t.start not in condition]
    for k, token in enumerate(part):
        before, after = cxx.text_at(part, k - 1), cxx.text_at(part, k + 1)
        if after == "(" and re.match(r"[a-zA-Z_]", token.text) and token.text not in _CHANGE_NOTHING:
            return True
        counts = token.text in ("+", "-") and after == token.text
        sets = token.text == "=" and after != "=" and before not in ("=", "!", "<", ">")
        if counts or sets:
            target = k - 2 if before in tuple("+-*/%&|^") else k - 1
            reached = cxx.text_at(part, target) in ("]", ")") or cxx.text_at(part, target - 1) in ("*", ".", "->")
            if reached or (counts and (cxx.text_at(part, k + 2) in ("*", "(") or cxx.text_at(part, k + 3) == "[")):
                return True
    return False


def never_changes(source, loop) -> bool:
    """Whether no variable in a loop's condition is set, counted on or given away in the loop's lines, and no memory is
    changed there if the condition reads some."""
    names = {t.text for t in loop.condition if re.match(r"[a-zA-Z_]", t.text)} - {"true", "false"}
    calls = any(a.text in names and b.text == "(" for a, b in pairwise(loop.condition))
    gives = any(token.text == "&" for f in cxx.functions(source) for given in f.parameters for token in given)
    if not names or calls or gives or (reads_memory(loop.condition) and changes_memory(source, loop)):
        return False
    lines = "\n".join(cxx.code(source).splitlines()[loop.line - 1 : loop.last])
    # `int i = 0` is where it begins.
    lines = re.sub(r"\b(?!else\b|do\b)\w+[\s*]+\w+\s*=(?!=)", "", lines)
    changed = r"(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    return not any(re.search(rf"\b{name}\s*{changed}|(?:\+\+|--|&)\s*{name}\b", lines) for name in names)
