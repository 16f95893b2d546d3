"""Which line of the learner's source a position in a compiled library comes from."""

import ctypes
import re
import shutil
import subprocess

__all__ = ["load_address", "source_lines", "source_places"]


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


def source_lines(library, base, returns) -> list[int | None]:
    """The line in 'cuda_src' of each return address, None if it has none. `library` begins at `base` in memory."""
    return [place and place[1] for place in source_places(library, base, returns, {"cuda_src"})]


def source_places(library, base, returns, names) -> list[tuple[str, int] | None]:
    """The file and the line of each return address, None if it is in no file of `names`.

    A return address is after the call it belongs to, so the byte before it is looked up. If functions were inlined into
    one another, the learner's innermost one is taken.
    """
    offsets = [max(0, pc - 1 - base) for pc in returns]
    asked = [hex(offset) for offset in offsets]
    if tool := shutil.which("addr2line"):
        command = [tool, "-a", "-i", "-e", library]
    elif tool := shutil.which("llvm-symbolizer"):
        command = [tool, "--print-address", "--inlines", "--functions=none", f"--obj={library}"]
    else:
        return [None] * len(offsets)
    printed = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True).stdout
    places, at = {}, None
    for text in printed.splitlines():
        place = re.match(r"(?P<path>.*?(?P<name>[^/]*)):(?P<line>\d+)", text)
        if re.fullmatch(r"0x[0-9a-f]+", text):
            at = int(text, 16)
        elif place and at is not None:
            for name in {place["path"], place["name"]} & names:
                places.setdefault(at, (name, int(place["line"])))
    return [places.get(offset) for offset in offsets]
