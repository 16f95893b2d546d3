"""A stand-in for a GPU: real CUDA C++, compiled by the machine's C++ compiler and run on its cores.

How it works is told in README.md beside this file.
"""

from utils.cuda_on_cpu.build import build_extension
from utils.cuda_on_cpu.translate import TranslationError, translate

__all__ = ["TranslationError", "build_extension", "translate"]
