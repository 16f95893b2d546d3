"""`__CUDA_ARCH__`: nvcc compiles a text twice, and defines it only in the pass for the GPU. Here one pass does both.

Where device code depends on the macro, lines are put around it that define and undefine it. `#line` then restores the
number of the line, so a compiler's message about line 7 is still about line 7 of the learner's source.

- The body of a `__device__` or `__global__` function sees the macro.
- A `__host__ __device__` function gets two bodies: one for when a kernel runs, one for when the host does.
- An `#if` outside functions counts as device code if there is any in it. If it contains nothing but preprocessor lines,
  these are repeated wherever the macro changes, so a name that they define has a meaning for either side.

Everything else is host code. A header that a text includes is, too.
"""

from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.common.lexer import step_over, text_at

__all__ = ["with_architecture"]

_NAME = "__CUDA_ARCH__"
_MARKS = {"__global__", "__device__"}
_OPEN, _CLOSE = {"if", "ifdef", "ifndef"}, {"endif"}


def with_architecture(text) -> str:
    """The C++ text of a whole CUDA source, with `__CUDA_ARCH__` defined in its device code only.

    The macro's value is that of CUDA_ON_CPU_ARCH, which the build defines.
    """
    if _NAME not in text:
        return text
    tokens = cxx.tokens(text)
    groups = _groups(tokens)
    names = _depending(text, groups)
    outside = [group for group in groups if group.names & names and not group.within(groups, names)]
    marks = _MARKS | {name for name, macro in cxx.macros(text).items() if _MARKS & {t.text for t in macro.body}}
    bodies = [body for body in _bodies(tokens, marks) if names & {t.text for t in tokens[body.first : body.last + 1]}]
    spans = [(tokens[body.first].start, tokens[body.last].end) for body in bodies]
    outside = [g for g in outside if not any(start < g.start and g.end <= end for start, end in spans)]
    repeated = [g for g in outside if all(t.directive for t in tokens if g.start <= t.start < g.end)]
    device = [
        g for g in outside if g not in repeated and marks & {t.text for t in tokens if g.start <= t.start < g.end}
    ]
    switch = _Switch(text, repeated)
    edits = []
    for group in device:
        edits.append((group.start, group.start, switch.to(group.start, device=True)))
        edits.append((group.end, group.end, switch.to(group.end, device=False)))
    for body, (start, end) in zip(bodies, spans, strict=True):
        inside = any(g.start <= start and end <= g.end for g in device)
        enter, leave = switch.to(start, device=True), switch.to(end, device=inside)
        if body.both:
            again = switch.to(start, device=False)
            block = text[start:end]
            enter = "{ if (::cuda_on_cpu::in_device_code()) " + f"{enter}{block}{again}else "
            leave += "}"
            if inside:
                leave = switch.to(end, device=True) + "}"
        edits += [(start, start, enter), (end, end, leave)]
    pieces, at = [], 0
    for start, _, new in sorted(edits, key=lambda edit: edit[0]):
        pieces += [text[at:start], new]
        at = start
    return "".join(pieces) + text[at:]


class _Group(NamedTuple):
    """An `#if` with its `#endif`: offsets in the text, and the words of its conditions."""

    start: int
    end: int
    names: set[str]

    def within(self, groups, names):
        """Whether it is inside another group whose conditions have one of the names."""
        return any(g is not self and g.start < self.start and self.end <= g.end and g.names & names for g in groups)


def _groups(tokens) -> list[_Group]:
    found, opened = [], []
    at = 0
    while at < len(tokens):
        if not tokens[at].directive:
            at += 1
            continue
        first, number = at, tokens[at].directive
        while at < len(tokens) and tokens[at].directive == number:
            at += 1
        kind = text_at(tokens, first + 1)
        if kind in _OPEN:
            opened.append((tokens[first].start, set()))
        if opened and kind in _OPEN | {"elif"}:
            opened[-1][1].update(token.text for token in tokens[first + 2 : at])
        if opened and kind in _CLOSE:
            start, names = opened.pop()
            found.append(_Group(start, tokens[at - 1].end, names))
    return found


def _depending(text, groups) -> set[str]:
    """`__CUDA_ARCH__` and the macros whose meaning depends on it."""
    defined = [line for line in cxx.directives(text) if text_at(line, 1) == "define" and len(line) > 2]
    names = {_NAME}
    while True:
        inside = [(g.start, g.end) for g in groups if g.names & names]
        more = {
            line[2].text
            for line in defined
            if names & {token.text for token in line[3:]} or any(a < line[0].start < b for a, b in inside)
        }
        if more <= names:
            return names
        names |= more


class _Body(NamedTuple):
    """A function's body, by the indices of its brackets, and whether the function is of the host, too."""

    first: int
    last: int
    both: bool


def _bodies(tokens, marks) -> list[_Body]:
    """The bodies of the functions that are marked as device code, methods and lambdas included."""
    found = []
    for at, token in enumerate(tokens):
        if token.text not in marks or token.directive or found and at < found[-1].last:
            continue
        begins = next((b + 1 for b in range(at - 1, -1, -1) if tokens[b].text in (";", "{", "}")), 0)
        k, parameters, initializers = at, False, False
        while k < len(tokens) and tokens[k].text not in (";", "=", "}"):
            text = tokens[k].text
            if text == "{" and not (initializers and text_at(tokens, k - 1).isidentifier()):
                break
            parameters = parameters or text == "("
            initializers = initializers or parameters and text == ":"
            k = step_over(tokens, k) if text in "([{" else k + 1
        if text_at(tokens, k) == "{" and parameters:
            head = {t.text for t in tokens[begins:k]}
            both = "__host__" in head or any(name not in _MARKS and name in head for name in marks)
            found.append(_Body(k, step_over(tokens, k) - 1, both))
    return found


class _Switch:
    """The lines that change from the host's meaning of the macro to the device's, and back."""

    def __init__(self, text, repeated):
        self._text, self._repeated = text, repeated

    def to(self, place, device):
        """Those for the offset `place` of the text; a line of their own, and the next has the number of that place."""
        lines = ["", f"#undef {_NAME}"]
        if device:
            lines.append(f"#define {_NAME} CUDA_ON_CPU_ARCH")
        for group in self._repeated:
            if group.end <= place:
                again = self._text[group.start : group.end]
                names = [line[2].text for line in cxx.directives(again) if text_at(line, 1) == "define"]
                lines += [f"#undef {name}" for name in dict.fromkeys(names)]
                lines.append(again)
        number = self._text.count("\n", 0, place) + 1
        return "\n".join([*lines, f"#line {number}", ""])
