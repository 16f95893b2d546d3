"""What NVIDIA's compiler makes of a kernel, on any machine: `kernel.ptx`, `kernel.sass` and `kernel.resources()`.

NVRTC compiles the kernel as `compile_kernel` does on a GPU, with the same options, so this is the code that runs there.
"""

import json
import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import gpus, toolchain
from utils.cuda.common.lexer import lines_of
from utils.cuda.gpu import resources, sass
from utils.cuda.gpu.facts import facts_file
from utils.cuda.gpu.nvrtc import built, version
from utils.cuda.gpu.ptxas import Usage, most_threads, usages

__all__ = ["Compiled", "Ptx", "compiled"]

# None of them changes the code. What comes from the cache of CUDA's driver, which newer versions ask, has no report.
_REPORTS = ["-lineinfo", "--ptxas-options=-v", *(["--no-cache"] if version() >= [13, 0] else [])]


class Ptx(str):
    """PTX, which is text, shown as it is."""

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        return f"<pre>{escape(self)}</pre>"


class Compiled(NamedTuple):
    """A kernel compiled for one architecture: the folder of the build, and its mangled name there."""

    source: str
    name: str  # 'tiled<16>'
    gpu: gpus.Gpu
    folder: Path
    symbol: str

    @property
    def usage(self) -> Usage:
        """What ptxas reports about it."""
        reported = usages((self.folder / "warnings.log").read_text())
        return next(usage for (symbol, arch), usage in reported.items() if symbol == self.symbol and self._is_of(arch))

    def _is_of(self, arch):
        return arch.rstrip("af") == self.gpu.arch  # of sm_90 it may be sm_90a

    @property
    def most_threads(self) -> int:
        """The threads that a block may have: those of its __launch_bounds__, otherwise 1024."""
        return most_threads(self._whole()).get(self.symbol, gpus.BLOCK_THREADS)

    @property
    def ptx(self) -> Ptx:
        """Its PTX, with the lines of the source that it comes from as comments, without the source's other kernels."""
        text = (self.folder / "kernel.ptx").read_text().split("\n\t.section\t")[0]
        for entry in re.findall(r"^(?:\.weak|\.visible) \.entry [^{]*\{.*?^\}\n*", text, re.MULTILINE | re.DOTALL):
            if not re.match(rf"\.\w+ \.entry {re.escape(self.symbol)}\(", entry):
                text = text.replace(entry, "")
        text = re.sub(rf"^\t// \.(?:globl|weak)\t(?!{re.escape(self.symbol)}$).*\n", "", text, flags=re.MULTILINE)
        own = next(iter(re.findall(r'^\t?\.file\t(\d+) "(?:[^"]*/)?cuda_src"', self._whole(), re.MULTILINE)), "")
        lines, kept, last = lines_of(self.source), [], 0
        for row in text.splitlines():
            if place := re.match(r"\t\.loc\t(\d+) (\d+)", row):
                number = int(place[2])
                if place[1] == own and number != last and 0 < number <= len(lines):
                    kept.append(f"\t// line {number}: {lines[number - 1].strip()}")
                    last = number
            elif not row.startswith("\t.file"):
                kept.append(row)
        kept = [row for row in kept if "demoted" not in row]
        return Ptx(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n")

    def _whole(self):
        return (self.folder / "kernel.ptx").read_text()

    @property
    def sass(self) -> sass.Sass:
        """Its machine code beside the lines of the source. Raises ToolchainError without nvdisasm."""
        __tracebackhide__ = True
        return sass.disassembled(self.folder / "kernel.bin", self.symbol, self.name, self.gpu.name, self.source)

    def resources(self, threads=None, shared_bytes=0) -> "resources.Resources | resources.ResourcesTable":
        """What it takes: in blocks of `threads` threads, otherwise a table for the usual sizes of a block."""
        known = (self.name, self.gpu, self.usage, self.most_threads, shared_bytes)
        return resources.table(*known) if threads is None else resources.resources(*known, threads)


def compiled(source, name, options=(), gpu=None) -> Compiled:
    """The kernel `name` of CUDA C++ text, compiled by NVRTC, now or earlier.

    `gpu` is a name such as 'T4' or 'sm_75'. By default it is the architecture that `options` name, otherwise this
    machine's GPU, otherwise the one that the CPU engine behaves like. Raises CompileError, CourseError for an unknown
    GPU, ToolchainError without NVRTC.
    """
    __tracebackhide__ = True
    given = re.search(r"(?:--gpu-architecture|-arch)[= ]((?:sm|compute)_(\d+)[af]?)\b", " ".join(options))
    options = tuple(option for option in options if not re.match(r"--gpu-architecture|-arch", option))
    chosen = gpus.named(gpu) if gpu is not None else _default(given and int(given[2]))
    if given and given[1][-1] in "af" and int(given[2]) == chosen.capability:
        options = (*options, f"--gpu-architecture={given[1]}")
    folder = built(source, [name], (*options, *_REPORTS), chosen.capability)
    symbol = json.loads(facts_file(folder, 0).read_text())["name"]
    return Compiled(source, name, chosen, folder, symbol)


def _default(capability) -> gpus.Gpu:
    if capability is None and toolchain.device().type == "cuda":
        capability = toolchain.gpu_architecture()
    if capability is not None:
        return gpus.named(f"sm_{capability}")
    gpu = gpus.chosen()
    return gpu if gpu.name else gpus.named(gpu.arch)
