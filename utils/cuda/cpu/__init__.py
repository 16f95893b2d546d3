"""A stand-in for a GPU: real CUDA C++, compiled by the machine's C++ compiler and run on its cores.

README.md beside this file explains how it works. May import `common` and `ground`; `cuda` and the benchmark import it.
"""
