"""The doctor: what it finds, what it says about what is missing, and its exit status."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils import toolchain

ROOT = Path(toolchain.__file__).parents[1]


@pytest.fixture(autouse=True)
def forget():
    """What the doctor found once it remembers; here every test is another machine."""
    for remembers in (toolchain.cuda_home, toolchain.nvcc_release):
        remembers.cache_clear()
    yield
    for remembers in (toolchain.__dict__["cuda_home"], toolchain.nvcc_release):
        getattr(remembers, "cache_clear", lambda: None)()


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def doctor(**environment):
    command = [sys.executable, "-m", "utils.toolchain"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_doctor_says_that_the_course_can_run():
    done = doctor()
    assert done.returncode == 0, done.stdout
    assert "The course can run." in done.stdout and "mend" not in done.stdout
    assert not done.stderr, "no warning from torch or Python about how it was started"


def test_without_a_compiler_it_names_the_command_and_fails(tmp_path):
    done = doctor(PATH=str(tmp_path), CXX="")
    assert done.returncode == 1
    assert "mend  C++ compiler" in done.stdout and "To mend C++ compiler:" in done.stdout


def test_cache_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    found = toolchain._cache()
    assert not found.ok and "not writable" in found.found and "CUDA_COURSE_CACHE" in found.cure


def test_too_little_space(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "not" / "made" / "yet"))
    assert toolchain._cache().ok
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("usage", (), {"free": 2e8}))
    assert not toolchain._cache().ok


def test_torch_that_does_not_import_is_told_with_its_words(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    done = doctor(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "does not import: operator torchvision::nms does not exist" in done.stdout


def test_nvcc_of_an_environment_variable_comes_first(tmp_path, monkeypatch):
    script(tmp_path / "bin" / "nvcc", 'echo "Cuda compilation tools, release 13.7, V13.7.1"')
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert toolchain.cuda_home() == tmp_path
    assert toolchain.nvcc_release(tmp_path) == "13.7"


def test_an_environment_variable_that_points_nowhere_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    assert toolchain.cuda_home() != tmp_path / "nowhere"


def test_a_wrapper_script_is_seen_through(tmp_path, monkeypatch):
    real = script(tmp_path / "cuda-13.0" / "bin" / "nvcc", f"echo '#$ TOP={tmp_path}/cuda-13.0/bin/..' >&2")
    script(tmp_path / "bin" / "nvcc", f'exec {real} "$@"')
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert toolchain.cuda_home() == tmp_path / "cuda-13.0"


def test_nvcc_of_another_major_version_than_torch_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla T4")
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setattr(toolchain, "cuda_home", lambda: tmp_path)
    script(tmp_path / "bin" / "nvcc", 'echo "Cuda compilation tools, release 12.8, V12.8.9"')
    gpu, nvcc = toolchain._gpu()
    assert gpu.ok and "Tesla T4, sm_75" in gpu.found
    assert not nvcc.ok and "12.8" in nvcc.found and "13.2" in nvcc.found
    assert 'pip install "cuda-toolkit[nvcc]==13.2.*"' in nvcc.cure


def test_native_windows_is_refused(monkeypatch):
    monkeypatch.setattr(toolchain.platform, "system", lambda: "Windows")
    assert not toolchain._system().ok and "WSL2" in toolchain._system().cure


def test_untested_systems_are_named_so(monkeypatch):
    monkeypatch.setattr(toolchain.platform, "machine", lambda: "arm64")
    assert toolchain._system().ok and "untested" in toolchain._system().found


def test_short_paths(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert toolchain.short_path(tmp_path / ".cache" / "x") == "~/.cache/x"
    assert toolchain.short_path("/usr/bin") == "/usr/bin"
