"""Measured and recorded figures: what a GPU measured, for machines with and without one.

`bench/recorded/` holds them; its README.md says what each file holds and how it is recorded again.
"""

import json
import os
import re
import subprocess
from importlib import metadata
from pathlib import Path

import torch

from utils.cuda.common.toolchain import cuda_home, device, nvcc_release
from utils.ground.errors import CourseError
from utils.ground.system import short_path, write

__all__ = ["benchmark", "memory_counters", "nsight_counters", "nsight_reports", "recorded", "timelines"]

FOLDER = Path(__file__).parents[2] / "bench" / "recorded"
COUNTERS = ("global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors")
COUNTERS += ("shared_load_wavefronts", "shared_store_wavefronts")


# ---- what lessons call ----------------------------------------------------------------------------------------------


def recorded(name, measure) -> tuple[object, str]:
    """What `measure()` returns on a GPU, and the GPU's name. Without one: what it returned where the lessons' outputs
    were made, and that GPU's name.

    The figures must fit into JSON. `make outputs` (COURSE_RECORD=1) keeps them in the GPU's file, under 'lessons'.
    Raises CourseError where there is no GPU and none has ever measured them.
    """
    if device().type == "cuda":
        found, gpu = measure(), torch.cuda.get_device_name()
        if os.environ.get("COURSE_RECORD"):
            path = file_of(gpu)
            kept = read(path) if path.exists() else {"device": gpu}
            kept.setdefault("lessons", {})[name] = found
            kept.setdefault("versions of lessons", {})[name] = versions()
            write(path, json.dumps(kept, indent=1) + "\n")
        return found, gpu
    for path in sorted(FOLDER.glob("*.json")):
        kept = _parsed(path)
        if name in kept.get("lessons", {}):
            return kept["lessons"][name], kept["device"]
    raise CourseError(f"no GPU has measured {name!r} yet", "`make outputs` for this lesson, on a machine with a GPU")


def benchmark(gpu="H200") -> dict:
    """The tables of `make bench` on a GPU: 'device', and by the name of a table its size, versions and rows."""
    return read(file_of(gpu))


def nsight_counters() -> dict:
    """What Nsight Compute counted for the launches of tests/nsight: 'gpu', 'driver', 'nvcc', 'ncu', and by the name of
    a launch, in 'launches', its requests and sectors of global memory and its wavefronts of shared memory."""
    recording = _parsed(FOLDER / "nsight.json")
    counters = {name: launch["counters"] for name, launch in recording["launches"].items()}
    return recording | {"launches": {name: {key: of[key] for key in COUNTERS} for name, of in counters.items()}}


def memory_counters() -> dict:
    """What the launches of bench/recorded/memory.py asked of each level of the memory: 'gpu', 'driver', 'ncu', and by
    the name of a launch, in 'launches', its requests, the sectors asked of L1 and L2, DRAM's bytes, and its seconds."""
    return _parsed(FOLDER / "memory.json")


def nsight_reports() -> dict:
    """Nsight Compute's full report of square and of two matrix products: 'gpu', 'driver', 'ncu', and by the name of a
    kernel, in 'launches', its 'block', 'grid' and 'sections', where a metric of a section is [value, unit]."""
    return _parsed(FOLDER / "profiles.json")


def timelines() -> dict:
    """What torch.profiler recorded of two loops: 'gpu', 'torch', 'cuda', the 'bytes' of a batch, and by the name of a
    loop, in 'loops', its 'source' and its 'traceEvents', those of a Chrome trace."""
    return _parsed(FOLDER / "timeline.json")


# ---- the files ------------------------------------------------------------------------------------------------------


def file_of(gpu) -> Path:
    """The file of a GPU's figures: 'NVIDIA H200' in h200.json, 'Tesla T4' in t4.json."""
    words = re.sub(r"NVIDIA|Tesla|GeForce", "", gpu).split()
    return FOLDER / f"{'-'.join(words).lower()}.json"


def read(path) -> dict:
    """The figures in a GPU's file. Raises CourseError where they cannot be read."""
    found = _parsed(path)
    if "device" not in found:
        raise _damaged(path, "it names no device")
    return found


def _parsed(path) -> dict:
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise _damaged(path, error) from None
    if not isinstance(found, dict):
        raise _damaged(path, "it holds no dictionary")
    return found


def _damaged(path, why) -> CourseError:
    fix = f"`git checkout {short_path(path)}` brings back a committed one, or remove it and measure again"
    return CourseError(f"{short_path(path)} is damaged ({why})", fix)


def versions() -> dict:
    """The versions that figures of this machine belong to, as far as they are known."""
    found = {"torch": torch.__version__}
    if device().type == "cuda":
        gpu, home = torch.cuda.get_device_properties(device()), cuda_home()
        found |= {"cuda": torch.version.cuda, "driver": nvidia_smi(gpu, "driver_version")}
        found |= {"nvcc": nvcc_release(home) if home else ""}
    for name in ("triton", "torchvision"):
        found[name] = next((package.version for package in metadata.distributions(name=name)), "")
    return {name: version for name, version in found.items() if version}


def nvidia_smi(gpu, field) -> str:
    """What nvidia-smi reports about a GPU (its properties, as torch gives them); '' where it does not run."""
    query = ["nvidia-smi", f"--id=GPU-{gpu.uuid}", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
