"""The doctor: one table of what this machine has for the course, a verdict a line, and the command that mends a line.

`python -m utils.manage.doctor` prints it, lesson 00 shows it. Most lines call what the builds call, in
cuda/common/toolchain.py, and say what those would say. It must get to its end on any machine, also where torch is
missing or broken.
"""

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from utils.cuda.common import toolchain
from utils.cuda.common.toolchain import ToolchainError, short_path
from utils.lesson import start
from utils.manage import install

__all__ = ["Finding", "findings", "report"]

CACHE_GB = 1  # with less space left, a build may end half-way
NEEDED_DRIVER = {"13": "580", "12": "525"}  # source: NVIDIA, "CUDA Compatibility", minor version compatibility
PROC_DRIVER = Path("/proc/driver/nvidia/version")
PCI_DEVICES = Path("/sys/bus/pci/devices")


class Finding(NamedTuple):
    """A line of the table. Verdicts: 'ok'; '-' for what is absent and not needed; 'mend' for what is wrong while the
    lessons run all the same; 'stop' for what keeps them from running."""

    what: str
    found: str
    verdict: str = "ok"
    cure: str = ""


def findings() -> list[Finding]:
    """All lines of the table, in order; nothing here raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of what the table tells
        found = [_look("system", _system), _look("course", _course), _look("Python", _python)]
        torch = _look("torch", _torch)
        found += [torch, _look("torchvision", _torchvision)]
        usable = torch.verdict == "ok" and toolchain.device().type == "cuda"
        found += [_look("driver", _driver, "mend"), _look("GPU", lambda: _gpu(torch.verdict == "ok", usable), "mend")]
        for_gpu = "stop" if usable else "-"  # without a GPU nobody misses what compiles for one
        found += [_look("nvcc", lambda: _nvcc(usable), for_gpu)]
        found += [_look(name, lambda name=name: _variable(name), "mend") for name in ("CUDA_HOME", "CUDA_PATH")]
        found += [_look("CUDA runtime", _cudart, for_gpu), _look("C++ for nvcc", _host_compiler, for_gpu)]
        found += [_look("NVRTC", _nvrtc, for_gpu), _look("ninja", _ninja, for_gpu)]
        found += [_look("C++ compiler", _cxx), _look("Python headers", _headers), _look("cache", _cache)]
    return [finding for finding in found if finding.found]


def _look(what, look, wrong="stop") -> Finding:
    """What `look` returns, as a line of the table; where it raises ToolchainError, one with the verdict `wrong`."""
    try:
        found = look()
    except ToolchainError as error:
        return Finding(what, error.wrong, wrong, error.cure if wrong != "-" else "")
    return found if isinstance(found, Finding) else Finding(what, found)


def _place(path) -> str:
    """`path` for the table: seen from here where both lie in the course's folder."""
    both = Path(path).is_relative_to(install.ROOT) and Path.cwd().is_relative_to(install.ROOT)
    return os.path.relpath(path) if both else short_path(path)


def report(stream=None) -> bool:
    """Print the findings as a table, what the lessons run on, and every cure. True if the course can run."""
    found = findings()
    width = max(len(f.what) for f in found)
    for f in found:
        print(f"{f.verdict:5} {f.what:{width}}  {f.found}", file=stream)
    print(file=stream)
    verdicts = {verdict: [f.what for f in found if f.verdict == verdict] for verdict in ("mend", "stop")}
    if verdicts["stop"]:
        print(f"The course cannot run yet: see {', '.join(verdicts['stop'])}.", file=stream)
    else:
        print(f"The course can run. {_backend()}", file=stream)
        if verdicts["mend"]:
            print(f"Something is wrong all the same: see {', '.join(verdicts['mend'])}.", file=stream)
    for f in found:
        if f.cure:
            print(f"\nTo mend {f.what}:\n    {f.cure}", file=stream)
    return not verdicts["stop"]


def _backend() -> str:
    """Which compilers the lessons will use, on a machine where they can run."""
    if toolchain.device().type == "cpu":
        compiler = Path(toolchain.cxx_compiler()).name
        return f"Kernels run on the CPU engine: {compiler} compiles them for this processor."
    release, compiler = toolchain.nvcc_release(toolchain.cuda_home()), Path(toolchain.host_compiler()).name
    return f"Kernels run on the GPU: load_cuda uses nvcc {release} with {compiler}, compile_kernel uses NVRTC."


