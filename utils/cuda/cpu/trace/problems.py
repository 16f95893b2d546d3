"""What a trace reports about a kernel's mistakes: the problems, and the exception that carries them."""

from dataclasses import dataclass, replace

from utils.cuda.cpu.trace.sentences import sentence
from utils.cuda.cpu.trace.words import counted
from utils.ground.errors import CourseError

__all__ = ["MANY_PROBLEMS", "MAX_PROBLEMS", "MAX_STEPS", "KernelProblem", "Problem", "problems_of"]

MAX_PROBLEMS = 20  # different ones, after which a trace ends
MANY_PROBLEMS = 200  # after which that of a whole program or extension, which goes on, notes no new ones
MAX_STEPS = 10_000_000  # basic blocks that a thread of a trace may run


@dataclass(frozen=True, repr=False)
class Problem:
    """One thing that a kernel does wrong, at one place in its source.

    `kind` is out_of_bounds, race, divergent_barrier, uninitialized, undefined_shuffle, unwritten, misaligned, undefined
    (a conversion, a shift or a memcpy whose result a GPU may not share), stale (`__ldg` of what this launch writes),
    runaway, trap, asynchronous (a copy that is left in flight, or a barrier or a bulk copy that is used against its
    rules), warpgroup (of wgmma), cluster (a peer's shared memory that is not there yet or no more), box and map_fence
    (of tensor maps) or, for an extension or a program, refused_launch, untraced_launch, host_access (of memory of the
    device), failed_call (of a CUDA function), stream_race (of kernels or copies) and host_error (which ends the call or
    the program).
    `message` is one sentence; `hint`, if not empty, says what to try. `line` counts from 1 (None if unknown) and
    `source` is its text. `block` and `thread` are (x, y, z). The `other_` fields are those of the second thread of a
    race or a barrier, otherwise None. `count` is how often the problem occurred; for `unwritten` it counts elements.
    """

    kind: str
    message: str
    line: int | None = None
    source: str = ""
    block: tuple | None = None
    thread: tuple | None = None
    other_block: tuple | None = None
    other_thread: tuple | None = None
    other_line: int | None = None
    count: int = 1
    hint: str = ""

    def __repr__(self):
        return f"{self.message}\n    hint: {self.hint}" if self.hint else self.message


class KernelProblem(CourseError):
    """A kernel did something wrong. The message is the first problem; `.problems` holds all of them."""

    def __init__(self, problems):
        first, more = problems[0], len(problems) - 1
        rest = f"\n({counted(more, 'more problem')} in .problems)" if more else ""
        super().__init__(f"{first!r}{rest}", line=first.line)
        self.problems = list(problems)

    def __reduce__(self):
        return KernelProblem, (self.problems,)


def problems_of(records) -> list[Problem]:
    """The problems in a list of `Record`; those of one kind at one place in the source are merged."""
    together = {}
    # The first barrier that not all threads reach comes first: it separates nothing, so that races follow.
    skipped = {record.line for record in records if record.kind == "divergent_barrier"}
    uneven = next((record for record in records if record.uneven), None)
    for record in sorted(records, key=lambda record: record is not uneven):
        other = record.other
        if record.kind == "divergent_barrier" and record.line == other.line is not None:
            if not (other.left or record.stuck or record.apart) and other.text == record.text:
                continue  # one barrier in the source, which the compiler has duplicated
        if record.signal or record.checked:
            continue  # a race that is meant, a failure that is expected
        if record.skipped_wait and record.skipped_wait[0] in skipped:
            record = replace(record, waits_between="")
        together.setdefault((record.kind, record.region, frozenset([record.where, other.where])), []).append(record)
    # A race is between the threads of one block, or of one warp, if no record of it says otherwise.
    firsts = [min(same, key=lambda record: (record.one_block, record.one_warp)) for same in together.values()]
    counts = [sum(record.count for record in same) for same in together.values()]
    return [_problem(replace(first, count=count)) for first, count in zip(firsts, counts, strict=True)]


def _problem(record):
    message, hint = sentence(record)
    other = record.other
    places = [record.block, record.thread, other.block, other.thread, other.line]
    return Problem(record.kind, message, record.line, record.source, *places, record.count, hint)
