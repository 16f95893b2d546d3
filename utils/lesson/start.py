"""What every lesson's set-up cell calls: `start()` makes sure that the lesson can run, and says where it will.

Works where nothing of the course is installed, as on Colab: it needs the standard library and, to go on, PyTorch.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from utils.ground.errors import CourseError
from utils.ground.system import in_notebook, pip_install

ROOT = Path(__file__).resolve().parents[2]
# Never installed here: a second PyTorch beside the machine's own, or of another build, breaks both.
TORCH = ("torch", "torchvision")
# The CPU engine cannot compile the headers of 2.4. All lessons run from the version on that pyproject.toml names.
OLDEST_TORCH = (2, 5)
# They run lessons from outside: a notebook that is running does not need them, and Colab brings its own.
RUNNERS = ("jupyter", "nbval")


class PackageError(CourseError, ImportError):
    """A package is missing, too old, or not the course's own: to Python, an ImportError like its own."""


def start(root: Path = ROOT) -> None:
    """Make sure that the course's own packages are imported, install what is missing, print the device.

    Raises PackageError where another `kernels` or `utils` is in the way or PyTorch is missing, and CourseError where
    pip fails.
    """
    require_own_packages(root)
    needed = requirements(root)
    if note := require_torch(needed):
        print(f"Note: {note}")
    missing = [line for name, line in needed.items() if name not in TORCH + RUNNERS and version(name) is None]
    install_packages(missing + missing_bindings())
    prepare_notebook()
    print(device_line())


# ---------------------------------------------------------------- whose `kernels` and `utils`


def require_own_packages(root: Path = ROOT) -> None:
    """Make `kernels` and `utils` mean the course's. Both names are common: Hugging Face has a `kernels`, too."""
    here, root = Path.cwd(), root.resolve()
    nearest = next((p.resolve() for p in (here, *here.parents) if (p / "utils/lesson/start.py").is_file()), root)
    if nearest != root:
        raise PackageError(
            f"this lesson is in {nearest}, but `utils` was imported from another copy of the course, {root}",
            "restart the notebook and run its cells from the top",
        )
    for name in ("kernels", "utils"):
        found = location(name)
        if found is None or not inside(found, root):
            sys.path.insert(0, str(root))
            importlib.invalidate_caches()
            found = location(name)
        if found is None:
            raise PackageError(
                f"the course in {root} has no package `{name}`: its folder is incomplete", "fetch the course again"
            )
        if not inside(found, root):
            raise PackageError(
                f"`{name}` was already imported from {found}, which is not the course's ({root / name})",
                f"restart the notebook, run this cell first, and import the other `{name}` in another notebook",
            )


def location(name: str) -> Path | None:
    """Where a package is imported from, or would be; None where there is none."""
    module = sys.modules.get(name)
    if module is not None:
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
    else:
        spec = importlib.util.find_spec(name)
        places = [spec.origin, *(spec.submodule_search_locations or [])] if spec else []
    return next((Path(place).resolve() for place in places if place), None)


def inside(path: Path, root: Path) -> bool:
    return path.is_relative_to(root)


# ---------------------------------------------------------------- packages


def requirements(root: Path = ROOT) -> dict[str, str]:
    """The course's list in pyproject.toml: name -> requirement, as in {'torch': 'torch>=2.11'}.

    Python reads TOML by itself only from 3.11 on, so this takes the list as our file has it: one quoted line each.
    """
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)[1]
    lines = re.findall(r'^ *"([^"]+)"', listed, re.MULTILINE)
    return {re.match(r"[\w.-]+", line).group().lower(): line for line in lines}


def version(name: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(release: str) -> tuple[int, ...]:
    """The first two numbers of a version: (2, 10) for '2.10.0+cu128'."""
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])


def its_index(newer: bool = False) -> list[str]:
    """Options that have pip take PyTorch from where the installed one came from, so that its CUDA stays.

    Its version says where that is: 2.10.0+cu128 is of PyTorch's index cu128. An index has only some versions. `newer`
    asks for one that has newer ones, of the same generation of CUDA, which the driver runs as well.
    """
    label = (version("torch") or "").partition("+")[2]
    if newer and label.startswith("cu12"):
        label = "cu126"
    return ["--index-url", f"https://download.pytorch.org/whl/{label}"] if re.fullmatch(r"cpu|cu\d+", label) else []


