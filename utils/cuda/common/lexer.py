"""C++ text as tokens, brackets, preprocessor lines and macros: the lower half of cxx.py, which all others read through.

Nothing here raises: a source that does not compile is read as far as its brackets allow. Offsets are those of the
source; lines count from 1.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

__all__ = ["Macro", "Token", "at_commas", "code", "directives", "expand", "expanded", "included", "macros", "matching"]
__all__ += ["lines_of", "macros_with", "namespaces", "step_over", "text_at", "tokens", "unmatched", "written"]

# ---- tokens ---------------------------------------------------------------------------------------------------------


class Token(NamedTuple):
    """A word, a number, a string or a punctuator. `>>` is two tokens, which may end two templates.
    The text of a digraph such as `<:` is what it stands for, `[`, that of `__attribute__((global))` is `__global__`,
    and that of a word continued on the next line has neither the backslash nor the line end."""

    text: str
    start: int
    end: int
    line: int
    directive: int  # the line on which its preprocessor directive begins; 0 outside directives


_COMMENT = r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
_QUOTED = r""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' """
_SPLICE = r"\\[ \t]*\r?\n"  # continues a line on the next one
_SPLICED = rf"(?:{_SPLICE})*"
_GAP = rf"(?:[ \t]|{_SPLICE})"
# Between the three characters of `<<<` there may be spaces, as some formatters write them: `k << <1, 2 >> >(x)`.
_TOKEN = re.compile(
    rf"""(?:[\s\ufeff]+|{_COMMENT}|{_SPLICE})*
       ( (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{{0,16}})\(.*?\)(?P=mark)"   # raw string
       | (?:u8|[uUL])?(?:{_QUOTED})
       | \.?\d(?:[eEpP][+-]|'?[\w.])*                                  # number
       | [^\W\d]\w*(?:{_SPLICE}\w+)*                                   # word
       | <{_SPLICED}<{_GAP}*< | >{_SPLICED}>{_GAP}*> | >{_GAP}+>{_SPLICED}>
       | <:(?!:(?![:>])) | :> | <% | %> | %:                           # digraphs
       | :: | -> | \#\# | . | \Z )""",
    re.VERBOSE | re.DOTALL,
)
_DIGRAPHS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}", "%:": "#"}
_MARKS = {"global", "device", "host", "shared", "constant", "managed"}  # what CUDA's words are macros for
_LINE = re.compile(rf"(?:{_COMMENT}|{_QUOTED}|{_SPLICE}|[^\n])*", re.VERBOSE | re.DOTALL)  # of the preprocessor


@lru_cache(64)  # several parts of a build need the tokens of the same source
def tokens(source) -> tuple[Token, ...]:
    """The tokens of C++ text, including those of preprocessor lines. Comments are not tokens."""
    found, line, at, before, end_of_line, directive = [], 1, 0, -1, 0, 0
    for match in _TOKEN.finditer(source):
        start, end = match.span(1)
        if start == end:
            break
        line += source.count("\n", at, start)
        text, at = match[1], start
        if text[0] in "<>:%" and len(text) > 1:
            text = _DIGRAPHS.get(text) or re.sub(r"[\s\\]", "", text)
        elif "\\" in text and text[-1] not in "\"'":
            text = re.sub(_SPLICE, "", text)
        if start >= end_of_line:
            directive = 0
            if text == "#" and source.rfind("\n", 0, start) >= before:  # nothing before it on its line
                end_of_line, directive = _LINE.match(source, start).end(), line
        if text == ")" and [t.text for t in found[-5:-2]] == ["__attribute__", "(", "("] and found[-2].text in _MARKS:
            mark = found[-5]._replace(text=f"__{found[-2].text}__", end=end)
            found[-5:] = [mark]
        else:
            found.append(Token(text, start, end, line, directive))
        before = end
    return tuple(found)


def directives(source) -> list[list[Token]]:
    """The preprocessor lines, each as its tokens: '#', 'include', '<', ..."""
    return [list(line) for number, line in groupby(tokens(source), lambda token: token.directive) if number]


