"""What builds need from this machine besides a C++ compiler (ground/system.py): CUDA's toolkit, ninja, the cache.

The builds and the doctor call the same functions, so both find and report the same. Only the standard library is
imported at the top: the doctor prints its table even if torch is missing or broken.
"""

import contextlib
import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import util
from pathlib import Path

from utils.ground import system
from utils.ground.errors import ToolchainError
from utils.ground.system import pip_install

__all__ = [
    "bindings_hint",
    "chosen_compiler",
    "cache_folder",
    "cuda_home",
    "cuda_toolkit",
    "cudart",
    "device",
    "disassembler",
    "gpu_architecture",
    "host_compiler",
    "is_clang",
    "lacks_code_for",
    "nvcc_candidates",
    "nvcc_hint",
    "nvcc_release",
    "on_gpu",
    "put_ninja_on_path",
    "torch_cuda",
    "use_cuda_toolkit",
]

SYSTEM_TOOLKIT = Path("/usr/local/cuda")  # where NVIDIA's own installer puts it


def device():
    """The torch device that the lessons run on: 'cuda' if torch has a GPU and code for it, otherwise 'cpu'."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() and not lacks_code_for(gpu_architecture()) else "cpu")


def on_gpu() -> bool:
    """Whether `device` is a GPU. Where there is no driver for one, torch, whose import takes seconds, is not asked."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return device().type == "cuda"


def gpu_architecture() -> int:
    """The architecture of torch's current GPU as one number: 75 for sm_75."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    return 10 * major + minor


@functools.cache
def lacks_code_for(architecture: int) -> str:
    """The architectures that this torch was built for if none of them runs on a GPU of `architecture`, otherwise ''.

    Code for sm_80 runs on sm_80 to sm_89; compute_80, which the driver compiles further, on all from 80 up.
    Source: CUDA C++ Programming Guide, "Application Compatibility".
    """
    import torch

    built = torch.cuda.get_arch_list()
    for kind, number in re.findall(r"\b(sm|compute)_(\d+)\b", " ".join(built)):
        oldest = int(number)
        if oldest <= architecture and (kind == "compute" or oldest // 10 == architecture // 10):
            return ""
    return ", ".join(built)


def torch_cuda() -> str:
    """The CUDA version that the installed torch was built for, as '13.0'; '' for a torch without CUDA, or none.

    Read from its file: this works even if torch does not import.
    """
    torch = util.find_spec("torch")
    version = Path(torch.origin).with_name("version.py") if torch and torch.origin else None
    text = version.read_text() if version and version.exists() else ""
    found = re.search(r"^cuda\b[^=\n]*= *['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found[1] if found else ""


def cache_folder() -> Path:
    """Where builds are kept: $CUDA_COURSE_CACHE if set, otherwise `cuda-course` in the user's cache folder."""
    chosen = os.environ.get("CUDA_COURSE_CACHE")
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen).expanduser() if chosen else Path(root) / "cuda-course"


def host_compiler(home: Path | None = None) -> str:
    """The path of the C++ compiler for builds with nvcc: for its `-ccbin`, and for the host code beside it.

    nvcc accepts g++ and clang++ only up to a certain version. So: $NVCC_CCBIN if set (nvcc's own variable), otherwise
    $CXX, otherwise the first that nvcc accepts of g++, g++-15 (or the newest it knows), the older ones and clang++.
    nvcc itself is asked, about 0.1 s each: a build needs the answer, a warm load does not.
    `home` is the toolkit, usually cuda_home(). Raises ToolchainError if nvcc accepts none.
    """
    home = home or cuda_home()
    if home is None:
        raise ToolchainError("there is no nvcc", nvcc_hint())
    newest = _newest_gcc(home)
    known = ["g++", *(f"g++-{version}" for version in range(newest, 8, -1)), "clang++"]
    fits = (path for path in filter(None, map(shutil.which, known)) if not _refusal(home, path))
    chosen = next((name for name in ("NVCC_CCBIN", "CXX") if os.environ.get(name)), None)
    if chosen is None:
        if compiler := next(fits, None):
            return compiler
        first = system.cxx_compiler()
    else:
        first = shutil.which(os.environ[chosen])
        if first and not _refusal(home, first):
            return first
    refusal = first and _refusal(home, first)
    if refusal and "cuda_runtime.h" in refusal:
        raise ToolchainError(f"the toolkit in {home} has nvcc, but not the header cuda_runtime.h", nvcc_hint())
    fix = system.install_older_compiler_command(newest)
    if chosen:
        other = next(fits, None)
        fix = f"export NVCC_CCBIN={other}" if other else f"{fix} && export NVCC_CCBIN=g++-{newest}"
    if not first:
        raise ToolchainError(f"${chosen} names {os.environ[chosen]!r}, which is not there", fix)
    by = f", which ${chosen} names" if chosen else ""
    raise ToolchainError(f"nvcc {nvcc_release(home)} does not take {first}{by}: {refusal}", fix)


