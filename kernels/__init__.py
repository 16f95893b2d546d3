"""The course's CUDA sources. Lessons, exercises and benchmarks build them. May import `utils`, `utils.cuda.common`.

An operation is two files: `name.cu` (kernels and launchers) and `name.cpp` (the torch side). The steps of a ladder are
in a folder, where a number in front of the name gives their order: `matmul/1_matmul.cu`.
`source` and `host` give the texts, `load` builds them into a module. `template/` is a project of its own, to copy.
"""

import re
from functools import cache
from pathlib import Path

from utils.cuda.common import cxx

__all__ = ["cuda_begin", "folder", "functions", "host", "launched", "load", "names", "path", "source"]

#: Where the sources and their headers are: `%%cuda -I{kernels.folder}` lets a cell include one.
folder = Path(__file__).parent
_RETURNED = re.compile(r"at::Tensor|std::tuple<at::Tensor(, at::Tensor)*>")
_HEADER = re.compile(r'^#include "([\w./]+\.h)"$', re.MULTILINE)

#: What a CUDA source of the lessons begins with: includes, CHECK_CUDA, CHECK_CONTIGUOUS, CHECK_INPUT and cdiv.
cuda_begin = (folder / "cuda_begin.h").read_text()


@cache
def _paths():
    """Every operation's `.cu` file by name, in listing order: a ladder from its first step to its last."""
    found = sorted(path for path in [*folder.glob("*.cu"), *folder.glob("*/*.cu")] if path.with_suffix(".cpp").exists())
    return {path.stem.lstrip("0123456789_"): path for path in found}


def names():
    """The names of all operations, sorted, with the steps of a ladder in order."""
    return list(_paths())


def path(name):
    """The `.cu` file of an operation; its `.cpp` is beside it. Raises ValueError for an unknown name."""
    if name not in _paths():
        raise ValueError(f"there is no kernel {name!r}: the course has {', '.join(names())}")
    return _paths()[name]


def source(name):
    """The text of `name.cu`, device code and launchers, with the course's own small headers pasted in."""
    return _pasted(path(name), set())


def host(name):
    """The text of `name.cpp`, the torch side, with the course's own small headers pasted in."""
    return _pasted(path(name).with_suffix(".cpp"), set())


def functions(name):
    """The functions that `name.cpp` offers to Python, in file order: they return a tensor or a tuple of tensors."""
    text = path(name).with_suffix(".cpp").read_text()
    return [function.name for function in cxx.functions(text) if _RETURNED.fullmatch(function.returns)]


def launched(name):
    """The kernels that the launchers of `name.cu` launch, named as for `compile_kernel`: templates with arguments."""
    return list(dict.fromkeys(launch.kernel for launch in cxx.launches(source(name))))


@cache
def load(name, opt=True, verbose=False):
    """Build operation `name` with `utils.load_cuda`: a module with every function of the .cpp.

    Within a process, the same name always gives the same module.
    """
    from utils import load_cuda

    return load_cuda(source(name), host(name), functions(name), opt=opt, verbose=verbose)


def _pasted(file, seen):
    """The file's text with our own headers in place of their includes, each where it is first included."""

    def paste(include):
        header = (file.parent / include[1]).resolve()
        if header in seen:
            return ""
        seen.add(header)
        return _pasted(header, seen).rstrip("\n")

    return _HEADER.sub(paste, file.read_text())
