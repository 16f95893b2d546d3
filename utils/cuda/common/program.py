"""A whole program: the sources named on the command line, and the headers of its own that they include."""

import os
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.common.cache import hashed
from utils.cuda.common.preprocessor import include_folders

__all__ = ["CUDA", "SUFFIXES", "Program", "headers_of", "is_device_code", "program", "read"]

CUDA = (".cu",)
SUFFIXES = (*CUDA, ".cpp", ".cc", ".cxx", ".c")

# What makes a header CUDA, so that it must be translated.
_IN_DEVICE_CODE = {"__global__", "__device__", "__shared__", "__constant__", "<<<", "is_cuda", "kCUDA"}


class Program(NamedTuple):
    """The files of a program, by absolute path, and how to compile them."""

    sources: dict[Path, str]
    headers: dict[Path, str]  # its own: beside the file that includes them, or in one of `folders`
    folders: list[Path]  # -I
    macros: list[str]  # -DNAME=VALUE, -UNAME
    standard: str  # 'c++17'
    libraries: list[str]  # -lNAME
    host_flags: list[str]  # -Xcompiler FLAG
    nvcc_flags: list[str]  # --extended-lambda

    @property
    def texts(self) -> dict[str, str]:
        """Every text by its file's name, as messages name it."""
        return {path.name: text for path, text in (*self.headers.items(), *self.sources.items())}

    @property
    def includes(self) -> set[str]:
        """What its files include, 'cublas_v2.h', in whichever branch of an #if."""
        texts = (*self.sources.values(), *self.headers.values())
        return {name for text in texts for line in cxx.directives(text) if (name := cxx.included(line))}

    def fingerprint(self) -> str:
        """What its build depends on, besides the compilers."""
        return hashed(*(sorted((str(path), text) for path, text in part.items()) for part in self[:2]), self[2:])


def program(sources, folders=(), macros=(), standard="c++17", libraries=(), host_flags=(), nvcc_flags=()) -> Program:
    """The program of these files. Raises OSError for one that cannot be read."""
    places = [Path(os.path.abspath(folder)) for folder in folders]
    texts = {path: read(path) for path in (Path(os.path.abspath(source)) for source in sources)}
    headers = _own_headers(texts, places)
    return Program(texts, headers, places, list(macros), standard, list(libraries), list(host_flags), list(nvcc_flags))


def headers_of(*sources, options=(), provided=None) -> dict[Path, str]:
    """The headers that these texts include, by absolute path: from the current folder, or from those of `options` (-I)
    and $CPATH. Of the latter, the names that are in the folder `provided` are left out: a compiler finds those first.
    """
    here, folders = Path.cwd(), [Path(os.path.abspath(folder)) for folder in include_folders(options)]
    texts = {here / f"text {number}": text for number, text in enumerate(sources)}
    return _own_headers(texts, folders, provided)


def is_device_code(text) -> bool:
    """Whether a header is CUDA: it has kernels, launches, or what torch code asks of a GPU."""
    return any(token.text in _IN_DEVICE_CODE for token in cxx.tokens(text))


def read(path) -> str:
    """A source's text. Bytes that are not UTF-8 survive until it is written again with the same error handler."""
    return path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _own_headers(sources, folders, provided=None) -> dict[Path, str]:
    """Every file that the sources include, directly or not, from beside the including file or from `folders`."""
    found, ahead = {}, list(sources.items())
    while ahead:
        path, text = ahead.pop()
        for name in filter(None, map(cxx.included, cxx.directives(text))):
            near = path.parent / name
            if provided and (provided / name).exists() and not near.is_file():
                continue
            places = (Path(os.path.normpath(place)) for place in (near, *(folder / name for folder in folders)))
            header = next(filter(Path.is_file, places), None)
            if header and header not in found and header not in sources:
                found[header] = read(header)
                ahead.append((header, found[header]))
    return found
