"""Which functions of a source end up in machine code: PTX in the others is never seen by ptxas, nor run here."""

import zlib

from utils.cuda.common import cxx

__all__ = ["in_host_function", "in_unused_function", "lacking", "surely_compiled"]


def lacking(message) -> str:
    """C++ that fails to compile, with this message, where it ends up in machine code."""
    text, name = message.replace("\\", "\\\\").replace('"', '\\"'), f"cuda_on_cpu_lacks_{zlib.crc32(message.encode())}"
    return f'do {{ extern void {name}() __attribute__((error("{text}"))); {name}(); }} while (0)'


def surely_compiled(source, at) -> bool:
    """Whether the character `at` is in a device function that is compiled whatever its template arguments: one outside
    of classes, that is no template."""
    return any(_holds(f, at) and not f.template for f in cxx.functions(source))


def in_host_function(source, at) -> bool:
    """Whether it is in a function that runs on the host only."""
    marks = {"__device__", "__global__"}
    return any(_holds(f, at) and not marks & set(f.words) for f in cxx.functions(source))


def in_unused_function(source, at) -> bool:
    """Whether it is in a device function that no kernel, host function or macro leads to."""
    inner = [f for f in cxx.functions(source) if "__device__" in f.words and "__global__" not in f.words]
    if not any(_holds(f, at) for f in inner):
        return False
    tokens = (token for token in cxx.tokens(source) if not any(_holds(f, token.start) for f in inner))
    mentioned, ahead = set(), {token.text for token in tokens}
    while ahead:
        mentioned |= ahead
        ahead = {t.text for f in inner if f.name in ahead for t in f.tokens[f.head :]} - mentioned
    return not any(_holds(f, at) and f.name in mentioned for f in inner)


def _holds(function, at):
    return function.tokens[0].start <= at < function.tokens[-1].end
