"""Types with arrays among their members, and the local variables of such types in device code.

An index that leaves `row.values[i]` itself is found by the compiler (-fsanitize=bounds-strict). A pointer to the array
may leave the whole variable: in a trace it gets marks on both sides, as a local array does (local_arrays.py). An access
that reaches the variable's next member is not noticed: marks between members would change the type's layout.
"""

import re

from utils.cuda.common import cxx
from utils.cuda.cpu.local_arrays import Variable, declared_arrays, declared_variables, marked, uses_of
from utils.cuda.cpu.scopes import statements

__all__ = ["may_be_longer", "with_marks_around_structs"]

_TYPES = {"struct", "class", "union"}
_NUMBERS = {"char", "short", "int", "long", "float", "double", "bool", "signed", "unsigned"}


def may_be_longer(source) -> bool:
    """Whether a type has an array of 0 or 1 elements, which by an old custom stands for as many as were allocated."""
    members = [array for _, _, arrays, scope in declared_arrays(source) if scope.kind == "type" for array in arrays]
    return any(array.dims in ("[(0)]", "[(1)]") for array in members)


def with_marks_around_structs(source) -> str:
    """The source with marks around device code's variables whose arrays a pointer may leave, line for line."""
    source = _with_types_apart(source)
    part, pieces, at = cxx.tokens(source), [], 0
    types, arrays, nested = _types_with_arrays(part)
    if not types:
        return source
    texts = {}  # by the first token of a declaration: its `;`, and what is there instead
    for first, scope in statements(source):
        if scope.kind == "device" and (found := _declared(part, first, types, source)):
            variable, end = found
            if any(_may_be_left(part, k, 0, arrays, nested) for k in uses_of(part, variable, scope)):
                texts[first] = end, marked([(variable, True)])
    returned = _returned(source, types)
    for first, end, variables, scope in declared_variables(source, also=("auto",)):
        if first in texts or scope.kind != "device" or any("[]" in variable.dims for variable in variables):
            continue
        known = [_with_type(variable, returned) for variable in variables]
        left = [
            _is_of(variable.kind, types)
            and any(_may_be_left(part, k, variable.count, arrays, nested) for k in uses_of(part, variable, scope))
            for variable in known
        ]
        if any(left):
            texts[first] = end, marked(zip(known, left, strict=True))
    for first, (end, text) in sorted(texts.items()):
        lines = source.count("\n", part[first].start, part[end].end) - text.count("\n")
        pieces += [source[at : part[first].start], text, "\n" * lines]
        at = part[end].end
    return "".join(pieces) + source[at:]


def _with_types_apart(source):
    """The source with `struct Row { float v[4]; }; Row a, b;` where device code has both in one declaration."""
    part, pieces, at = cxx.tokens(source), [], 0
    for first, scope in statements(source):
        begins = first + sum(token.text == "const" for token in part[first : first + 1])
        if scope.kind != "device" or part[begins].text not in _TYPES:
            continue
        named = cxx.text_at(part, begins + 1).isidentifier()
        opens = begins + 1 + named
        closes = cxx.matching(part, opens) if cxx.text_at(part, opens) == "{" else None
        if closes is None or cxx.text_at(part, closes + 1) == ";" or not _member_arrays(part[opens + 1 : closes]):
            continue
        name = part[begins + 1].text if named else f"cuda_on_cpu_type_{begins}"
        const = "const " if begins > first else ""
        pieces += [source[at : part[first].start], source[part[begins].start : part[begins].end], f" {name} "]
        pieces += [source[part[opens].start : part[closes].end], f"; {const}{name} "]
        at = part[closes].end
    return "".join(pieces) + source[at:]


def _is_of(kind, types):
    """Whether 'const Row' is one of those types, and not a pointer."""
    name = re.fullmatch(r"(?:(?:const|struct|class) )*(?:\w+::)*(\w+)\s?(<.*>)?", kind)
    return bool(name) and name[1] in types and types[name[1]] == bool(name[2])


