"""The project to copy (kernels/template): out of the course, it builds for the CPU, passes its own tests, and can be
renamed as its README says."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.clock import cpu_seconds
from utils.cuda.common.toolchain import cuda_home

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "kernels" / "template"
README = (TEMPLATE / "README.md").read_text()
PIP = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
BUILDS = ["cpu", "cuda"] if torch.cuda.is_available() and cuda_home() else ["cpu"]


def run(*command, cwd, **variables):
    """Run a command without the variables that choose a build, but for those given."""
    chosen = ("FORCE_CPU", "FORCE_CUDA", "CUDA_COURSE", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    environment |= {"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)


def succeeds(*command, cwd, **variables):
    """What the command prints; it must end well."""
    done = run(*command, cwd=cwd, **variables)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copied(folder):
    """The template in an empty folder, as someone takes it who has not built it there before."""
    unwanted = shutil.ignore_patterns("build", "dist", "*.egg-info", "*.so", "__pycache__", ".*_cache")
    return Path(shutil.copytree(TEMPLATE, folder / "project", ignore=unwanted))


class Installed:
    """The template copied, built for a device, and installed into a folder of its own."""

    def __init__(self, device, folder):
        self.project, self.site = copied(folder), folder / "site"
        self.choice = {"FORCE_CPU": "1", "CUDA_COURSE": str(ROOT)} if device == "cpu" else {"FORCE_CUDA": "1"}
        self.first = self.install()

    def install(self):
        """Build and install it; the CPU seconds it took."""
        start = cpu_seconds()
        succeeds(*PIP, "--upgrade", "--target", self.site, ".", cwd=self.project, **self.choice)
        return cpu_seconds() - start

    def python(self, *command):
        """Run Python in the project, with what was installed."""
        return succeeds(sys.executable, *command, cwd=self.project, PYTHONPATH=str(self.site))


@pytest.fixture(scope="module", params=BUILDS)
def installed(request, tmp_path_factory):
    return Installed(request.param, tmp_path_factory.mktemp(request.param))


# ---- built and installed --------------------------------------------------------------------------------------------


def test_its_own_tests_pass(installed):
    told = installed.python("-m", "pytest", "-q", "-p", "no:cacheprovider")
    passed = re.search(r"(\d+) passed", told)
    assert passed and int(passed[1]) >= 80, told
    assert "failed" not in told and "error" not in told


def test_its_benchmark_runs_each_function_once(installed):
    told = installed.python("benchmark.py", "-i", "1")
    assert re.findall(r"^(?:vector_add|square|matmul) ", told, re.MULTILINE) == ["vector_add ", "square ", "matmul "]


def test_it_works_beside_the_engine_of_the_course(installed):
    """Both hold an engine of their own; neither may disturb the other. And sizes that differ are both named."""
    code = f"""
import sys, torch, my_kernels
from my_kernels import _C
sys.path.insert(0, {str(ROOT)!r})
import kernels
from utils import device
x = torch.randn(1000)
theirs, ours = kernels.load("square").square, my_kernels.square
for _ in range(3):
    torch.testing.assert_close(theirs(x.to(device())), ours(x.to(my_kernels.built_for)).to(device()))
a, b = torch.ones(3, device=my_kernels.built_for), torch.ones(2, 2, device=my_kernels.built_for)
for function in (my_kernels.vector_add, _C.vector_add):
    try:
        function(a, b)
    except ValueError as error:
        print(str(error).splitlines()[0])
"""
    expected = "a and b must have the same size, but a has [3] and b has [2, 2]"
    assert installed.python("-c", code).splitlines() == [expected, expected]


def test_bfloat16_under_autocast_works(installed):
    """A layer of PyTorch returns bfloat16 there; our operators take it, and hand gradients back in their own types."""
    code = """
import torch, my_kernels
device = torch.device(my_kernels.built_for)
layer, n = torch.nn.Linear(5, 7, device=device), torch.randn(7, 3, device=device, requires_grad=True)
x = torch.randn(4, 5, device=device)
with torch.autocast(device.type, dtype=torch.bfloat16):
    hidden = layer(x)
    out = my_kernels.square(my_kernels.matmul(hidden, n))
torch.testing.assert_close(out, (hidden.float() @ n) ** 2)
out.sum().backward()
print(hidden.dtype, out.dtype, n.grad.dtype, layer.weight.grad.dtype)
"""
    assert installed.python("-c", code) == "torch.bfloat16 torch.float32 torch.float32 torch.float32\n"


def test_the_engine_that_it_loads_is_its_own(installed):
    """Not the one in the course's cache, which may be emptied."""
    if installed.choice.get("FORCE_CUDA"):
        pytest.skip("a package for a GPU has no engine")
    (engine,) = (installed.site / "my_kernels").glob("libcuda_on_cpu-*.so")
    code = "import my_kernels; print(*{line.split()[-1] for line in open('/proc/self/maps') if 'on_cpu-' in line})"
    assert installed.python("-c", code) == f"{engine}\n"


def test_it_asks_for_the_torch_that_it_was_built_with(installed):
    (metadata,) = installed.site.glob("my_kernels-*.dist-info/METADATA")
    minor = ".".join(torch.__version__.split(".")[:2])
    assert f"Requires-Dist: torch=={minor}.*" in metadata.read_text().splitlines()


