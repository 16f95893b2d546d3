"""Sets the course up in `.venv`. Every make target calls it first; when there is nothing to do it says nothing.

    python3 utils/manage/install.py                  make or complete .venv
    PYTHON utils/manage/install.py --check course    install nothing, say what that Python lacks for `make course`

Only the standard library, never the course itself, and nothing newer than Python 3.6 can read: an old Python must get
as far as saying that it is too old.
"""

import contextlib
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
OLDEST, NEWEST = (3, 10), (3, 13)  # the versions that are tested
GB = 10**9
# Measured on Linux x86-64 with torch 2.15: the finished .venv (PyTorch brings CUDA along, also where there is no GPU),
# and the wheels that pip keeps beside it while it unpacks them.
VENV_GB, WHEELS_GB = 6.3, 3.2

# What each make target itself imports. The lessons' own needs are the list in pyproject.toml.
RUNS_LESSONS = ["torch", "torchvision", "nbclient", "nbformat", "ipykernel", "tqdm"]
NEEDS = {
    "course": RUNS_LESSONS,
    "outputs": RUNS_LESSONS,
    "test": [*RUNS_LESSONS, "nbval", "pytest", "ruff", "xdist"],
    "lint": ["ruff"],
    "lab": ["jupyterlab", "ipykernel"],
    "bench": ["torch", "torchvision", "numpy", "tqdm"],
    "bench-build": ["torch", "pandas", "numpy", "tqdm"],
    "bench-engine": ["torch", "pandas", "numpy", "tqdm"],
}


def say(text):
    print("set-up: " + text, flush=True)


def stop(text):
    """End with status 1 and a message on standard error."""
    sys.exit("set-up stopped: " + text)


def has(command):
    return shutil.which(command) is not None


# ---------------------------------------------------------------- what the machine must have


def check_system(system=None, machine=None):
    """Refuse systems where the course cannot run; return a note for those where nobody has tried it, else ''."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system == "Windows" or system.startswith(("CYGWIN", "MSYS", "MINGW")):
        stop(
            f"this is native Windows ({system}), where the course does not run.\n"
            "Use WSL2, which is Linux inside Windows: run `wsl --install` in a Windows terminal, restart,\n"
            "open Ubuntu, and run the same command there in a copy of this folder."
        )
    if system == "Darwin" and machine == "x86_64":
        stop("this is a Mac with an Intel processor. PyTorch ends at version 2.2 there and the course needs 2.11.")
    if (system, machine) == ("Linux", "x86_64"):
        return ""
    return f"{system} on {machine} should work but is untested: Linux on x86-64 is what we test."


def version_text(version):
    return ".".join(str(part) for part in version[:3])


def newer_python(search=None):
    """The first python3.13 ... python3.10 on the PATH that really starts, or None."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        path = shutil.which(f"python3.{minor}", path=search)
        if path and python_version(path):
            return path
    return None


