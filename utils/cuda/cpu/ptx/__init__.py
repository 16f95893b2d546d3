"""Inline PTX: `asm` statements become C++ that calls `cuda_on_cpu::ptx` (include/cuda_on_cpu/ptx/).

`parse.py` reads the assembly language, `statements.py` finds the statements in a source and replaces them, `macros.py`
expands the macros that make them, and `instructions.py` knows the instructions, family by family.

Import `with_statements` from `statements.py`, and `last_headers` from `headers.py`.
"""
