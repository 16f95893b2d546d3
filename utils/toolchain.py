"""What this machine can build and run: the GPU, the compilers, the cache. `python -m utils.toolchain` prints it.

Only the standard library is imported up here, so that the report also runs where torch is missing or broken.
"""

import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata, util
from pathlib import Path
from typing import NamedTuple

from utils import install

__all__ = ["Finding", "ToolchainError", "cache_folder", "cxx_compiler", "cuda_home", "device", "findings", "report"]


class ToolchainError(RuntimeError):
    """Something that building needs is missing; the message names the command that installs it."""


class Finding(NamedTuple):
    """A line of the report: what was looked for, what was found, and the command that mends what is wrong."""

    what: str
    found: str
    ok: bool = True
    needed: bool = True
    cure: str = ""


def device():
    """The torch device that the lessons run on: 'cuda' where torch can use a GPU, else 'cpu'."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def cache_folder() -> Path:
    """Where builds are kept: $CUDA_COURSE_CACHE if set, else `cuda-course` in the user's cache folder."""
    chosen = os.environ.get("CUDA_COURSE_CACHE")
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen).expanduser() if chosen else Path(root) / "cuda-course"


def short_path(path) -> str:
    """`path` for people: relative to the working folder or the home folder where it lies in one of them."""
    path = Path(path)
    for root, name in ((Path.cwd(), "."), (Path.home(), "~")):
        if path.is_relative_to(root) and path != root:
            return f"{name}/{path.relative_to(root)}"
    return str(path)


def _first_line(*command) -> str:
    """The first line that a command prints; empty if it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.strip().splitlines() or [""])[0] if done.returncode == 0 else ""


def cxx_compiler() -> str:
    """The path of the C++ compiler: $CXX if set, else g++ or clang++.

    Raises ToolchainError where there is none, with the command that installs one.
    """
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("g++", "clang++", "c++"):
        if path := shutil.which(name):
            return path
    missing = f"$CXX names {wanted!r}, which is not there" if wanted else "there is no C++ compiler (g++ or clang++)"
    raise ToolchainError(f"{missing}. Install one, then run the cell again: {install.compiler_cure()}")


@functools.cache
def cuda_home() -> Path | None:
    """The folder of the CUDA toolkit, with `bin/nvcc` in it; None where there is none.

    Looked for in this order: $CUDA_HOME and $CUDA_PATH, the pip wheel `cuda-toolkit[nvcc]`, this Python's environment
    (conda), PATH, /usr/local/cuda. A wrapper script is seen through by asking nvcc itself where it lives.
    """
    folders = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    wheel = util.find_spec("nvidia")
    for place in wheel.submodule_search_locations if wheel else ():
        folders += sorted(Path(place).glob("cu[0-9]*"), reverse=True)
    folders.append(sys.prefix)
    if nvcc := shutil.which("nvcc"):
        folders.append(_toolkit_of(nvcc))
    folders.append("/usr/local/cuda")
    return next((Path(f) for f in folders if f and os.access(Path(f) / "bin" / "nvcc", os.X_OK)), None)


def _toolkit_of(nvcc: str) -> Path | None:
    """The toolkit folder that `nvcc` reports for itself: the TOP of its dry run."""
    done = subprocess.run([nvcc, "--dryrun", "-E", "-x", "cu", os.devnull], capture_output=True, text=True)
    top = re.search(r"^#\$ TOP=(.*)$", done.stderr, re.MULTILINE)
    return Path(top[1]).resolve() if top else None


def nvcc_hint() -> str:
    """The command that installs nvcc of the CUDA version that torch was built for."""
    import torch

    version = torch.version.cuda or "13"
    return f'{short_path(sys.executable)} -m pip install "cuda-toolkit[nvcc]=={version}.*"'


def use_cuda_toolkit() -> Path:
    """Make torch's extension builder use the toolkit that `cuda_home` found, and give its folder.

    Raises ToolchainError where no nvcc is found, or where it cannot say its version.
    """
    home = cuda_home()
    if home is None:
        raise ToolchainError(f"there is a GPU, but no nvcc to compile for it. Install it, then restart: {nvcc_hint()}")
    if not nvcc_release(home):
        raise ToolchainError(f"{home / 'bin' / 'nvcc'} does not run. Install another, then restart: {nvcc_hint()}")
    from torch.utils import cpp_extension

    cpp_extension.CUDA_HOME = str(home)
    return home


@functools.cache
def nvcc_release(home: Path) -> str:
    """The version that the nvcc of a toolkit says it has, as '13.0'; empty where it does not run."""
    try:
        done = subprocess.run([home / "bin" / "nvcc", "--version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return ""
    release = re.search(r"release (\d+\.\d+)", done.stdout)
    return release[1] if release else ""


def put_ninja_on_path():
    """torch calls ninja by name: make sure that the one of this Python's environment is found."""
    folder = sysconfig.get_path("scripts")
    if not shutil.which("ninja") and shutil.which("ninja", path=folder):
        os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", "")
    if not shutil.which("ninja"):
        raise ToolchainError(f"ninja is missing: {short_path(sys.executable)} -m pip install ninja")


