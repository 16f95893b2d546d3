"""Benchmarks: `python -m bench` times every operation of kernels/, `bench.build` builds, `bench.engine` the CPU engine.

May import everything but `manage` and `exercises`; only `bench/recorded` imports it. Lessons never do.
"""
