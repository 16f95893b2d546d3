"""What runs the course: install, doctor, run, outputs, lab, publish, cache, and `lessons`, which lists the lessons. The
make targets call it; nothing imports it.

May import `lesson`, `cuda.common` and `ground`. `install`, `doctor`, `publish` and `cache` run without a .venv.
"""
