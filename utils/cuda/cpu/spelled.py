"""Macros that print an argument with a launch in it, as `#call` in `#define TIMED(call)` does: they print it as the
source has it, not as it is translated."""

from typing import NamedTuple

from utils.cuda.common import cxx

__all__ = ["edits"]


class _Use(NamedTuple):
    opens: int  # the index of its parenthesis
    arguments: list  # tokens, as the preprocessor divides them


def edits(source, tokens) -> list[tuple[int, int, str]]:
    """What to replace: such a macro takes the argument's text as a further one, before all others.

    A macro that another one uses stays as it is.
    """
    found = []
    definitions = [line for line in cxx.directives(source) if [t.text for t in line[1:2]] == ["define"]]
    in_bodies = {token.text for line in definitions for token in line[3:]}
    for name in dict.fromkeys(line[2].text for line in definitions if len(line) > 3):
        lines = [line for line in definitions if cxx.text_at(line, 2) == name]
        parameters = [_parameters(line) for line in lines]
        if name in in_bodies or any(each != parameters[0] for each in parameters) or not parameters[0]:
            continue
        uses = [_use(tokens, k, len(parameters[0])) for k, token in enumerate(tokens) if token.text == name]
        uses = [use for use in uses if use]
        for at, parameter in enumerate(parameters[0]):
            printed = [hash_ for line in lines for hash_ in _printed(line, parameter)]
            if printed and any(_has_launch(use.arguments[at : at + 1]) for use in uses):
                text = f"cuda_on_cpu_{parameter}"
                found += [(line[3].end, line[3].end, f"{text}, ") for line in lines]
                found += [(start, end, text) for start, end in printed]
                for use in uses:
                    place = tokens[use.opens].end
                    found.append((place, place, f"{_spelled(source, use.arguments[at])}, "))
    return found


def _parameters(line) -> list[str]:
    """The names of a macro's parameters, as its body has them; none if it has no parentheses."""
    if cxx.text_at(line, 3) != "(" or line[3].start != line[2].end:
        return []
    names = [[t.text for t in part] for part in cxx.at_commas(line[4 : cxx.matching(line, 3) or 4])]
    return [each[0] if each[0] != "." else "__VA_ARGS__" for each in names if each]


def _printed(line, parameter):
    """Where the body has `#parameter`."""
    for one, other in zip(line[4:], line[5:], strict=False):
        if one.text == "#" and other.text == parameter:
            yield one.start, other.end


def _use(tokens, k, count):
    """The use of a macro with `count` parameters whose name is at index `k`."""
    closes = cxx.matching(tokens, k + 1) if cxx.text_at(tokens, k + 1) == "(" and not tokens[k].directive else None
    if closes is None:
        return None
    arguments, j = [[]], k + 2
    while j < closes:
        if tokens[j].text == "," and len(arguments) < count:
            arguments.append([])
        else:
            ends = (cxx.matching(tokens, j) or j) if tokens[j].text == "(" else j
            arguments[-1] += tokens[j : ends + 1]
            j = ends
        j += 1
    return _Use(k + 1, arguments + [[]] * (count - len(arguments)))


def _has_launch(arguments) -> bool:
    return any(token.text == "<<<" for argument in arguments for token in argument)


def _spelled(source, argument) -> str:
    """The argument as a string literal, as `#` makes one: with a single space wherever there is any."""
    text = " ".join(source[argument[0].start : argument[-1].end].split()) if argument else ""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
