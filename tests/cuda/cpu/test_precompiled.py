"""The headers that every extension's binding includes, which g++ reads once and keeps."""

import itertools
import subprocess
from pathlib import Path

import pytest
import torch

from utils import load_cuda
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
def compiled(fresh, monkeypatch):
    """Builds an extension, which must work; the command that compiled its binding."""
    commands, run = [], library.run

    def noted(batch, *more):
        commands.extend(batch)
        return run(batch, *more)

    def binding(declared=DECLARED, **options):
        twice = load_cuda(f"{SOURCE}  // {next(numbers)}", declared, ["twice"], **options).twice
        assert torch.equal(twice(torch.ones(3)), torch.full((3,), 2.0))
        (command,) = (each for each in commands if any(word.endswith("main.cpp") for word in each))
        return command

    monkeypatch.setattr(library, "run", noted)
    return binding


@pytest.mark.parametrize("trace", [False, True])
def test_the_compiler_takes_them_from_the_cache(compiled, tmp_path, trace):
    command = compiled(trace=trace)
    kept = Path(command[command.index("-include") + 1])
    assert kept.is_relative_to(cache_folder() / "runtime")
    source = tmp_path / "again.cpp"
    source.write_text("#include <cuda_course/extension.h>\nat::Tensor none;\n")
    flags = command[: command.index("-c")]
    again = subprocess.run([*flags, "-H", "-Winvalid-pch", "-fsyntax-only", source], capture_output=True, text=True)
    assert again.returncode == 0 and f"! {kept}.gch" in again.stderr, again.stderr[:2000]


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