def chosen_compiler() -> str | None:
    """The first of $NVCC_CCBIN, $CXX, g++ and clang++ that exists; does not test whether nvcc accepts it.

    That is enough for nvcc to compile device code, for which the C++ compiler only preprocesses.
    """
    chosen = os.environ.get("NVCC_CCBIN"), os.environ.get("CXX"), "g++", "clang++"
    return next(filter(None, map(shutil.which, filter(None, chosen))), None)


@functools.cache
def is_clang(compiler) -> bool:
    """Whether the compiler is clang. On macOS g++ is clang, too, and other names say nothing: those are asked."""
    name = os.path.basename(os.path.realpath(compiler))
    if "clang" in name or ("g++" in name and sys.platform == "linux"):
        return "clang" in name
    asked = [compiler, "-dM", "-E", "-x", "c++", os.devnull]
    return "__clang__" in subprocess.run(asked, capture_output=True, text=True).stdout


@functools.cache
def _refusal(home: Path, compiler: str) -> str:
    """Why a toolkit's nvcc does not accept this C++ compiler: its message about an empty file. '' if it does."""
    command = [home / "bin" / "nvcc", "-ccbin", compiler, "-E", "-x", "cu", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode == 0:
        return ""
    about_versions = re.search(r"#error -- (.*?)[.!]? The nvcc flag", done.stderr)
    lines = [line for line in done.stderr.splitlines() if "error" in line or "fatal" in line]
    return about_versions[1] if about_versions else (lines or ["it does not compile an empty file"])[0]


def _newest_gcc(home: Path) -> int:
    """The newest g++ that a toolkit's nvcc accepts; its header host_config.h has the limit."""
    for header in (*home.glob("include/crt/host_config.h"), *home.glob("targets/*/include/crt/host_config.h")):
        if limit := re.search(r"__GNUC__ > (\d+)", header.read_text(errors="ignore")):
            return int(limit[1])
    return 13  # accepted by CUDA 12.4, the oldest that a supported torch was built for


def cuda_home() -> Path | None:
    """The folder of the CUDA toolkit, with `bin/nvcc` in it; None if there is none.

    Of `nvcc_candidates`, the first that is of the CUDA generation that torch was built for, otherwise the first. If
    nvcc is a wrapper script, nvcc itself is asked for its folder.
    """
    first, *more = nvcc_candidates() or [None]
    if not more:  # nothing to choose from
        return first and _toolkit_of(first)
    homes = map(_toolkit_of, (first, *more))  # asked one by one: each answer takes 10 ms
    same = (home for home in homes if same_generation(nvcc_release(home), torch_cuda()))
    return next(same, None) or _toolkit_of(first)


def nvcc_candidates() -> list[Path]:
    """Every nvcc that `cuda_home` chooses from; none of them is run.

    Searched in this order: $CUDA_HOME and $CUDA_PATH, the pip wheel `cuda-toolkit[nvcc]`, this Python's environment
    (conda), PATH, /usr/local/cuda.
    """
    folders = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    wheel = util.find_spec("nvidia")
    for place in wheel.submodule_search_locations if wheel else ():
        folders += sorted(Path(place).glob("cu[0-9]*"), reverse=True)
    compilers = [Path(folder) / "bin" / "nvcc" for folder in (*folders, sys.prefix)]
    compilers += [Path(shutil.which("nvcc") or ""), SYSTEM_TOOLKIT / "bin" / "nvcc"]
    return [nvcc for nvcc in compilers if nvcc.is_file() and os.access(nvcc, os.X_OK)]


def same_generation(one: str, other: str) -> bool:
    """Whether two CUDA versions are compatible: those with the same major version are, as '13.0' and '13.2'."""
    return one.split(".")[0] == other.split(".")[0]


@functools.cache
def _toolkit_of(nvcc: Path) -> Path:
    """The toolkit folder of an `nvcc`. A script prints it as TOP in a dry run; a link is followed."""
    nvcc = nvcc.resolve()
    with open(nvcc, "rb") as program:
        script = program.read(2) == b"#!"
    if script:
        command = [nvcc, "--dryrun", "-E", "-x", "cu", os.devnull]
        with contextlib.suppress(ToolchainError):  # it answers only if it has a C++ compiler, and it knows only gcc
            command += ["-ccbin", system.cxx_compiler()]
        done = subprocess.run(command, capture_output=True, text=True)
        top = re.search(r"^#\$ TOP=(.*)$", done.stderr, re.MULTILINE)
        if top and os.access(Path(top[1]) / "bin" / "nvcc", os.X_OK):
            return Path(top[1]).resolve()
    return nvcc.parents[1]


def cudart(home: Path) -> Path | None:
    """CUDA's runtime library in a toolkit: libcudart.so, or libcudart.so.13 if only that exists (pip's wheels)."""
    folders = [home / "lib64", home / "lib", *home.glob("targets/*/lib")]
    for pattern in ("libcudart.so", "libcudart.so.*"):
        if found := [path for folder in folders for path in sorted(folder.glob(pattern))]:
            return found[0]
    return None


def disassembler() -> Path:
    """The program nvdisasm: the toolkit's, the one in Triton's wheel, or the one on PATH.

    Raises ToolchainError if there is none.
    """
    __tracebackhide__ = True
    home, triton = cuda_home(), util.find_spec("triton")
    folders = [home / "bin"] if home else []
    folders += [Path(place) / "backends/nvidia/bin" for place in (triton and triton.submodule_search_locations) or ()]
    for folder in folders:
        if os.access(folder / "nvdisasm", os.X_OK):
            return folder / "nvdisasm"
    if found := shutil.which("nvdisasm"):
        return Path(found)
    raise ToolchainError("there is no nvdisasm, which shows machine code", pip_install("triton"))


def nvcc_hint() -> str:
    """The command that installs nvcc for the CUDA version that torch was built for."""
    version = torch_cuda() or "13"
    if int(version.split(".")[0]) < 13:  # their wheels contain ptxas but no nvcc
        return f"conda install -c conda-forge cuda-nvcc cuda-libraries-dev cuda-version={version}"
    return pip_install(f"cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]=={version}.*")


def bindings_hint() -> str:
    """The command that installs NVIDIA's cuda-bindings for the CUDA version that torch was built for."""
    return pip_install(f"cuda-bindings=={(torch_cuda() or '13').split('.')[0]}.*")


def cuda_toolkit() -> Path:
    """The folder of the toolkit that builds for this GPU: what `cuda_home` found, if it is suitable.

    Raises ToolchainError if no nvcc is found, or one that does not run, is of another CUDA generation than torch's, or
    does not compile for this GPU.
    """
    home = cuda_home()
    if home is None:
        raise ToolchainError("there is a GPU, but no nvcc to compile for it", nvcc_hint())
    release, built_for = nvcc_release(home), torch_cuda()
    if not release:
        raise ToolchainError(f"{home / 'bin' / 'nvcc'} does not run", nvcc_hint())
    if built_for and not same_generation(release, built_for):
        wrong = f"nvcc in {home} is of CUDA {release}, but torch was built for CUDA {built_for}"
        raise ToolchainError(wrong, nvcc_hint())
    compiles_for = _architectures(home)
    if compiles_for and device().type == "cuda" and (architecture := gpu_architecture()) not in compiles_for:
        span = f"sm_{min(compiles_for)} to sm_{max(compiles_for)}"
        wrong = f"nvcc {release} compiles for {span}, and this GPU is sm_{architecture}"
        raise ToolchainError(wrong, f"{nvcc_hint()}, or leave the GPU alone: export CUDA_VISIBLE_DEVICES=")
    return home


def use_cuda_toolkit() -> Path:
    """Make torch's own extension builder use `cuda_toolkit`, whose errors it raises; returns the folder."""
    home = cuda_toolkit()
    from torch.utils import cpp_extension

    cpp_extension.CUDA_HOME = str(home)
    return home


@functools.cache
def _architectures(home: Path) -> list[int]:
    """The architectures that a toolkit's nvcc compiles for, as [75, 80, ...]; empty if it does not say."""
    done = subprocess.run([home / "bin" / "nvcc", "--list-gpu-code"], capture_output=True, text=True)
    return [int(number) for number in re.findall(r"^sm_(\d+)$", done.stdout, re.MULTILINE)]


@functools.cache
def nvcc_release(home: Path) -> str:
    """The version that a toolkit's nvcc reports, as '13.0'; empty if it does not run."""
    try:
        done = subprocess.run([home / "bin" / "nvcc", "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    release = re.search(r"release (\d+\.\d+)", done.stdout)
    return release[1] if release else ""


def put_ninja_on_path():
    """torch calls ninja by name: make sure that the one in this Python's environment is found."""
    folder = sysconfig.get_path("scripts")
    if not shutil.which("ninja") and shutil.which("ninja", path=folder):
        os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", "")
    if not shutil.which("ninja"):
        raise ToolchainError("ninja is missing", pip_install("ninja"))
