"""The local arrays of device code: where they are declared, and which a thread may leave through a pointer.

An array that is used only with all its indexes, `a[i][j]`, is checked by the compiler (-fsanitize=bounds). One that is
passed on, or whose address is taken, is not: in a trace it gets marks on both sides, and the trace's hooks know it.
"""

from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.cpu.scopes import ALIGNING, NOT_DECLARATIONS, needs_name_itself, statements

__all__ = ["declared_arrays", "has_local_arrays", "with_marks"]


class _Array(NamedTuple):
    kind: str  # 'const float *', everything before the name
    name: str
    at: int  # index of the name's token
    dims: str  # '[4][N]'
    count: int  # of dimensions
    value: str  # the text after the dimensions: '{1, 2}', empty without an initial value


def has_local_arrays(source) -> bool:
    """Whether a function or a type of the source declares an array, which a thread may overrun."""
    return any(arrays for _, _, arrays, _ in declared_arrays(source))


def with_marks(source) -> str:
    """The source with marks around device code's arrays that a thread may leave through a pointer, line for line."""
    part, pieces, at = cxx.tokens(source), [], 0
    for first, end, arrays, scope in declared_arrays(source):
        chosen = [array for array in arrays if _is_passed_on(part, array, scope)]
        if scope.kind != "device" or not chosen or any("[]" in array.dims for array in chosen):
            continue
        text = " ".join(_marked(array) if array in chosen else _unmarked(array) for array in arrays)
        lines = source.count("\n", part[first].start, part[end].end) - text.count("\n")
        pieces += [source[at : part[first].start], text, "\n" * lines]
        at = part[end].end
    return "".join(pieces) + source[at:]


def _unmarked(array):
    return f"{array.kind} {array.name}{array.dims}{array.value and f' = {array.value}'};"


def _marked(array):
    """The declaration of a reference to the array in include/cuda_on_cpu/locals.h's struct."""
    room, kind = f"cuda_on_cpu_room_of_{array.name}", f"{array.kind}{array.dims}"
    made = f'UnsetLocal<{kind}> {room}{{"{array.name}"}}'
    if array.value:
        made = f'Local<{kind}> {room}{{{{"{array.name}", sizeof({kind})}}, {array.value}, {{}}}}'
    return f"::cuda_on_cpu::{made}; auto& {array.name} = {room}.value;"


def declared_arrays(source):
    """The declarations of arrays in functions and types: first token, `;`, the arrays, and the scope they are in.

    Of a declaration that also declares something else, or that cannot be read, there is none.
    """
    part = cxx.tokens(source)
    for first, scope in statements(source):
        end = _end(part, first)
        arrays = end and _arrays(part[first:end], first, source)
        if arrays:
            yield first, end, arrays, scope


def _end(part, k):
    """The index of the `;` that ends the declaration beginning at index k; None if it cannot be one."""
    if not part[k].text.isidentifier() or part[k].text in NOT_DECLARATIONS:
        return None
    brackets = False
    while k < len(part) and part[k].text != ";":
        if part[k].directive or part[k].text in ("}", ")", "]", "__shared__", "static", "extern", "typedef"):
            return None
        brackets = brackets or part[k].text == "["
        closes = cxx.matching(part, k) if part[k].text in ("(", "[", "{") else k
        if closes is None:
            return None
        k = closes + 1
    return k if brackets and k < len(part) else None


def _arrays(declaration, offset, source):
    """The arrays of a declaration that declares nothing else; otherwise None."""
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
        if at is None or cxx.code(declarator[at].text) == "" or at + 1 >= len(declarator):
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
        if not count:
            return None
        value = ""
        if after < len(declarator):
            starts = after + (declarator[after].text == "=")
            if declarator[after].text not in ("=", "{") or starts >= len(declarator):
                return None
            value = source[declarator[starts].start : declarator[-1].end]
        if not found:
            stars = at
            while stars and declarator[stars - 1].text == "*":
                stars -= 1
            base = cxx.written(declarator[:stars])
            if not base:
                return None
            before = before[stars:]
        place = places[declarator[at].start]
        found.append(_Array(f"{base} {''.join(before)}".strip(), declarator[at].text, place, dims, count, value))
    return found


def _is_passed_on(part, array, scope):
    """Whether the array is used other than with all its indexes: then a pointer to it may leave it."""
    later = range(array.at + 1, scope.end)
    uses = [k for k in later if part[k].text == array.name and part[k - 1].text not in (".", "->", "::")]
    if any(needs_name_itself(part, k) for k in uses):
        return False
    for k in uses:
        if part[k - 1].text == "sizeof" or part[k - 1].text == "(" and part[k - 2].text == "sizeof":
            continue
        after = k + 1
        for _ in range(array.count):
            closes = cxx.matching(part, after) if part[after].text == "[" else None
            if closes is None:
                return True
            after = closes + 1
        before, earlier = part[k - 1].text, part[k - 2].text
        if before == "&" and not (earlier.isidentifier() or earlier in (")", "]") or earlier[:1].isdigit()):
            return True
        if before == "(" and earlier == ">" or before == ")" and earlier in ("&", "*"):
            return True
    return False
