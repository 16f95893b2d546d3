"""utils/lesson/start.py and the set-up cell that calls it, in good environments and in broken ones."""

import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from utils.cuda.common import toolchain
from utils.lesson import start

ROOT = Path(__file__).resolve().parents[2]
FIRST = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))[0]
SET_UP = next(
    source
    for cell in json.loads(FIRST.read_text(encoding="utf-8"))["cells"]
    if "REPO, REF =" in (source := "".join(cell["source"])) and cell["cell_type"] == "code"
)
UNPUBLISHED = re.sub(r'REPO, REF = "[^"]*", "[^"]*"', 'REPO, REF = "", ""', SET_UP)


def bare(code, cwd):
    """Run code with the standard library alone: no installed package can help."""
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=cwd, capture_output=True, text=True)


# ---------------------------------------------------------------- the set-up cell


def test_the_set_up_needs_nothing_but_the_standard_library(tmp_path):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from utils.lesson.start import start"
    code += "; print('imported'); start()"
    done = bare(code, tmp_path)
    assert "imported" in done.stdout, done.stderr
    assert "torch and torchvision are not installed" in done.stderr and "-m pip install" in done.stderr


def test_the_cell_runs_from_a_folder_of_the_course():
    done = subprocess.run([sys.executable, "-c", SET_UP], cwd=ROOT / "notebooks", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"Device: .+\n", done.stdout)


def test_the_cell_without_course_and_address_says_what_to_set(tmp_path):
    done = bare(UNPUBLISHED, tmp_path)
    assert done.returncode and "REPO and REF" in done.stderr.splitlines()[-1]


def test_the_cell_fetches_a_published_course(tmp_path):
    origin = tmp_path / "origin"
    (origin / "utils" / "lesson").mkdir(parents=True)
    (origin / "utils" / "__init__.py").touch()
    (origin / "utils" / "lesson" / "start.py").write_text("def start():\n    print('started from', __file__)\n")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1"]):
        subprocess.run([*git, *words], cwd=origin, check=True)
    elsewhere = tmp_path / "content"
    elsewhere.mkdir()
    cell = UNPUBLISHED.replace('REPO, REF = "", ""', f'REPO, REF = "file://{origin}", "v1"')
    for _ in range(2):  # the second time it is there
        done = bare(cell, elsewhere)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == f"started from {elsewhere / 'course' / 'utils' / 'lesson' / 'start.py'}"


# ---------------------------------------------------------------- whose packages


def test_the_courses_own_packages_pass():
    start.require_own_packages(ROOT)


def test_a_foreign_kernels_that_is_not_imported_yet_gives_way(tmp_path, monkeypatch):
    foreign(tmp_path, "kernels")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    assert start.location("kernels").is_relative_to(tmp_path)
    start.require_own_packages(ROOT)
    assert start.location("kernels").is_relative_to(ROOT)


@pytest.mark.parametrize("name", ["kernels", "utils"])
def test_a_foreign_package_that_is_imported_is_named(tmp_path, monkeypatch, name):
    there = foreign(tmp_path, name)
    module = types.ModuleType(name)
    module.__file__ = str(there)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ImportError) as problem:
        start.require_own_packages(ROOT)
    for part in (str(there), str(ROOT / name), "restart the notebook"):
        assert part in str(problem.value)


def foreign(folder, name):
    (folder / name).mkdir()
    there = folder / name / "__init__.py"
    there.touch()
    return there


def test_a_lesson_of_another_copy_of_the_course(tmp_path, monkeypatch):
    (tmp_path / "utils" / "lesson").mkdir(parents=True)
    (tmp_path / "utils" / "lesson" / "start.py").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    with pytest.raises(ImportError) as problem:
        start.require_own_packages(ROOT)
    assert str(tmp_path) in str(problem.value) and str(ROOT) in str(problem.value)


def test_an_incomplete_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "location", lambda name: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ImportError, match="incomplete. To fix it: fetch the course again"):
        start.require_own_packages(ROOT)


# ---------------------------------------------------------------- what is installed


@pytest.fixture
def machine(monkeypatch):
    """Versions by name, and the pip commands that were run; pip succeeds unless told otherwise."""
    state = types.SimpleNamespace(
        versions=dict.fromkeys([*start.requirements(), "cuda-bindings"], "9.9"), commands=[], pip=(0, "")
    )

    def run(words, **named):
        state.commands.append(words)
        return subprocess.CompletedProcess(words, state.pip[0], "", state.pip[1])

    monkeypatch.setattr(start, "version", state.versions.get)
    monkeypatch.setattr(start.subprocess, "run", run)
    monkeypatch.setattr(start, "device_line", lambda: "Device: test")
    monkeypatch.chdir(ROOT)
    return state


def test_nothing_missing_means_no_pip(machine, capsys):
    start.start()
    assert machine.commands == [] and capsys.readouterr().out == "Device: test\n"


def test_what_is_missing_is_installed_and_never_torch(machine, capsys):
    for name in ("wurlitzer", "ninja"):
        del machine.versions[name]
    start.start()
    (words,) = machine.commands
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert {word for word in words[4:] if not word.startswith("-")} == {"ninja", "wurlitzer"}
    said = capsys.readouterr().out
    assert "ninja, wurlitzer" in said and said.endswith("Device: test\n")


