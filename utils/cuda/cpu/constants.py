"""Floats that are `const`: nvcc lets lambdas without captures, the methods of local classes and other constants use
them; C++ compilers only a `constexpr`."""

from utils.cuda.common import cxx
from utils.cuda.cpu.shared_variables import is_member

__all__ = ["edits"]

_FLOATS = ("float", "double")


def edits(source, tokens, is_local) -> list[tuple[int, int, str]]:
    """`constexpr` for the `const` of each float whose value is a constant, if something may need one.

    The edits are (start, end, text). `is_local(token)` says whether a token is in a function's body.
    """
    words = {token.text for token in tokens}
    if "const" not in words or not (_NEEDS_CONSTANTS & words or _may_use(tokens, is_local)):
        return []
    of_all = {name for name, macro in cxx.macros(source).items() if _is_value(macro.body, ())}
    known, found = of_all, []
    for k, token in enumerate(tokens):
        if token.text == "}" and not (k + 1 < len(tokens) and is_local(tokens[k + 1])):
            known = of_all  # another function's names are others
        if token.text not in ("const", "constexpr") or is_member(tokens, k):
            continue
        if names := _constants(tokens, k, known):
            known = known | names
            of_all = of_all if is_local(token) else of_all | names
            found += [(token.start, token.end, "constexpr")] if token.text == "const" else []
    return found


_NEEDS_CONSTANTS = {"constexpr", "static_assert"}


def _may_use(tokens, is_local):
    """Whether there is a `[]` that is no index, or a class in a function."""
    for k, token in enumerate(tokens):
        if token.text in ("struct", "class") and is_local(token):
            return True
        if token.text == "[" and cxx.text_at(tokens, k + 1) == "]":
            if cxx.text_at(tokens, k - 1) in ("=", "(", ",", "return", "{", ";"):
                return True
    return False


def _constants(tokens, k, known):
    """The names that are declared with the `const` at index k, if they are floats and have constant values."""
    before, behind = cxx.text_at(tokens, k - 1), cxx.text_at(tokens, k + 1)
    first = k + 1 if before in _FLOATS else k + 2
    if before not in _FLOATS and behind not in (*_FLOATS, "auto"):
        return set()
    end, depth = first, 0
    while end < len(tokens) and (depth or tokens[end].text != ";"):
        depth += (tokens[end].text in "({") - (tokens[end].text in ")}")
        if depth < 0:
            return set()
        end += 1
    names = set()
    for one in cxx.at_commas(tokens[first:end]):
        value = _value(one)
        is_float = before in _FLOATS or behind in _FLOATS or any(map(_is_float, value))
        if not value or not is_float or not _is_value(value, known | names):
            return set()
        names.add(one[0].text)
    return names


def _value(part):
    """What `a = 1.5f`, `a{1.5f}` or `a(1.5f)` gives to `a`; nothing, if it is none of these."""
    if len(part) < 3 or not part[0].text.isidentifier():
        return []
    if part[1].text == "=":
        return part[2:]
    return part[2:-1] if part[1].text + part[-1].text in ("{}", "()") else []


def _is_value(part, known):
    """Whether it is computed from numbers and from names of such values; not by dividing, which may be by zero."""
    return (
        bool(part)
        and all(_is_number(token) or token.text in known for token in part)
        and (not any(token.text == "/" for token in part) or not any(_is_zero(token) for token in part))
    )


def _is_number(token):
    return token.text in {*"+-*/()", *_FLOATS, "int"} or token.text[0].isdigit() or token.text[0] == "."


def _is_float(token):
    return token.text[0] in ".0123456789" and ("." in token.text or "e" in token.text.lower())


def _is_zero(token):
    return token.text.rstrip("fFlLuU").strip("0.") == "" and token.text[0] in ".0123456789"