# ---------------------------------------------------------------- the system and Python


def _refused(check) -> str:
    """The note of a check of install.py. Its refusal, which ends the set-up, is here a line like others."""
    try:
        return check()
    except SystemExit as stopped:
        wrong, _, cure = str(stopped).removeprefix("set-up stopped: ").partition("\n")
        raise ToolchainError(wrong, cure.replace("\n", "\n    ")) from None


def _system():
    wsl = " (WSL2)" if "microsoft" in platform.release().lower() else ""
    return _refused(install.check_system) or f"{platform.system()} {platform.machine()}{wsl}"


def _python():
    note = _refused(install.check_python)
    return note or f"{platform.python_version()} in {_place(sys.prefix)}"


def _course():
    """`kernels` and `utils` must be this folder's: the check is the set-up cell's."""
    try:
        start.check_packages()
    except ImportError as error:
        wrong, _, cure = str(error).partition(". ")
        raise ToolchainError(wrong, cure) from None
    here = Path.cwd().is_relative_to(install.ROOT)
    return "kernels and utils are of this folder" if here else f"kernels and utils are of {short_path(install.ROOT)}"


def _torch():
    try:
        start.check_torch(start.requirements())
    except ImportError as error:
        cure = str(error).splitlines()[-1].strip()
        raise ToolchainError(str(error).partition(". ")[0], _of_this_python(cure)) from None
    _import("torch")
    cuda = toolchain.torch_cuda()
    version = metadata.version("torch").partition("+")[0]
    return f"{version}, built for CUDA {cuda}" if cuda else f"{version}, built without CUDA"


def _torchvision():
    try:
        version = metadata.version("torchvision")
    except metadata.PackageNotFoundError:  # the line about torch says how both are installed
        return ""
    _import("torchvision")
    return version.partition("+")[0]


def _import(name):
    """Import a package. Its words where it fails: of another build than its neighbour, or incomplete."""
    try:
        __import__(name)
    except Exception as error:  # a broken installation can raise anything
        said = (str(error) or type(error).__name__).splitlines()[0]
        cure = start.pip_command(["--force-reinstall", *start.TORCH])
        raise ToolchainError(f"{metadata.version(name)} does not import: {said}", _of_this_python(cure)) from None


def _of_this_python(cure):
    own = install.venv_python()
    if own.exists() and Path(sys.prefix) != install.VENV:
        return f"this is not the course's own Python. Ask that one: {short_path(own)} -m utils.cuda.common.toolchain"
    return cure


# ---------------------------------------------------------------- the GPU and its driver


class Driver(NamedTuple):
    """What libcuda says: its release as '580.65' ('' where not known), its CUDA version as '13.0', the GPUs' names."""

    release: str
    cuda: str
    gpus: list[str]


def driver() -> Driver | None:
    """Ask the driver itself, through its library. None where there is neither a driver nor an NVIDIA card.

    Raises ToolchainError where a card is there and the driver misses or does not start.
    """
    release = re.search(r"\b\d+\.\d+[.\d]*\b", PROC_DRIVER.read_text()) if PROC_DRIVER.exists() else None
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        if release:
            container = "in a container, start it with `docker run --gpus all`; elsewhere: "
            wrong = f"driver {release[0]} is loaded, but its library libcuda.so.1 is missing"
            raise ToolchainError(wrong, container + _driver_cure()) from None
        if _nvidia_card():
            raise ToolchainError("an NVIDIA card is there, but no driver for it", _driver_cure()) from None
        return None
    number, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    library.cuDriverGetVersion(ctypes.byref(number))
    cuda = f"{number.value // 1000}.{number.value % 1000 // 10}"
    failed = library.cuInit(0)
    if failed not in (0, 100):  # 100: it works and sees no GPU
        again = "restart the machine: a driver that was installed or updated is loaded then. If that does not help: "
        raise ToolchainError(f"the driver does not start, CUDA error {failed}", again + _driver_cure())
    gpus = []
    if not failed:
        library.cuDeviceGetCount(ctypes.byref(number))
        for device in range(number.value):
            library.cuDeviceGetName(name, len(name), device)
            gpus.append(name.value.decode(errors="replace"))
    return Driver(release[0] if release else "", cuda, gpus)


