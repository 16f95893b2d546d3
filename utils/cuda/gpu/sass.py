"""A kernel's machine code (SASS), beside the lines of its source: `kernel.sass`."""

import re
import subprocess
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.common.lexer import lines_of
from utils.cuda.common.toolchain import disassembler
from utils.ground.errors import ToolchainError
from utils.ground.system import short_path

__all__ = ["Instruction", "Sass", "disassembled"]

SHOWN = 60  # instructions of a listing that a notebook shows


class Instruction(NamedTuple):
    """One instruction of a kernel."""

    address: int  # in the kernel, in bytes
    line: int  # of the source that it comes from; 0 if it comes from no line of it
    predicate: str  # '@!P0': only threads for which it holds do it; '' if all do
    text: str  # 'FFMA R4, R2, R3, R4'
    target: int | None  # of a branch: the address where it goes

    @property
    def opcode(self) -> str:
        """'LDG.E' of 'LDG.E R0, [R2]'."""
        return self.text.split()[0]

    @property
    def kind(self) -> str:
        """What it does, a key of KINDS; '' for what computes addresses and conditions, and moves values."""
        if "-RZ, RZ, " in self.text:  # 0 times 0, plus a number: how newer GPUs store a number in a register
            return ""
        name = self.opcode.split(".")[0]
        return next((kind for kind, (pattern, _) in KINDS.items() if re.fullmatch(pattern, name)), "")


#: Kinds of instructions, each with the opcodes (CUDA Binary Utilities, "Instruction Set Reference") and a colour.
KINDS = {
    "global memory": (r"LDG|STG|LDGSTS|LD|ST|ATOM|ATOMG|RED|REDG|UBLKCP|UTMA\w+", "#b03a2e"),
    "shared memory": (r"LDS|STS|LDSM|STSM|ATOMS", "#1f618d"),
    "local memory": (r"LDL|STL", "#7d3c98"),
    "arithmetic": (r"[FDH](ADD|MUL|FMA)\d*|[FDH]ADD2|HFMA2|HMNMX2|FMNMX|MUFU|[HBIDQ]?G?MMA|[HIQ]GMMA", "#1e7145"),
    "warp": (r"SHFL|VOTE|VOTEU|MATCH|REDUX|CREDUX", "#0e6655"),
    "waits": (r"BAR|WARPSYNC|MEMBAR|DEPBAR|LDGDEPBAR|SYNCS|NANOSLEEP|ERRBAR", "#935116"),
    "branches": (r"BRA|BRX|JMP|EXIT|CALL|RET|BREAK", "#515a5a"),
}


class Sass(Sequence):
    """The instructions of a kernel, a sequence of `Instruction`, shown beside the source lines they come from.

    `.loop` is the innermost loop, `.line(12)` what comes from one line, `.counts` how many instructions of each kind
    there are. `.text` is the whole listing; a notebook shows its beginning. An instruction is moved where a result is
    ready in time, so a line of the source may come several times.
    """

    def __init__(self, name, gpu, source, instructions, part=""):
        self.name, self.gpu, self.source, self.part = name, gpu, source, part
        self._instructions = list(instructions)

    def __len__(self):
        return len(self._instructions)

    def __getitem__(self, index):
        found = self._instructions[index]
        return self._part(found, "a part") if isinstance(index, slice) else found

    @property
    def loop(self) -> "Sass":
        """The innermost loop; of several, the longest, which is the one that the compiler unrolled.

        Raises ValueError if the code has no loop.
        """
        loops = self.loops
        if not loops:
            unrolled = _has_loop(self.source, self.name)
            why = "the compiler has unrolled every loop of its source" if unrolled else "its source has none"
            raise ValueError(f"the code of {self.name} has no loop: {why}")
        inside = {loop: sum(o[0] <= loop[0] and loop[1] <= o[1] for o in loops) for loop in loops}
        start, end = max(loops, key=lambda loop: (inside[loop], loop[1] - loop[0], -loop[0]))
        chosen = [each for each in self._instructions if start <= each.address <= end]
        return self._part(chosen, "the innermost loop")

    @property
    def loops(self) -> list[tuple[int, int]]:
        """The addresses of the first and the last instruction of every loop: where a branch goes back to, and its own.

        Two branches back to one place are one loop.
        """
        ends = {}
        for each in self._instructions:
            if each.target is not None and each.target < each.address:
                ends[each.target] = max(each.address, ends.get(each.target, 0))
        return sorted(ends.items())

    def line(self, *numbers) -> "Sass":
        """What comes from these lines of the source. Raises ValueError if nothing does."""
        found = [each for each in self._instructions if each.line in numbers]
        if not found:
            known = ", ".join(str(line) for line in sorted({each.line for each in self._instructions} - {0}))
            raise ValueError(
                f"no instruction comes from line {', '.join(map(str, numbers))}: those of {known} have some"
            )
        return self._part(found, f"line {', '.join(map(str, numbers))}")

    @property
    def counts(self) -> dict[str, int]:
        """How many instructions of each kind there are, the most frequent first."""
        kinds = [each.kind or "other" for each in self._instructions]
        return dict(sorted(((kind, kinds.count(kind)) for kind in set(kinds)), key=lambda item: (-item[1], item[0])))

    @property
    def text(self) -> str:
        """The whole listing."""
        return self._listing(len(self))

    def __repr__(self):
        return self._listing(SHOWN)

    def _repr_html_(self):
        shown = []
        for number, run in self._by_line(self._instructions[:SHOWN]):
            shown.append(f'<span style="color:#555">{escape(self._source_line(number))}</span>')
            for each in run:
                colour = KINDS[each.kind][1] if each.kind else "inherit"
                shown.append(f'<span style="color:{colour}">{escape(_written(each))}</span>')
        kinds = {each.kind for each in self._instructions[:SHOWN]} - {""}
        legend = " ".join(
            f'<span style="color:{colour}">&#9632; {kind}</span>'
            for kind, (_, colour) in KINDS.items()
            if kind in kinds
        )
        rest = f"\n{escape(self._rest(SHOWN))}" if len(self) > SHOWN else ""
        code = "\n".join(shown)
        return f"<div>{escape(self._title())}<br>{legend}<pre>{code}{rest}</pre></div>"

    def _part(self, instructions, part):
        return Sass(self.name, self.gpu, self.source, instructions, part)

    def _title(self):
        part = f", {self.part}" if self.part else ""
        counts = ", ".join(f"{number} {kind}" for kind, number in self.counts.items())
        return f"{self.name} on {self.gpu}{part}: {len(self)} instructions ({counts})"

    def _listing(self, most):
        lines = [self._title()]
        for number, run in self._by_line(self._instructions[:most]):
            lines += [self._source_line(number), *map(_written, run)]
        return "\n".join([*lines, self._rest(most)] if len(self) > most else lines)

    def _by_line(self, instructions):
        return groupby(instructions, lambda each: each.line)

    def _source_line(self, number):
        lines = lines_of(self.source)
        if not 0 < number <= len(lines):
            return "     | (no line of the source)"
        return f"{number:4} | {lines[number - 1].strip():.110}"

    def _rest(self, most):
        return f"... and {len(self) - most} more: .text has all, .loop the innermost loop, .line(12) those of a line"


