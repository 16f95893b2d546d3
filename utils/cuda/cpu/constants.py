"""Local floats that are `const`: nvcc lets lambdas without captures use them, C++ compilers only a `constexpr`."""

from utils.cuda.common import cxx
from utils.cuda.cpu.shared_variables import is_member

__all__ = ["edits"]


def edits(tokens, is_local) -> list[tuple[int, int, str]]:
    """`constexpr` for the `const` of each float with a literal value, if there are such lambdas, as (start, end, text).

    `is_local(token)` says whether a token is in a function's body.
    """
    return [
        (token.start, token.end, "constexpr")
        for k, token in enumerate(tokens if _has_lambdas(tokens) else ())
        if token.text == "const" and _is_literal(tokens, k + 1) and is_local(token) and not is_member(tokens, k)
    ]


def _has_lambdas(tokens):
    """Whether there is a `[]` that is no index."""
    empty = (k for k, token in enumerate(tokens) if token.text == "[" and cxx.text_at(tokens, k + 1) == "]")
    return any(cxx.text_at(tokens, k - 1) in ("=", "(", ",", "return", "{", ";") for k in empty)


def _is_literal(tokens, k):
    """Whether `float a = 1.5f, b = -2;` begins at index k."""
    end = next((j for j in range(k, len(tokens)) if tokens[j].text in (";", "{", "}")), len(tokens))
    declared = cxx.at_commas(tokens[k + 1 : end])
    return (
        cxx.text_at(tokens, k) in ("float", "double")
        and cxx.text_at(tokens, end) == ";"
        and all(
            len(one) > 2 and one[0].text.isidentifier() and one[1].text == "=" and all(map(_is_number, one[2:]))
            for one in declared
        )
    )


def _is_number(token):
    return token.text in {*"+-*/()"} or token.text[0].isdigit() or token.text[0] == "."
