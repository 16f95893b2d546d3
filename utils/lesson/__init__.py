"""What a notebook's cells call: the set-up, data, pictures, timing, profiling, simulated launches, recorded figures.

May import `cuda`, `cuda.common`, `cuda.cpu` and `ground`. Lessons, exercises and the benchmark import it.
"""