def test_a_second_build_compiles_nothing_and_leaves_no_older_engine_behind(installed):
    objects = {path: path.stat().st_mtime_ns for path in installed.project.glob("build/temp*/**/*.o")}
    engines = {path.name for path in installed.site.glob("my_kernels/libcuda_on_cpu-*.so")}
    (built,) = installed.project.glob("build/lib*/my_kernels")
    if engines:
        (built / "libcuda_on_cpu-0.so").touch()
    second = installed.install()
    assert not (built / "libcuda_on_cpu-0.so").exists()
    assert objects == {path: path.stat().st_mtime_ns for path in installed.project.glob("build/temp*/**/*.o")}
    assert len(objects) >= 4 and second < max(installed.first, 10)
    assert engines == {path.name for path in installed.site.glob("my_kernels/libcuda_on_cpu-*.so")}


# ---- what setup.py says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False], ids=["in CUDA_COURSE", "installed"])
def test_without_the_course_it_says_what_to_do(tmp_path, named):
    other = tmp_path / "another"
    (other / "utils").mkdir(parents=True)
    (other / "utils" / "__init__.py").touch()  # a package of that name which is not the course's
    code = f"""
import runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]  # `pip install -e`
sys.path[:] = [path for path in sys.path if path != {str(ROOT)!r}]
sys.argv = ["setup.py", "--version"]
runpy.run_path("setup.py", run_name="__main__")
"""
    variables = {"FORCE_CPU": "1"} | ({"CUDA_COURSE": str(other)} if named else {})
    done = run(sys.executable, "-c", code, cwd=copied(tmp_path), **variables)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    missing = f"is not in CUDA_COURSE={other}" if named else "is not installed"
    assert f"needs the CUDA course, which {missing}: set CUDA_COURSE to its folder" in done.stderr


def test_both_forced_is_refused(tmp_path):
    done = run(sys.executable, "setup.py", "--version", cwd=copied(tmp_path), FORCE_CPU="1", FORCE_CUDA="1")
    assert done.returncode != 0 and "FORCE_CUDA and FORCE_CPU are both set: unset one" in done.stderr


# ---- sources --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(cuda_home() is None, reason="there is no nvcc")
def test_nvcc_compiles_the_kernels_without_a_warning():
    def compile(source):
        command = [cuda_home() / "bin" / "nvcc", "-std=c++17", "-fatbin", source, "-o", os.devnull, "--threads=2"]
        command += ["-Werror=all-warnings", "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"]
        command += [f"-gencode=arch=compute_{number},code=sm_{number}" for number in (75, 90)]
        succeeds(*command, cwd=TEMPLATE)

    sources = sorted(TEMPLATE.glob("csrc/*.cu"))
    assert [path.stem for path in sources] == ["matmul", "square", "vector_add"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile, sources))


@pytest.mark.skipif(cuda_home() is None, reason="there is no nvcc")
def test_a_build_for_the_cpu_shows_the_kernels_to_nvcc(tmp_path):
    project = copied(tmp_path)
    kernel = project / "csrc" / "square.cu"
    wrong = kernel.read_text().replace("product(x[i], x[i])", "product(x[i], max(x[i], 0))")
    kernel.write_text(wrong)
    done = run(sys.executable, "setup.py", "build_ext", cwd=project, FORCE_CPU="1", CUDA_COURSE=str(ROOT))
    line = wrong[: wrong.index("max(x[i], 0)")].count("\n") + 1
    assert done.returncode != 0
    assert (
        f"nvcc rejects csrc/square.cu, so it cannot be built for a GPU:\ncsrc/square.cu({line}): error" in done.stderr
    )


def test_api_is_compiled_in_full_in_every_build():
    """The builds differ in one place, which names the device."""
    text = (TEMPLATE / "csrc" / "api.cpp").read_text()
    conditions = re.findall(r"^#(?:if|el|endif).*", text, re.MULTILINE)
    assert [line.split()[0] for line in conditions] == ["#ifdef", "#else", "#endif"]
    (differs,) = re.findall(r"^#ifdef.*?^#endif$", text, re.MULTILINE | re.DOTALL)
    assert all(line.startswith("#") for line in differs.splitlines())


def test_both_devices_have_every_operator(installed):
    code = """
import torch, my_kernels
has = torch._C._dispatch_has_kernel_for_dispatch_key
print(all(has(f"my_kernels::{name}", key) for name in ("vector_add", "square", "matmul") for key in ("CPU", "CUDA")))
"""
    assert installed.python("-c", code) == "True\n"


def test_no_kernel_waits_for_a_header_of_torch():
    for path in [*TEMPLATE.glob("csrc/*.cu"), *TEMPLATE.glob("csrc/*.h")]:
        assert not re.search(r"#include <(?:torch|ATen|c10)/", path.read_text()), path.name


# ---- its README -----------------------------------------------------------------------------------------------------


def test_readme_has_the_commands_in_order():
    commands = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    first = [
        "cp -r kernels/template",
        "pip install . --no-build-isolation",
        "pytest -v -s",
        "FORCE_CUDA=1 pip wheel . --no-build-isolation --no-deps -w dist",
        "ncu -k square_kernel",
        "NEW=",
    ]
    assert [command.startswith(start) for command, start in zip(commands, first, strict=True)] == [True] * len(first)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has another sed")
def test_it_is_renamed_as_the_readme_says(tmp_path):
    project = copied(tmp_path)
    (commands,) = (text for text in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if text.startswith("NEW="))
    succeeds("sh", "-e", "-c", commands, cwd=project)
    assert (project / "src" / "my_package" / "__init__.py").exists()
    for path in project.rglob("*"):
        assert "my_kernels" not in path.name
        assert path.is_dir() or "my_kernels" not in path.read_text(), path.name
    assert "TORCH_LIBRARY(my_package, m)" in (project / "csrc" / "api.cpp").read_text()
