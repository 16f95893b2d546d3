"""The address of a `__device__` function in host code: nvcc gives that of a host function, which no kernel can call.

    apply<<<1, 32>>>(y, twice);

passes `::cuda_on_cpu::host_address(twice)`: a kernel that calls it ends there (host/kernels.cpp). As the argument of a
template the function is known to the compiler, and stays as it is.
"""

from utils.cuda.common import cxx

__all__ = ["edits"]

_BEFORE = {"(", ",", "=", "{", "return", "?", ":"}
_BEHIND = {")", ",", ";", "}", ":"}
_OPENS, _CLOSES = {"(", "[", "{"}, {")", "]", "}"}
_UNEVALUATED = {"decltype", "sizeof", "alignof", "noexcept", "static_assert"}
_DEVICE = {"__device__", "__global__", "__constant__", "__managed__", "__shared__"}
_TYPES = {"struct", "class", "union", "enum", "typedef", "using", "constexpr"}


def edits(declared) -> list[tuple[int, int, str]]:
    """What to put in place of such functions, as (start, end, text); `declared` is what the source declares."""
    functions = [d for d in declared if d.parameters is not None]
    names = {d.name for d in functions if _is_of_device(d) and not d.template}
    names -= {d.name for d in functions if not _is_of_device(d)}
    names = {name for name in names if len({_taken(d) for d in functions if d.name == name}) == 1}
    found = []
    for host in declared if names else ():
        if _DEVICE & set(host.words) or (host.parameters is None and _TYPES & set(host.words)):
            continue
        part, own = host.tokens, cxx.own_names(host)
        lambdas = list(_device_lambdas(part))
        for k, token in enumerate(part):
            if any(begins < k < ends for begins, ends in lambdas):
                continue
            if token.text not in names - own or token.directive or cxx.text_at(part, k + 1) not in _BEHIND:
                continue
            first = k - (cxx.text_at(part, k - 1) == "&")
            if cxx.text_at(part, first - 1) in _BEFORE and _is_value(part, first):
                found.append((part[first].start, token.end, f"::cuda_on_cpu::host_address({token.text})"))
    return found


def _device_lambdas(part):
    """Where the bodies of `[=] __device__ (int i) {...}` begin and end: that is device code."""
    for k, token in enumerate(part):
        if token.text == "]" and {cxx.text_at(part, k + 1), cxx.text_at(part, k + 2)} & {"__device__"}:
            opens = next((j for j in range(k, len(part)) if part[j].text in ("{", ";")), k)
            yield opens, (cxx.matching(part, opens) if part[opens].text == "{" else None) or opens


def _is_of_device(function):
    return "__device__" in function.words and "__host__" not in function.words


def _taken(function):
    return ", ".join(map(cxx.parameter_type, function.parameters))


def _is_value(part, k):
    """Whether the name at index k is no template's argument, nor in `decltype(...)`, nor in a constant."""
    depth = closed = 0
    for at in range(k - 1, -1, -1):
        text = part[at].text
        if text in _CLOSES:
            depth += 1
        elif depth:
            depth -= text in _OPENS
        elif text == ">":
            closed += 1
        elif text == "<":
            if not closed:
                return False
            closed -= 1
        elif text in _UNEVALUATED or text == "constexpr":
            return False
        elif text == ";":
            return True
        elif text in _OPENS:
            closed = 0
    return True
