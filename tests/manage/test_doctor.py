"""The doctor's table on broken machines. Each is made as real as it can be: programs, libraries and packages that are
missing, wrong or too old are put where the doctor, in a process of its own, finds them."""

import os
import re
import resource
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.cuda.common.test_toolchain import NVCC, compiler_that_claims, needs_gcc, needs_nvcc, script, toolkit
from utils.cuda.common import toolchain
from utils.ground import system
from utils.ground.errors import ToolchainError
from utils.manage import doctor, install

ROOT = install.ROOT
TORCH = """
from . import cuda, version
class device:
    def __init__(self, name):
        self.type = name
"""
CUDA = """
def is_available(): return {available}
def get_device_capability(): return {capability}
def get_device_name(): return "NVIDIA Test"
def get_arch_list(): return ["sm_75", "sm_90", "sm_120", "compute_120"]
"""
# The driver's library. The doctor asks these five functions.
LIBCUDA = r"""
#include <string.h>
int cuDriverGetVersion(int* version) { *version = CUDA; return 0; }
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGetName(char* name, int size, int device) { strcpy(name, "NVIDIA Test"); return 0; }
"""


class Table(dict):
    """What the doctor printed: line -> (verdict, found); `.fixes`, `.text` and `.status` of the process."""

    def __init__(self, done):
        lines = re.findall(r"^(ok|-|fix|stop) +(\S+(?: \S+)*)  +(.*)$", done.stdout, re.MULTILINE)
        super().__init__({what: (verdict, found) for verdict, what, found in lines})
        self.fixes = dict(re.findall(r"^To fix (.*):\n    (.*)$", done.stdout, re.MULTILINE))
        self.text, self.status, self.errors = done.stdout, done.returncode, done.stderr


