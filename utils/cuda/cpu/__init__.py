"""A stand-in for a GPU: real CUDA C++, compiled by the machine's C++ compiler and run on its cores.

How it works is told in README.md beside this file.
"""
