"""KernelWarning: a launch on the CPU has computed a number that a GPU computes differently (runtime/numbers.cpp)."""

import warnings
from pathlib import Path

from utils.cuda.common.diagnostics import excerpt, warned_in_cell

__all__ = ["KernelWarning", "hint_of", "show"]


class KernelWarning(UserWarning):
    """The CPU has computed a number that C++ leaves undefined, and a GPU computes another.

    Shown after the launch, for the first such number of the block with the lowest number; `warnings.simplefilter`
    hides it or makes it an error, as for any warning.
    """


def show(noted):
    """Issue a KernelWarning for what the runtime has noted: one for a line in a cell, however many launches it has."""
    __tracebackhide__ = True
    line, library, file, text = noted.decode(errors="replace").split("\n", 3)
    source, line, registry = Path(library).with_name("cuda.cu"), int(line), warned_in_cell(library, file)
    shown = [excerpt(source.read_text(), line, 0)] if file == "cuda_src" and source.exists() else []
    text = "\n".join([f"{text}.", *shown, f"Hint: {hint_of(text)}"])
    if any(key[1:] == (KernelWarning, line) for key in registry):
        registry[text, KernelWarning, line] = True  # as if it had been shown, too
    warnings.warn_explicit(text, KernelWarning, file, line, registry=registry)


def hint_of(text) -> str:
    """What to do about a conversion, a shift or a copy that the runtime describes so."""
    if "with memcpy" in text:
        return "C++ leaves this undefined: use a loop that goes the right way, or a second array."
    if "shifts a number" in text:  # not "converts", which may be part of the kernel's name
        return "C++ leaves this undefined: shift by less than the number has bits."
    return "C++ leaves this undefined: bring the number into the type's range first, as with `min` and `max`."
