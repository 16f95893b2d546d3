"""What a launch needs to know about a compiled kernel: its mangled name, its signature and its parameters' sizes.

They are read from the mangled name of one more kernel, whose template arguments are the type of the learner's kernel
and the sizes of its parameters.
"""

import ctypes
import json
import re
from pathlib import Path

__all__ = ["AFTER", "SIGNATURE", "demangled", "facts_file", "write_facts"]

#: Follows the learner's source. Its names are as long because macros of the learner may have short ones.
AFTER = """
namespace {}  // what the source lacks at its end, a `;` for instance, is missed here
#line 1 "behind"
template <class, unsigned long long...> struct cuda_course_kernel {};
template <class... cuda_course_types>
__host__ __device__ cuda_course_kernel<void (*)(cuda_course_types...), sizeof(cuda_course_types)...>
cuda_course_of(void (*)(cuda_course_types...));
template <class, int> __global__ void cuda_course_signature() {}
#line 1 "name"
"""
#: The additional kernel for kernel `number`, whose address is the C++ expression `address`.
SIGNATURE = "cuda_course_signature<decltype(cuda_course_of({address})), {number}>"


def facts_file(folder, number) -> Path:
    """The file with the facts about kernel `number` of a build."""
    return folder / (f"kernel_{number}.json" if number else "kernel.json")


def write_facts(folder, number, name, symbol):
    """Write the facts about kernel `number`, whose mangled name is `name`; `symbol` is that of its SIGNATURE."""
    kind, sizes = re.fullmatch(
        r"void cuda_course_signature<cuda_course_kernel<(.*\))((?:, \d+ull)*)>, \d+>\(\)", demangled(symbol)
    ).groups()
    facts = {"name": name, "signature": kind, "sizes": [int(size) for size in re.findall(r"\d+(?=ull)", sizes)]}
    facts_file(folder, number).write_text(json.dumps(facts))


def demangled(symbol) -> str:
    """A C++ name in readable form, from the C++ ABI's function that every C++ library has (Itanium ABI, 3.4).

    A name that is not mangled, because it is extern "C", is returned as it is.
    """
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    text = demangle(symbol.encode(), None, None, None) if symbol.startswith("_Z") else None
    if not text:
        return symbol
    readable = ctypes.string_at(text).decode()
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free(text)
    return readable
