"""The doctor: a table of what this machine has for the course, one verdict per line, and the command that fixes it.

`make doctor` prints it, and so does lesson 00. Each line calls what the set-up and the builds call, in ground/system.py
and cuda/common/toolchain.py, and shows the errors that those would raise. It must finish on any machine, even if torch
is missing or broken.
"""

import ctypes
import os
import platform
import re
import shutil
import sys
import tempfile
import warnings
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import toolchain
from utils.ground import system
from utils.ground.errors import CourseError, ToolchainError
from utils.ground.system import first_line, short_path
from utils.lesson import start
from utils.manage import install

__all__ = ["Finding", "findings", "print_table"]

CACHE_GB = 1  # with less space left, a build may fail halfway
NEEDED_DRIVER = {"13": "580", "12": "525"}  # source: NVIDIA, "CUDA Compatibility", minor version compatibility
PROC_DRIVER = Path("/proc/driver/nvidia/version")
PCI_DEVICES = Path("/sys/bus/pci/devices")


class Finding(NamedTuple):
    """A line of the table. Verdicts: 'ok'; '-': absent and not needed; 'fix': wrong, but the lessons run; 'stop': keeps
    them from running."""

    what: str
    found: str
    verdict: str = "ok"
    fix: str = ""


def findings() -> list[Finding]:
    """All lines of the table, in order; nothing here raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about what the table shows
        found = [_look("system", _system), _look("course", _course), _look("Python", _python)]
        torch = _look("torch", _torch)
        found += [torch, _look("torchvision", _torchvision)]
        usable = torch.verdict == "ok" and toolchain.device().type == "cuda"
        found += [_look("driver", _driver, "fix"), _look("GPU", lambda: _gpu(torch.verdict == "ok", usable), "fix")]
        for_gpu = "stop" if usable else "-"  # what compiles for a GPU is not needed without one
        found += [_look("nvcc", lambda: _nvcc(usable), for_gpu)]
        found += [_look(name, lambda name=name: _variable(name), "fix") for name in ("CUDA_HOME", "CUDA_PATH")]
        found += [_look("CUDA runtime", _cudart, for_gpu), _look("C++ for nvcc", _host_compiler, for_gpu)]
        found += [_look("NVRTC", _nvrtc, for_gpu), _look("ninja", _ninja, for_gpu)]
        found += [_look("nvdisasm", lambda: _place(toolchain.disassembler()), "-")]
        found += [_look("verdict", _judge, "fix")]
        found += [_look("C++ compiler", _cxx), _look("Python headers", _headers), _look("cache", _cache)]
    return [finding for finding in found if finding.found]


def _look(what, look, wrong="stop") -> Finding:
    """What `look` returns, as a line of the table; a CourseError becomes a line with the verdict `wrong`."""
    try:
        found = look()
    except CourseError as error:
        return Finding(what, error.wrong, wrong, error.fix if wrong != "-" else "")
    return found if isinstance(found, Finding) else Finding(what, found)


def _place(path) -> str:
    """`path` for the table: relative to the working folder if both are in the course's folder."""
    both = Path(path).is_relative_to(install.ROOT) and Path.cwd().is_relative_to(install.ROOT)
    return os.path.relpath(path) if both else short_path(path)


def print_table(stream=None) -> bool:
    """Print the findings as a table, what the lessons run on, and every fix. True if the course can run."""
    found = findings()
    width = max(len(f.what) for f in found)
    for f in found:
        print(f"{f.verdict:5} {f.what:{width}}  {f.found}", file=stream)
    print(file=stream)
    verdicts = {verdict: [f.what for f in found if f.verdict == verdict] for verdict in ("fix", "stop")}
    if verdicts["stop"]:
        print(f"The course cannot run yet: see {', '.join(verdicts['stop'])}.", file=stream)
    else:
        print(f"The course can run. {_backend()}", file=stream)
        if verdicts["fix"]:
            print(f"Something is wrong all the same: see {', '.join(verdicts['fix'])}.", file=stream)
    for f in found:
        if f.fix:
            print(f"\nTo fix {f.what}:\n    {f.fix}", file=stream)
    return not verdicts["stop"]


