"""Who runs the course: install, doctor, run, lab, publish, cache. The make targets call it; nothing imports it.

May import `lesson`, `cuda.common` and `ground`. `install` and `publish` run without a .venv.
"""
