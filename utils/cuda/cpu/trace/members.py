"""Members of structs, by their places: a report says `table[141].value`, not `4 bytes at byte 4 of table[141]`."""

import re

from utils.cuda.common import cxx

__all__ = ["kind_of", "members"]

_SIZES = {"char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "int16_t": 2, "uint16_t": 2, "half": 2}
_SIZES |= {"__half": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "int": 4, "unsigned": 4, "float": 4, "int32_t": 4}
_SIZES |= {"uint32_t": 4, "long": 8, "double": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8}
_WORDS = {"const", "volatile", "signed", "struct", "std", "::"}  # which say nothing about the size
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double|half)([234])")
_HIDES_SIZES = {
    "alignas",
    "__align__",
    "__attribute__",
    "virtual",
    "template",
    "static",
    ":",
    "&",
    "#",
    "union",
    "pragma",
}


def kind_of(source, region, line) -> str:
    """The type of the elements of a kernel's parameter, if the line is in that kernel: 'Slot' of `Slot* table`."""
    for kernel in cxx.declared_kernels(source):
        if kernel.defined and kernel.tokens[0].line <= line <= kernel.tokens[-1].line:
            for parameter in kernel.parameters:
                texts = [token.text for token in parameter]
                if cxx.parameter_name(parameter) == region and texts.count("*") == 1:
                    return " ".join(text for text in texts[: texts.index("*")] if text not in _WORDS)
    return ""


def members(source, kind, size) -> dict[tuple[int, int], str]:
    """The members of a type of `size` bytes: (offset, bytes) to '.value', '.at.x' or '.v[2]'. Empty if the type cannot
    be read, or has another size than what is read says."""
    found = _layout(source, kind, 0)
    return found[0] if found and found[1] == size else {}


def _layout(source, kind, depth):
    """The members of a type, its size and its alignment; None if it cannot be read."""
    if vector := _VECTOR.fullmatch(kind):
        base = vector[1].lstrip("u")
        width, count = {"longlong": 8}.get(base) or _SIZES[base], int(vector[2])
        parts = {(k * width, width): f".{'xyzw'[k]}" for k in range(count)}
        return parts, count * width, width * (count if count != 3 else 1)
    body = _body(source, kind)
    if body is None or depth > 4 or {token.text for token in body} & _HIDES_SIZES:
        return None
    parts, at, alignment = {}, 0, 1
    for statement in _statements(body):
        if statement is None:
            continue
        if (declared := _declared(source, statement, depth)) is None:
            return None
        for name, counts, (inner, size, align) in declared:
            at, alignment = -(-at // align) * align, max(alignment, align)
            for index in _indexes(counts):
                for (offset, bytes_), tail in (inner or {(0, size): ""}).items():
                    parts[at + offset, bytes_] = f".{name}{index}{tail}"
                at += size
    return parts, -(-at // alignment) * alignment, alignment


def _body(source, kind):
    """The tokens between the braces of `struct kind { ... }`."""
    part = [token for token in cxx.tokens(source) if not token.directive]
    for k, token in enumerate(part[:-2]):
        if token.text in ("struct", "class") and part[k + 1].text == kind and part[k + 2].text == "{":
            return part[k + 3 : cxx.matching(part, k + 2)]
    return None


def _statements(body):
    """The declarations of data members; None for each method."""
    first = k = 0
    while k < len(body):
        text = body[k].text
        if text in ("(", "{", "["):
            k = cxx.matching(body, k) or len(body)
            if text == "{" and cxx.text_at(body, k + 1) != ";":  # a method's
                yield None
                first = k + 1
        elif text == ";":
            words = body[first:k]
            is_method = any(t.text == "(" for t in words) or any(
                t.text in ("using", "typedef", "friend") for t in words
            )
            yield None if is_method or not words else words
            first = k + 1
        k += 1


def _declared(source, statement, depth):
    """What `float w, h[2];` declares: name, sizes of the array, layout of an element. None if it cannot be read."""
    words = [token for token in statement if token.text not in _WORDS]
    types = 1
    while words[types : types + 1] and words[types].text in ("int", "long", "char", "short"):
        types += 1
    kind, rest = [token.text for token in words[:types]], words[types:]
    found = []
    for declarator in cxx.at_commas(rest):
        texts = [token.text for token in declarator]
        texts = texts[: texts.index("=")] if "=" in texts else texts
        if "{" in texts:
            texts = texts[: texts.index("{")]
        layout = _of_type(source, kind, depth)
        if texts[:1] == ["*"]:
            texts, layout = [text for text in texts if text not in ("*", "__restrict__")], ({}, 8, 8)
        counts = [int(count, 0) for count in texts[2::3] if count.isdigit()]
        if not layout or not texts or not texts[0].isidentifier() or len(texts) != 1 + 3 * len(counts):
            return None
        found.append((texts[0], counts, layout))
    return found


def _of_type(source, kind, depth):
    if kind == ["long", "long"] or kind[:1] == ["unsigned"] and kind[1:] and kind[1] in _SIZES:
        kind = kind[1:2]
    if len(kind) > 1 and kind[0] == "long":
        kind = ["long"]
    if len(kind) == 1 and kind[0] in _SIZES:
        return {}, _SIZES[kind[0]], _SIZES[kind[0]]
    return _layout(source, kind[0], depth + 1) if len(kind) == 1 else None


def _indexes(counts):
    """'[0][0]', '[0][1]', ...; once '' for what is no array."""
    indexes = [""]
    for count in counts:
        indexes = [f"{index}[{k}]" for index in indexes for k in range(min(count, 4096))]
    return indexes[:65536]