def _backend() -> str:
    """Which compilers the lessons will use, on a machine where they can run."""
    if toolchain.device().type == "cpu":
        compiler = Path(system.cxx_compiler()).name
        return f"Kernels run on the CPU engine: {compiler} compiles them for this processor."
    release, compiler = toolchain.nvcc_release(toolchain.cuda_home()), Path(toolchain.host_compiler()).name
    return f"Kernels run on the GPU: load_cuda uses nvcc {release} with {compiler}, compile_kernel uses NVRTC."


# ---------------------------------------------------------------- the system and Python


def _system():
    return system.require_system() or f"{platform.system()} {platform.machine()}{' (WSL2)' * system.is_wsl()}"


def _python():
    return system.require_python() or f"{platform.python_version()} in {_place(sys.prefix)}"


def _course():
    """`kernels` and `utils` must be this folder's: the set-up cell makes the same check."""
    start.require_own_packages()
    here = Path.cwd().is_relative_to(install.ROOT)
    return f"kernels and utils come from {'this folder' if here else short_path(install.ROOT)}"


def _torch():
    try:
        note = start.require_torch(start.requirements())
    except start.PackageError as error:
        raise ToolchainError(error.wrong, _of_this_python(error.fix)) from None
    _import("torch")
    cuda = toolchain.torch_cuda()
    version = metadata.version("torch").partition("+")[0]
    built = f"{version}, built for CUDA {cuda}" if cuda else f"{version}, built without CUDA"
    return f"{built}. {note}" if note else built


def _torchvision():
    try:
        version = metadata.version("torchvision")
    except metadata.PackageNotFoundError:  # the line about torch says how both are installed
        return ""
    _import("torchvision")
    return version.partition("+")[0]


def _import(name):
    """Import a package, which fails if it is incomplete or its build does not match its neighbour's."""
    try:
        __import__(name)
    except Exception as error:  # a broken installation can raise anything
        wrong = f"{metadata.version(name)} does not import: {_first_line_of(error)}"
        raise ToolchainError(wrong, _reinstall()) from None


def _reinstall(option="--force-reinstall", same_cuda=True) -> str:
    index = start.its_index() if same_cuda else []
    return _of_this_python(system.pip_install(option, *start.TORCH, *index))


def _of_this_python(command) -> str:
    """A pip command for this Python. If the course has its own Python, that is the one to use."""
    own = install.venv_python()
    if Path(sys.prefix) == install.VENV or system.in_notebook():
        return command
    if install.python_version(own):
        return f"this is not the course's own Python. Use that one: {short_path(own)} -m utils.manage.doctor"
    return f"make lab, which sets up a Python for the course alone\n    or, for this Python: {command}"


def _first_line_of(error) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


# ---------------------------------------------------------------- the GPU and its driver


class Driver(NamedTuple):
    """What libcuda reports: its release as '580.65' ('' if unknown), its CUDA version as '13.0', the GPUs' names."""

    release: str
    cuda: str
    gpus: list[str]


