"""Questions about this machine, one function for each: the set-up, the builds and the doctor all ask here.

Each `require_` function raises a CourseError, with the command that fixes it, on a machine that cannot run the course.
Standard library only, and nothing that Python 3.6 cannot parse and import: an old Python must get as far as saying that
it is too old.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from utils.ground.errors import CourseError, ToolchainError

GB = 10**9
OLDEST, NEWEST = (3, 10), (3, 13)  # the versions of Python that are tested


# ---------------------------------------------------------------- the system and Python


def require_system(system=None, machine=None):
    """Refuse a system on which the course cannot run; returns a note about an untested one, otherwise ''."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system == "Windows" or system.startswith(("CYGWIN", "MSYS", "MINGW")):
        raise CourseError(
            f"this is native Windows ({system}), where the course does not run",
            "use WSL2, which is Linux inside Windows: run `wsl --install` in a Windows terminal, restart, open Ubuntu, "
            "and put a copy of this folder there",
        )
    if system == "Darwin" and machine == "x86_64":
        raise CourseError(
            "this is a Mac with an Intel processor, for which PyTorch ends at version 2.2, and the course needs 2.5"
        )
    if (system, machine) == ("Linux", "x86_64"):
        return ""
    return f"{system} on {machine} should work but is untested: Linux on x86-64 is what we test"


def is_wsl():
    """Whether this is Linux inside Windows."""
    return "microsoft" in platform.release().lower()


def require_python(version=None, executable=None):
    """Refuse a Python that is too old; returns a note about one newer than those tested, otherwise ''."""
    version, executable = version or sys.version_info, executable or sys.executable
    if version[:2] < OLDEST:
        wrong = f"{executable} is Python {version_text(version)} and the course needs 3.10 or newer"
        raise CourseError(wrong, _command([("apt", "sudo apt install python3.11 python3.11-venv")], "install one"))
    if version[:2] > NEWEST:
        return f"Python {version_text(version)} is newer than what is tested (3.10 to 3.13)"
    return ""


def version_text(version):
    """(3, 11, 7) as '3.11.7'."""
    return ".".join(str(part) for part in version[:3])


def require_headers(folder=None):
    """The folder of Python's C headers, without which no extension can be built."""
    folder = Path(folder or sysconfig.get_path("include"))
    if not (folder / "Python.h").is_file():
        wrong = f"there is no Python.h in {folder}: the C headers of {sys.executable} are missing"
        raise ToolchainError(wrong, install_headers_command())
    return folder


# ---------------------------------------------------------------- C++ compilers


def cxx_compiler():
    """The path of the C++ compiler that builds use: $CXX if set, otherwise g++ or clang++. It is not run.

    Raises ToolchainError if there is none.
    """
    chosen = os.environ.get("CXX")
    found = next(iter(_cxx_compilers()), None)
    if chosen:
        if not shutil.which(chosen):
            fix = "unset CXX" if found else install_compiler_command()
            raise ToolchainError(f"$CXX names {chosen!r}, which is not there", fix)
        return shutil.which(chosen)
    if not found:
        raise ToolchainError("there is no C++ compiler (g++ or clang++)", install_compiler_command())
    return found


def require_compiler():
    """The path of the C++ compiler that builds use, tested by building a library, which takes about 0.3 s."""
    compiler = cxx_compiler()
    fault = compiler_fault(compiler)
    if not fault:
        return compiler
    better = next((path for path in _cxx_compilers() if path != compiler and not compiler_fault(path)), None)
    raise ToolchainError(f"{compiler}: {fault}", f"export CXX={better}" if better else install_compiler_command())


def _cxx_compilers():
    return [path for path in map(shutil.which, ("g++", "clang++", "c++")) if path]


