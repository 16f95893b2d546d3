"""Benchmarks of the course, each run from the root: `python -m bench.NAME`."""
