"""How a benchmark ends: its table, what it ran on, and a status that says whether all targets were met."""

import os
import sys

import pandas as pd

__all__ = ["report"]


def report(rows, load, on="") -> int:
    """Print `rows`, named tuples with `name` and `verdict`; 1 where a target is missed, else 0.

    `load` is how many processes wanted a core before it began (os.getloadavg), `on` what else the figures belong to.
    """
    print(pd.DataFrame(rows, columns=rows[0]._fields).set_index("name").rename_axis(None).to_string())
    print(f"\n{on}{os.cpu_count()} cores. Processes that wanted one in the minute before (the load): {load:.1f}")
    missed = [row.name for row in rows if row.verdict == "missed"]
    if missed:
        print(f"\n{len(missed)} missed: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0
