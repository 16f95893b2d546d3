"""Sets the course up in `.venv`. Every make target calls it first; when there is nothing to do, it prints nothing.

    python3 -m utils.manage.install                   make or complete .venv
    PYTHON -m utils.manage.install --needs course     install nothing, say what that Python lacks for `make course`

Standard library only, and no syntax newer than Python 3.6, here and in what this imports: an old Python must get as far
as saying that it is too old.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from utils.ground import system
from utils.ground.errors import CourseError
from utils.ground.system import GB, NEWEST, OLDEST, version_text

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
# Measured on Linux x86-64 with torch 2.15: the finished .venv (PyTorch brings CUDA along, even where there is no GPU),
# and the wheels that pip keeps beside it while unpacking them.
VENV_GB, WHEELS_GB = 6.3, 3.2

# What each make target itself imports. What the lessons need is listed in pyproject.toml.
RUNS_LESSONS = ["torch", "torchvision", "nbclient", "nbformat", "ipykernel", "tqdm"]
NEEDS = {
    "course": RUNS_LESSONS,
    "outputs": RUNS_LESSONS,
    "test": [*RUNS_LESSONS, "nbval", "pytest", "ruff", "xdist"],
    "test-browser": ["torch", "jupyterlab", "ipykernel", "pytest", "playwright"],
    "site": ["sphinx", "myst_nb", "sphinx_book_theme"],
    "slides": ["nbconvert", "nbformat", "IPython"],
    "present": ["jupyterlab", "jupyterlab_rise", "ipykernel", "nbconvert"],
    "lint": ["ruff"],
    "lab": ["jupyterlab", "ipykernel"],
    "bench": ["torch", "torchvision", "numpy", "tqdm"],
    "bench-build": ["torch", "pandas", "numpy", "tqdm"],
    "bench-engine": ["torch", "pandas", "numpy", "tqdm"],
}


# Which of pyproject.toml's lists of extras names them, where it is not `test`.
EXTRAS = {"test-browser": "test,browser", "site": "docs", "present": "present"}


class SetUpError(CourseError):
    """The set-up cannot continue."""


def say(text):
    print("set-up: " + text, flush=True)


# ---------------------------------------------------------------- what the machine must have


def newer_python(search=None):
    """The first of python3.13 ... python3.10 on the PATH that actually starts, or None."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        path = shutil.which(f"python3.{minor}", path=search)
        if path and python_version(path):
            return path
    return None


