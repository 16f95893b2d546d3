"""What nvcc's front end only warns about, and the host's compiler, to which nvcc passes the host's code, rejects.

As a judge nvcc does not get that far. g++ would do it here if it were not as permissive as device code needs it.
"""

import re

from utils.cuda.common import cxx

__all__ = ["rejected_by_host"]

# nvcc's numbers: a jump past a variable's initial value, a pointer as a smaller integer, `int S::f()` in S itself.
_IN_FUNCTIONS, _ANYWHERE = {"546", "767"}, {"427"}
_WARNING = re.compile(
    r"^(?P<file>.+)\((?P<line>\d+)\): warning #(?P<number>\d+)-D: (?P<what>.*(?:\n {12}.*)*)", re.MULTILINE
)
_OWN_NAME = re.compile(r'#line 1 "(.*)"\n')  # of a program's source; otherwise it is cuda_src


def rejected_by_host(log, text) -> str:
    """nvcc's log of a `text` that it accepts, with what the host's compiler rejects as errors; "" if there is none.

    A template's body counts only where it is used, which the log does not tell; nor does it tell what a header is for.
    """
    named = _OWN_NAME.match(text)
    name, own = (named[1], text[named.end() :]) if named else ("cuda_src", text)
    found = [each for each in _WARNING.finditer(log) if each["file"] == name]
    lines = _host_lines(own) if found else set()
    return "".join(
        f"{name}({line}): error: {' '.join(what.split())}\n"
        for line, number, what in dict.fromkeys(each.group("line", "number", "what") for each in found)
        if number in _ANYWHERE or (number in _IN_FUNCTIONS and int(line) in lines)
    )


def _host_lines(text):
    """The lines of functions that the host's compiler reads, and reads as they are."""
    found, lines = set(), text.splitlines()
    for function in cxx.functions(text):
        of_host = "__host__" in function.words or not {"__device__", "__global__"} & set(function.words)
        first, last = function.tokens[0].line, function.tokens[-1].line
        if not function.defined or function.template or not of_host:
            continue
        if not any("__CUDA_ARCH__" in line for line in lines[first - 1 : last]):
            found.update(range(first, last + 1))
    return found
