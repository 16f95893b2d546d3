"""Who runs the course: install, doctor, run, outputs, lab, publish, cache. The make targets call it; nothing imports it,
except tests. `lessons` says which lessons there are.

May import `lesson`, `cuda.common` and `ground`. `install` and `publish` run without a .venv.
"""
