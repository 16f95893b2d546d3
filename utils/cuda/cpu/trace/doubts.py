"""Problems that a report only supposes: whether they are real depends on what a tensor holds."""

import re

__all__ = ["holds_floats", "plausible"]


def holds_floats(type_name) -> bool:
    """Whether a C++ type is of floating-point numbers, as far as its name says."""
    return bool(re.search(r"float|double|half|bfloat", type_name))


def plausible(problems, in_floats) -> list[dict]:
    """Those of a report without stored integers that only look like the NaN of an unset variable.

    `in_floats` says of the name of a tensor whether it holds floating-point numbers.
    """
    return [p for p in problems if not p.get("unset") or p.get("certain") or p.get("text") or in_floats(p["region"])]
