"""Pointers that device code makes of others, such as `reinterpret_cast<float2*>(x + 1)`.

A GPU stops at an access whose address is not a multiple of the type's alignment. A processor goes on, so the compiler
checks the accesses of a text in which a pointer may be misaligned (-fsanitize=alignment): only a cast makes one. Of
`v = *(int*)(p + 1)` g++ checks only `p`, unless a function has returned `p + 1`.
"""

from utils.cuda.common import cxx
from utils.cuda.cpu.plain_macros import edited

__all__ = ["casts_pointers", "with_sums_once"]

_BYTES = {"void", "char", "int8_t", "uint8_t", "byte", "bool"}  # what needs no alignment
_ALLOCATES = {"malloc", "calloc", "realloc", "aligned_alloc"}  # what these return is aligned


def casts_pointers(source) -> bool:
    """Whether the source casts a pointer to a type that needs an alignment, such as `(float2*)(x + 1)`."""
    part = cxx.tokens(source)
    for k, token in enumerate(part):
        if token.text == "reinterpret_cast":
            opening, closing = k + 1, ">"
        elif token.text == "(":
            opening, closing = k, ")"
        else:
            continue
        star = _pointer_to_aligned(part, opening + 1)
        if star and cxx.text_at(part, star + 1) == closing and _may_be_misaligned(part, star + 2):
            return True
    return False


def _pointer_to_aligned(part, k) -> int:
    """Where the `*` of the type `const float2*` is that begins at token k; 0 if none does, or it needs no alignment."""
    words = set()
    while (text := cxx.text_at(part, k)) == "::" or _is_word(text):
        words.add(text)
        k += 1
    if text != "*" or not words or words & _BYTES:
        return 0
    while cxx.text_at(part, k + 1) in ("const", "volatile", "__restrict__", "__restrict"):
        k += 1
    return k


def _may_be_misaligned(part, k) -> bool:
    """Whether the operand of a cast that begins at token k can be: a variable's own address, `&value`, is not."""
    text = cxx.text_at(part, k)
    if text == "(" and cxx.text_at(part, k + 1) == "&":  # of reinterpret_cast
        k, text = k + 1, "&"
    if text == "&":
        return not _is_word(cxx.text_at(part, k + 1)) or cxx.text_at(part, k + 2) in ("[", ".", "->", "(")
    return text == "(" or (_is_word(text) and text not in _ALLOCATES)


def with_sums_once(source) -> str:
    """The source with `once(...)` (launch.h) around what a cast in device code computes: `(int*)(p + 1)`."""
    edits = []
    for function in cxx.functions(source):
        if {"__global__", "__device__"} & set(function.words):
            tokens = function.tokens[function.head :]
            for first, end in _computed(tokens):
                start, behind = tokens[first].start, tokens[end - 1].end
                edits.append((start, behind, f"::cuda_on_cpu::once({source[start:behind]})"))
    return edited(source, edits)


def _computed(part):
    """What casts to pointers compute: the first token and the one behind the last of `p + 1` in `(int*)(p + 1)` and of
    `&p[1]` in `(int*)&p[1]`."""
    for k, token in enumerate(part):
        if token.text != "*" or token.directive or cxx.text_at(part, k + 1) not in (")", ">"):
            continue
        if cxx.text_at(part, k + 2) == "(":
            first, end = k + 3, cxx.step_over(part, k + 2) - 1
            texts = [each.text for each in cxx.at_commas(part[first:end])[0]] if end > first else []
            is_computed = {"+", "-"} & set(texts[1:]) or texts[:1] == ["&"] and "[" in texts
            if len(texts) == end - first and is_computed:
                yield first, end
        elif cxx.text_at(part, k + 1) == ")" and cxx.text_at(part, k + 2) == "&":
            first, end = k + 2, k + 3
            while _is_word(cxx.text_at(part, end)) or cxx.text_at(part, end) in (".", "->", "::", "["):
                end = cxx.step_over(part, end) if cxx.text_at(part, end) == "[" else end + 1
            if cxx.text_at(part, end - 1) == "]":
                yield first, end


def _is_word(text) -> bool:
    return text[:1].isalpha() or text[:1] == "_"
