"""The second half of nvcc: the host's compiler reads what nvcc's front end has made of a source, and may reject it.

Beside the host's own code that is a function and a variable for each kernel and each variable of the device, so g++
may reject what the front end has accepted, such as `__device__ Point origin(3);` without a constructor for the host.
"""

import re
import shlex

from utils.cuda.common import cxx

__all__ = ["and_for_host", "with_own_lines"]


def and_for_host(command, flags, compiler, text) -> list[str]:
    """The command of nvcc that writes C++ to the file `text`, and then `compiler`, which reads it.

    Only a rejection is printed: what the compiler warns of, the engine's own build has said.
    """
    standard = next((flag for flag in flags if flag.startswith("-std=")), "-std=c++17")
    reads = [compiler or "g++", standard, "-fsyntax-only", "-x", "c++-cpp-output", str(text)]
    said = shlex.quote(f"{text}.log")
    return ["sh", "-c", f"{shlex.join(command)} && {{ {shlex.join(reads)} 2>{said} || {{ cat {said}; exit 1; }}; }}"]


_IN_STUB = re.compile(r"^\S*\.stub\.c:\d+:\d+: error: (.*)", re.MULTILINE)
_OF_KERNEL = re.compile(r"__wrapper__device_stub_(\w+)")
_OWN_NAME = re.compile(r'#line 1 "(.*)"\n')  # of a program's source; otherwise it is cuda_src


def with_own_lines(log, text) -> str:
    """The log with an error on a line of `text` if all are in what nvcc has added for a template kernel."""
    named = _OWN_NAME.match(text)
    name, own = (named[1], text[named.end() :]) if named else ("cuda_src", text)
    error, kernel = _IN_STUB.search(log), _OF_KERNEL.search(log)
    if not error or not kernel or re.search(rf"^{re.escape(name)}[:(]\d+.*error", log, re.MULTILINE):
        return log
    line = next((found.line for found in cxx.declared_kernels(own) if found.name == kernel[1]), 1)
    return f"{name}:{line}: error: {error[1]}\n{log}"
