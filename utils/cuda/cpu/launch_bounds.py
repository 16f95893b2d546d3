"""`__launch_bounds__(128)`: a launch with more threads per block is refused, as on a GPU.

For a C++ compiler, the qualifier is an empty macro. So the number is kept in the return type of a companion function,
which is declared but never defined or called:

    ::std::integral_constant<unsigned, (128)> scale__bounds(float* x); __global__ void __launch_bounds__(128) scale(...)

It is on the kernel's own line and shares its template parameters, so `scale<4>` has `scale__bounds<4>`.
"""

from utils.cuda.common import cxx

__all__ = ["argument", "bounded", "edits"]

_BOUNDS = "__launch_bounds__"


def bounded(kernels) -> set[str]:
    """The names of the kernels (cxx.declared_kernels) that have bounds."""
    return {kernel.name for kernel in kernels if _most_threads(kernel)}


def argument(name, names) -> str:
    """What a launch of the kernel `name` passes to launch.h if the kernel is one of `names`; otherwise empty."""
    base = name.partition("<")[0].split("::")[-1].strip()
    return f"CUDA_ON_CPU_BOUNDS({_companion(name)})" if base in names else ""


def _companion(name) -> str:
    """`my::scale__bounds<4>` of `my::scale<4>`."""
    base, angle, arguments = name.partition("<")
    return f"{base.rstrip()}__bounds{angle}{arguments}"


def edits(kernels) -> list[tuple[int, int, str]]:
    """What translate() inserts before each declaration of a kernel that has bounds.

    Kernels without bounds that have the same name, in another namespace or with other parameters, get 0.
    """
    found, names = [], bounded(kernels)
    for kernel in kernels:
        if kernel.name in names and _is_primary(kernel):
            parameters, most = ", ".join(map(cxx.written, kernel.parameters)), _most_threads(kernel) or "0"
            declared = f"::std::integral_constant<unsigned, ({most})> {_companion(kernel.name)}({parameters}); "
            at = kernel.tokens[0].start
            found.append((at, at, f"{kernel.template} {declared}".lstrip()))
    return found


def _most_threads(kernel) -> str:
    """The first number of the kernel's bounds, as written; empty if it has none, or if they come from a macro."""
    head = kernel.tokens[: kernel.head]
    at = next((k for k, token in enumerate(head) if token.text == _BOUNDS), None)
    closes = cxx.matching(head, at + 1) if at is not None and cxx.text_at(head, at + 1) == "(" else None
    return cxx.written(cxx.at_commas(head[at + 2 : closes])[0]) if closes and _is_primary(kernel) else ""


def _is_primary(kernel):
    """Whether the kernel is written out, not by a macro, and is no specialization or instance of a template."""
    head = kernel.tokens[: kernel.head]
    special = head[0].text == "template" and kernel.template.replace(" ", "") in ("", "template<>")
    return not special and not any(token.directive for token in head)
