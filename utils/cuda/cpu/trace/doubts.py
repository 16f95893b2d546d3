"""Problems that a report only supposes: some are dropped by what a tensor holds, others by repeating the launch."""

import re

__all__ = ["holds_floats", "is_suspect", "plausible", "without_doubts"]

_OTHER_POISON = 0xCBCBCBCBCBCBCBCB  # for lanes that have not come, as different from the runtime's as can be


def holds_floats(type_name) -> bool:
    """Whether a C++ type is of floating-point numbers, as far as its name says."""
    return bool(re.search(r"float|double|half|bfloat", type_name))


def _reads_absent_lane(problem) -> bool:
    """Whether a problem of a report is a shuffle that reads a lane that has not arrived.

    That is not a mistake where the value is not used. It is used if another value makes the launch do something else.
    """
    return problem["kind"] == "undefined_shuffle" and "index" in problem


def is_suspect(problem) -> bool:
    """Whether it is a read of a local array's element that was never set, which is a mistake if the value is used."""
    return bool(problem.get("suspect"))


def plausible(problems, in_floats) -> list[dict]:
    """Those of a report without stored integers that only look like the NaN of an unset variable.

    `in_floats` says of the name of a tensor whether it holds floating-point numbers.
    """
    sure = ("certain", "suspect", "text")
    return [p for p in problems if not p.get("unset") or any(map(p.get, sure)) or in_floats(p["region"])]


def without_doubts(problems, same_again) -> list[dict]:
    """The problems that remain when those are dropped without which a launch does the same.

    `same_again(absent, other_unset)` repeats it, with `absent` from lanes that have not come (0: as before), and with
    other values in unset variables if `other_unset`: whether everything else is as before.
    """
    if any(p.get("unset") and not is_suspect(p) for p in problems):
        problems = [p for p in problems if not is_suspect(p)]  # the same value, further on
    for is_doubtful, other in ((_reads_absent_lane, (_OTHER_POISON, False)), (is_suspect, (0, True))):
        if any(map(is_doubtful, problems)) and (same_again(*other) or not same_again(0, False)):
            problems = [p for p in problems if not is_doubtful(p)]
    return problems
