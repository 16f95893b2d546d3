"""Local variables of device code that are declared without a value: in a trace they hold one that it recognises."""

import re
from collections import Counter

from utils.cuda.common import cxx
from utils.cuda.cpu.array_members import with_marks_around_structs
from utils.cuda.cpu.local_arrays import with_marks
from utils.cuda.cpu.scopes import ALIGNING, NOT_DECLARATIONS, TYPES, statements

__all__ = ["unset_variable", "with_unset_locals"]

_IN_LINE, _IN_ASM = 8, 6  # unset_in_line and unset_in_asm in unset.h
_NUMBERS = {"char", "short", "int", "long", "float", "double", "bool", "signed", "unsigned"}
_HEADS = {"for", "if", "switch"}
_OTHERWISE = {"static", "extern", "constexpr", "thread_local", "__shared__", "__constant__", "typedef"}
_OTHERWISE |= {"operator", "__device__", "friend", *_NUMBERS}  # as a name
_CHANGES = {"++", "--", "->", *(f"{operator}=" for operator in "+-*/%&|^")}
_NOT_PLAIN = {*_CHANGES, "*", "&", "[", "asm", "new", "delete", "throw"}
_NOT_IN_ANGLES = {";", "{", "}", "=", "&&", "||", "?"}


def with_unset_locals(source) -> str:
    """The source with a macro of include/cuda_on_cpu/unset.h behind each such declaration, line for line.

    In the head of a loop or an `if` the macro is behind each such variable.
    """
    part, pieces, at, numbers = cxx.tokens(source), [], 0, Counter()

    def insert(token, macro, name):
        nonlocal at
        which = numbers[token.line]
        numbers[token.line] += 1
        pieces.append(f"{source[at : token.end]} {macro}({name.text}{which and f', {which}' or ''})")
        at = token.end

    macros = cxx.macros(source).items()  # such as `#define ON_CHIP __shared__`
    others = _OTHERWISE - _NUMBERS
    others |= {name for name, macro in macros if others & {token.text for token in macro.body}}
    classes, once = _constructed_from_values(part)
    behind_types = set()  # what follows the `}` of `struct { int a; } one;`
    for first, scope in statements(source):
        if scope.kind not in ("device", "jumps"):
            continue
        for head in _heads(part, first):
            if part[head].text in _NUMBERS:
                for name in _without_value(part, head, others)[1]:
                    insert(name, "CUDA_ON_CPU_UNSET_VALUE", name)
        if part[first].text in TYPES:
            opens = next((k for k in range(first, len(part)) if part[k].text in ("{", ";")), first)
            if part[opens].text == "{":
                behind_types.add(cxx.step_over(part, opens))
        end, names = _without_value(part, first, others, ["struct"] if first in behind_types else [])
        if once & {token.text for token in part[first : end or first]}:
            names = []
        used = _used_at_once(part, end, names)
        for name in used:
            if part[first].text in _NUMBERS and source[name.end :].lstrip()[:1] != "[":
                insert(name, "CUDA_ON_CPU_UNSET_VALUE", name)
        for name in names:
            if name not in used:
                insert(part[end], "CUDA_ON_CPU_UNSET", name)
        if made := _constructed(part, first, classes):
            end, name = made
            value = source[part[first].start : name.start].strip() + source[name.end : part[end].start].strip()
            which = numbers[part[end].line]
            numbers[part[end].line] += 1
            pieces.append(f"{source[at : part[end].end]} CUDA_ON_CPU_UNSET_MEMBERS({name.text}, {which}, {value})")
            at = part[end].end
    return "".join(pieces) + source[at:]


def unset_variable(source, number) -> tuple[int, str]:
    """The line, from 1, and name of the variable with a number (include/cuda_on_cpu/unset.h); 0 and "" if the source
    has none. What an `asm` statement leaves unwritten is called "asm"."""
    line, which = divmod(number, _IN_LINE)
    lines = with_unset_locals(with_marks_around_structs(with_marks(source))).splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    names = re.findall(rf"CUDA_ON_CPU_UNSET(?:_VALUE)?\((\w+){f', {which}' if which else ''}\)", text)
    names += re.findall(rf"CUDA_ON_CPU_UNSET_MEMBERS\((\w+), {which},", text)
    if not names:
        other = f", {which}" if which != _IN_LINE - 1 else ""
        names = re.findall(rf'UnsetLocal<[^;]*> \w+_room_of_(\w+){{"\w+"{other}}}', text)
    if not names and which == _IN_ASM:
        names = re.findall(r"\basm\b|\b__asm__\b|\b__asm\b", text)[:1] and ["asm"]
    return (line, names[0]) if len(names) == 1 else (0, "")


