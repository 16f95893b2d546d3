"""`__launch_bounds__(128)` and `__cluster_dims__(2, 1, 1)`: a launch keeps to them, or is refused, as on a GPU.

For a C++ compiler, these qualifiers are empty macros. So their numbers are kept in the return type of a companion
function, which is declared but never defined or called:

    ::cuda_on_cpu::BoundsOf<(128), 0, (2), (1), (1)> scale__bounds_on_cpu(float* x); __global__ void ... scale(float* x)

It is on the kernel's own line and shares its template parameters, so `scale<4>` has `scale__bounds_on_cpu<4>`.
"""

from utils.cuda.common import cxx

__all__ = ["argument", "bounded", "edits", "uses"]

_NOTHING = ("0", "0", "0", "0", "0")  # most threads, most blocks in a cluster, and the cluster along x, y and z
# The host's functions that take a kernel, and which of their arguments it is.
_TAKE_KERNEL = dict.fromkeys(["cudaLaunchKernel", "cudaLaunchCooperativeKernel"], 0)
_TAKE_KERNEL |= dict.fromkeys(["cudaLaunchKernelEx", "cudaLaunchKernelExC"], 1)
_TAKE_KERNEL |= dict.fromkeys(["cudaOccupancyMaxActiveClusters", "cudaOccupancyMaxPotentialClusterSize"], 1)
_TAKE_KERNEL["cudaFuncGetAttributes"] = 1


def bounded(kernels) -> set[str]:
    """The names of the kernels (cxx.declared_kernels) that have bounds."""
    return {kernel.name for kernel in kernels if _written(kernel) != _NOTHING}


def argument(name, names) -> str:
    """What a launch of the kernel `name` passes to start.h if the kernel is one of `names`; otherwise empty."""
    base = name.partition("<")[0].split("::")[-1].strip()
    return f"CUDA_ON_CPU_BOUNDS({_companion(name)})" if base in names else ""


def _companion(name) -> str:
    """`my::scale__bounds_on_cpu<4>` of `my::scale<4>`."""
    base, angle, arguments = name.partition("<")
    return f"{base.rstrip()}__bounds_on_cpu{angle}{arguments}"


def edits(kernels) -> list[tuple[int, int, str]]:
    """What translate() inserts before each declaration of a kernel that has bounds.

    Kernels without bounds that have the same name, in another namespace or with other parameters, get 0.
    """
    found, names = [], bounded(kernels)
    for kernel in kernels:
        if kernel.name in names and _is_primary(kernel):
            parameters, numbers = ", ".join(map(cxx.written, kernel.parameters)), _numbers(kernel, kernels)
            declared = f"::cuda_on_cpu::BoundsOf<{', '.join(numbers)}> {_companion(kernel.name)}({parameters}); "
            at = kernel.tokens[0].start
            found.append((at, at, f"{kernel.template} {declared}".lstrip()))
            cluster = numbers[2:]
            if kernel.defined and cluster != _NOTHING[2:]:
                inside = kernel.tokens[kernel.head].end
                found.append((inside, inside, f" ::cuda_on_cpu::needs_cluster({', '.join(cluster)});"))
    return found


def uses(tokens, names) -> list[tuple[int, int, str]]:
    """What translate() puts in place of each kernel of `names` that is an argument of a function of the host."""
    found = []
    for k, token in enumerate(tokens):
        at = _TAKE_KERNEL.get(token.text)
        closes = cxx.matching(tokens, k + 1) if at is not None and cxx.text_at(tokens, k + 1) == "(" else None
        arguments = cxx.at_commas(tokens[k + 2 : closes]) if closes else []
        named = arguments[at] if at is not None and at < len(arguments) else ()
        name = next((n for n, word in enumerate(named) if word.text in names), None)
        if name is None:
            continue
        first, last = name, name
        if cxx.text_at(named, name + 1) == "<":
            last = cxx.matching(named, name + 1) or name
        while first >= 2 and named[first - 1].text == "::":
            first -= 2
        kernel = cxx.written(named[first : last + 1])
        first -= first > 0 and named[first - 1].text == "&"
        text = f"::cuda_on_cpu::bounded({kernel}, {argument(kernel, names)})"
        found.append((named[first].start, named[last].end, text))
    return found


def _numbers(kernel, kernels) -> tuple[str, ...]:
    """The numbers of the bounds of a kernel that may be declared several times: for nvcc, the last ones count."""
    same = [other for other in kernels if _types(other) == _types(kernel)]
    if sum(other.defined for other in same) > 1:  # in different namespaces
        return _written(kernel)
    numbers = [*map(_written, same)]
    threads = next((n[:2] for n in reversed(numbers) if n[:2] != _NOTHING[:2]), _NOTHING[:2])
    return threads + next((n[2:] for n in reversed(numbers) if n[2:] != _NOTHING[2:]), _NOTHING[2:])


def _types(kernel):
    return kernel.name, [*map(cxx.parameter_type, kernel.parameters)]


def _written(kernel) -> tuple[str, ...]:
    """The numbers of a declaration's bounds; `_NOTHING` if it has none, or if they come from a macro."""
    if not _is_primary(kernel):
        return _NOTHING
    threads = _arguments(kernel, "__launch_bounds__")
    cluster = _arguments(kernel, "__cluster_dims__")
    cluster += ["1"] * (3 - len(cluster)) if cluster else ["0"] * 3
    most = [threads[k] if k < len(threads) else "0" for k in (0, 2)]
    return tuple(text if text.isdigit() else f"({text})" for text in [*most, *cluster])


def _arguments(kernel, qualifier) -> list[str]:
    head = kernel.tokens[: kernel.head]
    words = (qualifier, qualifier.strip("_"))  # __attribute__((launch_bounds(128)))
    at = next((k for k, token in enumerate(head) if token.text in words), None)
    closes = cxx.matching(head, at + 1) if at is not None and cxx.text_at(head, at + 1) == "(" else None
    return [cxx.written(part) for part in cxx.at_commas(head[at + 2 : closes])] if closes else []


def _is_primary(kernel):
    """Whether the kernel is written out, not by a macro, and is no specialization or instance of a template."""
    head = kernel.tokens[: kernel.head]
    special = head[0].text == "template" and kernel.template.replace(" ", "") in ("", "template<>")
    return not special and not any(token.directive for token in head)
