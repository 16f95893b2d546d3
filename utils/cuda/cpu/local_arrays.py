"""The local arrays of device code: where they are declared, and which a thread may leave through a pointer.

An array that is used only with all its indexes, `a[i][j]`, is checked by the compiler (-fsanitize=bounds). It allows
the index just past the end where only the address is taken, as for a reference: there the engine's `element` reads it.

An array that is passed on, or whose address is taken, gets marks on both sides in a trace, and the trace's hooks know
it. So does any other variable whose address is passed to a function that may take it for an array (passed_on.py).
"""

from collections import Counter
from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.cpu.passed_on import may_be_referred_to, own_functions, passes_address
from utils.cuda.cpu.scopes import ALIGNING, NOT_DECLARATIONS, needs_name_itself, statements

__all__ = ["Variable", "declared_arrays", "declared_variables", "has_local_arrays", "marked", "uses_of", "with_marks"]


_NUMBERS = {"char", "short", "int", "long", "float", "double", "bool", "signed", "unsigned"}
_ELSEWHERE = {"__shared__", "static", "extern", "typedef"}  # what a declaration with these declares is on no stack
_IN_LINE = 8  # unset_in_line in unset.h


class Variable(NamedTuple):
    """What a declaration declares, or one of several that it does."""

    kind: str  # 'const float *', everything before the name
    name: str
    at: int  # index of the name's token
    dims: str  # '[4][N]'
    count: int  # of dimensions; 0: it is no array
    value: str  # the text after the dimensions: '= {1, 2}', empty without an initial value

    @property
    def of_class(self):
        return "*" not in self.kind and not _NUMBERS & set(self.kind.split())


def has_local_arrays(source) -> bool:
    """Whether a function or a type of the source declares an array, which a thread may overrun."""
    return any(arrays for _, _, arrays, _ in declared_arrays(source))


def with_marks(source) -> str:
    """The source with marks around device code's variables that a thread may leave through a pointer, and checks where
    it refers to an element of another array, line for line."""
    part, unset = cxx.tokens(source), Counter()
    functions, checks, marks = own_functions(part), {}, {}  # by where they begin: the end, and what is there instead
    for first, end, variables, scope in declared_variables(source):
        if scope.kind != "device" or any("[]" in variable.dims for variable in variables):
            continue
        found, line = [], part[first].line
        for variable in variables:
            uses = uses_of(part, variable, scope)
            left = bool(uses) and _may_be_left(part, variable, uses, scope, functions)
            if not left:
                checks |= _checks(part, variable, uses)
            found.append((variable, left))
        if any(left for _, left in found):
            text = marked(found, unset[line])
            unset[line] += sum(left and not variable.value for variable, left in found)
            text += "\n" * (source.count("\n", part[first].start, part[end].end) - text.count("\n"))
            marks[part[first].start] = part[end].end, text
    pieces, at = [], 0
    for begins, (ends, text) in sorted((checks | marks).items()):
        if begins >= at:
            pieces += [source[at:begins], text]
            at = ends
    return "".join(pieces) + source[at:]


def _checks(part, variable, uses):
    """`a[i][j]` as `element(element(a, i), j)` where something may refer to it: what its name and brackets become."""
    found = {}
    for k in uses:
        brackets = _brackets(part, k, variable.count)
        if not brackets or not may_be_referred_to(part, k, brackets[-1][1] + 1, variable.of_class):
            continue
        found[part[k].start] = part[k].end, "::cuda_on_cpu::element(" * variable.count + variable.name
        for opens, closes in brackets:
            found[part[opens].start] = part[opens].end, ", "
            found[part[closes].start] = part[closes].end, ")"
    return found


def _brackets(part, k, count):
    """Where the `count` indexes after the name at index `k` open and close; None if there are not so many."""
    found, after = [], k + 1
    for _ in range(count):
        closes = cxx.matching(part, after) if cxx.text_at(part, after) == "[" else None
        if closes is None:
            return None
        found.append((after, closes))
        after = closes + 1
    return found


def marked(variables, unset=0):
    """The declarations of variables, each with whether it gets marks. `unset`: how many without a value come before
    them in the line."""
    texts = []
    for variable, left in variables:
        texts.append(_marked(variable, unset) if left else _unmarked(variable))
        unset += left and not variable.value
    return " ".join(texts)


def _unmarked(variable):
    return f"{variable.kind} {variable.name}{variable.dims} {variable.value}".rstrip() + ";"


def _marked(variable, before):
    """The declaration of a reference to the variable in include/cuda_on_cpu/locals.h's struct. `before`: how many of
    those without a value come before it in the line."""
    name, kind = variable.name, f"{variable.kind}{variable.dims}"
    room = f"cuda_on_cpu_room_of_{name}"
    if variable.value:
        value = variable.value.removeprefix("=").strip()
        if value == variable.value and not variable.dims and variable.kind.count(" ") == 0:
            value = variable.kind + value  # its constructor may be explicit
        made = f'Local<{kind}> {room}{{{{"{name}", sizeof({kind})}}, {value}, {{}}}}'
    else:
        number = f", {_IN_LINE - 1 - before}" if before else ""
        made = f'UnsetLocal<{kind}> {room}{{"{name}"{number}}}'
    return f"::cuda_on_cpu::{made}; auto& {name} = {room}.value;"


