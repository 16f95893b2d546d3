"""Benchmarks: `python -m bench` times every operation of kernels/, `bench.build` builds, `bench.engine` the CPU engine.

`operations` says what is timed, `measuring` how, `tables` shows it; `targets` is the table of the other two benchmarks.
May import everything but `manage` and `exercises`; only `bench/recorded` imports it. Lessons never do.
"""
