"""Benchmarks: `python -m bench` times every operation in kernels/, `bench.build` builds, `bench.engine` the CPU engine.

`operations` defines what is timed, `measuring` how, `tables` shows it; `targets` is the table of the other two.
May import everything except `manage` and `exercises`; only `bench/recorded` imports it. Lessons never do.
"""
