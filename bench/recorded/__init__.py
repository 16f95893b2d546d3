"""Every recorded figure, and the program that recorded it; README.md says how to record each one again.

Recorders may import the cases of `tests/`. Lessons read the figures through `utils.lesson.figures`.
"""