def python_version(python):
    """(major, minor, micro) of the interpreter at this path, or None if it does not start or is too old."""
    code = "import sys; print(*sys.version_info[:3])"
    try:
        done = subprocess.run([str(python), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        version = tuple(int(part) for part in done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return version if done.returncode == 0 and version >= OLDEST else None


def require_venv_module():
    """Debian and Ubuntu ship Python without the part that puts pip into a new environment."""
    lacking = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if lacking:
        wrong = "{} cannot make environments: it lacks {}".format(sys.executable, " and ".join(lacking))
        raise SetUpError(wrong, system.install_venv_command())


def plan_space(root=ROOT, scratch=None, cache=None):
    """Refuse a disk that is too small; return what to change for pip: its temporary folder, its cache.

    Returns (temporary folder or None for pip's own, whether pip may keep what it downloads).
    """
    scratch = Path(scratch or tempfile.gettempdir())
    cache = Path(cache or os.environ.get("PIP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    free = system.free_space(root)
    needed = VENV_GB + WHEELS_GB
    if free < needed * GB:
        raise SetUpError(
            f"not enough disk space in {root}: {free / GB:.1f} GB are free. The environment takes {VENV_GB} GB "
            f"(PyTorch brings CUDA along, even where there is no GPU), and {WHEELS_GB} GB more while it is unpacked",
            f"free {needed - free / GB:.1f} GB, or move the course to a larger disk",
        )
    moved = ROOT / "build" / "tmp" if system.free_space(scratch) < (WHEELS_GB + 0.5) * GB else None
    return moved, min(system.free_space(cache), free - VENV_GB * GB) >= 2 * WHEELS_GB * GB


# ---------------------------------------------------------------- the environment


def venv_python(venv=VENV):
    return Path(venv) / "bin" / "python"


def key(version, root=ROOT):
    """What a finished set-up depends on: the list of packages, the Python, and the folder, whose path .venv holds."""
    parts = [(Path(root) / "pyproject.toml").read_bytes(), version_text(version).encode(), str(root).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def finished(venv=VENV, root=ROOT):
    """True if .venv was completed for exactly this pyproject.toml, Python and folder."""
    stamp = Path(venv) / "course-installed"
    if not stamp.is_file():
        return False
    version = python_version(venv_python(venv))
    return version is not None and stamp.read_text().strip() == key(version, root)


def works(venv=VENV):
    """True if the environment has pip and a Python of a supported version."""
    python = venv_python(venv)
    if python_version(python) is None:
        return False
    command = [str(python), "-m", "pip", "--version"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def make_venv(venv=VENV):
    """Make the environment, or make it again if an earlier attempt left it incomplete."""
    if venv.is_dir() and any(venv.iterdir()):
        of_venv = {"bin", "lib", "lib64", "include", "share", "etc", "pyvenv.cfg", ".gitignore", "course-installed"}
        if not (venv / "pyvenv.cfg").is_file() and {path.name for path in venv.iterdir()} - of_venv:
            raise SetUpError(f"{venv} exists but is not a Python environment", f"mv '{venv}' '{venv}.old'")
        say(f"{venv.name} is incomplete: making it again")
    elif venv.exists() and not venv.is_dir():
        raise SetUpError(f"{venv} is a file", f"mv '{venv}' '{venv}.old'")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)])
    if done.returncode:
        raise SetUpError(f"`{sys.executable} -m venv {venv}` ended with {done.returncode}; its output is above")


def pip(arguments, venv=VENV, scratch=None, keep=True):
    environment = {name: value for name, value in os.environ.items() if name not in ("PIP_USER", "PIP_TARGET")}
    if scratch:
        scratch.mkdir(parents=True, exist_ok=True)
        environment["TMPDIR"] = str(scratch)
    command = [str(venv_python(venv)), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command + ([] if keep else ["--no-cache-dir"]), cwd=str(ROOT), env=environment)
    finally:
        if scratch:
            shutil.rmtree(str(scratch), ignore_errors=True)
    if done.returncode:
        wrong = "`pip install {}` ended with {}; its output is above".format(" ".join(arguments), done.returncode)
        raise SetUpError(wrong, "if pip could not reach the network, wait until it can")


def install():
    """Make or complete .venv."""
    notes = [system.require_system(), system.require_python()]
    require_venv_module()
    system.require_headers()
    system.require_compiler()
    scratch, keep = plan_space()
    for note in filter(None, notes):
        say("note: " + note)
    say(f"only this once: a download of {WHEELS_GB} GB and a few minutes; later runs reuse it")
    stamp = VENV / "course-installed"
    with contextlib.suppress(OSError):
        stamp.unlink()
    if not works():
        say(f"1 of 3: an environment in .venv (Python {version_text(sys.version_info)})")
        make_venv()
    say("2 of 3: a newer pip, which shows its progress")
    pip(["--quiet", "--upgrade", "pip>=25.1"], scratch=scratch, keep=keep)
    say("3 of 3: the course and what it needs")
    pip(["--editable", ".[test]"], scratch=scratch, keep=keep)
    command = [str(venv_python()), "-c", "import torch, torchvision; print(torch.__version__)"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SetUpError("PyTorch is installed but does not start; its output is above", f"rm -r '{VENV}'")
    version = python_version(venv_python())
    fresh = stamp.with_name("course-installed.new")
    fresh.write_text(key(version) + "\n")
    os.replace(str(fresh), str(stamp))  # atomic: the stamp is never half written
    say(f"ready: Python {version_text(version)}, torch {done.stdout.strip()}")


def set_up():
    """Do what remains to be done, once, in a Python that is new enough."""
    if finished():
        return
    system.require_system()  # before anything that only Linux and macOS have
    if sys.version_info[:2] < OLDEST:
        newer = newer_python()
        if newer:
            say(f"{sys.executable} is Python {version_text(sys.version_info)}: using {newer}")
            os.chdir(str(ROOT))
            os.execv(newer, [newer, "-m", "utils.manage.install"])
        system.require_python()
    import fcntl

    with open(str(ROOT / "pyproject.toml")) as lock:  # one set-up at a time
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up of this folder is at work: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished():
            install()


# ---------------------------------------------------------------- PYTHON=...: used as it is


def require_packages(target):
    """Refuse a Python that lacks what a make target needs. Installs nothing."""
    system.require_python()
    lacking = [name for name in NEEDS.get(target, []) if importlib.util.find_spec(name) is None]
    if lacking:
        names = ", ".join(lacking)
        raise CourseError(
            f"{sys.executable} lacks {names}, which `make {target}` needs, and with PYTHON=... nothing is installed",
            f"'{sys.executable}' -m pip install --editable '.[{EXTRAS.get(target, 'test')}]'"
            "  # or leave PYTHON out: the course then makes an environment of its own",
        )


def main(arguments):
    """The command line. A refusal exits with status 1."""
    try:
        if not arguments:
            set_up()
        elif arguments[0] == "--needs" and len(arguments) == 2:
            require_packages(arguments[1])
        else:
            sys.exit("usage: python3 -m utils.manage.install [--needs TARGET]")
    except CourseError as refusal:
        if arguments:
            sys.exit(str(refusal))
        sys.exit(f"set-up stopped: {refusal}" + ("\nThen run the same command again." if refusal.fix else ""))
    except KeyboardInterrupt:
        sys.exit("\nset-up interrupted: the same command continues from here.")


if __name__ == "__main__":
    main(sys.argv[1:])