def compiler_fault(compiler):
    """Why this compiler cannot build what the lessons need; '' if it can.

    It builds a library that throws an exception. If the C++ library is linked statically into that, instead of shared
    with torch, no handler recognises the exception: a failed TORCH_CHECK in a learner's function would end the process.
    """
    source = '#include <new>\nextern "C" void probe() { throw std::bad_alloc(); }\n'
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "probe.so"
        command = [compiler, "-std=c++20", "-fPIC", "-shared", "-pthread", "-x", "c++", "-", "-o", str(library)]
        try:
            done = _run(command, source)
        except (OSError, subprocess.SubprocessError) as error:
            return f"does not run ({error})"
        if done.returncode or not library.is_file():
            said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["-"]
            return f"cannot build a C++20 library ({said[0].strip()})"
        if not re.search(rb"libstdc\+\+\.so|libc\+\+", library.read_bytes()):
            return "copies the C++ library into what it builds, and an exception there would end the process"
    return ""


def first_line(command):
    """The first line that a command prints; '' if it cannot be run or fails."""
    try:
        done = _run(command)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.strip().splitlines() or [""])[0] if done.returncode == 0 else ""


def _run(command, text=""):
    """Run a command with this text as input, for at most a minute, with messages in English."""
    english = dict(os.environ, LC_ALL="C")
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, env=english)


# ---------------------------------------------------------------- how things are installed here


def install_venv_command():
    """How to install Python's venv module, which Debian and Ubuntu package separately."""
    return _command([("apt", f"sudo apt install python{_minor()}-venv")], f"install a complete Python {_minor()}")


def install_headers_command():
    """How to install Python's C headers."""
    commands = [
        ("apt", f"sudo apt install python{_minor()}-dev"),
        ("dnf", "sudo dnf install python3-devel"),
        ("zypper", "sudo zypper install python3-devel"),
    ]
    return _command(commands, f"install the development package of Python {_minor()}")


def install_compiler_command():
    """How to install a C++ compiler."""
    commands = [
        ("apt", "sudo apt install g++"),
        ("dnf", "sudo dnf install gcc-c++"),
        ("zypper", "sudo zypper install gcc-c++"),
        ("pacman", "sudo pacman -S gcc"),
        ("xcode-select", "xcode-select --install"),
    ]
    return _command(commands, "install g++ or clang++ with your system's package manager")


def install_older_compiler_command(version):
    """How to install this version of g++ beside a newer one."""
    commands = [
        ("apt", f"sudo apt install g++-{version}"),
        ("zypper", f"sudo zypper install gcc{version}-c++"),
        ("pacman", f"sudo pacman -S gcc{version}"),
    ]
    return _command(commands, f"conda install -c conda-forge gxx={version}")


def _command(commands, otherwise):
    """The command for the first package manager found on this machine."""
    return next((command for manager, command in commands if shutil.which(manager)), otherwise)


def _minor():
    return "{}.{}".format(*sys.version_info[:2])


# ---------------------------------------------------------------- files


def free_space(folder):
    """Free bytes on the disk where this folder is, or will be."""
    return shutil.disk_usage(str(existing_part(folder))).free


def existing_part(folder):
    """The folder itself, or the nearest one above it that exists."""
    folder = Path(folder)
    while not folder.exists():
        folder = folder.parent
    return folder


def in_notebook():
    """Whether this is a notebook's Python process, or one that it started: Jupyter tells both."""
    return "JPY_PARENT_PID" in os.environ


def pip_install(*words):
    """The command that has pip install something into this Python: for a notebook's cell, or for a terminal."""
    command = ["%pip"] if in_notebook() else [sys.executable, "-m", "pip"]
    words = [*command, "install", *words]
    return " ".join(f"'{word}'" if re.search(r"[^\w%./:=+-]", word) else word for word in words)


def short_path(path):
    """`path` for display: relative to the working folder or the home folder if it is in one of them."""
    path = Path(path)
    for folder, name in ((Path.cwd, "."), (Path.home, "~")):
        try:
            root = folder()
        except FileNotFoundError:  # the working folder was deleted
            continue
        if root in path.parents:
            return f"{name}/{path.relative_to(root)}"
    return str(path)


def write(path, text):
    """Write a file atomically: an interruption leaves the old or the new version, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=str(path.parent), prefix=".", delete=False)
    try:
        with file:
            file.write(text)
        os.chmod(file.name, path.stat().st_mode if path.exists() else 0o644)
        os.replace(file.name, str(path))
    finally:
        if os.path.exists(file.name):
            os.unlink(file.name)