def driver() -> Driver | None:
    """Ask the driver itself, through its library. None if there is neither a driver nor an NVIDIA card.

    Raises ToolchainError if there is a card, but the driver is missing or does not start.
    """
    release = re.search(r"\b\d+\.\d+[.\d]*\b", PROC_DRIVER.read_text()) if PROC_DRIVER.exists() else None
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        if release:
            container = "in a container, start it with `docker run --gpus all`; elsewhere: "
            wrong = f"driver {release[0]} is loaded, but its library libcuda.so.1 is missing"
            raise ToolchainError(wrong, container + _driver_fix()) from None
        if _nvidia_card():
            raise ToolchainError("an NVIDIA card is there, but no driver for it", _driver_fix()) from None
        return None
    number, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    library.cuDriverGetVersion(ctypes.byref(number))
    cuda = f"{number.value // 1000}.{number.value % 1000 // 10}"
    failed = library.cuInit(0)
    if failed not in (0, 100):  # 100: it works and sees no GPU
        again = "restart the machine: a driver that was installed or updated is loaded then. If that does not help: "
        raise ToolchainError(f"the driver does not start, CUDA error {failed}", again + _driver_fix())
    gpus = []
    if not failed:
        library.cuDeviceGetCount(ctypes.byref(number))
        for device in range(number.value):
            library.cuDeviceGetName(name, len(name), device)
            gpus.append(name.value.decode(errors="replace"))
    return Driver(release[0] if release else "", cuda, gpus)


def _nvidia_card() -> bool:
    """Whether the PCI bus has a display controller (class 03) made by NVIDIA (vendor 10de)."""
    cards = (p for p in PCI_DEVICES.glob("*") if (p / "vendor").exists() and (p / "class").exists())
    return any((p / "vendor").read_text()[:6] == "0x10de" and (p / "class").read_text()[:4] == "0x03" for p in cards)


def _driver_fix() -> str:
    needed = NEEDED_DRIVER.get((toolchain.torch_cuda() or "13").split(".")[0], NEEDED_DRIVER["13"])
    if system.is_wsl():
        return f"in Windows, install NVIDIA's driver {needed} or newer, then `wsl --shutdown`"
    if shutil.which("ubuntu-drivers"):
        return f"sudo ubuntu-drivers install, then restart the machine (it must be {needed} or newer)"
    return f"install NVIDIA's driver {needed} or newer, from your system's packages, then restart the machine"


def _driver():
    found = driver()
    if found is None:
        return Finding("driver", "none", "-")
    built_for = toolchain.torch_cuda()
    named = f"{found.release}, for CUDA up to {found.cuda}" if found.release else f"for CUDA up to {found.cuda}"
    if built_for and int(found.cuda.split(".")[0]) < int(built_for.split(".")[0]):
        raise ToolchainError(f"{named}: too old for torch, which was built for CUDA {built_for}", _driver_fix())
    return named


def _gpu(torch_works, usable):
    """The GPU and, if torch cannot use it, why."""
    if usable:
        import torch

        return f"{torch.cuda.get_device_name()}, sm_{toolchain.gpu_architecture()}"
    try:
        found = driver()
    except ToolchainError:  # the line about the driver shows it
        return Finding("GPU", "none that can be used", "-")
    if found is None or not found.gpus:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        none = "none" if hidden is None or found is None else f"none: CUDA_VISIBLE_DEVICES is {hidden!r}"
        return Finding("GPU", none, "-")
    name = found.gpus[0]
    if not torch_works:
        return name
    import torch

    if not torch.version.cuda:
        raise ToolchainError(f"{name}, but this torch was built without CUDA", _reinstall(same_cuda=False))
    if not torch.cuda.is_available():
        if _look("", _driver).verdict != "ok":
            return Finding("GPU", f"{name}, which torch cannot use with this driver", "-")
        try:
            torch.cuda.init()
            said = "it does not say why"
        except Exception as error:
            said = _first_line_of(error)
        again = "restart the notebook, then the machine. If neither helps: "
        raise ToolchainError(f"{name}, which torch cannot use: {said}", again + _reinstall())
    architecture = toolchain.gpu_architecture()
    has = toolchain.lacks_code_for(architecture)
    if architecture < min(map(int, re.findall(r"sm_(\d+)", has)), default=0):
        fix = "nothing does: the card is older than this CUDA supports. The lessons use the CPU engine"
    else:
        fix = _reinstall("--upgrade", same_cuda=False)
    raise ToolchainError(f"{name} is sm_{architecture}, and this torch has code for {has}", fix)


