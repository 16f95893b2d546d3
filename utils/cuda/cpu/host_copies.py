"""A `__device__` or `__constant__` variable in host code: nvcc gives the host a variable of its own by that name.

    cudaMemcpy(weights, w, sizeof weights, cudaMemcpyHostToDevice);

passes `::cuda_on_cpu::host_copy<weights>()`, so the call fails as on a GPU: cudaMemcpyToSymbol copies to the variable.
"""

from utils.cuda.common import cxx

__all__ = ["edits"]

_OF_DEVICE = {"__device__", "__constant__"}
_MOVING = {"cudaMemcpy": 2, "cudaMemcpyAsync": 2, "cudaMemset": 1, "cudaMemsetAsync": 1}  # how many addresses they take


def edits(declared) -> list[tuple[int, int, str]]:
    """What to put in place of such variables, as (start, end, text); `declared` is what the source declares."""
    variables = [d for d in declared if d.parameters is None and _OF_DEVICE & set(d.words)]
    names = {name for d in variables if not {"__managed__", "{"} & set(d.words) for name in d.names}
    found = []
    for function in declared if names else ():
        if function.parameters is None or {"__global__", *_OF_DEVICE} & set(function.words):
            continue
        part, others = function.tokens, names - cxx.own_names(function)
        for k, token in enumerate(part):
            if token.text not in _MOVING or cxx.text_at(part, k + 1) != "(":
                continue
            given = cxx.at_commas(part[k + 2 : cxx.matching(part, k + 1)])
            for argument in given[: _MOVING[token.text]]:
                first = next((t for t in argument if t.text not in ("&", "(")), None)
                if first and first.text in others:
                    found.append((first.start, first.end, f"::cuda_on_cpu::host_copy<{first.text}>()"))
    return found