@pytest.mark.parametrize(
    "cuda, expected", [("12.8", ["cuda-bindings==12.*"]), ("13.0", ["cuda-bindings==13.*"]), ("", [])]
)
def test_an_older_torch_gets_the_bindings_of_its_cuda(machine, monkeypatch, cuda, expected):
    del machine.versions["cuda-bindings"]
    monkeypatch.setattr(toolchain, "torch_cuda", lambda: cuda)
    start.start()
    assert [word for words in machine.commands for word in words if word.startswith("cuda")] == expected


def test_a_running_kernel_needs_no_jupyter(machine):
    for name in start.RUNNERS:
        del machine.versions[name]
    start.start()
    assert machine.commands == []


@pytest.mark.parametrize("missing", [["torch"], ["torchvision"], ["torch", "torchvision"]])
def test_missing_torch_is_never_installed(machine, missing):
    for name in [*missing, "ninja"]:
        del machine.versions[name]
    with pytest.raises(ImportError) as problem:
        start.start()
    assert machine.commands == []
    said = str(problem.value)
    assert (
        said.startswith(" and ".join(missing))
        and sys.executable in said
        and "To fix it: " in said
        and ("pip install 'torch>=2.11' t" if "torch" in missing else "pip install torch==9.9 torchvision") in said
    )


def test_a_torch_that_cannot_work_is_refused_with_both_versions(machine):
    machine.versions["torch"] = "2.4.1+cu124"
    with pytest.raises(ImportError, match=r"2\.4\.1\+cu124.*needs 2\.5 or newer.*--upgrade 'torch>=2\.11' torchvision"):
        start.start()
    assert machine.commands == []


@pytest.mark.parametrize("old", ["2.5.1+cu121", "2.6.0+cu124", "2.10.0"])
def test_a_torch_older_than_those_tested_gets_a_note(machine, capsys, old):
    machine.versions["torch"] = old
    start.start()
    said = capsys.readouterr().out
    assert said.startswith(f"Note: torch is {old}, and all lessons run from 2.11 on.") and "Device: test\n" in said
    assert machine.commands == []


@pytest.mark.parametrize("fine", ["2.11.0+cpu", "2.15.0", "3.0"])
def test_a_torch_that_is_tested_or_newer_gets_none(machine, capsys, fine):
    machine.versions["torch"] = fine
    start.start()
    assert capsys.readouterr().out == "Device: test\n"


def test_a_fix_keeps_the_cuda_of_the_installed_torch(machine, monkeypatch):
    """A version with a label comes from PyTorch's index of that name, as on Colab; without one, from PyPI."""
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    machine.versions["torch"] = "2.10.0+cu128"
    del machine.versions["torchvision"]
    with pytest.raises(ImportError) as problem:
        start.start()
    line = "%pip install torch==2.10.0 torchvision --index-url https://download.pytorch.org/whl/cu128"
    assert f"To fix it: {line}  # then restart" in str(problem.value)
    index = {"2.6.0+cu124": "cu126", "2.7.0+cu118": "cu118", "2.7.0+cpu": "cpu", "2.7.0": None}
    machine.versions["torchvision"] = "0.21"
    for release, expected in index.items():
        machine.versions["torch"] = release
        note = start.require_torch(start.requirements())
        assert "%pip install --upgrade 'torch>=2.11' torchvision" in note
        assert re.findall(r"whl/(\w+)", note) == [expected] * bool(expected)


def test_pip_without_a_network(machine):
    del machine.versions["wurlitzer"]
    machine.pip = (1, "WARNING: Retrying\nERROR: No matching distribution found for wurlitzer\n")
    with pytest.raises(RuntimeError) as problem:
        start.start()
    said = str(problem.value)
    for part in ("wurlitzer", "No matching distribution", "network", "-m pip install wurlitzer"):
        assert part in said
    assert "Retrying" not in said


# ---------------------------------------------------------------- the device


def test_device_line_with_a_gpu(monkeypatch):
    monkeypatch.setattr(toolchain, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")
    assert start.device_line() == "Device: NVIDIA H200 (CUDA 13.0, torch 2.11.0)"


def test_device_line_without_a_gpu(monkeypatch):
    monkeypatch.setattr(toolchain, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(start.shutil, "which", lambda name: None)
    monkeypatch.setattr(start, "Path", lambda path: types.SimpleNamespace(exists=lambda: False))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert start.device_line() == "Device: CPU, 2 cores (no GPU found: kernels are compiled for the CPU)"
    monkeypatch.setattr(start.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    line = start.device_line()
    assert line.startswith("Device: CPU, 1 core (the GPU here cannot be used") and "utils.manage.doctor" in line


def test_a_copy_of_the_course_works_elsewhere(tmp_path):
    """The cell in a copy of the course, run by a Python that has the original installed: the copy's packages win."""
    copy = tmp_path / "a copy"
    for name in ("utils", "kernels"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "lab").mkdir()
    code = UNPUBLISHED + "\nimport kernels, utils\nprint(kernels.__file__)\nprint(utils.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy / "lab", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.startswith(str(copy)) for line in done.stdout.splitlines()[1:]] == [True, True]
