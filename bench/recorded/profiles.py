"""Records Nsight Compute's full report of three kernels, with a GPU:  python -m bench.recorded.profiles

The kernels are square, the naive and the tiled matrix product. Writes profiles.json: the GPU, the versions, and for
each kernel its launch and every metric of every section, with its unit. Needs ncu (of the CUDA Toolkit), permission to
read the GPU's counters, no network, and about a minute.
"""

import csv
import io
import json
import sys
import tempfile
from pathlib import Path

from bench.recorded.ncu import machine, number, under_ncu
from utils.ground.system import write

PROFILES = Path(__file__).with_suffix(".json")
KERNELS = {"square_kernel": "square", "matmul_kernel": "matmul", "matmul_tiled_kernel": "matmul_tiled"}  # operations


def launch():
    """Launch each of the kernels once. `python -m bench.recorded.profiles --launch`, which ncu watches, does it."""
    import torch

    import kernels
    from utils import compile_kernel

    n, side = 2**24, 2048
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    m, result = torch.rand(side, side, device="cuda"), torch.empty(side, side, device="cuda")
    square = compile_kernel(kernels.source("square"), "square_kernel")
    square[n // 256, 256](x, out, n)
    torch.testing.assert_close(out, x * x)
    for name in ("matmul_kernel", "matmul_tiled_kernel"):
        kernel = compile_kernel(kernels.source(KERNELS[name]), name)
        kernel[(side // 16, side // 16), (16, 16)](m, m, result, side, side, side)
        torch.testing.assert_close(result.double(), m.double() @ m.double(), rtol=1e-4, atol=1e-3)


def parsed(text) -> dict:
    """What ncu's 'details' page says, from its CSV text: for each kernel by its name, `block` and `grid` as ncu writes
    them, and `sections`, which map a section's name to its metrics, a metric to its value and unit.

    A value is a number, or text. The advice that ncu adds, its rules, is left out.
    """
    lines = text.splitlines(keepends=True)
    table = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))  # after ncu's own messages
    found = {}
    for row in csv.DictReader(io.StringIO("".join(lines[table:]))):
        if not row["Metric Name"]:
            continue  # a rule
        kernel = row["Kernel Name"].split("(")[0]
        entry = found.setdefault(kernel, {"block": row["Block Size"], "grid": row["Grid Size"], "sections": {}})
        section = entry["sections"].setdefault(row["Section Name"], {})
        section[row["Metric Name"]] = [number(row["Metric Value"]), row["Metric Unit"]]
    return found


def record() -> dict:
    """Run ncu; what profiles.json holds."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "bench.recorded.profiles", "--launch"]
        chosen = ["--kernel-name", f"regex:^({'|'.join(KERNELS)})$"]
        launches = parsed(under_ncu(program, "--set", "full", "--page", "details", *chosen, folder=folder))
    if list(launches) != list(KERNELS):
        raise RuntimeError(f"ncu reported {', '.join(launches) or 'nothing'}, not {', '.join(KERNELS)}")
    return machine() | {"torch": torch.__version__, "cuda": torch.version.cuda, "launches": launches}


if __name__ == "__main__":
    if "--launch" in sys.argv:
        launch()
    else:
        write(PROFILES, json.dumps(record(), indent=1) + "\n")
        print(f"wrote {PROFILES.name}")