def findings() -> list[Finding]:
    """Everything the report looks at, in order; nothing here raises."""
    found = [
        _system(),
        Finding("Python", platform.python_version(), sys.version_info >= (3, 10), cure="install Python 3.10 or newer"),
    ]
    found += [_package("torch"), _package("torchvision")]
    found += _gpu()
    try:
        compiler = cxx_compiler()
        found.append(Finding("C++ compiler", _first_line(compiler, "--version") or compiler))
    except ToolchainError as error:
        found.append(Finding("C++ compiler", str(error).split(". ")[0], False, cure=install.compiler_cure()))
    header = Path(sysconfig.get_path("include")) / "Python.h"
    found.append(
        Finding(
            "Python headers",
            "found" if header.exists() else "Python.h is missing",
            header.exists(),
            cure=install.headers_cure(),
        )
    )
    try:
        put_ninja_on_path()
        found.append(Finding("ninja", _first_line("ninja", "--version")))
    except ToolchainError:
        found.append(Finding("ninja", "none", False, cure=f"{short_path(sys.executable)} -m pip install ninja"))
    found.append(_cache())
    return found


def _system() -> Finding:
    name = f"{platform.system()} {platform.machine()}"
    try:
        note = install.check_system()
    except SystemExit as refused:
        return Finding("system", name, False, cure=str(refused))
    return Finding("system", f"{name}: {note}" if note else name)


def _package(name: str) -> Finding:
    own = install.ROOT / ".venv" / "bin" / "python"
    if own.exists() and Path(sys.prefix) != own.parents[1]:
        cure = f"this is not the course's own Python. Ask that one: {short_path(own)} -m utils.toolchain"
    else:
        cure = f"{short_path(sys.executable)} -m pip install --force-reinstall torch torchvision"
    try:
        version = metadata.version(name)
        __import__(name)
        return Finding(name, version)
    except metadata.PackageNotFoundError:
        return Finding(name, "not installed", False, cure=cure.replace("--force-reinstall ", ""))
    except Exception as error:  # a broken installation can raise anything: the report says what
        said = (str(error) or type(error).__name__).splitlines()[0]
        return Finding(name, f"{version} does not import: {said}", False, cure=cure)


def _gpu() -> list[Finding]:
    """The lines about the GPU and nvcc. Without a GPU neither is needed."""
    try:
        import torch
    except Exception:  # said by the line about torch
        return []
    if not torch.cuda.is_available():
        return [Finding("GPU", "none that torch can use: lessons run on the CPU engine", needed=False)]
    index = torch.cuda.current_device()
    major, minor = torch.cuda.get_device_capability(index)
    gpu = Finding(
        "GPU", f"{torch.cuda.get_device_name(index)}, sm_{major}{minor}, torch built for CUDA {torch.version.cuda}"
    )
    home = cuda_home()
    release = nvcc_release(home) if home else ""
    if not release:
        return [gpu, Finding("nvcc", "none that runs", False, cure=nvcc_hint())]
    same = release.split(".")[0] == torch.version.cuda.split(".")[0]
    what = f"{release} in {short_path(home)}" + ("" if same else f": torch was built for CUDA {torch.version.cuda}")
    return [gpu, Finding("nvcc", what, same, cure=nvcc_hint())]


def _cache() -> Finding:
    folder = cache_folder()
    there = next(p for p in (folder, *folder.parents) if p.exists())
    writable = os.access(there, os.W_OK)
    free = shutil.disk_usage(there).free / 1e9
    what = f"{short_path(folder)}, {free:.0f} GB free"
    cure = "set CUDA_COURSE_CACHE to a folder that you may write, with 1 GB free"
    return Finding("cache", what if writable else what + ", not writable", writable and free > 1, cure=cure)


def report(stream=None) -> bool:
    """Print the findings as a table, a verdict a line, and the cure of everything wrong. True if the course can run."""
    found = findings()
    width = max(len(f.what) for f in found)
    for f in found:
        verdict = "ok" if f.ok and f.needed else "-" if f.ok else "mend"
        print(f"{verdict:6}{f.what:{width}}  {f.found}", file=stream)
    wrong = [f for f in found if not f.ok]
    for f in wrong:
        print(f"\nTo mend {f.what}:\n    {f.cure}", file=stream)
    if not wrong:
        on = device().type
        where = "the GPU, compiled by nvcc" if on == "cuda" else "the CPU engine, compiled by your C++ compiler"
        print(f"\nThe course can run. CUDA C++ runs on {where}.", file=stream)
    return not wrong


if __name__ == "__main__":
    sys.exit(0 if report() else 1)
