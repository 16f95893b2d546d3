"""Types with arrays among their members, and the local variables of such types in device code.

An index that leaves `row.values[i]` itself is found by the compiler (-fsanitize=bounds-strict). A pointer to the array
may leave the whole variable: in a trace it gets marks on both sides, as a local array does (local_arrays.py). An access
that reaches the variable's next member is not noticed: marks between members would change the type's layout.
"""

from utils.cuda.common import cxx
from utils.cuda.cpu.local_arrays import declared_arrays
from utils.cuda.cpu.scopes import needs_name_itself, statements

__all__ = ["may_be_longer", "with_marks_around_structs"]

_TYPES = {"struct", "class", "union"}
_NUMBERS = {"char", "short", "int", "long", "float", "double", "bool", "signed", "unsigned"}


def may_be_longer(source) -> bool:
    """Whether a type has an array of 0 or 1 elements, which by an old custom stands for as many as were allocated."""
    members = [array for _, _, arrays, scope in declared_arrays(source) if scope.kind == "type" for array in arrays]
    return any(array.dims in ("[(0)]", "[(1)]") for array in members)


def with_marks_around_structs(source) -> str:
    """The source with marks around device code's variables whose arrays a pointer may leave, line for line."""
    part, pieces, at = cxx.tokens(source), [], 0
    types, arrays = _types_with_arrays(part)
    for first, scope in statements(source) if types else ():
        if scope.kind != "device":
            continue
        found = _declared(part, first, types, source)
        if found is None or not _is_passed_on(part, *found[:2], scope.end, arrays):
            continue
        name_at, end, kind, value = found
        name = part[name_at].text
        room = f"cuda_on_cpu_room_of_{name}"
        made = f'UnsetLocal<{kind}> {room}{{"{name}"}}'
        if value:
            made = f'Local<{kind}> {room}{{{{"{name}", sizeof({kind})}}, {value}, {{}}}}'
        text = f"::cuda_on_cpu::{made}; auto& {name} = {room}.value;"
        lines = source.count("\n", part[first].start, part[end].end) - text.count("\n")
        pieces += [source[at : part[first].start], text, "\n" * lines]
        at = part[end].end
    return "".join(pieces) + source[at:]


def _types_with_arrays(part):
    """The types, by name and whether each is a template, that hold arrays directly or in a member; the arrays' names
    with their number of dimensions."""
    types, arrays = {}, {}
    for k, token in enumerate(part):
        if token.directive:
            continue
        if token.text in ("using", "typedef"):
            end = next((i for i in range(k, len(part)) if part[i].text in (";", "{")), k)
            inside = part[k + 2 : end] if token.text == "using" else part[k + 1 : end - 1]
            if cxx.text_at(part, end) == ";" and any(_names_type(inside, i, types) for i in range(len(inside))):
                name = part[k + 1] if token.text == "using" else part[end - 1]
                types[name.text] = cxx.text_at(part, k - 1) == ">"
        elif token.text in _TYPES and cxx.text_at(part, k - 1) not in ("<", ",", "enum"):
            opens = next((i for i in range(k + 1, len(part)) if part[i].text in ("{", ";", "(", ")", "=", ">")), None)
            closes = cxx.matching(part, opens) if opens and part[opens].text == "{" else None
            if closes is None:
                continue
            inside, own = part[k + 2 : closes], _member_arrays(part[opens + 1 : closes])
            arrays |= own
            if own or any(_names_type(inside, i, types) for i in range(len(inside))):
                name = part[k + 1].text if part[k + 1].text.isidentifier() else cxx.text_at(part, closes + 1)
                types[name] = cxx.text_at(part, k - 1) == ">"
    return types, arrays


def _member_arrays(body):
    """The arrays that a type's body declares, with their number of dimensions."""
    found, k = {}, 0
    while k < len(body):
        name, count, k = body[k].text, 0, cxx.step_over(body, k)
        while name.isidentifier() and name != "operator" and cxx.text_at(body, k) == "[":
            count, k = count + 1, cxx.step_over(body, k)
        if count:
            found[name] = count
    return found


def _names_type(tokens, k, types):
    """Whether the type at index k is one of those, and not a pointer or reference to it."""
    if tokens[k].text not in types:
        return False
    after = k + 1
    if cxx.text_at(tokens, after) == "<":
        after = cxx.step_over(tokens, after)
    return cxx.text_at(tokens, after) not in ("*", "&", "&&", "(", "::")


def _declared(part, first, types, source):
    """Of the declaration of one such variable at index `first`: the index of its name and of its `;`, its type, and the
    text of its value, empty without one. None if it is something else."""
    k = first
    while part[k].text in ("const", "struct", "class"):
        k += 1
    begins = k
    while cxx.text_at(part, k + 1) == "::":
        k += 2
    name = part[k].text
    if name not in types or types[name] != (cxx.text_at(part, k + 1) == "<"):
        return None
    k = cxx.step_over(part, k + 1) if types[name] else k + 1
    after = k + 1
    if k >= len(part) or not part[k].text.isidentifier() or cxx.text_at(part, after) not in (";", "=", "{", "("):
        return None
    kind, end = source[part[begins].start : part[k - 1].end], after
    while end < len(part) and part[end].text not in (";", ",", "}"):
        if part[end].directive:
            return None
        end = cxx.step_over(part, end)
    if cxx.text_at(part, end) != ";":
        return None
    value = source[part[after].start : part[end].start].strip()
    if part[after].text == "=":
        value = value[1:].strip()
    elif part[after].text in ("{", "("):
        if cxx.step_over(part, after) != end or part[after + 1].text in {")", "const", *_NUMBERS, *types}:
            return None  # `(`: it may declare a function
        value = kind + value
    if any(token.text == "const" for token in part[first:begins]):
        kind = f"const {kind}"
    return k, end, kind, value


def _is_passed_on(part, at, end, scope_end, arrays):
    """Whether the variable is used other than by single members, and by elements of its arrays."""
    name = part[at].text
    uses = [k for k in range(end, scope_end) if part[k].text == name and part[k - 1].text not in (".", "->", "::")]
    if any(needs_name_itself(part, k) for k in uses):
        return False
    for k in uses:
        if cxx.text_at(part, k + 1) != ".":
            return True
        member, after = cxx.text_at(part, k + 2), k + 3
        for _ in range(arrays.get(member, 0)):
            if cxx.text_at(part, after) != "[":
                return True
            after = cxx.step_over(part, after)
        if cxx.text_at(part, after) == "(" or part[k - 1].text == "&":
            return True
    return False
