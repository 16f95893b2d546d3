"""Functions that only wrap an instruction, as `copy_16(to, from)` wraps cp.async: inlined in a trace, so that a problem
is reported where they are called."""

from utils.cuda.common import cxx
from utils.cuda.cpu.ptx.headers import WORDS

__all__ = ["with_wrappers_inlined"]

_MOST_TOKENS = 200  # of a function's body


def with_wrappers_inlined(source) -> str:
    """The source with a word before `__device__` of each such function, line for line (launch.h defines the word)."""
    pieces, at = [], 0
    for function in cxx.functions(source):
        body = [token.text for token in function.tokens[function.head :]]
        wraps = any(word in body for word in WORDS) and len(body) <= _MOST_TOKENS and function.name not in body
        if not wraps or "__device__" not in function.words or {"__global__", "__noinline__"} & {*function.words}:
            continue
        before = next(token for token in function.tokens if token.text == "__device__").start
        pieces += [source[at:before], "CUDA_ON_CPU_WRAPPER "]
        if not {"inline", "__forceinline__", "__inline__"} & {*function.words}:
            pieces.append("inline ")
        at = before
    return "".join(pieces) + source[at:]
