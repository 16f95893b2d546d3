"""What a launch may have before its `<<<`: any postfix expression, `scale<4>`, `table[i]`, `pick(1)`, `s->kernel`.

It is read from its end, on the tokens of lexer.py, and nothing here raises.
"""

from collections.abc import Sequence

from utils.cuda.common.lexer import Token, matching, text_at

__all__ = ["begins", "is_name"]

_STATEMENTS = {"if", "while", "for", "switch", "catch", "constexpr"}
# Words that are no operands: a bracket after one begins an expression.
_NO_OPERANDS = _STATEMENTS | {"return", "else", "do", "try", "case", "throw", "new", "delete", "and", "or", "not"}
_NO_OPERANDS |= {"sizeof", "alignof", "goto", "co_return", "co_yield", "co_await"}


def begins(part: Sequence[Token], at) -> int | None:
    """The index where the postfix expression before the `<<<` at index `at` begins; None if there is none."""
    k = at - 1
    while (first := _operand(part, k)) is not None:
        before = text_at(part, first - 1)
        template = before == "template"
        if part[k].text in (")", "]") and _is_of_operand(part, first):
            k = first - 1  # f(x), a[i]
        elif text_at(part, first - 1 - template) in (".", "->"):
            k = first - 2 - template
        else:
            return first - (before == "typename")
    return None


def is_name(part: Sequence[Token]) -> bool:
    """Whether the tokens before a `<<<` are a name, which may have overloads: `my::scale<4>`, `(scale)`, `(&scale)`."""
    while part and part[0].text == "(" and matching(part, 0) == len(part) - 1:
        part = part[1 + (text_at(part, 1) == "&") : -1]
    return bool(part) and part[-1].text not in (")", "]", "}") and _operand(part, len(part) - 1) == 0


def _operand(part, k):
    """The index where the name or the bracket begins that ends at index `k`; None if neither ends there."""
    if text_at(part, k) in (")", "]"):
        return matching(part, k)
    if text_at(part, k) == "}":
        return _braced(part, k)
    k = _before_arguments(part, k)
    if not _is_word(part, k):
        return None
    while text_at(part, link := k - 1 - (text_at(part, k - 1) == "template")) in ("::", "##"):
        before = _before_arguments(part, link - 1)
        if not _is_word(part, before) or text_at(part, before - 1) == "define":
            return link
        k = before
    return k


def _is_word(part, k):
    return k is not None and text_at(part, k).isidentifier() and part[k].text not in _NO_OPERANDS


def _before_arguments(part, at):
    """The index of `k` in `k<16>`, whose last token is at `at`; `at` itself if no template arguments end there."""
    if text_at(part, at) in (">", ">>>"):
        opens = matching(part, at)
        return None if opens is None else opens - 1
    return at


def _braced(part, at):
    """Where `K{ten}` or a lambda begins whose last brace is at index `at`; None if that is the brace of a statement."""
    k = matching(part, at) or 0
    while text_at(part, k - 1) in ("mutable", "noexcept", "*", "&"):
        k -= 1
    named = None if text_at(part, k - 1) in (")", "]", "}") else _operand(part, k - 1)
    if named is not None and text_at(part, named - 1) != "->":
        return named
    k = k if named is None else named - 1  # [](int n) -> K {
    k = matching(part, k - 1) or 0 if text_at(part, k - 1) == ")" else k
    return matching(part, k - 1) if text_at(part, k - 1) == "]" else None


def _is_of_operand(part, at):
    """Whether an operand precedes the bracket at index `at`, which is then a call or a subscript of it."""
    k = at - 1
    first = _operand(part, k) if text_at(part, k) else None
    if first is None or part[k].directive != part[at].directive or text_at(part, first - 1) == "define":
        return False
    if part[k].text != ")":
        return True
    of_macro = text_at(part, first - 2) == "define"  # #define GO(k) (k)<<<1, 2>>>(x)
    is_cast = [token.text for token in part[first + 1 : k]] == ["void"]
    return not (of_macro or is_cast or text_at(part, first - 1) in _STATEMENTS)
