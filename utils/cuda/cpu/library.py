"""The engine's own library, the runtime, which all modules share: built beside the first kernel on a machine."""

import contextlib
import functools
import os
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from utils.cuda.common import extension, gpus
from utils.cuda.common.cache import hashed, hashed_files, sole_builder
from utils.cuda.common.extension import identity, run
from utils.cuda.common.sealed import is_whole, make_folder, put
from utils.cuda.common.toolchain import cache_folder, is_clang
from utils.cuda.cpu.placed import INCLUDE
from utils.cuda.cpu.recorded import WRAPS
from utils.ground.system import cxx_compiler

__all__ = ["COMMON_FLAGS", "compile_and_link", "fingerprint", "link_flags", "path"]

#: How the runtime and what is linked with it are compiled.
COMMON_FLAGS = ["-fPIC", extension.ANY_ALIAS, f"-I{INCLUDE}"]

_NEVER_DECLARED = re.compile(
    r"^(cuda_src:\d+:\d+:) warning: there are no arguments to ('\w+') that depend on a templ", re.M
)
_HERE = Path(__file__).parent
_FOLDERS = ["trace", "runtime", "host"]  # whose files are compiled for it; they include some of guard's
_OWN_MACRO = re.compile(r"^#define (CUDA_ON_CPU_(?:TRACE|LOCAL_ARRAYS))\b", re.MULTILINE)  # what it means to headers
# _FORTIFY_SOURCE mistakes a longjmp onto another stack, which is how fibers switch, for an attack.
_FLAGS = [*COMMON_FLAGS, "-std=c++20", "-pthread", "-U_FORTIFY_SOURCE", "-DCUDA_ON_CPU_RUNTIME"]
# A machine's first build consists of little else. g++ needs a quarter less time than at -O2, and launches and
# barriers are as fast. Only what notes and counts accesses, the part "trace", would be an eighth slower.
_QUICKLY_GCC = ["-O1", "-finline-small-functions", "-foptimize-sibling-calls"]
_ROOM_GCC = ["--param", "ggc-min-heapsize=256000"]  # g++ collects garbage later: 5 % less time, a quarter more memory
_LONGEST = ["trace", "runtime", "host"]  # to compile: they begin first, so that all cores end at about one time
# The functions of std::vector and other templates are in the runtime and in modules. Modules' accesses are traced, and
# their allocations in kernels are kernels' memory: the runtime must call its own functions, not the module's.
_LINK = ["-shared", "-pthread", *(["-Wl,-Bsymbolic-functions"] if sys.platform == "linux" else [])]

