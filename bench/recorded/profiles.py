"""Records Nsight Compute's full report of three kernels, on a machine with a GPU: `python bench/recorded/profiles.py`.

The kernels are square, the naive and the tiled matrix product. Writes profiles.json beside this file: the GPU, the
versions, and for each kernel its launch and every metric of every section, with its unit. Needs ncu (of the CUDA
Toolkit), the right to read the GPU's counters, no network, and about a minute.
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

PROFILES = HERE / "profiles.json"
KERNELS = {"square_kernel": "square", "matmul_kernel": "matmul", "matmul_tiled_kernel": "matmul_tiled"}  # operations


def launch():
    """Launch each of the kernels once. This is the program that ncu watches: it calls this script with `--launch`."""
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

    A value is a number, or text where it is none. The advice that ncu adds, its rules, is left out.
    """
    lines = text.splitlines(keepends=True)
    table = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))  # behind ncu's own messages
    found = {}
    for row in csv.DictReader(io.StringIO("".join(lines[table:]))):
        if not row["Metric Name"]:
            continue  # a rule
        kernel = row["Kernel Name"].split("(")[0]
        entry = found.setdefault(kernel, {"block": row["Block Size"], "grid": row["Grid Size"], "sections": {}})
        section = entry["sections"].setdefault(row["Section Name"], {})
        section[row["Metric Name"]] = [number(row["Metric Value"]), row["Metric Unit"]]
    return found


def number(text):
    """'1,234.5' as a number; text that is none as it is."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def run(*command, **more) -> str:
    """What a command prints. RuntimeError with all of it if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def record() -> dict:
    """Run ncu; what profiles.json holds."""
    import torch

    asked = run("nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader")
    gpu, driver, capability = asked.splitlines()[0].split(", ")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "details.csv"
        options = ["--clock-control", "none", "--set", "full", "--csv", "--page", "details", "--print-units", "base"]
        options += ["--kernel-name", f"regex:^({'|'.join(KERNELS)})$", "--log-file", log]
        try:
            run("ncu", *options, sys.executable, __file__, "--launch", env={**os.environ, "TMPDIR": folder})
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{log.read_text()[-4000:] if log.exists() else ''}") from None
        launches = parsed(log.read_text())
    if list(launches) != list(KERNELS):
        raise RuntimeError(f"ncu reported {', '.join(launches) or 'nothing'}, not {', '.join(KERNELS)}")
    return {
        "gpu": gpu,
        "compute_capability": capability,
        "driver": driver,
        "ncu": run("ncu", "--version").split("Version ")[-1].split()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "launches": launches,
    }


if __name__ == "__main__":
    if "--launch" in sys.argv:
        launch()
    else:
        PROFILES.write_text(json.dumps(record(), indent=1) + "\n")
        print(f"wrote {PROFILES.name}")