def python_version(python):
    """(major, minor, micro) of the interpreter at this path, or None where it does not start or is too old."""
    code = "import sys; print(*sys.version_info[:3])"
    try:
        done = subprocess.run([str(python), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        version = tuple(int(part) for part in done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return version if done.returncode == 0 and version >= OLDEST else None


def check_python(version=None, executable=None):
    """Refuse a Python that is too old; return a note for one newer than those tested, else ''."""
    version, executable = version or sys.version_info, executable or sys.executable
    if version[:2] < OLDEST:
        stop(
            "{} is Python {} and the course needs 3.10 or newer.\nInstall one and run the same command again{}.".format(
                executable, version_text(version), ": sudo apt install python3.11 python3.11-venv" if has("apt") else ""
            )
        )
    if version[:2] > NEWEST:
        return f"Python {version_text(version)} is newer than what is tested (3.10 to 3.13)."
    return ""


def check_venv_module():
    """Debian and Ubuntu ship Python without the part that puts pip into a new environment."""
    lacking = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if not lacking:
        return
    version = "{}.{}".format(*sys.version_info[:2])
    cure = pick([("apt", f"sudo apt install python{version}-venv")], f"a complete Python {version}, as from python.org")
    stop(
        "{} cannot make environments: it lacks {}.\nInstall it and run the same command again:\n    {}".format(
            sys.executable, " and ".join(lacking), cure
        )
    )


def check_headers(folder=None):
    """Python.h must be there: what the lessons compile is loaded into Python. Debian and Ubuntu ship it apart."""
    folder = Path(folder or sysconfig.get_path("include"))
    if (folder / "Python.h").is_file():
        return
    stop(
        f"{sys.executable} has no C headers (no Python.h in {folder}), and what the lessons compile needs them.\n"
        f"Install them and run the same command again:\n    {headers_cure()}"
    )


def headers_cure():
    """The command that installs Python's C headers."""
    version = "{}.{}".format(*sys.version_info[:2])
    cures = [
        ("apt", f"sudo apt install python{version}-dev"),
        ("dnf", "sudo dnf install python3-devel"),
        ("zypper", "sudo zypper install python3-devel"),
    ]
    return pick(cures, f"the development package of Python {version}")


def pick(cures, otherwise):
    """The command of the first package manager that this machine has."""
    return next((line for tool, line in cures if has(tool)), otherwise)


def check_compiler():
    """A C++ compiler must start: lessons 00, 03 and 06 compile."""
    wanted = [name for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name]
    for name in wanted:
        path = shutil.which(name)
        if path:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                if subprocess.run([path, "--version"], stdout=subprocess.DEVNULL, timeout=60).returncode == 0:
                    return
    stop(
        "no C++ compiler that works (looked for {}). The lessons compile CUDA C++.\n"
        "Install one and run the same command again:\n    {}".format(", ".join(wanted), compiler_cure())
    )


def compiler_cure():
    """The command that installs a C++ compiler."""
    cures = [
        ("apt", "sudo apt install g++"),
        ("dnf", "sudo dnf install gcc-c++"),
        ("zypper", "sudo zypper install gcc-c++"),
        ("pacman", "sudo pacman -S gcc"),
        ("xcode-select", "xcode-select --install"),
    ]
    return pick(cures, "g++ or clang++, with your system's package manager")


def older_compiler_cure(version):
    """The command that installs g++ of this version beside a newer one."""
    cures = [
        ("apt", f"sudo apt install g++-{version}"),
        ("zypper", f"sudo zypper install gcc{version}-c++"),
        ("pacman", f"sudo pacman -S gcc{version}"),
    ]
    return pick(cures, f"conda install -c conda-forge gxx={version}")


def free(folder):
    """Free bytes where this folder is, or will be."""
    folder = Path(folder)
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(str(folder)).free


def plan_space(root=ROOT, scratch=None, cache=None):
    """Refuse a disk that is too small; return what to change about pip: its temporary folder, its cache.

    Returns (temporary folder or None for pip's own, whether pip may keep what it downloads).
    """
    scratch = Path(scratch or tempfile.gettempdir())
    cache = Path(cache or os.environ.get("PIP_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    here = free(root)
    needed = VENV_GB + WHEELS_GB
    if here < needed * GB:
        stop(
            f"not enough disk space in {root}: {here / GB:.1f} GB are free.\n"
            f"The environment takes {VENV_GB} GB (PyTorch brings CUDA along, also where there is no GPU),\n"
            f"and {WHEELS_GB} GB more while it is unpacked. Free {needed - here / GB:.1f} GB, or move the course to a\n"
            "larger disk, then run the same command again."
        )
    moved = ROOT / "build" / "tmp" if free(scratch) < (WHEELS_GB + 0.5) * GB else None
    return moved, min(free(cache), here - VENV_GB * GB) >= 2 * WHEELS_GB * GB


# ---------------------------------------------------------------- the environment


def venv_python(venv=VENV):
    return Path(venv) / "bin" / "python"


def key(version, root=ROOT):
    """What a finished set-up depends on: the list of packages, the Python, and the folder, whose path .venv holds."""
    parts = [(Path(root) / "pyproject.toml").read_bytes(), version_text(version).encode(), str(root).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def finished(venv=VENV, root=ROOT):
    """True where .venv was completed for just this pyproject.toml, Python and folder."""
    stamp = Path(venv) / "course-installed"
    if not stamp.is_file():
        return False
    version = python_version(venv_python(venv))
    return version is not None and stamp.read_text().strip() == key(version, root)


def works(venv=VENV):
    """True where the environment has a Python of a version we take, and pip."""
    python = venv_python(venv)
    if python_version(python) is None:
        return False
    return subprocess.run([str(python), "-m", "pip", "--version"], **QUIET).returncode == 0


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def make_venv(venv=VENV):
    """Make the environment, or make it anew where a former attempt left half of one."""
    if venv.is_dir() and any(venv.iterdir()):
        of_venv = {"bin", "lib", "lib64", "include", "share", "etc", "pyvenv.cfg", ".gitignore", "course-installed"}
        if not (venv / "pyvenv.cfg").is_file() and {path.name for path in venv.iterdir()} - of_venv:
            stop(f"{venv} is there and is no Python environment. Move it away and run the same command again.")
        say(f"{venv.name} is incomplete: making it anew")
    elif venv.exists() and not venv.is_dir():
        stop(f"{venv} is a file. Move it away and run the same command again.")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)])
    if done.returncode:
        stop(f"`{sys.executable} -m venv {venv}` ended with {done.returncode}; what it said is above.")


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
        stop(
            "`pip install {}` ended with {}; what it said is above.\n"
            "If it could not reach the network, run the same command again once it can: it goes on from here.".format(
                " ".join(arguments), done.returncode
            )
        )


def install():
    notes = [check_system(), check_python()]
    check_venv_module()
    check_headers()
    check_compiler()
    scratch, keep = plan_space()
    for note in filter(None, notes):
        say("note: " + note)
    say(f"this once, a download of {WHEELS_GB} GB and a few minutes; later runs use what is there")
    stamp = VENV / "course-installed"
    with contextlib.suppress(OSError):
        stamp.unlink()
    if not works():
        say(f"1 of 3: an environment in .venv (Python {version_text(sys.version_info)})")
        make_venv()
    say("2 of 3: pip that shows its progress")
    pip(["--quiet", "--upgrade", "pip>=25.1"], scratch=scratch, keep=keep)
    say("3 of 3: the course and what it needs")
    pip(["--editable", ".[test]"], scratch=scratch, keep=keep)
    done = subprocess.run([str(venv_python()), "-c", "import torch, torchvision; print(torch.__version__)"], **PIPED)
    if done.returncode:
        stop(
            f"PyTorch is installed but does not start:\n{done.stderr.strip()}\n"
            "Remove .venv and run the same command again."
        )
    version = python_version(venv_python())
    fresh = stamp.with_name("course-installed.new")
    fresh.write_text(key(version) + "\n")
    os.replace(str(fresh), str(stamp))  # in one step: there is no half-written stamp
    say(f"ready: Python {version_text(version)}, torch {done.stdout.strip()}")


PIPED = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}


def main():
    if finished():
        return
    check_system()  # before what only Linux and macOS have
    if sys.version_info[:2] < OLDEST:
        newer = newer_python()
        if newer:
            say(f"{sys.executable} is Python {version_text(sys.version_info)}: using {newer}")
            os.execv(newer, [newer, str(Path(__file__).resolve())])
        check_python()
    import fcntl

    with open(str(ROOT / "pyproject.toml")) as lock:  # one set-up at a time
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up of this folder is at work: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished():
            install()


# ---------------------------------------------------------------- PYTHON=...: use it as it is


def check_given(target):
    """Say what the running Python lacks for a make target. Installs nothing."""
    check_python()
    lacking = [name for name in NEEDS.get(target, []) if importlib.util.find_spec(name) is None]
    if lacking:
        sys.exit(
            "{0} lacks {1}, which `make {2}` needs. With PYTHON=... nothing is installed.\n"
            "Either leave PYTHON out, then the course makes an environment of its own, or install the course there:\n"
            "    '{0}' -m pip install --editable '.[test]'".format(sys.executable, ", ".join(lacking), target)
        )


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--check"] and len(sys.argv) == 3:
            check_given(sys.argv[2])
        elif len(sys.argv) == 1:
            main()
        else:
            sys.exit("usage: install.py [--check TARGET]")
    except KeyboardInterrupt:
        sys.exit("\nset-up interrupted: the same command goes on from here.")