# Functions of C that the runtime replaces (c_library.cpp). A kernel that calls `exit` would end Python: the runtime's
# ends only the kernel. What an overrun would destroy is not Python's heap: see heap.cpp for kernels and
# host/arrays.cpp for the host's code.
_REPLACED = ["exit", "_Exit", "_exit", "quick_exit", "abort", "raise", "kill", "pthread_exit"]
_REPLACED += ["execv", "execvp", "execve", "execl", "execlp"]
_REPLACED += ["pthread_kill", "syscall", "alarm", "setitimer", "signal", "sigaction"]
_REPLACED += ["clock", "__stack_chk_fail"]
_REPLACED += ["fmax", "fmin", "fmaxf", "fminf"]  # C's may take either of +0 and -0
_REPLACED += ["malloc", "calloc", "realloc", "free", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"]
# `std::thread`'s constructor calls it: what goes wrong in an extension's thread does not end Python (host_call.cpp).
_REPLACED += ["_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"]
_WRAP = [f"-Wl,--wrap={name}" for name in _REPLACED] if sys.platform == "linux" else []
# An overrun of a `__device__` variable must not reach the addresses of functions: they are found when a library is
# loaded, and then no longer writable.
_FIXED = ["-Wl,-z,relro,-z,now"] if sys.platform == "linux" else []


@functools.cache
def fingerprint() -> str:
    """What the library depends on: the engine's C++ files, the table of GPUs, and how a compiler makes it."""
    parts = [hashed_files(INCLUDE, ""), *(hashed_files(_HERE / name, (".h", ".cpp")) for name in [*_FOLDERS, "guard"])]
    compiler = cxx_compiler()
    flags = [_flags(compiler, name) for name in ("trace", "others")]
    return hashed(parts, gpus.TABLE.read_text(), flags, _LINK, identity(compiler))


def path() -> Path:
    """Where the library is, or will be once it is built."""
    return cache_folder() / "runtime" / f"libcuda_on_cpu-{fingerprint()}.so"


def link_flags(recorded=False) -> list[str]:
    """What to link a module or a program with, which can be played if it is `recorded` (recorded.py)."""
    wraps = [*_WRAP, *(WRAPS if recorded else [])]
    return [str(path()), f"-Wl,-rpath,{path().parent}", "-pthread", *wraps, *_FIXED]


def compile_and_link(commands, link, folder, say) -> str:
    """Compile in parallel, including the library if it is not built yet, then link. The log, empty if all succeed.

    What the compilers print although they succeed goes to `folder/warnings.log`.
    The library is built beside its final place and moved there when complete, so no process ever loads half of it. If
    several processes lack it, one builds it and the others wait.
    """
    library = path()
    if not is_whole(library):
        make_folder(library.parent)
        with sole_builder(library):
            if not is_whole(library):
                return _with_library(commands, folder, say) or run([link], say)
    with contextlib.suppress(OSError):  # a read-only cache
        os.utime(library)  # in use: utils/cuda/common/cache.py removes one that has long been unused
    return _compiled(commands, folder, say) or run([link], say)


def _with_library(commands, folder, say) -> str:
    """Compile the library beside what `commands` compile."""
    library = path()
    with tempfile.TemporaryDirectory(dir=library.parent) as beside:
        own = _commands(Path(beside))
        built = f"{beside}/{library.name}"
        linked = [cxx_compiler(), *_LINK, f"-Wl,-soname,{library.name}", *(command[-1] for command in own), "-o", built]
        log = _compiled([*commands, *own], folder, say) or run([linked], say)
        if not log:
            put(Path(built), library)
    return log


def _compiled(commands, folder, say) -> str:
    """Run the compilers; the log of what is wrong with the source."""
    from utils.cuda.cpu.missing import explained_missing

    return explained_missing(run(commands, say, folder / "warnings.log")) or _undeclared(folder)


def _undeclared(folder) -> str:
    """The errors about functions that a template calls and nobody declares, though nothing needs the template yet: g++,
    made to accept what nvcc does, only warns of them."""
    log = folder / "warnings.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(
        f"{place} error: {name} was not declared in this scope, in a template that nothing uses yet"
        for place, name in _NEVER_DECLARED.findall(text)
    )


def _parts() -> dict[str, str]:
    """The texts that are compiled for the library, by name. Each includes the files of a folder that want the same of
    the headers, which are then read once for all of them: half the time of compiling file by file."""
    parts = defaultdict(str)
    for folder in _FOLDERS:
        for file in sorted(_HERE.glob(f"{folder}/*.cpp")):
            parts["_".join([folder, *_OWN_MACRO.findall(file.read_text())])] += f'#include "{file}"\n'
    return dict(sorted(parts.items(), key=lambda part: part[0] not in _LONGEST))


def _flags(compiler, name) -> list[str]:
    if is_clang(compiler):
        return [*_FLAGS, "-O2"]
    return [*_FLAGS, *(["-O2"] if name == "trace" else _QUICKLY_GCC), *_ROOM_GCC]


def _commands(beside) -> list[list[str]]:
    """The compiler's calls for the library's parts, whose texts are put into the folder `beside`."""
    compiler, commands = cxx_compiler(), []
    for name, text in _parts().items():
        part = Path(beside, f"{name}.cpp")
        part.write_text(text)
        commands.append([compiler, *_flags(compiler, name), "-c", str(part), "-o", str(part.with_suffix(".o"))])
    return commands