def _nvidia_card() -> bool:
    """Whether the PCI bus has a display controller (class 03) of NVIDIA (vendor 10de)."""
    cards = (p for p in PCI_DEVICES.glob("*") if (p / "vendor").exists() and (p / "class").exists())
    return any((p / "vendor").read_text()[:6] == "0x10de" and (p / "class").read_text()[:4] == "0x03" for p in cards)


def _driver_cure() -> str:
    needed = NEEDED_DRIVER.get((toolchain.torch_cuda() or "13").split(".")[0], NEEDED_DRIVER["13"])
    if "microsoft" in platform.release().lower():
        return f"in Windows, install NVIDIA's driver {needed} or newer, then `wsl --shutdown`"
    if shutil.which("ubuntu-drivers"):
        return f"sudo ubuntu-drivers install, then restart the machine (it must be {needed} or newer)"
    return f"install NVIDIA's driver {needed} or newer, from your system's packages, then restart the machine"


def _driver():
    there = driver()
    if there is None:
        return Finding("driver", "none", "-")
    built_for = toolchain.torch_cuda()
    named = f"{there.release}, for CUDA up to {there.cuda}" if there.release else f"for CUDA up to {there.cuda}"
    if built_for and int(there.cuda.split(".")[0]) < int(built_for.split(".")[0]):
        raise ToolchainError(f"{named}: too old for torch, which was built for CUDA {built_for}", _driver_cure())
    return named


def _gpu(torch_works, usable):
    """The GPU, and where there is one that torch cannot use, why."""
    if usable:
        import torch

        return f"{torch.cuda.get_device_name()}, sm_{toolchain.gpu_architecture()}"
    try:
        there = driver()
    except ToolchainError:  # said by the line about the driver
        return Finding("GPU", "none that can be used", "-")
    if there is None or not there.gpus:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        none = "none" if hidden is None or there is None else f"none: CUDA_VISIBLE_DEVICES is {hidden!r}"
        return Finding("GPU", none, "-")
    name = there.gpus[0]
    if not torch_works:
        return name
    import torch

    if not torch.version.cuda:
        cure = _of_this_python(start.pip_command(["--force-reinstall", *start.TORCH]))
        raise ToolchainError(f"{name}, but this torch was built without CUDA", cure)
    if not torch.cuda.is_available():
        if _look("", _driver).verdict != "ok":
            return Finding("GPU", f"{name}, which torch cannot use with this driver", "-")
        try:
            torch.cuda.init()
            said = "it does not say why"
        except Exception as error:
            said = (str(error) or type(error).__name__).splitlines()[0]
        cure = "restart the notebook's kernel, then the machine. If neither helps: "
        cure += _of_this_python(start.pip_command(["--force-reinstall", *start.TORCH]))
        raise ToolchainError(f"{name}, which torch cannot use: {said}", cure)
    architecture = toolchain.gpu_architecture()
    has = toolchain.lacks_code_for(architecture)
    if architecture < min(map(int, re.findall(r"sm_(\d+)", has)), default=0):
        cure = "nothing mends it: the card is older than this CUDA supports. The lessons use the CPU engine"
    else:
        cure = _of_this_python(start.pip_command(["--upgrade", *start.TORCH]))
    raise ToolchainError(f"{name} is sm_{architecture}, and this torch has code for {has}", cure)


# ---------------------------------------------------------------- compilers


def _nvcc(usable):
    home = toolchain.cuda_toolkit() if usable else toolchain.cuda_home()
    if home is None:
        raise ToolchainError("none")
    return f"{toolchain.nvcc_release(home) or 'one that does not run'} in {_place(home)}"


def _variable(name):
    """CUDA_HOME and CUDA_PATH come before all other places; other programs count on them too."""
    value = os.environ.get(name)
    if not value or os.access(Path(value) / "bin" / "nvcc", os.X_OK):
        return ""
    raise ToolchainError(f"is {value}, where there is no bin/nvcc: passed over", f"unset {name}")


