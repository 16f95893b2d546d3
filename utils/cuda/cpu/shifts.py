"""Shifts in a trace: g++ checks how far, and for that would load `x[i]` in `1 << x[i]` twice."""

from utils.cuda.common import cxx
from utils.cuda.cpu.plain_macros import edited

__all__ = ["with_shifts_once"]


def with_shifts_once(source) -> str:
    """The source with `once(...)` (launch.h) around what something is shifted by, line for line."""
    edits = []
    for function in cxx.functions(source):
        if {"__global__", "__device__"} & set(function.words):
            edits += _edits(source, function.tokens[function.head :])
    return edited(source, edits)


def _edits(source, tokens):
    for k, token in enumerate(tokens):
        if token.text not in ("<", ">") or cxx.text_at(tokens, k + 1) != token.text or tokens[k + 1].start != token.end:
            continue
        assigns = cxx.text_at(tokens, k + 2) == "="
        first = k + 2 + assigns
        if cxx.text_at(tokens, k - 1) == "operator":
            continue
        shifts = assigns or token.text == "<" or not _ends_templates(tokens, k)
        end = _operand_end(tokens, first) if shifts else None
        if end is not None and not token.directive:
            start, behind = tokens[first].start, tokens[end - 1].end
            yield start, behind, f"::cuda_on_cpu::once({source[start:behind]})"


def _ends_templates(tokens, k):
    """Whether the `>>` at index k may be the end of two templates, as there is a `<` before it in its statement."""
    begins = next((j for j in range(k, -1, -1) if tokens[j].text in (";", "{", "}")), -1)
    before = [token.text for token in tokens[begins + 1 : k]]
    return "<" in "".join(before).replace("<<", "")


def _operand_end(tokens, first):
    """The index after what is shifted by, which begins at index `first`; None if that is a number or cannot be read."""
    k = first
    while k < len(tokens) and tokens[k].text not in _BEHIND:
        k = cxx.step_over(tokens, k) if tokens[k].text in "([{" else k + 1
    is_number = k == first + 1 and tokens[first].text[0].isdigit()
    return k if k > first and not is_number and cxx.text_at(tokens, k) not in ("<", ">", "") else None


_BEHIND = {*")]};,:?=!&|^<>"}  # operators that come after shifts, and ends
