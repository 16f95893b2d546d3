"""`(c ? a : b)[i % n]`, which g++ 12 compiles wrongly.

It makes `c ? a[i % n] : b[i % n]` of it. If the index has a division, which a launch checks, or an object in it, it is
computed in the first of the two alone. As the result of a function, `c ? a : b` stays one expression:
`::cuda_on_cpu::chosen((c ? a : b))[i % n]`.
"""

from utils.cuda.common import cxx

__all__ = ["edits"]

_STATEMENTS = {"if", "while", "for", "switch"}  # before a `(` that another may follow
_WORDS = {"return", "else", "case", "do", "throw"}
_NUMBERS = {*"signed unsigned char short int long float double bool const volatile size_t".split()}


def edits(source) -> list[tuple[int, int, str]]:
    """The calls that a source needs, as (start, end, text)."""
    found, tokens = [], cxx.tokens(source)
    if not any(token.text == "?" for token in tokens):
        return found
    macros = {name: macro for name, macro in cxx.macros(source).items() if _is_choice(macro.body)}
    for k, token in enumerate(tokens):
        macro, end = macros.get(token.text), None
        if token.text == "(" and _begins_an_expression(tokens, k):
            closes = cxx.matching(tokens, k)
            end = closes if closes is not None and _chooses(tokens, k, closes) else None
        elif macro and not (token.directive and cxx.text_at(tokens, k - 1) == "define"):
            end = k if macro.parameters is None else cxx.matching(tokens, k + 1)
        if end is not None and cxx.text_at(tokens, end + 1) in ("[", ".", "->"):
            found.append((token.start, token.start, "::cuda_on_cpu::chosen("))
            found.append((tokens[end].end, tokens[end].end, ")"))
    return found


def _is_choice(body):
    """Whether a macro stands for `(c ? a : b)`."""
    last = len(body) - 1
    return last > 0 and body[0].text == "(" and cxx.matching(body, 0) == last and _chooses(body, 0, last)


def _chooses(tokens, opens, closes):
    """Whether the parentheses are around `c ? a : b`, itself in parentheses or not."""
    k = opens + 1
    if tokens[k].text == "(" and cxx.matching(tokens, k) == closes - 1:
        return _chooses(tokens, k, closes - 1)
    while k < closes:
        if tokens[k].text == "?":
            return True
        k = cxx.step_over(tokens, k) if tokens[k].text in "([{" else k + 1
    return False


def _begins_an_expression(tokens, k):
    """Whether the `(` at index k is not that of a call: what it follows is an operator, a statement or a cast."""
    before = cxx.text_at(tokens, k - 1)
    if cxx.text_at(tokens, k - 2) == "define":
        return True
    if before == ")":
        opens = cxx.matching(tokens, k - 1)
        if opens is None:
            return False
        inside = {token.text for token in tokens[opens + 1 : k - 1]}
        is_cast = inside and ("*" in inside or inside <= _NUMBERS) and all(t == "*" or t.isidentifier() for t in inside)
        of_macro = cxx.text_at(tokens, opens - 2) == "define"
        return is_cast or of_macro or cxx.text_at(tokens, opens - 1) in _STATEMENTS
    return before in _WORDS or not (before.isidentifier() or before in ("]", ">", ">>>"))