def _cudart():
    home = toolchain.cuda_home()
    if home is None:
        raise ToolchainError("none")
    if library := toolchain.cudart(home):
        return f"{library.name} in {_place(library.parent)}"
    # Debian's packages have it where the compiler looks by itself.
    answer = _first_line([toolchain.cxx_compiler(), "-print-file-name=libcudart.so"])
    if os.path.isabs(answer):
        return answer
    raise ToolchainError(f"there is no libcudart.so in {short_path(home)}", toolchain.nvcc_hint())


def _host_compiler():
    return _named(toolchain.host_compiler())


def _cxx():
    """The C++ compiler has to build a library, as the CPU engine's are, that shares the C++ library with torch."""
    compiler = toolchain.cxx_compiler()
    wrong = _what_it_cannot(compiler)
    if not wrong:
        return _named(compiler)
    others = [path for path in map(shutil.which, ("g++", "clang++", "c++")) if path not in (None, compiler)]
    better = next((path for path in others if not _what_it_cannot(path)), None)
    cure = f"export CXX={better}" if better else install.compiler_cure()
    raise ToolchainError(f"{_named(compiler)}: {wrong}", cure)


def _what_it_cannot(compiler) -> str:
    """Why what this compiler makes will not work; '' where it will.

    It builds a library with an exception in it. Where the C++ library is copied into that, and not the one that torch
    has loaded, an exception finds nobody who knows it: a check in a learner's host function would end the process.
    """
    source = '#include <new>\nextern "C" void probe() { throw std::bad_alloc(); }\n'
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "probe.so"
        command = [compiler, "-std=c++20", "-fPIC", "-shared", "-pthread", "-x", "c++", "-", "-o", str(library)]
        try:
            done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, env=_english())
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"does not run ({error})"
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["-"]
            return f"cannot build a C++20 library ({said[0].strip()})"
        if not re.search(rb"libstdc\+\+\.so|libc\+\+", library.read_bytes()):
            return "copies the C++ library into what it builds, and an exception there would end the process"
    return ""


def _named(compiler) -> str:
    return f"{_first_line([compiler, '--version']) or 'a compiler'}, {compiler}"


def _first_line(command) -> str:
    """The first line that a command prints; '' where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=_english())
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.strip().splitlines() or [""])[0] if done.returncode == 0 else ""


def _english():
    return {**os.environ, "LC_ALL": "C"}


def _nvrtc():
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # no bindings, or no library behind them, which they report in several ways
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise ToolchainError(f"cuda-bindings do not load it: {said}", toolchain.bindings_hint()) from None
    return f"{major}.{minor}, through cuda-bindings {metadata.version('cuda-bindings')}"


def _ninja():
    toolchain.put_ninja_on_path()
    return f"{_first_line(['ninja', '--version'])}, {_place(shutil.which('ninja'))}"


def _headers():
    folder = Path(sysconfig.get_path("include"))
    if not (folder / "Python.h").exists():
        raise ToolchainError(f"there is no Python.h in {folder}", install.headers_cure())
    return short_path(folder)


# ---------------------------------------------------------------- the cache


def _cache():
    folder = toolchain.cache_folder()
    wrong = _what_hinders(folder)
    if not wrong:
        return f"{short_path(folder)}, {install.free(folder) / install.GB:.0f} GB free"
    others = (install.ROOT / "build" / "cache", Path(tempfile.gettempdir()) / "cuda-course")
    better = next((other for other in others if not _what_hinders(other)), None)
    cure = f"export CUDA_COURSE_CACHE={better}" if better else f"free {CACHE_GB} GB there"
    raise ToolchainError(f"{short_path(folder)}: {wrong}", cure)


def _what_hinders(folder) -> str:
    """Why builds cannot be kept in a folder, which need not be there yet; '' where they can."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as probe:  # leaves nothing behind
            probe.write(bytes(2**20))
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    space = shutil.disk_usage(there).free / install.GB
    return f"{space:.1f} GB free, and it needs {CACHE_GB}" if space < CACHE_GB else ""


if __name__ == "__main__":
    sys.exit(0 if report() else 1)