def require_torch(needed: dict[str, str]) -> str:
    """Refuse a Python where PyTorch is missing or too old for any lesson; a lesson never installs it. Returns a note
    about one that is older than those tested, otherwise ''."""
    both = [needed[name] for name in TORCH]
    missing = [name for name in TORCH if version(name) is None]
    then = "  # then restart the notebook" if in_notebook() else "  # in a terminal; then restart the notebook"
    if missing:
        are = "is" if len(missing) == 1 else "are"
        wrong = f"{' and '.join(missing)} {are} not installed in {sys.executable}, and lessons never install PyTorch"
        if "torch" not in missing:  # it stays as it is
            both = [f"torch=={version('torch').partition('+')[0]}", "torchvision", *its_index()]
        raise PackageError(wrong, pip_install(*both) + then)
    found, tested = version("torch"), re.search(r">=([\d.]+)", needed["torch"])[1]
    if numbers(found) >= numbers(tested):
        return ""
    fix = pip_install("--upgrade", *both, *its_index(newer=True)) + then
    if numbers(found) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise PackageError(f"torch is {found} in {sys.executable} and the course needs {oldest} or newer", fix)
    return (
        f"torch is {found}, and all lessons run from {tested} on. With yours, kernels compile and run, but lessons 15 "
        f"to 17 may stop where they use Triton or torch.library. To fix it: {fix}"
    )


def missing_bindings() -> list[str]:
    """NVIDIA's cuda-bindings, for the CUDA of torch. They load its NVRTC, and torch brings them only from 2.10 on."""
    from utils.cuda.common.toolchain import torch_cuda

    generation = torch_cuda().partition(".")[0]
    return [f"cuda-bindings=={generation}.*"] if generation and version("cuda-bindings") is None else []


def install_packages(packages: list[str]) -> None:
    """Install packages into the running Python; without packages nothing happens."""
    if not packages:
        return
    print(f"Installing what this Python lacks: {', '.join(packages)}")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", *packages]
    done = subprocess.run(words, capture_output=True, text=True)
    importlib.invalidate_caches()
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).strip().splitlines() if "WARNING" not in line] or ["-"]
        wrong = f"pip could not install {', '.join(packages)}: {' / '.join(said[-3:])}"
        fix = f"with a network, run this cell again; without one, run this where there is one: {pip_install(*packages)}"
        raise CourseError(wrong, fix)


# ---------------------------------------------------------------- device


def prepare_notebook() -> None:
    """Show in a cell what C code and kernels print, explain a lost GPU, and provide the cell magic %%cuda. An error
    about what the learner wrote ends in the learner's line.

    Where kernels run on the CPU, a step outside a tensor becomes an exception: from the first tensor on.
    """
    from utils.cuda import session
    from utils.cuda.cpu import guard
    from utils.lesson import tracebacks

    guard.guard_tensors()
    session.begin()
    # With nvcc and without a GPU, importing it warns that there is no GPU, which `start` says itself.
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    ipython = sys.modules.get("IPython")
    if shell := ipython and ipython.get_ipython():
        shell.extension_manager.load_extension("utils.cuda.magic")
        tracebacks.shorten(shell)


def device_line() -> str:
    """One line on where lessons run; names the GPU with the versions that matter, or the processor and why."""
    import torch

    from utils.cuda.common.toolchain import device

    number = torch.__version__.partition("+")[0]
    if device().type == "cuda":
        return f"Device: {torch.cuda.get_device_name()} (CUDA {torch.version.cuda}, torch {number})"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    has_gpu = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")
    why = "the GPU here cannot be used, `python -m utils.manage.doctor` says why" if has_gpu else "no GPU found"
    return f"Device: CPU, {cores} core{'s' * (cores != 1)} ({why}: kernels are compiled for the CPU)"
