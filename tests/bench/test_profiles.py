"""bench/recorded/profiles.py: what Nsight Compute prints is read, and the kernels are the course's."""

import kernels
from bench.recorded import profiles

# The columns are Nsight Compute's; the values are made up for this test.
HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
)
HEAD += '"CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"\n'


def line(kernel, section, metric, unit, value, rule=""):
    words = ["0", "1", "python", "host", kernel, "1", "7", "(256, 1, 1)", "(5, 1, 1)", "0", "9.0"]
    return ",".join(f'"{word}"' for word in [*words, section, metric, unit, value, rule, "", rule]) + "\n"


def test_a_details_page_is_read():
    text = "==PROF== Connected to process 1\n" + HEAD
    text += line("square_kernel(const float *, float *, unsigned long)", "Occupancy", "Achieved Occupancy", "%", "81.5")
    text += line(
        "square_kernel(const float *, float *, unsigned long)", "Occupancy", "", "", "", "advice,\nin two lines"
    )
    text += line("square_kernel(const float *, float *, unsigned long)", "Launch Statistics", "Threads", "", "1,280")
    text += line("matmul_kernel", "Launch Statistics", "Cluster Scheduling Policy", "", "PolicySpread")
    sections = {"Occupancy": {"Achieved Occupancy": [81.5, "%"]}, "Launch Statistics": {"Threads": [1280, ""]}}
    other = {"Launch Statistics": {"Cluster Scheduling Policy": ["PolicySpread", ""]}}
    launch = {"block": "(256, 1, 1)", "grid": "(5, 1, 1)"}
    assert profiles.parsed(text) == {
        "square_kernel": launch | {"sections": sections},
        "matmul_kernel": launch | {"sections": other},
    }


def test_the_kernels_that_are_profiled_are_the_courses():
    assert all(f"void {name}(" in kernels.source(operation) for name, operation in profiles.KERNELS.items())