# ---------------------------------------------------------------- compilers


def _nvcc(usable):
    home = toolchain.cuda_toolkit() if usable else toolchain.cuda_home()
    if home is None:
        raise ToolchainError("none")
    return f"{toolchain.nvcc_release(home) or 'one that does not run'} in {_place(home)}"


def _variable(name):
    """CUDA_HOME and CUDA_PATH take precedence over all other places; other programs use them too."""
    value = os.environ.get(name)
    if not value or os.access(Path(value) / "bin" / "nvcc", os.X_OK):
        return ""
    raise ToolchainError(f"is {value}, where there is no bin/nvcc: ignored", f"unset {name}")


def _cudart():
    home = toolchain.cuda_home()
    if home is None:
        raise ToolchainError("none")
    if library := toolchain.cudart(home):
        return f"{library.name} in {_place(library.parent)}"
    # Debian's packages put it where the compiler looks anyway.
    answer = first_line([system.cxx_compiler(), "-print-file-name=libcudart.so"])
    if os.path.isabs(answer):
        return answer
    raise ToolchainError(f"there is no libcudart.so in {short_path(home)}", toolchain.nvcc_hint())


def _host_compiler():
    return _named(toolchain.host_compiler())


def _cxx():
    return _named(system.require_compiler())


def _named(compiler) -> str:
    return f"{first_line([compiler, '--version']) or 'a compiler'}, {compiler}"


def _nvrtc():
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # no bindings, or no library for them, which they report in several ways
        wrong = f"cuda-bindings do not load it: {_first_line_of(error)}"
        raise ToolchainError(wrong, toolchain.bindings_hint()) from None
    return f"{major}.{minor}, through cuda-bindings {metadata.version('cuda-bindings')}"


def _judge():
    """Who notices on the CPU engine what NVIDIA's compiler would reject (utils/cuda/verdict.py)."""
    if home := toolchain.cuda_home():
        return f"nvcc {toolchain.nvcc_release(home)} checks every CUDA source, on the CPU too"
    try:
        release = _nvrtc().split(",")[0]
        return (
            f"NVRTC {release} checks CUDA sources, except those that include C++ library headers; unlike nvcc, it lets "
            "kernels use the host's variables and unmarked methods"
        )
    except ToolchainError:
        wrong = "without nvcc and NVRTC, the CPU engine accepts some sources that NVIDIA's compiler rejects"
        raise ToolchainError(wrong, toolchain.nvcc_hint()) from None


def _ninja():
    toolchain.put_ninja_on_path()
    return f"{first_line(['ninja', '--version'])}, {_place(shutil.which('ninja'))}"


def _headers():
    return short_path(system.require_headers())


# ---------------------------------------------------------------- the cache


def _cache():
    folder = toolchain.cache_folder()
    blocker = _blocker(folder)
    if not blocker:
        return f"{short_path(folder)}, {system.free_space(folder) / system.GB:.0f} GB free"
    others = (install.ROOT / "build" / "cache", Path(tempfile.gettempdir()) / "cuda-course")
    better = next((other for other in others if not _blocker(other)), None)
    fix = f"export CUDA_COURSE_CACHE={better}" if better else f"free {CACHE_GB} GB there"
    raise ToolchainError(f"{short_path(folder)}: {blocker}", fix)


def _blocker(folder) -> str:
    """Why builds cannot be kept in a folder, which need not exist yet; '' if they can."""
    try:
        with tempfile.TemporaryFile(dir=system.existing_part(folder)) as probe:  # leaves nothing behind
            probe.write(bytes(2**20))
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    space = system.free_space(folder) / system.GB
    return f"{space:.1f} GB free, and it needs {CACHE_GB}" if space < CACHE_GB else ""


if __name__ == "__main__":
    sys.exit(0 if print_table() else 1)