def declared_arrays(source):
    """The declarations of arrays in functions and types: first token, `;`, the arrays, and the scope they are in.

    Of a declaration that also declares something else, or that cannot be read, there is none.
    """
    for first, end, variables, scope in declared_variables(source):
        if all(variable.count for variable in variables):
            yield first, end, variables, scope


def declared_variables(source, also=()):
    """The same for declarations of any variables, those that begin with a word of `also` included: "auto"."""
    part, macros = cxx.tokens(source), cxx.macros(source).items()  # such as `#define ON_CHIP __shared__`
    elsewhere = _ELSEWHERE | {name for name, macro in macros if _ELSEWHERE & {token.text for token in macro.body}}
    for first, scope in statements(source):
        end = _end(part, first, elsewhere, also)
        variables = end and _variables(part[first:end], first, source)
        if variables:
            yield first, end, variables, scope


def _end(part, k, elsewhere, also):
    """The index of the `;` that ends the declaration beginning at index k; None if it cannot be one."""
    if not part[k].text.isidentifier() or part[k].text in NOT_DECLARATIONS - {*also}:
        return None
    while k < len(part) and part[k].text != ";":
        if part[k].directive or part[k].text in ("}", ")", "]") or part[k].text in elsewhere:
            return None
        closes = cxx.matching(part, k) if part[k].text in ("(", "[", "{") else k
        if closes is None:
            return None
        k = closes + 1
    return k if k < len(part) else None


def _variables(declaration, offset, source):
    """The variables that a declaration declares; None if it may be something else."""
    found, base = [], ""
    kept, k = [], 0
    while k < len(declaration):
        if declaration[k].text in ALIGNING and (closes := cxx.matching(declaration, k + 1)):
            k = closes
        else:
            kept.append((declaration[k], offset + k))
        k += 1
    tokens = [token for token, _ in kept]
    places = {token.start: place for token, place in kept}
    for declarator in cxx.at_commas(tokens):
        at = cxx.declared_at(declarator)
        if at is None or cxx.code(declarator[at].text) == "" or not declarator[at:]:
            return None
        before = [token.text for token in declarator[:at]]
        if any(not (text.isidentifier() or text in ("::", "*", "<", ">", ",") or text.isdigit()) for text in before):
            return None
        if found and any(text not in ("*", "const") for text in before):
            return None
        dims, count, after = "", 0, at + 1
        while after < len(declarator) and declarator[after].text == "[":
            closes = cxx.matching(declarator, after)
            if closes is None:
                return None
            inside = source[declarator[after].end : declarator[closes].start]
            dims, count, after = dims + (f"[({inside})]" if inside.strip() else "[]"), count + 1, closes + 1
        value = ""
        if after < len(declarator):
            if declarator[after].text not in ("=", "{") or cxx.text_at(declarator, len(declarator) - 1) == "=":
                return None
            value = source[declarator[after].start : declarator[-1].end]
        if not found:
            stars = at
            while stars and declarator[stars - 1].text == "*":
                stars -= 1
            base = cxx.written(declarator[:stars])
            if not base:
                return None
            before = before[stars:]
        place = places[declarator[at].start]
        found.append(Variable(f"{base} {''.join(before)}".strip(), declarator[at].text, place, dims, count, value))
    return found


def uses_of(part, variable, scope):
    """Where the variable's name is used; nothing if one of these uses needs a name of its own."""
    later = range(variable.at + 1, scope.end)
    uses = [k for k in later if part[k].text == variable.name and part[k - 1].text not in (".", "->", "::")]
    if any(needs_name_itself(part, k) for k in uses):
        return []
    return [k for k in uses if "sizeof" not in (part[k - 1].text, part[k - 1].text == "(" and part[k - 2].text)]


def _may_be_left(part, variable, uses, scope, functions):
    """Whether a pointer may leave the variable: an array is used other than with all its indexes, or the address of
    something else is passed to a function."""
    if not variable.count:
        constant = "const" in variable.kind.split() and "*" not in variable.kind  # it may be the size of an array
        return not constant and any(passes_address(part, k, scope.end, functions) for k in uses)
    for k in uses:
        if _brackets(part, k, variable.count) is None:
            return True
        before, earlier = part[k - 1].text, part[k - 2].text
        if before == "&" and not (earlier.isidentifier() or earlier in (")", "]") or earlier[:1].isdigit()):
            return True
        if before == "(" and earlier == ">" or before == ")" and earlier in ("&", "*"):
            return True
    return False
