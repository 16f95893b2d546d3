"""What runs the course: install, doctor, run, outputs, lab, handout, grade, publish, cache, and `lessons`, which lists
them. The make targets call it; nothing imports it.

May import `exercises`, `lesson`, `cuda.common` and `ground`. `install`, `doctor`, `handout`,
`publish` and `cache` run without a .venv.
"""
