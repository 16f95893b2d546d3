"""The corpus: kernels with a planted bug, each with its fixed twin, and correct kernels that look buggy.

`CASES` lists them all. A file `<kind>_<what>.cu` holds both twins; the fixed one is compiled with MENDED defined. A
file `clean_<what>.cu` has nothing to fix. Some files hold several cases, which share one build: each begins with a
heading, `// ---- <kind>_<what>: ...`. A comment at the end of a line marks where the bug must be reported:

    out[i] = x[i];  // BUG: out_of_bounds       this line is the answer, or one of the answers
    tile[t] = x[i];  // BUG: the other          the other thread of a race, or of a divergent barrier, is here
    out[i] = 1.0f;  // BUG: race as well        a second bug that comes with the first; it may be reported
"""

from tests.corpus.cases import (
    clean,
    copies,
    divergent_barrier,
    fragments,
    masks,
    matrices,
    misaligned,
    out_of_bounds,
    phases,
    race,
    runaway,
    stages,
    uninitialized,
    unwritten,
)
from tests.corpus.cases.case import KINDS, MAX_STEPS, ORDERS, Case, answer, false_alarms

__all__ = ["CASES", "KINDS", "MAX_STEPS", "ORDERS", "Case", "answer", "false_alarms"]

_FILES = (out_of_bounds, race, divergent_barrier, uninitialized, unwritten, misaligned, runaway)
_FILES += (copies, stages, matrices, fragments, masks, phases, clean)  # in the page's order
CASES = [case for file in _FILES for case in file.CASES]
