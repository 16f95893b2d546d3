"""What builds need of the machine: which compiler and toolkit are found, and the words about those that are missing."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils.cuda.common import toolchain
from utils.ground.errors import ToolchainError

ROOT = Path(__file__).parents[3]
NVCC = toolchain.cuda_home()
needs_nvcc = pytest.mark.skipif(
    NVCC is None, reason="needs nvcc: pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]'"
)
needs_gcc = pytest.mark.skipif(not shutil.which("g++", path=os.defpath), reason="needs the system's g++")


@pytest.fixture(autouse=True)
def forget():
    """What was found once is remembered; here every test is another machine."""
    remembering = [f for f in vars(toolchain).values() if hasattr(f, "cache_clear")]
    for function in remembering:
        function.cache_clear()
    yield
    for function in remembering:
        function.cache_clear()


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without a toolkit and with an empty PATH, which this returns; sh and apt are on it."""
    for name in ("CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN", "CXX"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "path"
    script(path / "apt", "")
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(toolchain, "SYSTEM_TOOLKIT", tmp_path / "system")
    monkeypatch.setattr(toolchain, "torch_cuda", lambda: "13.2")
    find_spec = toolchain.util.find_spec
    monkeypatch.setattr(toolchain.util, "find_spec", lambda name: None if name == "nvidia" else find_spec(name))
    return path


def script(path, text):
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def compiler_that_claims(path, version):
    """The machine's g++ under another name, which says that it is of another version."""
    real = shutil.which("g++", path=os.defpath)
    return script(path, f'PATH={os.defpath} exec {real} -U__GNUC__ -D__GNUC__={version} "$@"')


def toolkit(home, release="13.0", takes=True):
    """A folder with an nvcc in it that says its version, and nothing more than whether it takes a compiler."""
    words = f'case "$1" in --version) echo "Cuda compilation tools, release {release}, V{release}.1";; *) '
    script(home / "bin" / "nvcc", words + ("exit 0" if takes else "echo 'error: no' >&2; exit 1") + ";; esac")
    return home


# ---------------------------------------------------------------- the toolkit


def test_no_nvcc(bare):
    assert toolchain.cuda_home() is None
    with pytest.raises(ToolchainError, match="no nvcc") as missing:
        toolchain.use_cuda_toolkit()
    assert missing.value.fix.endswith("-m pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.2.*'")


def test_nvcc_of_an_environment_variable_comes_first(bare, tmp_path, monkeypatch):
    toolkit(toolchain.SYSTEM_TOOLKIT)
    monkeypatch.setenv("CUDA_HOME", str(toolkit(tmp_path / "mine", "13.7")))
    assert toolchain.cuda_home() == tmp_path / "mine"
    assert toolchain.nvcc_release(tmp_path / "mine") == "13.7"


def test_an_environment_variable_that_points_nowhere_is_passed_over(bare, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nowhere"))
    assert toolchain.cuda_home() is None
    toolkit(toolchain.SYSTEM_TOOLKIT)
    assert toolchain.cuda_home() == toolchain.SYSTEM_TOOLKIT


def test_nvcc_of_the_pip_wheel(bare, tmp_path, monkeypatch):
    wheels = tmp_path / "site-packages" / "nvidia"
    toolkit(wheels / "cu13")
    spec = type("spec", (), {"submodule_search_locations": [str(wheels)]})
    monkeypatch.setattr(toolchain.util, "find_spec", lambda name: spec if name == "nvidia" else None)
    assert toolchain.cuda_home() == wheels / "cu13"


def test_nvcc_of_torchs_cuda_generation_is_preferred(bare, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_HOME", str(toolkit(tmp_path / "cuda-12.8", "12.8")))
    toolkit(toolchain.SYSTEM_TOOLKIT, "13.0")
    assert toolchain.cuda_home() == toolchain.SYSTEM_TOOLKIT
    monkeypatch.setattr(toolchain, "torch_cuda", lambda: "12.6")
    assert toolchain.cuda_home() == tmp_path / "cuda-12.8"


def test_nvcc_of_another_generation_alone_is_refused(bare, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_HOME", str(toolkit(tmp_path / "cuda-12.8", "12.8")))
    with pytest.raises(ToolchainError, match=r"cuda-12.8 is of CUDA 12.8, but torch was built for CUDA 13.2") as wrong:
        toolchain.use_cuda_toolkit()
    assert "cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.2.*" in wrong.value.fix


def test_nvcc_for_cuda_12_does_not_come_from_pip(bare, monkeypatch):
    monkeypatch.setattr(toolchain, "torch_cuda", lambda: "12.8")
    assert toolchain.nvcc_hint() == "conda install -c conda-forge cuda-nvcc cuda-libraries-dev cuda-version=12.8"


def test_nvcc_that_does_not_run(bare, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    script(tmp_path / "bin" / "nvcc", "exit 1")
    with pytest.raises(ToolchainError, match="bin/nvcc does not run. To fix it: .*pip install"):
        toolchain.use_cuda_toolkit()


@needs_nvcc
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_wrapper_outside_its_toolkit_is_seen_through(bare, tmp_path, monkeypatch, compiler):
    real = shutil.which(compiler, path=os.defpath)
    if not real:
        pytest.skip(f"needs {compiler}")
    script(tmp_path / "bin" / compiler, f'PATH={os.defpath} exec {real} "$@"')
    wrapper = script(tmp_path / "bin" / "nvcc", f'exec "{NVCC}/bin/nvcc" "$@"')
    monkeypatch.setenv("PATH", str(wrapper.parent))
    assert toolchain.cuda_home() == NVCC.resolve()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))  # as torch takes it: the folder above the wrapper's
    assert toolchain.cuda_home() == NVCC.resolve()


@needs_nvcc
def test_a_link_to_nvcc_is_followed(bare):
    (bare / "nvcc").symlink_to(NVCC / "bin" / "nvcc")
    assert toolchain.cuda_home() == NVCC.resolve()


def test_the_runtime_library_is_found_with_and_without_its_number(tmp_path):
    assert toolchain.cudart(tmp_path) is None
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.13").touch()
    assert toolchain.cudart(tmp_path) == tmp_path / "lib" / "libcudart.so.13"
    (tmp_path / "targets" / "x86_64-linux" / "lib").mkdir(parents=True)
    (tmp_path / "targets" / "x86_64-linux" / "lib" / "libcudart.so").touch()
    assert toolchain.cudart(tmp_path).name == "libcudart.so"


def test_the_cuda_of_torch_is_read_without_importing_it():
    assert toolchain.torch_cuda() == (torch.version.cuda or "")


@needs_nvcc
def test_the_gpu_must_be_one_that_nvcc_compiles_for(monkeypatch):
    monkeypatch.setattr(toolchain, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(toolchain, "gpu_architecture", lambda: 75)
    assert toolchain.cuda_toolkit() == toolchain.cuda_home()
    monkeypatch.setattr(toolchain, "gpu_architecture", lambda: 61)
    with pytest.raises(ToolchainError, match=r"nvcc \S+ compiles for sm_75 to sm_\d+, and this GPU is sm_61"):
        toolchain.cuda_toolkit()


# ---------------------------------------------------------------- the device


@pytest.mark.parametrize(
    "built, architecture, runs",
    [
        (["sm_75", "sm_80", "sm_90"], 75, True),
        (["sm_75", "sm_80", "sm_90"], 89, True),
        (["sm_75", "sm_80", "sm_90"], 61, False),
        (["sm_75", "sm_80", "sm_90"], 120, False),
        (["sm_75", "sm_90a", "compute_90"], 120, True),
        (["sm_75", "sm_86"], 80, False),
        (["gfx942"], 94, False),
    ],
)
def test_a_gpu_counts_only_where_torch_has_code_for_it(monkeypatch, built, architecture, runs):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: divmod(architecture, 10))
    assert toolchain.device().type == ("cuda" if runs else "cpu")


# ---------------------------------------------------------------- C++ compilers


@needs_nvcc
@needs_gcc
def test_a_compiler_newer_than_nvcc_takes(bare, monkeypatch):
    """nvcc itself refuses: the compiler is the real one, which claims to be another version."""
    home, newest = NVCC, toolchain._newest_gcc(NVCC)
    compiler_that_claims(bare / "g++", newest + 1)
    with pytest.raises(ToolchainError) as refused:
        toolchain.host_compiler(home)
    words = rf"nvcc [\d.]+ does not take {bare}/g\+\+: .*versions later than {newest} are not supported"
    assert re.fullmatch(words, refused.value.wrong)
    assert refused.value.fix == f"sudo apt install g++-{newest}"

    monkeypatch.setenv("NVCC_CCBIN", "g++")  # chosen by the learner: nothing else is taken in its place
    with pytest.raises(ToolchainError, match=r"which \$NVCC_CCBIN names") as refused:
        toolchain.host_compiler(home)
    assert refused.value.fix == f"sudo apt install g++-{newest} && export NVCC_CCBIN=g++-{newest}"

    compiler_that_claims(bare / f"g++-{newest}", newest)  # what the fix installs
    with pytest.raises(ToolchainError) as refused:
        toolchain.host_compiler(home)
    assert refused.value.fix == f"export NVCC_CCBIN={bare}/g++-{newest}"
    monkeypatch.setenv("NVCC_CCBIN", f"{bare}/g++-{newest}")
    assert toolchain.host_compiler(home) == f"{bare}/g++-{newest}"
    monkeypatch.delenv("NVCC_CCBIN")
    assert toolchain.host_compiler(home) == f"{bare}/g++-{newest}"


def test_which_compiler_is_chosen_for_nvcc(bare, monkeypatch, tmp_path):
    home = toolkit(tmp_path / "cuda")
    for name in ("g++", "clang++", "mine", "other"):
        script(bare / name, "")
    assert toolchain.host_compiler(home) == str(bare / "g++")
    monkeypatch.setenv("CXX", "mine")
    assert toolchain.host_compiler(home) == str(bare / "mine")
    monkeypatch.setenv("NVCC_CCBIN", "other")
    assert toolchain.host_compiler(home) == str(bare / "other")
    monkeypatch.setenv("NVCC_CCBIN", "gone")
    with pytest.raises(ToolchainError, match=r"\$NVCC_CCBIN names 'gone', which is not there"):
        toolchain.host_compiler(home)


@needs_nvcc
@needs_gcc
def test_nvcc_without_its_headers_is_not_the_compilers_fault(bare, tmp_path):
    """A toolkit of nvcc alone, as an installation that was cut short leaves it."""
    shutil.copytree(NVCC / "bin", tmp_path / "cuda" / "bin", symlinks=True)
    script(bare / "g++", f'PATH={os.defpath} exec {shutil.which("g++", path=os.defpath)} "$@"')
    with pytest.raises(ToolchainError, match="not the header cuda_runtime.h") as wrong:
        toolchain.host_compiler(tmp_path / "cuda")
    assert wrong.value.fix == toolchain.nvcc_hint()


# ---------------------------------------------------------------- ninja


def test_ninja_is_found_beside_python_when_it_is_not_on_the_path(bare, monkeypatch, tmp_path):
    scripts = tmp_path / "scripts"
    monkeypatch.setattr(toolchain.sysconfig, "get_path", lambda name: str(scripts))
    with pytest.raises(ToolchainError, match="ninja is missing. To fix it: .*-m pip install ninja"):
        toolchain.put_ninja_on_path()
    script(scripts / "ninja", "")
    toolchain.put_ninja_on_path()
    assert shutil.which("ninja") == str(scripts / "ninja")


# ---------------------------------------------------------------- the GPU


@pytest.mark.parametrize("found", ["cpu", "cuda"])
def test_where_there_is_a_driver_torch_is_asked_for_a_gpu(monkeypatch, found):
    monkeypatch.setattr(toolchain.ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr(toolchain, "device", lambda: torch.device(found))
    assert toolchain.on_gpu() == (found == "cuda")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("options", [[], ["--trace"]])
def test_without_a_gpu_a_program_is_built_and_run_without_torch(tmp_path, options):
    (tmp_path / "program.cu").write_text("__global__ void k() {}\nint main() { k<<<1, 1>>>(); return 3; }\n")
    code = "import sys; from utils.cuda.run import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *options, tmp_path / "program.cu"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "3 False\n", done.stderr
