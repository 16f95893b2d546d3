"""Which line of the learner's source a position in a compiled library comes from."""

import ctypes
import re
import shutil
import subprocess

from utils.cuda.common.lexer import lines_of
from utils.cuda.cpu.trace.words import quoted

__all__ = ["header_lines", "load_address", "source_lines", "source_places"]


class _Found(ctypes.Structure):
    """What dladdr fills in (Dl_info in dlfcn.h)."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def load_address(function) -> int:
    """Where the library that holds a ctypes function begins in memory."""
    found = _Found()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(found))
    return found.base


def source_lines(library, base, returns) -> list[list[int]]:
    """The lines in 'cuda_src' of each return address: the innermost, then those that call it. Empty if it has none.
    `library` begins at `base` in memory."""
    return [[line for _, line in places] for places in source_places(library, base, returns, {"cuda_src"})]


def header_lines(library, base, texts, returns) -> list[str]:
    """'line 3 of my.cuh: `x[i] = 0;`' of each return address in one of the headers `texts()`, which are texts by name;
    empty if it is in none."""
    known = {name: lines_of(text) for name, text in texts().items()}
    found = (next(iter(places), None) for places in source_places(library, base, returns, known.keys()))
    return [_in_words(*place, known[place[0]]) if place else "" for place in found]


def _in_words(name, line, lines):
    return f"line {line} of {name}" + (f": `{quoted(lines[line - 1].strip())}`" if line <= len(lines) else "")


def source_places(library, base, returns, names) -> list[list[tuple[str, int]]]:
    """Where each return address is in the files of `names`, as (file, line), also in functions that were inlined into
    one another: the innermost comes first. Empty if it is in none of them.

    A return address is after the call it belongs to, so the byte before it is looked up.
    """
    offsets = [max(0, pc - 1 - base) for pc in returns]
    known = _known.setdefault(library, {})
    if asked := [offset for offset in dict.fromkeys(offsets) if offset not in known]:
        known.update(_looked_up(library, asked))
    return [[place for place in known.get(offset, ()) if place[0] in names] for offset in offsets]


_known = {}  # by library and offset: builds are never changed, and every trace of one asks again


def _looked_up(library, offsets) -> dict[int, list[tuple[str, int]]]:
    """The places of each offset, innermost first; a path that is not a plain name is there under both."""
    if tool := shutil.which("addr2line"):
        command = [tool, "-a", "-i", "-e", library]
    elif tool := shutil.which("llvm-symbolizer"):
        command = [tool, "--print-address", "--inlines", "--functions=none", f"--obj={library}"]
    else:
        return {}
    printed = subprocess.run(command, input="\n".join(map(hex, offsets)), capture_output=True, text=True).stdout
    places, at = {}, None
    for text in printed.splitlines():
        place = re.match(r"(?P<path>.*?(?P<name>[^/]*)):(?P<line>\d+)", text)
        if re.fullmatch(r"0x[0-9a-f]+", text):
            at = int(text, 16)
        elif place and at is not None:
            for name in dict.fromkeys((place["path"], place["name"])):
                places.setdefault(at, []).append((name, int(place["line"])))
    return places
