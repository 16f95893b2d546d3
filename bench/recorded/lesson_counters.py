"""Takes the counters that lessons 08 to 10 show from nsight.json: `python -m bench.recorded.lesson_counters`.

The recording holds every launch of tests/nsight/cases.py, as Nsight Compute counted it on a GPU. The lesson needs a
few of them, and reads nothing of the tests.
"""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDING = HERE / "nsight.json"
EXTRACT = HERE / "lesson_counters.json"

LAUNCHES = ["copy_float", "shifted_load_1", "shifted_load_8", "shifted_load_31"]
LAUNCHES += [f"stride_{s}" for s in (1, 2, 4, 8, 17, 32)]
LAUNCHES += ["member_of_16", "copy_unsigned_char", "copy_uchar4", "copy_float4", "grayscale", "grayscale_hwc"]
LAUNCHES += ["transpose_naive", "transpose_32x32", "transpose_32x33", "transpose_swizzled"]
LAUNCHES += ["matmul", "matmul_tiled_32"]
LAUNCHES += [f"rung_{name}" for name in ("uncoalesced", "column", "square", "vector", "banks", "warp", "pipelined")]
COUNTERS = ["global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors"]
COUNTERS += ["shared_load_wavefronts", "shared_store_wavefronts"]


def extract() -> str:
    """The text of nsight_counters.json: what was measured on, and the counters of each launch by its name."""
    recording = json.loads(RECORDING.read_text())
    head = {key: recording[key] for key in ("gpu", "compute_capability", "driver", "ncu", "nvcc")}
    counted = {name: recording["launches"][name]["counters"] for name in LAUNCHES}
    launches = {name: {key: counters[key] for key in COUNTERS} for name, counters in counted.items()}
    return json.dumps(head | {"launches": launches}, indent=1) + "\n"


if __name__ == "__main__":
    EXTRACT.write_text(extract())
