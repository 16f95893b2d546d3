"""What the recorders with Nsight Compute share: running a program under ncu, and the machine it ran on."""

import os
import subprocess
from pathlib import Path

__all__ = ["machine", "number", "run", "under_ncu"]


def run(*command, timeout=300, **more) -> str:
    """What a command prints. Raises RuntimeError, with all of it, where the command fails."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **more)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def machine() -> dict:
    """The GPU, its compute capability ('9.0'), the driver and the version of ncu."""
    asked = run("nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader", timeout=30)
    gpu, driver, capability = asked.splitlines()[0].split(", ")
    ncu = run("ncu", "--version", timeout=30).split("Version ")[-1].split()[0]
    return {"gpu": gpu, "compute_capability": capability, "driver": driver, "ncu": ncu}


def under_ncu(program, *options, folder) -> str:
    """The CSV that ncu, called with `options`, writes about a program (a list of words), with the clock left free and
    values in base units. `folder` takes temporary files. Raises RuntimeError where ncu or the program fails."""
    log = Path(folder) / "ncu.csv"
    options = ["--clock-control", "none", "--print-units", "base", "--csv", "--log-file", log, *options]
    try:
        run("ncu", *options, *program, env={**os.environ, "TMPDIR": str(folder)})
    except RuntimeError as error:
        raise RuntimeError(f"{error}\n{log.read_text()[-4000:] if log.exists() else ''}") from None
    return log.read_text()


def number(text):
    """'1,234.5' as a number; other text as it is."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return text
    return int(value) if value.is_integer() else value
