"""What torch's own `load_inline` needs of a machine, found as `load_cuda` finds it."""

import contextlib
import os
import re
import tempfile
from pathlib import Path

from utils.cuda.common import toolchain

__all__ = ["tools_for_load_inline"]


@contextlib.contextmanager
def tools_for_load_inline(architecture=None):
    """In the body, torch's `load_inline` finds a CUDA toolkit with its runtime, a C++ compiler that nvcc accepts, and
    ninja, and builds for one architecture: '90' or 90 is sm_90, '90a' sm_90a, by default the GPU's.

    torch by itself does not look into pip's wheels, and the runtime in them is named libcudart.so.13 alone: the body
    has a link to it under the name that the linker looks for. Raises ToolchainError if something is missing.
    """
    __tracebackhide__ = True
    home = toolchain.use_cuda_toolkit()
    compiler = toolchain.host_compiler(home)
    toolchain.put_ninja_on_path()
    real = re.sub(r"(\d)([a-z]?)$", r".\1\2", str(architecture or toolchain.gpu_architecture()))  # 90a is 9.0a
    with tempfile.TemporaryDirectory() as links:
        if runtime := toolchain.cudart(home):
            (Path(links) / "libcudart.so").symlink_to(runtime)
        libraries = os.pathsep.join(filter(None, [links, os.environ.get("LIBRARY_PATH")]))
        with _environment(TORCH_CUDA_ARCH_LIST=real, CC=compiler, CXX=compiler, LIBRARY_PATH=libraries):
            yield


@contextlib.contextmanager
def _environment(**values):
    """Set environment variables temporarily."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)
