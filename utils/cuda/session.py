"""Done once in each process that compiles or launches: C's output is shown, and a lost GPU is explained."""

import functools
import sys

from utils.cuda.common import output
from utils.cuda.gpu import failures

__all__ = ["begin"]


@functools.cache
def begin() -> None:
    """Prepare this process: what C code and kernels print appears in order, and errors of a lost GPU are explained.

    `load_cuda`, `compile_kernel` and a lesson's set-up call it. A second call does nothing.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    failures.show_explained(shell)
    output.show_c_output(shell, failures.settle, failures.explain)
