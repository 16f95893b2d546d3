"""The targets of a benchmark: one row per figure, and a table of them that yields an exit status."""

import os
import sys
from typing import NamedTuple

import pandas as pd

__all__ = ["Row", "print_table"]


class Row(NamedTuple):
    """A line of the table. `verdict` is 'met', 'missed', 'skipped' or, if there is no target, empty."""

    name: str
    measured: str
    target: str = ""
    verdict: str = ""


def print_table(rows, load, machine="") -> int:
    """Print rows, the machine and its load. Returns 1 if a target is missed, otherwise 0.

    `load` is how many processes wanted a core before the benchmark began (os.getloadavg), `machine` describes what else
    the figures depend on.
    """
    print(pd.DataFrame(rows, columns=Row._fields).set_index("name").rename_axis(None).to_string())
    print(f"\n{machine}{os.cpu_count()} cores. Processes that wanted one in the minute before (the load): {load:.1f}")
    missed = [row.name for row in rows if row.verdict == "missed"]
    if missed:
        print(f"\n{len(missed)} missed: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0
