"""Which room imports which:  python -m tests.imports [FOLDER]

Prints every room of the course with the rooms that it imports, and what breaks the rules: an arrow that MAY_IMPORT does
not list, and files that import each other in a circle. Imports inside functions count like those at the top. FOLDER is
another checkout of the course, whose folders are taken for its rooms.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Each room with the rooms that its files may import. A room is a folder; `tests` are in no room and may import all.
MAY_IMPORT = {
    "utils/ground": [],
    "utils/cuda/common": ["utils/ground"],
    "utils/cuda/gpu": ["utils/cuda/common"],
    "utils/cuda/cpu": ["utils/cuda/common"],
    "utils/cuda/cpu/trace": ["utils/cuda/cpu", "utils/cuda/common", "utils/ground"],
    "utils/cuda": ["utils/cuda/cpu/trace", "utils/cuda/cpu", "utils/cuda/gpu", "utils/cuda/common"],
    "utils": ["utils/cuda", "utils/cuda/common"],
    "kernels": ["utils"],
    "utils/lesson": ["utils/cuda", "utils/cuda/cpu", "utils/cuda/common", "utils/ground"],
    "utils/exercises": ["kernels", "utils/lesson", "utils/cuda", "utils/cuda/common"],
    "utils/manage": ["utils/lesson", "utils/cuda/common", "utils/ground"],
    "bench": [
        "kernels",
        "utils",
        "utils/lesson",
        "utils/cuda",
        "utils/cuda/gpu",
        "utils/cuda/cpu",
        "utils/cuda/common",
        "utils/ground",
    ],
    "bench/recorded": [
        "bench",
        "tests",
        "kernels",
        "utils",
        "utils/cuda",
        "utils/cuda/gpu",
        "utils/cuda/cpu",
        "utils/cuda/common",
        "utils/ground",
    ],
}
