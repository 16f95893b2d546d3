"""Headers that every build includes: g++ reads them once, and keeps what it has understood in the cache.

torch's, which extensions and their bindings include, take g++ two seconds, or a quarter of a second if they are kept
(150 MB each); the engine's own take half of a kernel's compile time (25 MB). g++ ignores a precompiled header that does
not fit, because a flag differs for instance, and reads the headers as usual.
"""

import contextlib
import re
import shlex

from utils.cuda.common import extension, special_functions
from utils.cuda.common.cache import build_once, hashed, hashed_files
from utils.cuda.common.toolchain import cache_folder
from utils.cuda.cpu.placed import INCLUDE
from utils.ground.errors import ToolchainError

__all__ = ["KERNEL", "TORCH", "binding_headers", "kernel_headers", "missed_by", "torch_headers"]

#: What every kernel includes first.
KERNEL = ("cuda_runtime.h", "cuda_on_cpu/kernel.h")
#: What an extension's device code includes first, if it uses torch.
TORCH = ("cuda_runtime.h", "cuda_on_cpu/torch_halves.h", "torch/types.h")
# In g++'s messages: one of the special functions, which kept headers lack, is missing, or there is no room for a kept
# header at the one address where it can be.
_MISSED = re.compile(rf"error: .*'(?:std::)?{special_functions.NAMES}'|PCH")


def missed_by(log) -> bool:
    """Whether a build may have failed, with this log, only because it took headers from here."""
    return bool(_MISSED.search(log))


def binding_headers(compiler, flags) -> list[str]:
    """The flags with which `compiler`, a g++, takes `extension.BINDING` from the cache; `flags` are its others.

    Prepares them if they are not there yet. Without room for them, for instance, there are no such flags.
    """
    return _kept("binding", extension.BINDING, compiler, flags, "torch's", 6, extension.fingerprint())


def torch_headers(compiler, flags) -> list[str]:
    """The same for `TORCH`."""
    return _kept("torch", TORCH, compiler, flags, "torch's", 4, extension.fingerprint())


def kernel_headers(compiler, flags) -> list[str]:
    """The same for `KERNEL`."""
    return _kept("kernel", KERNEL, compiler, flags, "the engine's", 1)


def _kept(name, headers, compiler, flags, whose, seconds, *more):
    folder = cache_folder() / "runtime"
    folder /= f"{name}_{hashed(extension.identity(compiler), flags, hashed_files(INCLUDE, ('.h',)), *more)}"

    def build(place):
        header = place / f"{name}.h"
        texts = [f"#define {special_functions.FILE_GUARD} 1\n", special_functions.ALSO]
        header.write_text("".join([*texts, *(f"#include <{each}>\n" for each in headers)]))
        command = [compiler, *flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
        (place / "commands.txt").write_text(f"{shlex.join(command)}\n")
        return extension.run([command], lambda command: None)

    from utils.cuda.common.diagnostics import CompileError  # here: only a build needs it

    with contextlib.suppress(CompileError, ToolchainError):
        build_once(folder, build, f"preparing {whose} headers", {}, seconds)
        return ["-include", str(folder / f"{name}.h")]
    return []
