"""`int a[4] = {[2] = 5}`: nvcc accepts C's designators for elements, g++ only those of all elements in order.

So the values become a plain list, `{{}, {}, 5}`, and `{.a.x = 1}` becomes `{.a = {.x = 1}}`. What cannot be read stays
as it is, such as an index that only a compiler can tell.
"""

import re
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.common.cxx import matching, step_over, text_at
from utils.cuda.cpu.plain_macros import edited, lines_of

__all__ = ["without_designators"]

_SCALARS = {*"char short int long signed unsigned float double bool size_t".split()}
_SCALARS |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_MOST = 1 << 16  # elements
_NUMBER = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)[uUlLzZ]*")


class _Value(NamedTuple):
    steps: list  # its designators: a member's name, or the first and the last index of elements
    tokens: list
    start: int = 0  # offsets in the source, with the designators
    end: int = 0


def without_designators(source):
    """The source without designators of elements. Every line keeps its number."""
    tokens = cxx.tokens(source)
    if not any(before.text in ("{", ",") and after.text in ("[", ".") for before, after in pairwise(tokens)):
        return source
    return edited(source, _Lists(source).edits(tokens))


class _Unclear(Exception):
    """A list that has to stay as it is."""


class _Lists:
    def __init__(self, source):
        self.source = source
        self.constants = None  # what each name of a constant stands for, once that is needed

    def edits(self, part, depth=None):
        """What to replace in the lists among some tokens, as (start, end, text). If they are the values of an array,
        `depth` is how many dimensions each has; None if that is unknown."""
        found, k = [], 0
        while k < len(part):
            closes = matching(part, k) if part[k].text == "{" else None
            if closes is not None and closes > k + 1:
                inside, is_value = part[k + 1 : closes], k == 0 or part[k - 1].text == ","
                depth_inside = depth if is_value and depth else _dimensions(part, k)
                try:
                    found += self._plain(inside, depth_inside)
                except _Unclear:
                    found += self.edits(inside, depth_inside and depth_inside - 1)
                k = closes
            k += 1
        return found

    def _plain(self, inside, depth):
        values = [self._value(part) for part in cxx.at_commas(inside) if part]
        if not any(value.steps for value in values):
            raise _Unclear
        start, end = inside[0].start, values[-1].end
        text = self._list(values, depth, start)
        lost = self.source.count("\n", start, end) - text.count("\n")
        yield start, end, text + lines_of("\n" * lost, inside[0])

    def _value(self, part):
        steps, k = [], 0
        while text_at(part, k) in ("[", "."):
            end = step_over(part, k) if part[k].text == "[" else k + 2
            steps.append(part[k:end])
            k = end
        if not steps or text_at(part, k) != "=" or k + 1 == len(part):
            return _Value([], part, part[0].start, part[-1].end)
        steps = [step[1].text if step[0].text == "." else self._range(step[1:-1]) for step in steps]
        return _Value(steps, part[k + 1 :], part[0].start, part[-1].end)

    def _range(self, part):
        dots = next((k for k in range(len(part)) if [t.text for t in part[k : k + 3]] == ["."] * 3), None)
        ends = [part] if dots is None else [part[:dots], part[dots + 3 :]]
        indices = [self._constant(each) for each in ends]
        if None in indices or not 0 <= indices[0] <= indices[-1] < _MOST:
            raise _Unclear
        return indices[0], indices[-1]

    def _list(self, values, depth, start):
        """The text of a list. Where its values keep their order, so does all that is between them."""
        if all(isinstance(step, str) for value in values for step in value.steps[:1]):
            made = [(n, text) for n, text in enumerate(self._members(values))]
        else:
            made = self._elements(values, depth)
        if [n for n, _ in made if n is not None] != [*range(len(values))]:
            return ", ".join(text for _, text in made)
        text, at, left_out = "", start, ""
        for n, value in made:
            if n is None:
                left_out += f"{value}, "
            else:
                text += self.source[at : values[n].start] + left_out + value
                at, left_out = values[n].end, ""
        return text

    def _members(self, values):
        names = [value.steps[0] if value.steps else "" for value in values]
        if not any(len(value.steps) > 1 for value in values) or "" in names or len({*names}) < len(names):
            raise _Unclear
        for value in values:
            inner = self._inner([value], None) if value.steps[1:] else self._text(value.tokens, None)
            yield f".{value.steps[0]} = {inner}"

    def _elements(self, values, depth):
        """The texts of an array's elements, each with the number of its value, or None if it has none."""
        found, parts, at = {}, defaultdict(list), 0
        for n, value in enumerate(values):
            braced, follows = value.tokens[0].text == "{", values[n + 1 : n + 2]
            if not value.steps:
                first = last = at
                if n and values[n - 1].steps[1:]:  # it goes on inside an element
                    raise _Unclear
                if depth != 1 and not braced:  # several values may make one element, but may not at the end
                    if any(other.steps for other in values[n:]) or at < max(found, default=-1):
                        raise _Unclear
            elif isinstance(value.steps[0], str):
                raise _Unclear
            else:
                first, last = value.steps[0]
            text = "" if value.steps[1:] else self._text(value.tokens, depth and depth - 1)
            if value.steps and not braced and depth != 1 and not (follows and not follows[0].steps):
                text = f"{{{text}}}"  # or what comes next could become a part of this element
            if "\n" in text and first < last:  # each line would be there several times
                raise _Unclear
            for index in range(first, last + 1):
                if index in found and (bool(value.steps[1:]) != (index in parts)):
                    raise _Unclear
                if value.steps[1:]:
                    parts[index].append(value)
                elif index in found and _has_effects(values[found[index][0]].tokens):
                    raise _Unclear
                found[index] = n, text
            at = last + 1
        for index, inner in parts.items():
            found[index] = found[index][0], self._inner(inner, depth and depth - 1)
        return [found.get(index, (None, "{}")) for index in range(max(found) + 1)]

    def _inner(self, values, depth):
        """The list of an element or a member whose values have further designators."""
        inner = [value._replace(steps=value.steps[1:]) for value in values]
        if len(inner) == 1 and isinstance(inner[0].steps[0], str) and not inner[0].steps[1:]:
            return f"{{.{inner[0].steps[0]} = {self._text(inner[0].tokens, None)}}}"
        if all(isinstance(value.steps[0], str) and not value.steps[1:] for value in inner):
            return f"{{{', '.join(f'.{v.steps[0]} = {self._text(v.tokens, None)}' for v in inner)}}}"
        return f"{{{self._list(inner, depth, inner[0].start)}}}"

    def _text(self, part, depth):
        """The text of a value, which may have lists of its own."""
        start = part[0].start
        edits = [(begins - start, ends - start, text) for begins, ends, text in self.edits(part, depth)]
        return edited(self.source[start : part[-1].end], edits)

    # ---- constants --------------------------------------------------------------------------------------------------

    def _constant(self, part, level=0) -> int | None:
        """The value of an expression of numbers and the names of constants; None if it cannot be told."""
        words = []
        for k, token in enumerate(part):
            if token.text == "::" or text_at(part, k + 1) == "::":
                continue
            number = _NUMBER.fullmatch(token.text)
            if number:
                digits = number[1].replace("'", "")
                is_octal = digits[0] == "0" and digits.isdecimal()
                words.append(str(int(digits, 8 if is_octal and set(digits) <= set("01234567") else 0)))
            elif token.text.isidentifier() and level < 8:
                values = {self._constant(value, level + 1) for value in self._known()[token.text]}
                if len(values) != 1 or None in values:
                    return None
                words.append(f"({values.pop()})")
            elif token.text in {*"+-*/%()<>&|^~"}:
                words.append("//" if token.text == "/" else token.text)
            else:
                return None
        text = "".join(words)
        if "-" in text and ("/" in text or "%" in text):
            return None  # of negative numbers, Python rounds the other way
        if "**" in text or "<<" in text and any(int(number) > 63 for number in re.findall(r"\d+", text)):
            return None  # the one is no C++, and the other nothing to calculate here
        try:
            return int(eval(text, {"__builtins__": {}}))
        except (SyntaxError, ArithmeticError, ValueError, TypeError):
            return None

    def _known(self):
        if self.constants is None:
            self.constants = defaultdict(list)
            for macro in cxx.macros(self.source).values():
                if macro.parameters is None:
                    self.constants[macro.name].append(macro.body)
            part = [token for token in cxx.tokens(self.source) if not token.directive]
            for k, token in enumerate(part):
                if token.text == "enum":
                    self._enumerators(part, k)
                elif token.text in ("const", "constexpr"):
                    self._variables(part, k)
        return self.constants

    def _enumerators(self, part, k):
        opens = next((j for j in range(k, len(part)) if part[j].text in ("{", ";", ")")), k)
        closes, before = matching(part, opens) if part[opens].text == "{" else None, []
        for enumerator in cxx.at_commas(part[opens + 1 : closes]) if closes else ():
            if enumerator:
                name, counted = enumerator[0], [*before, enumerator[0]._replace(text="+")] if before else []
                value = enumerator[2:] or [*counted, name._replace(text="1" if before else "0")]
                self.constants[name.text].append(value)
                before = [name]

    def _variables(self, part, k):
        end = k
        while end < len(part) and part[end].text not in (";", ")"):
            end = step_over(part, end)
        for declarator in cxx.at_commas(part[k + 1 : end]):
            at = cxx.declared_at(declarator)
            if at is not None and text_at(declarator, at + 1) == "=":
                self.constants[declarator[at].text].append(declarator[at + 2 :])


def _dimensions(part, k):
    """Of how many dimensions the array of scalars is whose list begins at index k; None if it is something else."""
    k, found = k - 1 - (text_at(part, k - 1) == "="), 0
    while text_at(part, k) == "]":
        k, found = (matching(part, k) or 0) - 1, found + 1
    if not found or not text_at(part, k).isidentifier():
        return None
    words = set()
    while text_at(part, k - 1).isidentifier() or text_at(part, k - 1) in ("*", "::"):
        k -= 1
        words.add(part[k].text)
    return found if "*" in words or words & _SCALARS else None


def _has_effects(part):
    text = cxx.written(part)
    return any(effect in text for effect in ("(", "=", "++", "--"))
