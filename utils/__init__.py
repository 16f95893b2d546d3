"""The face of the course: what lessons, kernels and learners' scripts import. May import `utils.cuda` alone.

Importing this package is quick: each name's module, and torch, are loaded on first use.
"""

import importlib

_HOMES = {
    "load_cuda": "utils.cuda.compile",
    "compile_kernel": "utils.cuda.kernel",
    "CompileError": "utils.cuda.common.diagnostics",
    "device": "utils.cuda.common.toolchain",
    "tensor_map": "utils.cuda.common.tensor_map",
}
__all__ = ["CompileError", "compile_kernel", "device", "load_cuda", "tensor_map"]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'utils' has no attribute {name!r}")
