"""What compilers say, told to a learner: CompileError, with the lines of the source that the message is about."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from utils.toolchain import short_path

__all__ = ["CompileError", "excerpt", "explained", "functions", "refused", "shorten"]


class CompileError(RuntimeError):
    """The source does not compile. The message shows the compiler's words beside the lines they are about.

    `.errors` holds them as (source, line, message), source being 'cuda_src', 'cpp_src' or, for what is wrong in the
    name given to compile_kernel, 'name'; `.log` is the whole log.
    """

    def __init__(self, message, errors=(), log=""):
        super().__init__(message)
        self.errors = list(errors)
        self.log = log


# g++ and clang++: cuda_src:7:12: error: message    nvcc and NVRTC: cuda_src(7): error: message
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc_line>\d+)\)): "
    r"(?:fatal |catastrophic )?error(?: #[\w-]+)?: (?P<message>.*)$",
    re.MULTILINE,
)
_UNDEFINED = re.compile(r"undefined reference to [`'](.*)'|undefined symbol: (\w+)")


def explained(log, sources, folder):
    """A CompileError from the compilers' log, which is kept in the build folder. `sources` maps names to texts."""
    kept = folder / "build.log"
    kept.write_text(log)
    errors = []
    for found in _DIAGNOSTIC.finditer(log):
        which, line = Path(found["file"]).name, int(found["line"] or found["nvcc_line"])
        if which in sources:  # what is missing at the end is missed on a line behind it
            line = min(line, len(sources[which].rstrip().splitlines()) or 1)
        error = (which, line, found["message"].strip())
        if error not in errors:
            errors.append(error)
    own = [e for e in errors if e[0] in sources]
    parts = [f"{which}, line {line}: {text}\n{excerpt(sources[which], line)}" for which, line, text in own[:3]]
    if len(own) > 3:
        parts.append(f"... and {len(own) - 3} more errors.")
    if not own:
        undefined = dict.fromkeys(name or _demangled(symbol) for name, symbol in _UNDEFINED.findall(log))
        defined = [name for text in sources.values() for name in functions(text, ends="{")]
        have = f". They define: {', '.join(defined)}" if defined else ""
        parts = [f"`{name}` is declared and called, but no source defines it{have}" for name in undefined]
    if not parts:
        parts = [f"{file}, line {line}: {text}" for file, line, text in errors[:3]] or log.strip().splitlines()[-5:]
    return CompileError("\n".join([*parts, f"The whole log: {short_path(kept)}"]), own, log)


def refused(which, source, line, message):
    """A CompileError about a line that no compiler was asked about."""
    return CompileError(f"{which}, line {line}: {message}\n{excerpt(source, line)}", [(which, line, message)])


def _demangled(symbol):
    tool = shutil.which("c++filt")
    return subprocess.run([tool, symbol], capture_output=True, text=True).stdout.strip() if tool else symbol


def functions(code, ends=";{"):
    """The functions that C++ text declares or defines for others to call: none of its kernels or helpers."""
    private = r"(?!.*(?:__global__|__device__|\binline\b|\bstatic\b|\btemplate\b|\breturn\b))"
    found = re.findall(rf"^{private}[A-Za-z_][\w:<>,&* \t]*?[ \t&*](\w+)[ \t]*\([^;{{}}()]*\)\s*[{ends}]", code, re.M)
    return list(dict.fromkeys(found))


def excerpt(source, line, around=2):
    """The lines about `line`, numbered, with an arrow at it."""
    lines = source.splitlines()
    first, last = max(1, line - around), min(len(lines), line + around)
    shown = [f"{'-->' if n == line else '   '} {n:4} | {lines[n - 1]}" for n in range(first, last + 1)]
    return "\n".join(shown)


def shorten(text):
    """Long folders by short names: what matters in a compile command stands at its ends."""
    import torch

    folders = {
        Path(torch.__file__).parent: "<torch>",
        Path(__file__).parents[1]: "<course>",
        Path(sysconfig.get_path("include")): "<python headers>",
        Path(sys.prefix): "<environment>",
        Path.home(): "~",
    }
    for folder, name in folders.items():
        text = text.replace(str(folder), name)
    return text