def included(line: Sequence[Token]) -> str:
    """'torch/extension.h' of the preprocessor line that includes it; empty for any other line."""
    return written(line[2:]).strip('<>"') if text_at(line, 1) == "include" else ""


def code(source) -> str:
    """The source with comments and strings blanked out. Every line and column stays where it was."""
    pieces, at = [], 0
    for token in tokens(source):
        if token.text[-1] not in "\"'":
            lines = source[token.start : token.end].partition("\n")
            pieces += [_blank(source[at : token.start]), token.text.ljust(len(lines[0])), *map(_blank, lines[1:])]
            at = token.end
    return "".join(pieces) + _blank(source[at:])


def _blank(text):
    return re.sub(r"\S", " ", text)


def text_at(part, at) -> str:
    """The text of a token; empty before the first and after the last."""
    return part[at].text if 0 <= at < len(part) else ""


def written(part: Sequence[Token]) -> str:
    """The text of some tokens, with a single space wherever the source has anything between two of them."""
    gaps = ["", *(" " if before.end != after.start else "" for before, after in pairwise(part))]
    return "".join(gap + token.text for gap, token in zip(gaps, part, strict=False))


# ---- brackets -------------------------------------------------------------------------------------------------------

_CLOSER = {"(": ")", "[": "]", "{": "}", "<": ">"}
_OPENER = {closer: opener for opener, closer in _CLOSER.items()}
_ANGLES = {"<": 1, ">": -1, ">>>": -3}


def lines_of(source) -> list[str]:
    """The lines of a source as compilers count them: only a newline ends one. `str.splitlines` knows more, such
    as a form feed."""
    return source.removesuffix("\n").split("\n")


def matching(part: Sequence[Token], at) -> int | None:
    """The index of the bracket that matches the opening or closing one at index `at`; None if there is none.

    A `<` without its `>` before a `;` or the end of the enclosing brackets is not a bracket but a comparison.
    """
    bracket = part[at].text
    step = 1 if bracket in _CLOSER else -1
    if bracket in _ANGLES:
        return _matching_angle(part, at, step)
    other, depth, k = (_CLOSER if step == 1 else _OPENER)[bracket], 0, at
    while 0 <= k < len(part):
        depth += (part[k].text == bracket) - (part[k].text == other)
        if depth == 0:
            return k
        k += step
    return None


def _matching_angle(part, at, step):
    inner, outer = ("([{", ")]}") if step == 1 else (")]}", "([{")
    depth, k = 0, at
    while k is not None and 0 <= k < len(part) and part[k].text not in (";", "<<<", *outer):
        depth += step * _ANGLES.get(part[k].text, 0)
        if depth <= 0:
            return k if depth == 0 else None
        k = matching(part, k) if part[k].text in inner else k
        k = None if k is None else k + step
    return None


def at_commas(part: Sequence[Token]) -> list[Sequence[Token]]:
    """The tokens, split at the commas outside brackets."""
    parts, start, k = [], 0, 0
    while k < len(part):
        if part[k].text == ",":
            parts.append(part[start:k])
            start = k + 1
        k = step_over(part, k)
    return [*parts, part[start:]] if part else []


def step_over(part, at) -> int:
    """The index after the token at `at`; if that opens a bracket, after the one that closes it."""
    end = matching(part, at) if part[at].text in _CLOSER else None
    return (at if end is None else end) + 1


def namespaces(part: Sequence[Token], start) -> list[str]:
    """The names of the namespaces around an offset of the source."""
    found = []
    for k, token in enumerate(part):
        if token.text == "namespace" and token.start < start:
            opens = next((j for j in range(k, len(part)) if part[j].text in ("{", ";", "=")), k)
            ends = matching(part, opens) if part[opens].text == "{" else None
            if ends is not None and part[opens].start < start < part[ends].start:
                found += [word.text for word in part[k + 1 : opens] if word.text.isidentifier()]
    return found


