"""Calls between the host and the device that only NVIDIA's compiler refuses, for code that it does not get to see."""

import re
from itertools import pairwise

from utils.cuda.common import cxx
from utils.cuda.common.diagnostics import refused

__all__ = ["check_device", "check_host"]

_DEVICE = {"__device__", "__global__"}
# CUDA's own functions for the device alone (CUDA C++ Programming Guide, "C++ Language Extensions").
_OF_DEVICE = re.compile(
    r"__sync(?:threads|warp)\w*|__(?:shfl|match|reduce|ballot|any|all)\w*_sync|__activemask|__threadfence\w*|__ldg|__nanosleep"
    r"|atomic(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(?:_block|_system)?"
)


def check_device(source) -> None:
    """Device code calls device functions only. Raises CompileError for a call of another one of the source."""
    __tracebackhide__ = True
    macros = cxx.macros(source)
    sides = [(function, _head(function, macros)) for function in cxx.functions(source)]
    marked = {f.name for f, words in sides if _DEVICE & words}
    unmarked = {f.name for f, words in sides if "constexpr" not in words} - marked
    for function, words in sides:
        if not _DEVICE & words or "__host__" in words:  # of the latter, nvcc only warns
            continue
        body = function.tokens[function.head :]
        for before, token, after in zip(body, body[1:], body[2:], strict=False):
            if token.text in unmarked and after.text in ("(", "<") and before.text not in (".", "->"):
                what = f"`{function.name}` runs on the GPU and calls `{token.text}`, a function of the host: mark it "
                raise refused("cuda_src", source, token.line, f"{what}__device__")


def _head(function, macros) -> set[str]:
    """The words of a function's head, with those of the macros in it, as in `KERNEL(scale) { ... }`."""
    words, seen = {*function.words, function.name}, set()
    while new := (words & macros.keys()) - seen:
        seen |= new
        words |= {token.text for name in new for token in macros[name].body}
    return words


def check_host(source) -> None:
    """Host code calls host functions only, and its lambdas are not marked: load_cuda passes no `--extended-lambda`.

    Raises CompileError for a call of one of the source's device functions, or of CUDA's own, in nvcc's words.
    """
    __tracebackhide__ = True
    functions, directives, macros = cxx.functions(source), cxx.directives(source), cxx.macros(source)
    sides = [(function, _head(function, macros)) for function in functions]
    of_device = {f.name for f, words in sides if "__device__" in words and "__host__" not in words}
    of_host = {f.name for f, words in sides if not _DEVICE & words or "__host__" in words}
    for function, words in sides:
        if not function.defined or _DEVICE & words or any(word.isupper() for word in words - macros.keys()):
            continue  # what is in capitals may be a header's macro with a mark in it
        first, last, body = function.tokens[0], function.tokens[-1], function.tokens[function.head :]
        if any(first.start < line[0].start < last.end for line in directives):
            continue  # an #if may hide the call from the host
        for token, after in pairwise(body):
            if token.text == "]" and after.text in ("__device__", "__host__"):
                what = "__host__ or __device__ annotation on lambda requires --extended-lambda nvcc flag"
                raise refused("cuda_src", source, after.line, what)
        hidden = of_host | cxx.own_names(function)
        for before, token, after in zip(body, body[1:], body[2:], strict=False):
            name = token.text
            if after.text != "(" or before.text in (".", "->", "::") or name in hidden:
                continue
            if name in of_device or _OF_DEVICE.fullmatch(name):
                what = f'calling a __device__ function("{name}") from a __host__ function("{function.name}")'
                raise refused("cuda_src", source, token.line, f"{what} is not allowed")
