"""What a case of the corpus is: its kernel and twin, the lines marked in the source, and what answers it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from tests.launches import Launch

KINDS = (
    "out_of_bounds",
    "race",
    "divergent_barrier",
    "uninitialized",
    "unwritten",
    "misaligned",
    "runaway",
    "undefined_shuffle",
    "asynchronous",
)

ORDERS = ("forward", "reversed", 1, 2)  # of blocks and threads; a bug is a bug in any of them
MAX_STEPS = 20_000  # a thread of a sound kernel runs some thousand basic blocks at most

_FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Case:
    """A bug and its mended twin, or a clean kernel, with its launch.

    `who(block, thread)` says whether a thread does what it is accused of; both are (x, y, z).
    """

    launch: Launch
    twin: Launch | None  # the mended one; None for a clean kernel
    who: Callable = field(default=lambda block, thread: True)
    file: str = ""  # without '.cu'

    @property
    def name(self):
        return self.launch.name

    @property
    def kind(self):
        """The kind of problem; None for a clean kernel."""
        return next((kind for kind in KINDS if self.name.startswith(kind)), None)

    @property
    def lines(self):
        """The lines, counted from 1, on one of which the problem must be reported. None is marked for `unwritten`."""
        marked = self._marks(self.kind)
        if self.kind == "runaway":  # a loop is left anywhere between its head and its end
            marked = [line for head in marked for line in _loop(self.launch.source, head)]
        return marked

    @property
    def other_lines(self):
        """Where the other thread of a race or of a divergent barrier may be."""
        return self._marks("the other")

    @property
    def marked_lines(self):
        """All lines that have to do with the bug."""
        return sorted({*self._marks(""), *self.lines})

    def _marks(self, text):
        lines = _section(self.launch.source, self.name)
        return [
            number for number, line in lines if (mark := re.search(r"// BUG: (.*)$", line)) and text in ("", mark[1])
        ]


def answer(case, problems):
    """The first of `problems` that is the planted bug: kind, lines, block and thread are right. None if none is."""
    for p in problems:
        if p.kind != case.kind or not _right_lines(case, p):
            continue
        accused = [(p.block, p.thread)] if p.block else []
        if p.kind == "race":
            accused.append((p.other_block, p.other_thread))
        if (accused or p.kind == "unwritten") and all(case.who(*thread) for thread in accused):
            return p
    return None


def false_alarms(case, problems):
    """Those of `problems` that have nothing to do with the planted bug: all that touch no marked line."""
    marked = {*case.marked_lines}
    return [p for p in problems if not marked & {p.line, p.other_line} and not p.kind == case.kind == "unwritten"]


def _right_lines(case, problem):
    if case.kind == "unwritten":  # what nobody wrote has no line
        return problem.line is None
    if case.kind == "race" or case.other_lines:
        others = case.other_lines or case.lines
        ways = [(problem.line, problem.other_line), (problem.other_line, problem.line)]
        return any(one in case.lines and other in others for one, other in ways)
    return problem.line in case.lines


def _section(source, name):
    """The numbered lines of a case: the whole file, or what follows its heading, '// ---- name: ...'."""
    lines, headings = [*enumerate(source.splitlines(), 1)], re.findall(r"^// ---- (\w+):", source, re.MULTILINE)
    if not headings:
        return lines
    parts, heading = {}, None
    for number, line in lines:
        if found := re.match(r"// ---- (\w+):", line):
            heading = found[1]
        parts.setdefault(heading, []).append((number, line))
    return parts[name]


def _loop(source, head):
    """The lines of the loop that begins at line `head`: those that are indented deeper, and its closing brace."""
    lines = source.splitlines()
    depth = len(lines[head - 1]) - len(lines[head - 1].lstrip())
    last = head
    for number in range(head + 1, len(lines) + 1):
        line = lines[number - 1]
        if line.startswith("#"):
            continue
        if len(line) - len(line.lstrip()) <= depth:
            closes = line.rstrip() == " " * depth + "}"
            return range(head, (number if closes else last) + 1)
        last = number
    return range(head, last + 1)


def case(name, kernel, grid, block, args, shared_bytes=0, outputs=(), who=None, mended_shared_bytes=None, file=None):
    """A case from its file. `outputs` is asked of the mended twin; of the bug only where it is left unwritten."""
    source = (_FOLDER / f"{file or name}.cu").read_text()
    complete = Launch(name, source, kernel, grid, block, args, shared_bytes, tuple(outputs))
    if name.startswith("clean"):
        return Case(complete, None, file=file or name)
    bug = complete if name.startswith("unwritten") else replace(complete, outputs=())
    shared = shared_bytes if mended_shared_bytes is None else mended_shared_bytes
    twin = replace(complete, name=f"{name}.mended", source=f"#define MENDED\n{source}", shared_bytes=shared)
    return Case(bug, twin, who or (lambda block, thread: True), file or name)


def case_in(file):
    """`case` for a file that holds several."""
    return partial(case, file=file)


def together(*cases):
    """Cases of one file: their kernels are built together."""
    kernels = tuple(one.launch.kernel for one in cases)
    return [
        replace(one, launch=replace(one.launch, together=kernels), twin=replace(one.twin, together=kernels))
        for one in cases
    ]


def zeros(*shape, dtype=torch.int32):
    """A tensor of zeros, for a kernel that counts or adds up."""
    return torch.zeros(*shape, dtype=dtype)