def unmatched(part: Sequence[Token], brackets="()[]{}") -> list[Token]:
    """The brackets that open without being closed, or close without being opened, in source order."""
    found = []
    for token in part:
        if token.text in brackets:
            if found and _CLOSER.get(found[-1].text) == token.text:
                found.pop()
            else:
                found.append(token)
    return found


# ---- macros ---------------------------------------------------------------------------------------------------------


class Macro(NamedTuple):
    name: str
    parameters: list[str] | None  # None for one that takes no parentheses
    body: list[Token]


def macros(source) -> dict[str, Macro]:
    """Every `#define` by name; the last one if a name has several."""
    found = {}
    for line in directives(source):
        if [token.text for token in line[1:2]] != ["define"] or len(line) < 3:
            continue
        name, rest, parameters = line[2], line[3:], None
        if rest and rest[0].text == "(" and rest[0].start == name.end:
            end = matching(rest, 0) or 0
            parameters, rest = [written(part) for part in at_commas(rest[1:end])], rest[end + 1 :]
        found[name.text] = Macro(name.text, parameters, rest)
    return found


def macros_with(words, known: dict[str, Macro]) -> dict[str, Macro]:
    """The macros whose bodies have one of these words, directly or through other macros."""
    found = {}
    while True:
        more = {n: macro for n, macro in known.items() if any(t.text in words or t.text in found for t in macro.body)}
        if len(more) == len(found):
            return more
        found = more


def expanded(source) -> list[Token]:
    """The tokens outside preprocessor lines, with the macros that make kernels expanded."""
    plain = [token for token in tokens(source) if not token.directive]
    makes = {"__global__", "##"}  # such as P(__glo, bal__)
    if not any(token.directive and token.text in makes for token in tokens(source)):
        return plain
    known, found, k = macros_with(makes, macros(source)), [], 0
    while k < len(plain):
        end = _use_end(plain, k, known)
        made = [] if end is None else expand(plain[k:end], known)
        if any(token.text == "__global__" for token in made):
            found += made
            k = end
        else:
            found.append(plain[k])
            k += 1
    return found


def expand(part: Sequence[Token], known: dict[str, Macro], hidden=frozenset()) -> list[Token]:
    """Some tokens with all uses of the `known` macros replaced, except for those that are `hidden`."""
    found, k = [], 0
    while k < len(part):
        end = None if part[k].text in hidden else _use_end(part, k, known)
        if end is None:
            found.append(part[k])
            k += 1
            continue
        macro, body = known[part[k].text], []
        given = _given(macro.parameters or [], part[k + 2 : end - 1])
        for j, token in enumerate(macro.body):
            argument = given.get(token.text, [token])
            as_given = token.text not in given or "##" in (text_at(macro.body, j - 1), text_at(macro.body, j + 1))
            body += argument if as_given else expand(argument, known, hidden)
        found += expand(_pasted(body), known, hidden | {macro.name})
        k = end
    return found


def _use_end(part, k, known):
    """The index after the use of a macro that begins at index k; None if none does."""
    macro = known.get(part[k].text)
    if macro is None or macro.parameters is None:
        return macro and k + 1
    closes = matching(part, k + 1) if text_at(part, k + 1) == "(" else None
    return None if closes is None else closes + 1


def _given(parameters, arguments):
    """The tokens of each of a macro's parameters; `...` and `rest...` take all arguments that are left."""
    split = at_commas(arguments)
    if parameters and parameters[-1].endswith("..."):
        fixed = len(parameters) - 1
        parameters = [*parameters[:fixed], parameters[-1].removesuffix("...").strip() or "__VA_ARGS__"]
        left = arguments[sum(len(part) + 1 for part in split[:fixed]) :]
        split = [*split[:fixed], left]
    return dict(zip(parameters, split, strict=False))


def _pasted(body):
    """The tokens of a macro's body, with those around `##` joined."""
    found = []
    for token in body:
        if len(found) > 1 and found[-1].text == "##":
            found.pop()
            if found[-1].text == ",":  # `, ##__VA_ARGS__`
                found.append(token)
            else:
                found[-1] = found[-1]._replace(text=found[-1].text + token.text)
        else:
            found.append(token)
    return found
