"""What the lessons import. Importing this package is quick: torch is loaded by the first call that needs it."""

from utils.compile import CompileError, load_cuda
from utils.toolchain import device

__all__ = ["CompileError", "device", "load_cuda"]
