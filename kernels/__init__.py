"""The course's CUDA sources, two files an operation: `name.cu` (kernels and launchers) and `name.cpp` (the torch side).

`source` and `host` give the texts, `load` builds them into a module.
"""

import re
from functools import cache
from pathlib import Path

from utils.cuda.common import cxx

__all__ = ["cuda_begin", "folder", "functions", "host", "launched", "load", "names", "source"]

#: Where the sources and their headers are: `%%cuda -I{kernels.folder}` lets a cell include one.
folder = Path(__file__).parent
_HEADER = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)

#: What a CUDA source of the lessons begins with: includes, CHECK_CUDA, CHECK_CONTIGUOUS, CHECK_INPUT and cdiv.
cuda_begin = (folder / "cuda_begin.h").read_text()


def names():
    """The operations there are, sorted: every `name.cu` that has a `name.cpp` beside it."""
    return sorted(path.stem for path in folder.glob("*.cu") if path.with_suffix(".cpp").exists())


def source(name):
    """The text of `name.cu`, device code and launchers, with the course's own small headers pasted in."""
    return _text(name, ".cu")


def host(name):
    """The text of `name.cpp`, the torch side, with the course's own small headers pasted in."""
    return _text(name, ".cpp")


def functions(name):
    """The functions that `name.cpp` offers to Python, in the order of the file."""
    text = (folder / _checked(name, ".cpp")).read_text()
    return [function.name for function in cxx.functions(text) if function.returns == "at::Tensor"]


def launched(name):
    """The kernels that the launchers of `name.cu` start, as `compile_kernel` takes them: templates with arguments."""
    return list(dict.fromkeys(launch.kernel for launch in cxx.launches(source(name))))


@cache
def load(name, opt=True, verbose=False):
    """Build operation `name` with `utils.load_cuda`: a module with every function of the .cpp.

    The same name gives the same module again for as long as the process lives.
    """
    from utils import load_cuda

    return load_cuda(source(name), host(name), functions(name), opt=opt, verbose=verbose)


def _checked(name, suffix):
    if name not in names():
        raise ValueError(f"there is no kernel {name!r}: the course has {', '.join(names())}")
    return name + suffix


def _text(name, suffix):
    return _pasted((folder / _checked(name, suffix)).read_text())


def _pasted(text):
    """The text with the headers of this folder in the place of their includes, each where it is first asked for."""
    seen = set()

    def paste(include):
        new = include[1] not in seen
        seen.add(include[1])
        return _HEADER.sub(paste, (folder / include[1]).read_text().rstrip("\n")) if new else ""

    return _HEADER.sub(paste, text)
