"""`Trace`: what one launch of a kernel did, as data. The other modules here make the sentences, tables and pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from utils.cuda.cpu.trace import tables
from utils.cuda.cpu.trace.problems import KernelProblem, Problem, problems_of
from utils.cuda.cpu.trace.records import Recorded
from utils.cuda.player.recording import Recording

__all__ = ["Trace"]


@dataclass(eq=False, repr=False)
class Trace:
    """What one launch of a kernel did, access by access.

    `problems` is a list of `Problem`, in the order found, and `ok` is True when it is empty. `requests` is a table of
    the memory accesses, `plot()` draws them, and `args` are the arguments after the run.

    The counts are of the source as written. nvcc may merge accesses (four adjacent loads into one of 16 bytes), split
    them or keep a value in a register; then the counters of Nsight Compute differ. The trace counts as Nsight Compute
    does: a request is one access of one warp (32 threads), sectors are the distinct 32-byte pieces of memory that a
    request touches, and wavefronts are the passes through the 32 banks of shared memory that it takes.
    Source: NVIDIA, Nsight Compute documentation, Kernel Profiling Guide.
    """

    kernel_name: str
    source: str
    recorded: Recorded
    args: Sequence = ()
    record: Callable | None = None  # repeats the launch: (trace, blocks, steps) -> Recording

    @cached_property
    def problems(self) -> list[Problem]:
        """What the kernel does wrong, in the order found."""
        return problems_of(self.recorded.problems)

    @property
    def ok(self) -> bool:
        """Whether the run had no problem."""
        return not self.problems

    def raise_if_problems(self):
        """Raise KernelProblem if the run had a problem."""
        __tracebackhide__ = True
        if self.problems:
            raise KernelProblem(self.problems)

    @cached_property
    def requests(self) -> pd.DataFrame:
        """A row for each access of the source, sorted by line and, within a line, in the order first seen.

        `bytes` is what one thread moves at once. `requests`, `sectors`, `wavefronts` and `bank_conflicts` (wavefronts
        beyond what an access without conflicts takes) are sums over the launch. Sectors are counted only for global
        memory and wavefronts only for shared memory; the other is 0. Accesses in one line with the same space, op and
        bytes are one row. `line` is 0 if the line is unknown.
        """
        return tables.requests(self.recorded.sites)

    @cached_property
    def units(self) -> pd.DataFrame:
        """A row for each instruction of tensor cores (unit 'tensor') and of the bulk copy engine ('tma'), by line.

        `instructions` is how often warps execute the GPU's own instructions for it. For products that depends on the
        GPU: m16n8k32 of 8-bit floats is one on Hopper's wgmma but two in `mma.sync`. `instruction` names a product with
        its shape and the types of d, a, b and c. `sectors` are the 32-byte pieces of global memory that the copy engine
        reads or writes; a trace counts these separately from `requests`.
        """
        return tables.units(self.recorded)

    def plot(self, line=None):
        """Draw what one warp touches in each access of the source, or in those of `line` only; returns the Figure.

        Global memory: which lanes of the warp touch which 32-byte sectors. Shared memory: which lanes meet in which of
        the 32 banks; for `ldmatrix`, `stmatrix` and asynchronous copies of 16 bytes, also which part of a tensor was
        copied there. The warp is the first one, in the launch's first block, that makes the access; its costliest
        request there is drawn. At most six accesses are drawn, the costliest. Constant memory is not drawn.
        The line of a product of tensor cores shows its matrices, with the lane that holds each element; that of
        `ldmatrix` or `stmatrix` also which lane addresses each row. A notebook shows the figure if `plot()` is a cell's
        last line.
        Raises ValueError for a line that has no access to draw.
        """
        from utils.cuda.cpu.trace.pictures import picture  # matplotlib takes half a second to load

        return picture(self.kernel_name, self.recorded, line)

    def recording(self, blocks=None, steps=3000) -> Recording:
        """Repeat the launch and record it: what every thread of a few blocks reads, writes and waits for, and the
        values of its variables at each step.

        The launch starts from the values of the arguments now; the result's `note` says which have changed since the
        trace. The kernel is compiled as written, without optimization. `blocks` are the blocks to keep, each a number
        or a tuple (x, y, z): by default the first two, and those with problems. At most `steps` steps of warps are
        kept. Raises ValueError for a block that the grid does not have, CourseError
        if an argument's memory has been released.
        """
        __tracebackhide__ = True
        return self.record(self, blocks, steps)

    def play(self, blocks=None, steps=3000, save=None):
        """Step through the launch: the source, what each lane reads, writes and waits for, and its variables.

        At a product of tensor cores it shows the matrices, with the lane, the register and the value of each element
        (values of the first 300 products); at `ldmatrix` and `stmatrix`, the matrices that they move; after an
        asynchronous copy has begun, the elements that are in flight until it arrives.

        Shows a `recording` of the same launch, with the same `blocks` and `steps`. Returns a
        `utils.cuda.player.page.Player`, which a notebook shows if it is a cell's last line. `save` is the path of a
        page to write as well: an HTML file that needs nothing else.
        """
        __tracebackhide__ = True
        from utils.cuda.player.page import Player, output

        if save:
            output(save, ".html")  # before the recording, which takes longer
        player = Player([self.recording(blocks, steps)])
        if save:
            player.save(save)
        return player

    def film(self, path, blocks=None, steps=3000):
        """Write what `play` shows as a short film, a GIF, to `path`."""
        __tracebackhide__ = True
        from utils.cuda.player.page import output

        output(path, ".gif")
        self.play(blocks, steps).film(path)

    def __repr__(self):
        return tables.as_text(self)

    def _repr_html_(self):
        return tables.as_html(self)
