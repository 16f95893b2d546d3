"""What a notebook's cells call: the set-up, data, pictures, timing, profiling, simulated launches and their player, and
recorded figures.

May import `cuda`, `cuda.common`, `cuda.cpu`, `cuda.player` and `ground`. Lessons, exercises and the benchmark import
it.
"""