def _written(each):
    return f"       {each.predicate:>5} {each.text}"


# ---- disassembling --------------------------------------------------------------------------------------------------


_LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
_CODE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(@!?U?P\w+)?\s*([A-Z][^;]*?)\s*;")
_LABEL = re.compile(r"^(\.\S+):", re.MULTILINE)


def disassembled(cubin, symbol, name, gpu, source) -> Sass:
    """The code of the kernel with the mangled name `symbol` in the file `cubin`.

    `name`, `gpu` and `source` are what is shown: the kernel's name, the GPU's, and the text that the file `cuda_src` of
    the debug information is. Raises ToolchainError if nvdisasm is missing or does not read the file.
    """
    __tracebackhide__ = True
    program = disassembler()
    done = subprocess.run([program, "-c", "-gi", cubin], capture_output=True, text=True)
    if done.returncode:
        raise ToolchainError(f"{short_path(program)} does not read this code: {done.stderr.strip()}")
    section = re.search(rf"^\.text\.{re.escape(symbol)}:\n(.*?)(?=^//-----|\Z)", done.stdout, re.MULTILINE | re.DOTALL)
    return Sass(name, gpu, source, _without_padding(_instructions(section[1] if section else "")))


def _instructions(section):
    """The instructions of a section of nvdisasm's output."""
    found, labels, branches, line, above = [], {}, {}, 0, []
    for row in section.splitlines():
        if place := _LINE.search(row):
            above.append(place)
        elif label := _LABEL.match(row):
            labels[label[1]] = len(found)
        elif code := _CODE.search(row):
            if above:  # the innermost function first, then where it was inlined
                own = (
                    int(number) for file, number in (each.groups() for each in above) if Path(file).name == "cuda_src"
                )
                line, above = next(own, 0), []
            text = re.sub(r"\.reuse\b|\?\w+", "", " ".join(code[3].split()))
            if goes := re.search(r"`\((\.L\w+)\)", text):
                branches[len(found)] = goes[1]
            text = re.sub(r"`\(\$?([^)]*)\)", r"\1", text)
            found.append(Instruction(int(code[1], 16), line, code[2] or "", text, None))
    for number, label in branches.items():
        if labels.get(label, len(found)) < len(found) and found[number].opcode.startswith("BRA"):
            target = found[labels[label]].address
            way = "back" if target <= found[number].address else "on"
            text = found[number].text.replace(label, f"{way} to line {found[labels[label]].line}")
            found[number] = found[number]._replace(target=target, text=text)
    return found


def _without_padding(instructions):
    """Without the end: a branch to itself, and the NOPs that fill the last line of the instruction cache."""
    while instructions and (instructions[-1].opcode == "NOP" or instructions[-1].target == instructions[-1].address):
        instructions.pop()
    return instructions


def _has_loop(source, name) -> bool:
    """Whether there is a loop in the source of the kernel `name`, or in the functions, types and macros it uses."""
    parts = {name: [*macro.body] for name, macro in cxx.macros(source).items()}
    for declaration in [*cxx.declarations(source), *cxx.declared_kernels(source)]:
        for each in declaration.names:
            parts.setdefault(each, []).extend(declaration.tokens)
    ahead, words = [cxx.instance(name)[0]], set()
    while ahead:
        new = {token.text for token in parts.pop(ahead.pop(), ())} - words
        words |= new
        ahead += new & parts.keys()
    return bool(words & {"for", "while", "goto"})