def _constructed_from_values(part):
    """The classes with constructors that only set members to values, so that one may be called twice and nobody can
    tell, and the other classes with constructors."""
    found, others = set(), set()
    for k, token in enumerate(part):
        if token.text not in TYPES or not cxx.text_at(part, k + 1).isidentifier() or token.directive:
            continue
        name, opens = part[k + 1].text, k + 2
        while cxx.text_at(part, opens) not in ("{", ";", "(", ")", ">", "=", ""):
            opens += 1
        closes = cxx.matching(part, opens) if cxx.text_at(part, opens) == "{" else None
        for at in range(opens, closes or opens):
            if part[at].text == name and cxx.text_at(part, at + 1) == "(" and cxx.text_at(part, at - 1) != "~":
                (found if _only_sets_members(part, cxx.step_over(part, at + 1)) else others).add(name)
    return found - others, others


def _only_sets_members(part, k):
    """Whether what follows a constructor's parameters, at index `k`, is ` : a(x), b{0} { c = x; }`."""
    while cxx.text_at(part, k) not in ("", ";"):
        after = cxx.step_over(part, k)
        if part[k].text in ("(", "{") and not _are_plain(part[k + 1 : after - 1]):
            return False
        if part[k].text == "{" and cxx.text_at(part, after) not in (",", "{"):
            return True
        k = after
    return False


def _are_plain(tokens):
    """Whether such statements or values can be computed twice: no calls, no memory, and only plain assignments."""
    pairs = [(one.text, other.text) for one, other in zip(tokens, tokens[1:], strict=False) if one.end == other.start]
    calls = any(other == "(" and one.isidentifier() for one, other in pairs)
    return not (calls or any(one + other in _CHANGES for one, other in pairs) or _NOT_PLAIN & {t.text for t in tokens})


def _constructed(part, first, classes):
    """The index of the `;` and the name's token of `Sum s(x, 0);`, with one of the classes; None for anything else."""
    name = cxx.step_over(part, first + 1) if cxx.text_at(part, first + 1) == "<" else first + 1
    opens = name + 1
    if part[first].text not in classes or cxx.text_at(part, opens) not in ("(", "{"):
        return None
    end = cxx.step_over(part, opens)
    values, words = part[opens + 1 : end - 1], {*_NUMBERS, *classes, "const", "auto"}
    if not part[name].text.isidentifier() or cxx.text_at(part, end) != ";" or not values:
        return None
    pairs = zip(values, values[1:], strict=False)
    may_be_function = any(a.text.isidentifier() and b.text.isidentifier() for a, b in pairs)
    casts = {values[k + 1].text for k, token in enumerate(values[:-1]) if token.text in ("(", "<")}
    if may_be_function or words & {token.text for token in values} - casts or not _are_plain(values):
        return None
    return end, part[name]


def _heads(part, k):
    """Where the parentheses of a statement's `for`, `if` and `switch` begin, as in `if (a) for (int i, j; ...)`."""
    while cxx.text_at(part, k) in (*_HEADS, "else", "while", "constexpr"):
        if cxx.text_at(part, k + 1) == "(":
            if part[k].text in _HEADS:
                yield k + 2
            k = cxx.step_over(part, k + 1)
        else:
            k += 1


def _without_value(part, first, others, words=()):
    """The index of the `;` after the declaration at index `first`, and the variables that it declares without a value,
    the names' tokens; none if it may be something else, such as the product `a * b;`, or has one of the words `others`
    in it. `words` are of the type, before the index."""
    nothing, first = (None, []), _behind_labels(part, first)
    if cxx.text_at(part, first) in NOT_DECLARATIONS:
        return nothing
    k, words = first, list(words)
    while k < len(part) and part[k].text not in (";", ",", "=", "[", "{"):
        text, after = part[k].text, cxx.step_over(part, k)
        if part[k].directive or text in others:
            return nothing
        if text in ALIGNING and cxx.text_at(part, k + 1) == "(":
            after = cxx.step_over(part, k + 1)
        elif text == "decltype" and cxx.text_at(part, k + 1) == "(":
            after = cxx.step_over(part, k + 1)
            words.append(text)
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
    if "*" in words and not {"const", "typename", "struct", *_NUMBERS} & set(words[: words.index("*")]):
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


def _used_at_once(part, end, names):
    """Those that a later declarator of the statement, which ends at index `end`, names: `float n, t = hit(&n);`."""
    found = []
    for name in names:
        k = end - 1
        while part[k].start > name.start and part[k].text != name.text:
            k -= 1
        found += [name] if part[k].start > name.start else []
    return found


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
        name, k = declarator[k : k + 1], k + 1
        while cxx.text_at(declarator, k) == "[":
            k = cxx.step_over(declarator, k)
        if not name or not name[0].text.isidentifier() or any(token.text == "<" for token in declarator):
            break  # what seems to come after a comma may be a template's argument
        if k == len(declarator) and name[0].text not in _OTHERWISE:
            found += name
    return found
