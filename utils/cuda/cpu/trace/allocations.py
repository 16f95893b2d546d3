"""Sizes that count elements where cudaMalloc and cudaMemcpy count bytes."""

from utils.cuda.common import cxx
from utils.cuda.cpu.trace.source import computed_from
from utils.cuda.cpu.trace.words import counted, in_line

__all__ = ["counts_elements", "missing_sizeof", "pitch_in_elements"]

_FUNCTIONS = ("cudaMalloc", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync")


def counts_elements(source, line) -> bool:
    """Whether a line allocates memory of a size that does not look like bytes, in one of its calls.

    Bytes show by a `sizeof`, a product with a number, or a name with "byte" or "size", wherever the source sets what
    the size is computed from.
    """
    part, macros = [token for token in cxx.tokens(source) if not token.directive], cxx.macros(source)
    for k, token in enumerate(part):
        if token.line != line or token.text not in _FUNCTIONS or cxx.text_at(part, k + 1) != "(":
            continue
        arguments = cxx.at_commas(part[k + 2 : cxx.matching(part, k + 1)])
        if len(arguments) < 2:
            continue
        given = [*computed_from(source, 0, arguments[1])]
        given += [macros[token.text].body for one in given for token in one if token.text in macros]
        if not any(map(_looks_like_bytes, given)):
            return True
    return False


def _looks_like_bytes(part) -> bool:
    for k, token in enumerate(part):
        text, around = token.text.lower(), (cxx.text_at(part, k - 1), cxx.text_at(part, k + 1))
        if text[0].isdigit() and "*" in around or text in ("<<", "sizeof") or "byte" in text:
            return True
        if "size" in text and around[1] != "(":
            return True
    return False


def missing_sizeof(p) -> str:
    """A hint, if a record is of memory whose size, or whose copy, seems to count elements; otherwise ""."""
    if p.element < 2 or "cuda" not in p.origin or p.offset is None:
        return ""
    elements = p.region_bytes // p.element
    if p.kind == "uninitialized" and 0 <= p.offset - elements < p.element:
        written = f"{counted(elements, 'byte')} of {p.region} have been written, and it has as many elements"
        return f"Only the first {written}: is `* sizeof` missing in a cudaMemcpy or a cudaMemset? They count in bytes."
    if p.kind == "out_of_bounds" and p.counts_elements and 0 <= p.offset // p.element < p.region_bytes:
        function, has = p.origin.removeprefix("memory from "), f"{counted(p.region_bytes, 'byte')} for {p.region}"
        return f"{function} counts in bytes: it has allocated {has}{in_line(p.allocated)}. Is `* sizeof` missing there?"
    return ""


def pitch_in_elements(p) -> str:
    """A hint, if a record is of memory from cudaMallocPitch, and its line does not count bytes; otherwise ""."""
    if p.kind != "out_of_bounds" or "cudaMallocPitch" not in p.allocated.source or "char" in p.source:
        return ""
    row = f"(T*)((char*){p.region} + y * pitch)"
    return f"cudaMallocPitch gives the pitch in bytes: row y of elements of type T begins at `{row}`."
