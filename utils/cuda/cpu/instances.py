"""Which instances of its template kernels a built module has, where the launches leave the arguments to the compiler.

The module's symbols show it: an instance that the source names is a function of its own, and of any other launch there
is a function of the engine whose name has a mark with the kernel's name, and the types of what the launch passes.
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["MARK", "Instance", "instances"]

MARK = "cuda_on_cpu_launches_"  # and the kernel's name: a struct that translate.py declares (cuda_on_cpu/start.h)

_MARKED = re.compile(
    rf"Marked<.*?\b{MARK}(\w+), .*cuda_on_cpu::Arguments<std::integer_sequence<unsigned long[^<>]*>(.*)$"
)
_ANONYMOUS = "(anonymous namespace)::"


class Instance(NamedTuple):
    """`line` is C++ that makes nvcc compile the instance of `kernel`. `local` is an argument's type, if a function of
    the host declares it, as it does a lambda's: nvcc refuses that. Otherwise it is ""."""

    kernel: str
    line: str
    local: str = ""


def instances(library: Path, kernels) -> list[Instance]:
    """The instances of `kernels`, names, in a shared library; none if there is no `nm` to list its symbols."""
    try:
        listed = subprocess.run(
            ["nm", "-C", "--defined-only", library], capture_output=True, text=True, errors="replace"
        )
    except OSError:
        return []
    named = re.compile(rf" [tW] void ((?:\w+::)*({'|'.join(kernels)})<.*)$")
    found = {}
    for symbol in listed.stdout.splitlines():
        symbol = symbol.replace(_ANONYMOUS, "")
        if match := named.search(symbol):
            name = match[1][: _end(match[1])]
            found[name] = Instance(match[2], f"static void* const NAME __attribute__((used)) = (void*)&{name};")
        elif (match := _MARKED.search(symbol)) and match[1] in kernels:
            types = _types(match[2])
            local = next((each.rpartition("::")[2] for each in types if ")::" in each), "")
            passed = ", ".join(f"a{k}" for k in range(len(types)))
            given = ", ".join(f"{kind} a{k}" for k, kind in enumerate(types))
            line = f"static __attribute__((used)) void NAME({given}) {{ {match[1]}<<<1, 1>>>({passed}); }}"
            found[line] = Instance(match[1], line, local)
    return [each._replace(line=each.line.replace("NAME", f"cuda_course_{k}")) for k, each in enumerate(found.values())]


def _end(text):
    """Where the template arguments end that begin at the first `<`."""
    depth = 0
    for at, sign in enumerate(text):
        depth += {"<": 1, ">": -1}.get(sign, 0)
        if sign == ">" and not depth:
            return at + 1
    return len(text)


def _types(text):
    """The types in ', Twice, float*> > >(void*)'."""
    types, depth, begin = [], 0, None
    for at, sign in enumerate(text):
        if sign in "<([{":
            depth += 1
        elif sign in ">)]}":
            if not depth:
                end = at
                break
            depth -= 1
        elif sign == "," and not depth:
            if begin is not None:
                types.append(text[begin:at].strip())
            begin = at + 1
    else:
        end = len(text)
    return [*types, text[begin:end].strip()] if begin is not None else types