def _returned(source, types):
    """The types that are no templates, by themselves and by the functions that return nothing else."""
    found, others = {name: name for name, is_template in types.items() if not is_template}, set()
    for function in cxx.functions(source):
        kind = next((word for word in types if re.search(rf"\b{word}$", function.returns)), None)
        if kind not in found or function.template or found.get(function.name, kind) != kind:
            others.add(function.name)
        else:
            found[function.name] = kind
    return {name: kind for name, kind in found.items() if name not in others}


def _with_type(variable, returned):
    """`auto row = made(x)` with the type that it has, where the source tells."""
    called = re.match(r"=\s*(\w+)\s*[({]", variable.value)
    if variable.kind not in ("auto", "const auto") or not called or called[1] not in returned:
        return variable
    value = cxx.tokens(variable.value)
    if cxx.matching(value, 2) != len(value) - 1:
        return variable
    return variable._replace(kind=variable.kind.replace("auto", returned[called[1]]))


def _types_with_arrays(part):
    """The types, by name and whether each is a template, that hold arrays directly or in a member; the arrays' names
    with their number of dimensions; the names of members that are of such a type."""
    types, arrays, nested = {}, {}, set()
    for k, token in enumerate(part):
        if token.directive:
            continue
        if token.text in ("using", "typedef"):
            end = next((i for i in range(k, len(part)) if part[i].text in (";", "{")), k)
            inside = part[k + 2 : end] if token.text == "using" else part[k + 1 : end - 1]
            if cxx.text_at(part, end) == ";" and any(_behind_type(inside, i, types) for i in range(len(inside))):
                name = part[k + 1] if token.text == "using" else part[end - 1]
                types[name.text] = cxx.text_at(part, k - 1) == ">"
        elif token.text in _TYPES and cxx.text_at(part, k - 1) not in ("<", ",", "enum"):
            opens = next((i for i in range(k + 1, len(part)) if part[i].text in ("{", ";", "(", ")", "=", ">")), None)
            closes = cxx.matching(part, opens) if opens and part[opens].text == "{" else None
            if closes is None:
                continue
            inside, own = part[k + 2 : closes], _member_arrays(part[opens + 1 : closes])
            arrays |= own
            after = [_behind_type(inside, i, types) for i in range(len(inside))]
            nested |= {cxx.text_at(inside, i) for i in after if i}
            if own or any(after):
                name = part[k + 1].text if part[k + 1].text.isidentifier() else cxx.text_at(part, closes + 1)
                types[name] = cxx.text_at(part, k - 1) == ">"
    return types, arrays, nested


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


def _behind_type(tokens, k, types):
    """The index behind the type at index k; 0 if it is none of those, or if a pointer or reference to it follows."""
    if tokens[k].text not in types:
        return 0
    after = k + 1
    if cxx.text_at(tokens, after) == "<":
        after = cxx.step_over(tokens, after)
    return 0 if cxx.text_at(tokens, after) in ("*", "&", "&&", "(", "::") else after


def _declared(part, first, types, source):
    """The one such variable that is declared at index `first`, also by `Row row(3)`, and the index of the `;`. None if
    it is something else."""
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
    if cxx.text_at(part, after) in ("{", "("):
        if cxx.step_over(part, after) != end or part[after + 1].text in {")", "const", *_NUMBERS, *types}:
            return None  # `(`: it may declare a function
        value = f"= {kind}{value}"
    if any(token.text == "const" for token in part[first:begins]):
        kind = f"const {kind}"
    return Variable(kind, part[k].text, k, "", 0, value), end


def _may_be_left(part, k, dims, arrays, nested):
    """Whether this use of a variable, of an array if it has `dims`, is another than of a single member or of an element
    of a member that is an array."""
    after, member = k + 1, ""
    while dims and cxx.text_at(part, after) == "[":
        after, dims = cxx.step_over(part, after), dims - 1
    while cxx.text_at(part, after) == ".":
        member, after = cxx.text_at(part, after + 1), after + 2
        for _ in range(arrays.get(member, 0)):
            if cxx.text_at(part, after) != "[":
                return True
            after = cxx.step_over(part, after)
    return not member or member in nested or cxx.text_at(part, after) in ("(", "[") or part[k - 1].text == "&"
