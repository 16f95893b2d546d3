"""What a trace reads out of the learner's C++ text. Every pattern over C++ that this room needs is here."""

import re

__all__ = ["array_dimensions", "array_of_line", "kernel_parameter", "waits_between", "without_comment"]

_PARAMETER = re.compile(r"(?:.*::)?(\w+)(?:<.*>)?#(\d+)")  # the runtime's name of a tensor: the kernel's, and a number


def array_dimensions(type_name) -> tuple[int, ...]:
    """(16, 17) of 'float [16][17]', nothing of a type that is not an array."""
    return tuple(int(n) for n in re.findall(r"\[(\d+)\]", type_name))


def array_of_line(source, line_text, type_name):
    """The array that is indexed in a line and declared with `type_name`, if there is exactly one.

    `type_name` is 'float [17]' for a row of `float tile[16][17]`. Returns the array's name and how many dimensions it
    has before those of `type_name`; None and 0 if the source does not show it.
    """
    code = re.sub(r"//.*", "", source)
    element = re.escape(type_name.strip("'").split("[")[0].strip())
    least = len(array_dimensions(type_name))
    found = []
    for name in dict.fromkeys(re.findall(r"\b([A-Za-z_]\w*)\s*\[", line_text)):
        declared = re.search(rf"\b{element}\b[^;(){{}}=]*?\b{name}\s*((?:\[[^\]]*\]\s*)+)", code)
        if declared and declared[1].count("[") >= least:
            found.append((name, declared[1].count("[") - least))
    return found[0] if len(found) == 1 else (None, 0)


def waits_between(source, first, last) -> bool:
    """Whether a line between those two has a `__syncthreads`."""
    return any("__syncthreads" in line.partition("//")[0] for line in source.splitlines()[first : last - 1])


def without_comment(line_text):
    """A line without the comment at its end; a comment alone stays."""
    return re.sub(r"\s*//[^\"]*$", "", line_text) or line_text


def kernel_parameter(region, kernels):
    """What a kernel calls the tensor that the runtime calls 'square_kernel<float>#1': the name of its second parameter.

    `kernels` is what `kernels_of` finds in the source. Returns `region` itself where it is not such a name.
    """
    place = _PARAMETER.fullmatch(region or "")
    kernel = place and kernels.get(place[1])
    if not kernel or int(place[2]) >= len(kernel.names):
        return region
    return kernel.names[int(place[2])] or f"argument {int(place[2]) + 1}"
