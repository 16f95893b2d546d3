"""Local variables of device code that are declared without a value: in a trace they hold one that it recognises."""

import re
from collections import Counter

from utils.cuda.common import cxx
from utils.cuda.cpu.array_members import with_marks_around_structs
from utils.cuda.cpu.local_arrays import with_marks
from utils.cuda.cpu.scopes import ALIGNING, NOT_DECLARATIONS, statements

__all__ = ["unset_variable", "with_unset_locals"]

_IN_LINE = 8  # unset_in_line in unset.h
_NUMBERS = {"char", "short", "int", "long", "float", "double", "bool", "signed", "unsigned"}
_OTHERWISE = {"static", "extern", "constexpr", "thread_local", "__shared__", "__constant__", "typedef", "volatile"}
_OTHERWISE |= {"operator", "__device__", "friend", *_NUMBERS}  # as a name
_NOT_IN_ANGLES = {";", "{", "}", "=", "&&", "||", "?"}


def with_unset_locals(source) -> str:
    """The source with a macro of include/cuda_on_cpu/unset.h behind each such declaration, line for line."""
    part, pieces, at, numbers = cxx.tokens(source), [], 0, Counter()
    macros = cxx.macros(source).items()  # such as `#define ON_CHIP __shared__`
    others = _OTHERWISE - _NUMBERS
    others |= {name for name, macro in macros if others & {token.text for token in macro.body}}
    for first, scope in statements(source):
        if scope.kind not in ("device", "jumps"):
            continue
        end, names = _without_value(part, first, others)
        if names:
            pieces.append(source[at : part[end].end])
            for name in names:
                which = numbers[part[end].line]
                numbers[part[end].line] += 1
                pieces.append(f" CUDA_ON_CPU_UNSET({name}{which and f', {which}' or ''})")
            at = part[end].end
    return "".join(pieces) + source[at:]


def unset_variable(source, number) -> tuple[int, str]:
    """The line, from 1, and name of the variable with a number (include/cuda_on_cpu/unset.h); 0 and "" if the source
    has none."""
    line, which = divmod(number, _IN_LINE)
    lines = with_unset_locals(with_marks_around_structs(with_marks(source))).splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    if which == _IN_LINE - 1:
        names = re.findall(r"UnsetLocal<.*?> \w+_room_of_(\w+)", text)
    else:
        names = re.findall(rf"CUDA_ON_CPU_UNSET\((\w+){f', {which}' if which else ''}\)", text)
    return (line, names[0]) if len(names) == 1 else (0, "")


def _without_value(part, first, others):
    """The index of the `;` after the declaration at index `first`, and the variables that it declares without a value;
    none if it may be something else, such as the product `a * b;`, or has one of the words `others` in it."""
    nothing, first = (None, []), _behind_labels(part, first)
    if cxx.text_at(part, first) in NOT_DECLARATIONS:
        return nothing
    k, words = first, []
    while k < len(part) and part[k].text not in (";", ",", "=", "[", "{"):
        text, after = part[k].text, cxx.step_over(part, k)
        if part[k].directive or text in others:
            return nothing
        if text in ALIGNING and cxx.text_at(part, k + 1) == "(":
            after = cxx.step_over(part, k + 1)
        elif text == "<" and after > k + 1 and not _NOT_IN_ANGLES & {token.text for token in part[k:after]}:
            words.append("<>")
        elif text.isidentifier() or text in ("::", "*"):
            words.append(text)
        else:
            return nothing
        k = after
    name, before = words[-1:], words[-2:-1]
    if k >= len(part) or not before or before == ["::"]:
        return nothing
    if "*" in words and not {"const", "typename", *_NUMBERS} & set(words[: words.index("*")]):
        return nothing
    end = _end(part, k)
    return (end, _names(part[k - 1 : end])) if end and name[0].isidentifier() else nothing


def _behind_labels(part, k):
    """Where the statement at index `k` begins without its labels, its attributes and the word `struct` or `enum`."""
    while k + 2 < len(part):
        text, after = part[k].text, part[k + 1].text
        if text == "case":
            k = next((i for i in range(k, len(part)) if part[i].text in (":", ";", "{", "}")), k) + 1
        elif text.isidentifier() and after == ":":
            k += 2
        elif text == after == "[":
            k = cxx.step_over(part, k)
        elif text in ("struct", "enum", "union") and after.isidentifier() and part[k + 2].text.isidentifier():
            k += 1
        else:
            break
    return k


def _end(part, k):
    """The index of the `;` that ends the statement around index `k`; None without one, or with a directive inside."""
    while k < len(part) and part[k].text not in (";", "}", ")", "]"):
        if part[k].directive:
            return None
        k = cxx.step_over(part, k)
    return k if cxx.text_at(part, k) == ";" else None


def _names(declarators):
    """Those of 'a, *b, c[4], d = 1' that have no value."""
    found = []
    for declarator in cxx.at_commas(declarators):
        k = 0
        while cxx.text_at(declarator, k) in ("*", "const", "__restrict__"):
            k += 1
        name, k = cxx.text_at(declarator, k), k + 1
        while cxx.text_at(declarator, k) == "[":
            k = cxx.step_over(declarator, k)
        if not name.isidentifier() or any(token.text == "<" for token in declarator):
            break  # what seems to come after a comma may be a template's argument
        if k == len(declarator) and name not in _OTHERWISE:
            found.append(name)
    return found