def table(before="pass", python=sys.executable, limit=None, **environment):
    """The doctor's table in a process of its own, with this environment, after the statement `before`."""
    code = f"import sys; from utils.cuda.common import toolchain; {before}; from utils.manage import doctor"
    code += "; sys.exit(0 if doctor.print_table() else 1)"
    unset = {name: "" for name in ("CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN", "CXX")}
    done = subprocess.run(
        [python, "-c", code],
        cwd=ROOT,
        env={**os.environ, **unset, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Table(done)


@pytest.fixture
def pretend(tmp_path):
    """A function that makes a folder for PYTHONPATH with a torch and torchvision as told, and gives it."""

    def make(available=True, capability=(9, 0), cuda="13.0", torch=TORCH):
        folder = tmp_path / "packages"
        modules = {"__init__": torch, "cuda": CUDA.format(available=available, capability=capability)}
        modules["version"] = f"cuda = {cuda!r}"
        for name, text in modules.items():
            (folder / "torch").mkdir(parents=True, exist_ok=True)
            (folder / "torch" / f"{name}.py").write_text(text)
        (folder / "torchvision").mkdir(exist_ok=True)
        (folder / "torchvision" / "__init__.py").touch()
        for name in ("torch", "torchvision"):
            (folder / f"{name}-99.0.dist-info").mkdir(exist_ok=True)
            (folder / f"{name}-99.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 99.0\n")
        return folder

    return make


@pytest.fixture
def libcuda(tmp_path):
    """A function that compiles a driver's library which says what it is told, and gives its folder."""

    def make(cuda=13000, init=0):
        if not shutil.which("g++"):
            pytest.skip("needs g++")
        source = f'extern "C" {{{LIBCUDA}}}'.replace("#include <string.h>", "")
        command = ["g++", "-shared", "-fPIC", f"-DCUDA={cuda}", f"-DINIT={init}", "-x", "c++", "-"]
        folder = tmp_path / "driver"
        folder.mkdir(exist_ok=True)
        text = "#include <string.h>\n" + source
        subprocess.run([*command, "-o", folder / "libcuda.so.1"], input=text, text=True, check=True)
        return folder

    return make


@pytest.fixture(scope="module")
def empty_python(tmp_path_factory):
    """A Python without a single package."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


# ---------------------------------------------------------------- where all is well


def test_the_command_says_that_the_course_can_run():
    done = subprocess.run([sys.executable, "-m", "utils.manage.doctor"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "The course can run. Kernels run on the " in done.stdout
    assert "stop" not in done.stdout
    assert not done.stderr, "no warning from torch or Python about how it was started"


@needs_nvcc
@needs_gcc
def test_a_gpu_machine_with_nothing_but_wheels(pretend, libcuda):
    """No variable is set, and PATH has the system's programs alone: nvcc and ninja are those beside torch."""
    cuda = toolchain.nvcc_release(NVCC)
    made = table(PYTHONPATH=pretend(cuda=cuda), LD_LIBRARY_PATH=libcuda(cuda=20000), PATH=os.defpath)
    assert made.status == 0, made.text
    assert not [what for what, (verdict, _) in made.items() if verdict != "ok"]
    assert made["GPU"] == ("ok", "NVIDIA Test, sm_90")
    assert made["driver"][1].endswith("for CUDA up to 20.0")
    assert made["torch"] == ("ok", f"99.0, built for CUDA {cuda}")
    assert f"run on the GPU: load_cuda uses nvcc {cuda} with g++" in made.text


# ---------------------------------------------------------------- Python's packages


def test_without_torch(empty_python):
    made = table(python=empty_python)
    assert made.status == 1
    assert made["torch"][0] == "stop" and "torch and torchvision are not installed" in made["torch"][1]
    assert re.search(r"-m pip install '?torch|not the course's own Python", made.fixes["torch"])
    assert made["C++ compiler"][0] == "ok", "the rest is shown all the same"


def test_with_a_torch_that_does_not_import(pretend):
    packages = pretend(torch="raise ImportError('libcublas.so.13: cannot open shared object file')")
    made = table(PYTHONPATH=packages)
    assert made.status == 1
    assert made["torch"] == ("stop", "99.0 does not import: libcublas.so.13: cannot open shared object file")
    assert made["C++ compiler"][0] == "ok"


@pytest.mark.parametrize("release, verdict", [("2.4.1+cu124", "stop"), ("2.6.0+cu124", "ok"), ("2.11.0+cu128", "ok")])
def test_with_an_older_torch_in_a_notebook(pretend, release, verdict):
    """As on Colab: refused or noted, with a line for a cell that keeps the CUDA of torch."""
    packages = pretend(available=False, cuda="12.8")
    (packages / "torch-99.0.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {release}\n")
    (packages / "torch-99.0.dist-info").rename(packages / f"torch-{release}.dist-info")
    made = table(PYTHONPATH=packages, JPY_PARENT_PID=1)
    assert made["torch"][0] == verdict and made.status == (verdict == "stop")
    line = "%pip install --upgrade 'torch>=2.11' torchvision --index-url https://download.pytorch.org/whl/cu126"
    said = made.fixes.get("torch", "") + made["torch"][1]
    assert (line in said) == (not release.startswith("2.11"))
    assert "make course" not in made.text


def test_torchvision_of_another_build(tmp_path):
    """The installed torchvision without its compiled half: that of another build is one which torch cannot load."""
    import torchvision

    real = Path(torchvision.__file__).parent
    (tmp_path / "torchvision").mkdir()
    for path in real.iterdir():
        if not re.match(r"_C.*\.so", path.name):
            (tmp_path / "torchvision" / path.name).symlink_to(path)
    made = table(PYTHONPATH=tmp_path)
    assert made.status == 1 and made["torch"][0] == "ok"
    assert made["torchvision"][0] == "stop" and "does not import: operator torchvision::nms" in made["torchvision"][1]
    assert re.search("--force-reinstall torch torchvision|the course's own Python", made.fixes["torchvision"])


@pytest.mark.parametrize("name", ["kernels", "utils"])
def test_another_package_of_the_same_name(tmp_path, pretend, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    steps = [f"sys.path.insert(0, {str(tmp_path)!r})", f"sys.modules.pop({name!r}, None)", f"import {name}"]
    made = table("; ".join(["from utils.manage import doctor", *steps]), PYTHONPATH=pretend(available=False))
    assert made.status == 1
    assert made["course"][0] == "stop" and f"`{name}` was already imported from {tmp_path}" in made["course"][1]
    assert "restart the notebook" in made.fixes["course"]


# ---------------------------------------------------------------- the GPU and its driver


def test_a_driver_older_than_torchs_cuda(libcuda):
    """torch itself, beside a driver that says to be of CUDA 12.4."""
    made = table(LD_LIBRARY_PATH=libcuda(cuda=12040))
    if toolchain.torch_cuda()[:2] != "13":
        pytest.skip("torch is not of CUDA 13")
    assert made.status == 0, "the CPU engine runs"
    assert made["driver"][0] == "fix" and "for CUDA up to 12.4: too old for torch" in made["driver"][1]
    assert "580 or newer" in made.fixes["driver"]
    assert made["GPU"] == ("-", "NVIDIA Test, which torch cannot use with this driver")
    assert "Kernels run on the CPU engine" in made.text and "wrong all the same: see driver" in made.text


def test_a_driver_that_does_not_start(pretend, libcuda):
    """803: the driver was updated, and the module in the system is still the old one."""
    made = table(PYTHONPATH=pretend(available=False), LD_LIBRARY_PATH=libcuda(init=803))
    assert made.status == 0
    assert made["driver"] == ("fix", "the driver does not start, CUDA error 803")
    assert made.fixes["driver"].startswith("restart the machine")
    assert made["GPU"][0] == "-"


def test_a_gpu_that_torch_does_not_start(pretend, libcuda):
    packages = pretend(available=False)
    with open(packages / "torch" / "cuda.py", "a") as more:
        more.write("def init(): raise RuntimeError('CUDA unknown error')\n")
    made = table(PYTHONPATH=packages, LD_LIBRARY_PATH=libcuda())
    assert made.status == 0
    assert made["GPU"] == ("fix", "NVIDIA Test, which torch cannot use: CUDA unknown error")
    assert made.fixes["GPU"].startswith("restart the notebook")


def test_a_gpu_that_is_hidden(pretend, libcuda):
    packages = pretend(available=False)
    made = table(PYTHONPATH=packages, LD_LIBRARY_PATH=libcuda(init=100), CUDA_VISIBLE_DEVICES="-1")
    assert made.status == 0 and made["GPU"] == ("-", "none: CUDA_VISIBLE_DEVICES is '-1'")


def test_a_card_without_a_driver(monkeypatch, tmp_path):
    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(doctor.ctypes, "CDLL", no_library)
    monkeypatch.setattr(doctor, "PROC_DRIVER", tmp_path / "version")
    monkeypatch.setattr(doctor, "PCI_DEVICES", tmp_path)
    assert doctor.driver() is None
    for slot, vendor, kind in (("1", "0x8086", "0x030000"), ("2", "0x10de", "0x040300"), ("3", "0x10de", "0x030200")):
        assert doctor.driver() is None, "a card of another maker, and a sound device"
        (tmp_path / slot).mkdir()
        (tmp_path / slot / "vendor").write_text(vendor + "\n")
        (tmp_path / slot / "class").write_text(kind + "\n")
    with pytest.raises(ToolchainError, match="an NVIDIA card is there, but no driver for it"):
        doctor.driver()
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n")
    with pytest.raises(ToolchainError, match=r"580.159.04 is loaded, but .* --gpus all"):
        doctor.driver()


def test_how_a_driver_is_installed(monkeypatch):
    monkeypatch.setattr(toolchain, "torch_cuda", lambda: "12.8")
    monkeypatch.setattr(doctor.platform, "release", lambda: "6.6.87-microsoft-standard-WSL2")
    assert doctor._driver_fix().startswith("in Windows, install NVIDIA's driver 525 or newer")
    monkeypatch.setattr(doctor.platform, "release", lambda: "6.8.0-45-generic")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/" + name)
    assert doctor._driver_fix().startswith("sudo ubuntu-drivers install")


def test_a_torch_without_cuda_beside_a_gpu(pretend, libcuda):
    made = table(PYTHONPATH=pretend(available=False, cuda=None), LD_LIBRARY_PATH=libcuda())
    assert made.status == 0
    assert made["GPU"] == ("fix", "NVIDIA Test, but this torch was built without CUDA")
    assert re.search("--force-reinstall torch torchvision|the course's own Python", made.fixes["GPU"])


def test_a_gpu_older_than_the_toolkit_supports(pretend, libcuda):
    made = table(PYTHONPATH=pretend(capability=(6, 1)), LD_LIBRARY_PATH=libcuda())
    assert made.status == 0, "the CPU engine runs"
    assert made["GPU"][0] == "fix" and "is sm_61, and this torch has code for sm_75" in made["GPU"][1]
    assert "older than this CUDA supports" in made.fixes["GPU"]
    assert "Kernels run on the CPU engine" in made.text


@needs_nvcc
def test_a_gpu_that_nvcc_does_not_know(pretend, libcuda):
    packages = pretend(capability=(99, 0), cuda=toolchain.nvcc_release(NVCC))
    made = table(PYTHONPATH=packages, LD_LIBRARY_PATH=libcuda(), CUDA_HOME=NVCC)
    assert made.status == 1
    assert made["nvcc"][0] == "stop" and "this GPU is sm_990" in made["nvcc"][1]
    assert "CUDA_VISIBLE_DEVICES=" in made.fixes["nvcc"]


# ---------------------------------------------------------------- compilers


def test_a_gpu_without_nvcc(pretend, libcuda, empty_python):
    away = "toolchain.SYSTEM_TOOLKIT = toolchain.SYSTEM_TOOLKIT / 'away'"
    made = table(away, empty_python, PYTHONPATH=pretend(), LD_LIBRARY_PATH=libcuda(), PATH="/usr/bin:/bin")
    assert made.status == 1 and made["GPU"][0] == "ok"
    assert made["nvcc"] == ("stop", "there is a GPU, but no nvcc to compile for it")
    assert made.fixes["nvcc"].endswith("-m pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*'")
    assert made["NVRTC"][0] == "stop" and "pip install 'cuda-bindings==13.*'" in made.fixes["NVRTC"]


def test_nvcc_of_another_generation_than_torch(pretend, libcuda, empty_python, tmp_path):
    away = "toolchain.SYSTEM_TOOLKIT = toolchain.SYSTEM_TOOLKIT / 'away'"
    home = toolkit(tmp_path / "cuda-12.8", "12.8")
    (home / "lib").mkdir()
    (home / "lib" / "libcudart.so.12").touch()
    places = {"CUDA_HOME": home, "PYTHONPATH": pretend(), "LD_LIBRARY_PATH": libcuda(), "PATH": "/usr/bin:/bin"}
    made = table(away, empty_python, **places)
    assert made.status == 1
    assert made["nvcc"] == ("stop", f"nvcc in {home} is of CUDA 12.8, but torch was built for CUDA 13.0")
    assert made["CUDA runtime"] == ("ok", f"libcudart.so.12 in {home}/lib"), "builds link it by its number"
    (home / "lib" / "libcudart.so.12").unlink()
    made = table(away, empty_python, **places)
    assert made["CUDA runtime"][0] == "stop" and "cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]" in made.fixes["CUDA runtime"]


def test_cuda_home_that_points_nowhere(pretend, tmp_path):
    made = table(PYTHONPATH=pretend(available=False), CUDA_HOME=tmp_path)
    assert made.status == 0
    assert made["CUDA_HOME"] == ("fix", f"is {tmp_path}, where there is no bin/nvcc: ignored")
    assert made.fixes["CUDA_HOME"] == "unset CUDA_HOME"


@needs_nvcc
@needs_gcc
def test_a_compiler_newer_than_nvcc_takes(pretend, libcuda, tmp_path):
    """Only a newer one, and nvcc: the table says what the build would say."""
    newest = toolchain._newest_gcc(NVCC)
    compiler_that_claims(tmp_path / "bin" / "g++", newest + 1)
    script(tmp_path / "bin" / "apt", "")
    packages = pretend(cuda=toolchain.nvcc_release(NVCC))
    made = table(PYTHONPATH=packages, LD_LIBRARY_PATH=libcuda(), CUDA_HOME=NVCC, PATH=tmp_path / "bin")
    assert made.status == 1 and made["nvcc"][0] == "ok"
    assert made["C++ for nvcc"][0] == "stop" and f"later than {newest} are not supported" in made["C++ for nvcc"][1]
    assert made.fixes["C++ for nvcc"] == f"sudo apt install g++-{newest}"


def test_no_compiler(pretend, tmp_path):
    script(tmp_path / "apt", "")
    made = table(PYTHONPATH=pretend(available=False), PATH=tmp_path)
    assert made.status == 1
    assert made["C++ compiler"] == ("stop", "there is no C++ compiler (g++ or clang++)")
    assert made.fixes["C++ compiler"] == "sudo apt install g++"


@needs_gcc
def test_a_compiler_that_keeps_the_cpp_library_to_itself(pretend, tmp_path):
    real = shutil.which("g++", path=os.defpath)
    path = f"{tmp_path}:{os.defpath}"
    script(tmp_path / "static-g++", f'exec {real} -static-libstdc++ "$@"')
    made = table(PYTHONPATH=pretend(available=False), CXX="static-g++", PATH=path)
    assert made.status == 1
    assert made["C++ compiler"][0] == "stop" and "copies the C++ library" in made["C++ compiler"][1]
    assert made.fixes["C++ compiler"] == f"export CXX={real}"


@pytest.mark.parametrize(
    "program, said",
    [
        ("echo \"c++: error: unrecognized command-line option '-std=c++20'\" >&2; exit 1", "unrecognized command"),
        ("echo '/usr/bin/ld: cannot find -lstdc++' >&2; exit 1", "cannot find -lstdc++"),
        ("exit 1", "cannot build a C++20 library"),
    ],
)
def test_a_compiler_that_does_not_compile(pretend, tmp_path, program, said):
    script(tmp_path / "g++", program)
    script(tmp_path / "apt", "")
    made = table(PYTHONPATH=pretend(available=False), PATH=tmp_path)
    assert made.status == 1
    assert made["C++ compiler"][0] == "stop" and said in made["C++ compiler"][1]
    assert made.fixes["C++ compiler"] == "sudo apt install g++"


def test_without_ninja(pretend, libcuda, empty_python, tmp_path):
    """A GPU build falls back on torch's own, which calls ninja. Without a GPU nobody does."""
    for name, verdict in ((True, "stop"), (False, "-")):
        environment = {"PYTHONPATH": pretend(available=name), "LD_LIBRARY_PATH": libcuda(), "PATH": tmp_path}
        made = table(python=empty_python, **environment)
        assert made["ninja"] == (verdict, "ninja is missing")
        assert ("ninja" in made.fixes) == (verdict == "stop")


def test_without_pythons_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(system.sysconfig, "get_path", lambda name: str(tmp_path))
    finding = doctor._look("Python headers", doctor._headers)
    assert finding.verdict == "stop" and f"there is no Python.h in {tmp_path}" in finding.found
    assert finding.fix == system.install_headers_command()


# ---------------------------------------------------------------- the cache


@pytest.mark.skipif(sys.platform != "linux", reason="/sys is Linux's")
def test_a_cache_that_cannot_be_written(pretend, tmp_path):
    """In /sys not even root makes a file; and in a file nobody makes a folder."""
    packages = pretend(available=False)
    (tmp_path / "file").touch()
    for folder in ("/sys/cuda-course", tmp_path / "file"):
        made = table(PYTHONPATH=packages, CUDA_COURSE_CACHE=folder)
        assert made.status == 1
        assert made["cache"][0] == "stop" and re.match(r".*: cannot be written \(.+\)", made["cache"][1])
        better = re.fullmatch("export CUDA_COURSE_CACHE=(.*)", made.fixes["cache"])[1]
        assert table(PYTHONPATH=packages, CUDA_COURSE_CACHE=better)["cache"][0] == "ok"


def test_a_full_cache(pretend, tmp_path):
    """No process may write a file of more than 64 kB: the write fails, as on a full disk."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))

    made = table(PYTHONPATH=pretend(available=False), CUDA_COURSE_CACHE=tmp_path, limit=limit)
    assert made["cache"] == ("stop", f"{tmp_path}: cannot be written (File too large)")
    assert not [path for path in tmp_path.iterdir() if path.name not in ("packages",)], "nothing is left behind"


def test_too_little_space(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path / "not" / "made" / "yet"))
    assert "GB free" in doctor._cache()
    monkeypatch.setattr(system.shutil, "disk_usage", lambda path: type("usage", (), {"free": 2e8}))
    with pytest.raises(ToolchainError, match="0.2 GB free, and it needs 1. To fix it: free 1 GB there"):
        doctor._cache()


# ---------------------------------------------------------------- the system


def test_native_windows_is_refused(monkeypatch):
    monkeypatch.setattr(doctor.platform, "system", lambda: "Windows")
    finding = doctor._look("system", doctor._system)
    assert finding.verdict == "stop" and "native Windows" in finding.found and "wsl --install" in finding.fix


def test_untested_systems_are_named_so(monkeypatch):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")
    finding = doctor._look("system", doctor._system)
    assert finding.verdict == "ok" and "untested" in finding.found


def test_wsl_is_named(monkeypatch):
    monkeypatch.setattr(doctor.platform, "release", lambda: "6.6.87.2-microsoft-standard-WSL2")
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    assert doctor._system() == "Linux x86_64 (WSL2)"


def test_a_python_that_is_too_old_or_too_new(monkeypatch):
    monkeypatch.setattr(system.sys, "version_info", (3, 9, 1))
    assert doctor._look("Python", doctor._python).verdict == "stop"
    monkeypatch.setattr(system.sys, "version_info", (3, 99, 0))
    assert "newer than what is tested" in doctor._look("Python", doctor._python).found
