"""torch's headers take g++ two seconds to read; prepared once and kept in the cache (150 MB), half a second.

Every extension has a small file that binds its functions to Python (extension.main_source), with the same headers.
g++ ignores a precompiled header that does not fit, because a flag differs for instance, and reads the headers as usual.
"""

import contextlib
import shlex

from utils.cuda.common import extension
from utils.cuda.common.cache import build_once, hashed, hashed_files
from utils.cuda.common.diagnostics import CompileError
from utils.cuda.common.toolchain import cache_folder
from utils.cuda.cpu.placed import INCLUDE
from utils.ground.errors import ToolchainError

__all__ = ["NOT_TAKEN", "binding_headers"]

#: In g++'s message if it has found no room for them at the one address where they can be.
NOT_TAKEN = "PCH"
_SECONDS = 6  # to prepare them


def binding_headers(compiler, flags) -> list[str]:
    """The flags with which `compiler`, a g++, takes `extension.BINDING` from the cache; `flags` are its others.

    Prepares them if they are not there yet. Without room for them, for instance, there are no such flags.
    """
    parts = extension.identity(compiler), flags, extension.fingerprint(), hashed_files(INCLUDE, (".h",))
    folder = cache_folder() / "runtime" / f"binding_{hashed(*parts)}"

    def build(place):
        header = place / "binding.h"
        header.write_text("".join(f"#include <{name}>\n" for name in extension.BINDING))
        command = [compiler, *flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
        (place / "commands.txt").write_text(f"{shlex.join(command)}\n")
        return extension.run([command], lambda command: None)

    with contextlib.suppress(CompileError, ToolchainError):
        build_once(folder, build, "preparing torch's headers", {}, _SECONDS)
        return ["-include", str(folder / "binding.h")]
    return []
