"""What a trace reads from the learner's C++ text."""

import re
from itertools import pairwise

from utils.cuda.common import cxx

__all__ = ["array_dimensions", "array_of_line", "kernel_parameter", "waits_between", "without_comment"]


def array_dimensions(type_name) -> tuple[int, ...]:
    """(16, 17) of the compiler's 'float [16][17]', () of a type that is not an array."""
    return tuple(int(n) for n in re.findall(r"\[(\d+)\]", type_name))


def array_of_line(source, line_text, type_name):
    """The array that is indexed in a line and declared with `type_name`, if there is exactly one.

    `type_name` is 'float [17]' for a row of `float tile[16][17]`. Returns the array's name and how many dimensions it
    has before those of `type_name`; None and 0 if the source does not show it.
    """
    element = [token.text for token in cxx.tokens(type_name.strip("'").partition("[")[0])]
    least, part = len(array_dimensions(type_name)), cxx.tokens(source)
    indexed = {token.text for token, after in pairwise(cxx.tokens(line_text)) if after.text == "["}
    dimensions = {name: _declared_dimensions(part, name, element) for name in indexed if name.isidentifier()}
    found = [(name, count - least) for name, count in dimensions.items() if count >= least]
    return found[0] if len(found) == 1 else (None, 0)


def _declared_dimensions(part, name, element) -> int:
    """How many dimensions the array declared with this name and element type has; 0 if there is none."""
    for k, (token, after) in enumerate(pairwise(part)):
        if (token.text, after.text) != (name, "["):
            continue
        first = next((b + 1 for b in range(k - 1, -1, -1) if part[b].text in (*";(){}=",)), 0)
        words = [before.text for before in part[first:k]]
        if not any(words[i : i + len(element)] == element for i in range(len(words))):
            continue
        count, at = 0, k + 1
        while at < len(part) and part[at].text == "[" and (closes := cxx.matching(part, at)) is not None:
            count, at = count + 1, closes + 1
        return count
    return 0


def waits_between(source, first, last) -> bool:
    """Whether a line between these two has a `__syncthreads`."""
    return any(token.text == "__syncthreads" and first < token.line < last for token in cxx.tokens(source))


def without_comment(line_text):
    """A line without the comment at its end; a comment alone stays."""
    part = cxx.tokens(line_text)
    return line_text[: part[-1].end] if part else line_text


def kernel_parameter(region, kernels):
    """What a kernel calls the tensor that the runtime calls 'square_kernel<float>#1': the name of its second parameter.

    `kernels` is what `cxx.kernels` finds in the source. Returns `region` itself if it is not such a name.
    """
    name, _, number = (region or "").rpartition("#")
    asked = cxx.instance(name)
    kernel = asked and kernels.get(asked[0])
    if not kernel or not number.isdigit() or int(number) >= len(kernel.names):
        return region
    return kernel.names[int(number)] or f"argument {int(number) + 1}"
