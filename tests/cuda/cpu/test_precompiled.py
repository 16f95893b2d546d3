"""The headers that every extension's binding includes, which g++ reads once and keeps."""

import itertools
import subprocess
from pathlib import Path

import pytest
import torch

from utils import compile_kernel, load_cuda
from utils.cuda.common.diagnostics import CompileError
from utils.cuda.common.toolchain import cache_folder, is_clang
from utils.cuda.cpu import library, precompiled
from utils.ground.errors import ToolchainError
from utils.ground.system import cxx_compiler

pytestmark = [
    pytest.mark.usefixtures("on_cpu"),
    pytest.mark.skipif(is_clang(cxx_compiler()), reason="only g++ keeps such headers"),
]
SOURCE = "#include <torch/types.h>\ntorch::Tensor twice(torch::Tensor x) { return x.add(x); }"
numbers = itertools.count()  # each test builds a source of its own
DECLARED = "torch::Tensor twice(torch::Tensor x);"


@pytest.fixture
def commands(monkeypatch):
    """The commands that compile and link, as they come."""
    noted, run = [], library.run

    def also_noted(batch, *more):
        noted.extend(batch)
        return run(batch, *more)

    monkeypatch.setattr(library, "run", also_noted)
    return noted


@pytest.fixture
def compiled(fresh, commands):
    """Builds an extension, which must work; the command that compiled one of its files."""

    def file(declared=DECLARED, name="main.cpp", source=SOURCE, **options):
        twice = load_cuda(f"{source}  // {next(numbers)}", declared, ["twice"], **options).twice
        assert torch.equal(twice(torch.ones(3)), torch.full((3,), 2.0))
        return command_for(commands, name)

    return file


def command_for(commands, name):
    (command,) = (each for each in commands if any(word.endswith(f"/{name}") for word in each))
    return command


def taken(command, tmp_path):
    """The kept header with which a compiler reads another text at once, by its own word."""
    kept = Path(command[command.index("-include") + 1])
    assert kept.is_relative_to(cache_folder() / "runtime")
    source = tmp_path / "again.cpp"
    source.write_text("#include <cuda_runtime.h>\nint none;\n")
    flags = command[: command.index("-c")]
    again = subprocess.run([*flags, "-H", "-Winvalid-pch", "-fsyntax-only", source], capture_output=True, text=True)
    assert again.returncode == 0 and f"! {kept}.gch" in again.stderr, again.stderr[:2000]
    return kept.name


@pytest.mark.parametrize("trace", [False, True])
def test_the_compiler_takes_them_from_the_cache(compiled, commands, tmp_path, trace):
    assert taken(compiled(trace=trace), tmp_path) == "binding.h"
    assert taken(command_for(commands, "cuda.cpp"), tmp_path) == "torch.h"


@pytest.mark.parametrize("gpu", ["T4", "H200"])
@pytest.mark.parametrize("kind", ["kernel", "traced"])
def test_those_of_kernels_serve_every_gpu(fresh, commands, tmp_path, monkeypatch, kind, gpu):
    """The same ones: what __CUDA_ARCH__ is comes after them."""
    monkeypatch.setenv("CUDA_COURSE_GPU", gpu)
    x, right = torch.zeros(1, dtype=torch.int32), {"T4": 750, "H200": 900}[gpu]
    source = f"__global__ void arch(int* x) {{ x[0] = __CUDA_ARCH__; assert(x[0] == {right}); }}"
    kernel = compile_kernel(source, "arch")
    (kernel if kind == "kernel" else kernel.trace)[1, 1](x)
    assert taken(command_for(commands, f"{kind}.cpp"), tmp_path) == "kernel.h"
    kept = Path(commands[0][commands[0].index("-include") + 1]).parent.name
    assert kept_for.setdefault(kind, kept) == kept


kept_for = {}  # each kind of build, from one test to the next


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("__global__ void k(volatile int* x) { x[0] = 1; }", ()),
        ("__global__ void k(int* x) { x[0] = ONE; }", ("-DONE=1",)),
        ("__global__ void k(int* x) { x[0] = 1; }", ("-std=c++20",)),
    ],
)
def test_what_is_rarely_built_does_without(fresh, commands, source, options):
    x = torch.zeros(1, dtype=torch.int32)
    compile_kernel(source, "k", options)[1, 1](x)
    assert x.item() == 1 and "-include" not in command_for(commands, "kernel.cpp")


def test_a_source_that_needs_python_does_without(compiled):
    assert "-include" not in compiled(name="cuda.cpp", source=f"PyObject* no();\n{SOURCE}")


def test_a_binding_with_other_headers_does_without(compiled):
    assert "-include" not in compiled(f"PyObject* no();\n{DECLARED}")


@pytest.mark.parametrize(
    "error", [ToolchainError("the build does not fit on the disk", "free some space"), CompileError("out of memory")]
)
def test_what_cannot_be_prepared_is_done_without(compiled, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(precompiled, "build_once", fails)
    assert "-include" not in compiled()


def test_a_compiler_that_finds_no_room_for_them_in_its_memory_does_without(compiled, monkeypatch):
    run = library.run

    def run_or_fail(commands, *more):
        if any("-include" in command for command in commands):
            return "binding.h:1: sorry, unimplemented: PCH allocation failure"
        return run(commands, *more)

    monkeypatch.setattr(library, "run", run_or_fail)
    assert "-include" not in compiled()


def test_the_special_functions_that_they_leave_out_are_there(fresh, commands):
    """std::beta and its like, on the host: nvcc compiles no kernel that calls one."""
    source = SOURCE.replace("x.add(x)", "x.mul(std::beta(1.0, 0.5))")
    assert torch.equal(load_cuda(source, DECLARED, ["twice"]).twice(torch.ones(3)), torch.full((3,), 2.0))
    x = torch.zeros(1)
    on_host = "float at(float x) { return std::riemann_zeta(x); }"
    compile_kernel(f"{on_host}\n__global__ void k(float* x) {{ x[0] = 1; }}", "k")[1, 1](x)
    assert x.item() == 1
    for name in ("cuda.cpp", "kernel.cpp"):
        tried = [each for each in commands if any(word.endswith(f"/{name}") for word in each)]
        assert ["-include" in each for each in tried] == [True, False]
