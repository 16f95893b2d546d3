"""Questions about the machine: what each answers, and the command that it gives where something is missing."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cuda.common.test_toolchain import needs_gcc, script
from utils.ground import system
from utils.ground.errors import CourseError, ToolchainError, sentence


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine whose PATH, the folder that this returns, has apt alone."""
    monkeypatch.delenv("CXX", raising=False)
    path = tmp_path / "path"
    script(path / "apt", "")
    monkeypatch.setenv("PATH", str(path))
    return path


def real_compiler(path, options=""):
    """The machine's g++ under this name."""
    return script(path, f'PATH={os.defpath} exec {shutil.which("g++", path=os.defpath)} {options} "$@"')


def refused(call, *arguments):
    with pytest.raises(CourseError) as refusal:
        call(*arguments)
    return refusal.value


# ---------------------------------------------------------------- errors


def test_an_error_has_fields_and_one_sentence():
    error = CourseError("the cup is empty.", "fill it", line=3)
    assert (error.wrong, error.fix, error.line) == ("the cup is empty.", "fill it", 3)
    assert str(error) == "the cup is empty. To fix it: fill it" == sentence("the cup is empty", "fill it")
    assert str(CourseError("the cup is gone")) == "the cup is gone" and CourseError("x").fix == ""
    assert issubclass(ToolchainError, CourseError) and issubclass(CourseError, RuntimeError)


def test_every_error_of_the_course_is_one_of_them():
    from utils import CompileError
    from utils.lesson.start import PackageError
    from utils.manage.install import SetUpError
    from utils.manage.publish import PublishError

    for error in (CompileError, PackageError, SetUpError, PublishError):
        assert issubclass(error, CourseError)
    assert issubclass(PackageError, ImportError)
    assert str(PackageError("x is missing", "pip install x")) == "x is missing. To fix it: pip install x"


# ---------------------------------------------------------------- the system and Python


@pytest.mark.parametrize("name, machine", [("Windows", "AMD64"), ("CYGWIN_NT-10.0", "x86_64"), ("MINGW64", "x86_64")])
def test_native_windows_is_refused_with_a_way_out(name, machine):
    refusal = refused(system.require_system, name, machine)
    assert "native Windows" in refusal.wrong and "WSL2" in refusal.fix


def test_systems_are_tested_untested_or_refused():
    assert system.require_system("Linux", "x86_64") == ""
    for name, machine in [("Linux", "aarch64"), ("Darwin", "arm64")]:
        note = system.require_system(name, machine)
        assert "untested" in note and machine in note
    assert "Intel" in refused(system.require_system, "Darwin", "x86_64").wrong


def test_python_versions(bare):
    refusal = refused(system.require_python, (3, 9, 18), "/some/python")
    for part in ("3.9.18", "3.10", "/some/python"):
        assert part in refusal.wrong
    assert refusal.fix == "sudo apt install python3.11 python3.11-venv"
    assert system.require_python((3, 10, 0)) == system.require_python((3, 13, 5)) == ""
    assert "3.14.1" in system.require_python((3, 14, 1))


def test_python_without_its_headers(bare, tmp_path):
    refusal = refused(system.require_headers, tmp_path)
    assert refusal.fix == "sudo apt install python{}.{}-dev".format(*sys.version_info[:2])
    assert str(tmp_path) in refusal.wrong
    (tmp_path / "Python.h").touch()
    assert system.require_headers(tmp_path) == tmp_path


# ---------------------------------------------------------------- C++ compilers


def test_no_compiler(bare):
    with pytest.raises(ToolchainError, match=r"there is no C\+\+ compiler") as missing:
        system.cxx_compiler()
    assert missing.value.fix == "sudo apt install g++"


def test_a_chosen_compiler_that_is_not_there(bare, monkeypatch):
    monkeypatch.setenv("CXX", "my-g++")
    with pytest.raises(ToolchainError, match=r"\$CXX names 'my-g\+\+'.*: sudo apt install g\+\+$"):
        system.cxx_compiler()
    script(bare / "clang++", "")
    with pytest.raises(ToolchainError, match=r"\$CXX names 'my-g\+\+'.*: unset CXX$"):
        system.cxx_compiler()
    monkeypatch.delenv("CXX")
    assert system.cxx_compiler() == str(bare / "clang++")


@needs_gcc
def test_a_compiler_must_build_a_library(bare, monkeypatch):
    script(bare / "g++", "exit 1")
    refusal = refused(system.require_compiler)
    assert refusal.wrong == f"{bare}/g++: cannot build a C++20 library (-)"
    assert refusal.fix == "sudo apt install g++"
    real_compiler(bare / "clang++")
    assert refused(system.require_compiler).fix == f"export CXX={bare}/clang++"
    monkeypatch.setenv("CXX", f"{bare}/clang++")
    assert system.require_compiler() == f"{bare}/clang++"
    script(bare / "quiet", "exit 0")
    assert "cannot build" in system.compiler_fault(f"{bare}/quiet"), "it says that all is well and makes nothing"
    assert "copies the C++ library" in system.compiler_fault(real_compiler(bare / "static", "-static-libstdc++"))
    assert "does not run" in system.compiler_fault(f"{bare}/gone")


@pytest.mark.parametrize(
    "manager, command",
    [
        ("apt", "sudo apt install g++-14"),
        ("zypper", "sudo zypper install gcc14-c++"),
        ("pacman", "sudo pacman -S gcc14"),
        ("dnf", "conda install -c conda-forge gxx=14"),
    ],
)
def test_how_an_older_compiler_is_installed(bare, manager, command):
    (bare / "apt").rename(bare / manager)
    assert system.install_older_compiler_command(14) == command


# ---------------------------------------------------------------- files


def test_free_space_of_a_folder_that_does_not_exist_yet(tmp_path):
    there = system.free_space(tmp_path)
    assert there > 0 and abs(system.free_space(tmp_path / "not" / "yet") - there) < 1e9


def test_short_paths(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert system.short_path(tmp_path / ".cache" / "x") == "~/.cache/x"
    assert system.short_path("/usr/bin") == "/usr/bin"
    monkeypatch.chdir(tmp_path / "..")
    assert system.short_path(tmp_path / "x") == f"./{tmp_path.name}/x"
    assert system.short_path(Path.cwd()) == str(Path.cwd())


def test_a_file_is_written_as_a_whole_or_not_at_all(monkeypatch, tmp_path):
    file = tmp_path / "page.md"
    system.write(file, "old")
    assert file.stat().st_mode & 0o777 == 0o644
    file.chmod(0o640)

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="no space"):
            system.write(file, "new")
    with pytest.raises(TypeError):
        system.write(file, None)
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]
    system.write(file, "new")
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o640
    system.write(tmp_path / "a" / "b" / "page.md", "deep")
    assert (tmp_path / "a" / "b" / "page.md").read_text() == "deep"
