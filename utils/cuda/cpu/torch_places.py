"""Where torch's tensors are, in host code: here all of them are on the CPU, and on a GPU they are not.

    auto before = x.cpu();              // a copy
    auto y = torch::zeros({n});         // of the host: no kernel can use it
    auto z = y.to(torch::kCUDA);        // a copy again

Such a move becomes `::cuda_on_cpu::moved(x, ...)`, and a tensor that is made without a device becomes
`::cuda_on_cpu::on_host(...)`: the two know what is the host's (include/cuda_on_cpu/torch_places.h). A tensor of which
the text does not say where it is counts as the device's, as those from Python do.
"""

import re
from collections import defaultdict

from utils.cuda.common import cxx

__all__ = ["HEADER", "edits", "has_places"]

HEADER = "cuda_on_cpu/torch_places.h"
_FACTORIES = {"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "tensor"}
_FACTORIES |= {"zeros"}
_DEVICE = {"__device__", "__global__"}
_MOVED = "::cuda_on_cpu::moved("
_T = "cuda_on_cpu_t"
_TYPE = r"(?:(?:torch|at)::)?k(?!CUDA\b|CPU\b)[A-Z]\w+|torch::dtype\([^()]*\)|.*\.(?:scalar_type|dtype)\(\)"
_SAYS_TYPE = re.compile(_TYPE)
# What the last of several arguments may be if none of them says a device.
_NO_OPTIONS = re.compile(rf"{_TYPE}|[-+\d.][\w.]*|\{{.*\}}")
_SAYS_DEVICE = re.compile(r"\b(?:kCUDA|kCPU|device|Device|options|TensorOptions)\b|\"(?:cuda|cpu)")


def has_places(translated) -> bool:
    """Whether a text that `edits` were made in needs HEADER."""
    return _MOVED in translated or "::cuda_on_cpu::on_host(" in translated


def edits(declared) -> list[tuple[int, int, str]]:
    """What to insert around moves and new tensors in the bodies of host functions, as (start, start, text)."""
    pieces = defaultdict(list)  # by where they belong
    for function in declared:
        if function.parameters is None or not function.defined or _DEVICE & set(function.words):
            continue
        part = function.tokens
        opens = _openers(part)
        for k in range(function.head, len(part) - 1):
            if part[k].directive or part[k + 1].text != "(" or (closes := cxx.matching(part, k + 1)) is None:
                continue
            given = "".join(token.text for token in part[k + 2 : closes])
            if part[k - 1].text == "." and (to_host := _goes_to_host(part[k].text, given)) is not None:
                pieces[part[_begins(part, k - 1, opens)].start].insert(0, _MOVED)
                how = f", {str(to_host).lower()}, [&](auto& {_T}) {{ return {_T}"
                pieces[part[k - 1].start].append(how)
                pieces[part[closes].end].append("; })")
            elif part[k].text in _FACTORIES and _is_without_device(part[k - 2 : k], part[k + 2 : closes]):
                pieces[part[k - 2].start].append("::cuda_on_cpu::on_host([&] { return ")
                pieces[part[closes].end].append("; })")
    return [(place, place, "".join(texts)) for place, texts in pieces.items()]


def _goes_to_host(name, given):
    """Whether `x.name(given)` takes a tensor to the host; None if it takes it nowhere."""
    if name in ("cpu", "cuda"):
        return name == "cpu" if not given else None
    if name not in ("to", "type_as") or _SAYS_TYPE.fullmatch(given):
        return None
    return bool(re.search(r'\bkCPU\b|"cpu"', given))  # a name says nothing: it goes to the device, as to `x`'s own


def _is_without_device(scope, arguments):
    if [token.text for token in scope] not in (["torch", "::"], ["at", "::"]):
        return False
    given = ["".join(token.text for token in argument) for argument in cxx.at_commas(arguments)]
    if any(map(_SAYS_DEVICE.search, given)):
        return False
    return len(given) == 1 or bool(_NO_OPTIONS.fullmatch(given[-1]))


def _openers(part):
    """The index of the bracket that each closing one closes, by its index."""
    found = {}
    for k, token in enumerate(part):
        if token.text in ("(", "[", "{") and (closes := cxx.matching(part, k)) is not None:
            found[closes] = k
    return found


def _begins(part, dot, opens):
    """The index where the object begins whose method is called behind the `.` at index `dot`."""
    k = dot - 1
    while True:
        while part[k].text in (")", "]"):
            k = opens[k] - 1
            if part[k + 1].text == "(" and part[k].text == ">":  # of `data_ptr<float>()`
                k = next((i for i in range(k, 0, -1) if part[i].text == "<"), k) - 1
            elif part[k + 1].text == "(" and not part[k].text.isidentifier():
                return k + 1
            elif part[k].text in ("return", "case", "else"):
                return k + 1
        if part[k - 1].text not in (".", "->", "::"):
            return k
        k -= 2
