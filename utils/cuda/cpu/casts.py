"""Pointers that device code makes of others, such as `reinterpret_cast<float2*>(x + 1)`.

A GPU stops at an access whose address is not a multiple of the type's alignment. A processor goes on, so the compiler
checks the accesses of a text in which a pointer may be misaligned (-fsanitize=alignment): only a cast makes one.
"""

from utils.cuda.common import cxx

__all__ = ["casts_pointers"]

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


def _is_word(text) -> bool:
    return text[:1].isalpha() or text[:1] == "_"
