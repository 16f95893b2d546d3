"""Each C++ compiler builds kernels and traces; without one, the error says how to get one."""

import json
import os
import shutil

import pytest

from tests.cuda.cpu.limits import BEGIN, SOURCE, run_python
from utils.ground import system

pytestmark = pytest.mark.usefixtures("on_cpu")


ONE_RUN_AND_ONE_TRACE = (
    BEGIN
    + r"""
x = torch.zeros(256, dtype=torch.int32)
compile_kernel(SOURCE, "barriers")[4, 64](x, 256)
trace = compile_kernel(SOURCE, "plain").trace
ok, bad = trace[4, 64](x, 256), trace[5, 64](x, 320)
(problem,) = bad.problems
tell("done", result=bool((x == 1).all()), ok=ok.ok, requests=int(ok.requests["requests"].sum()),
     sectors=int(ok.requests["sectors"].sum()), kind=problem.kind, line=problem.line, block=problem.block)
"""
)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_each_compiler_builds_a_kernel_and_a_trace(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    programs = tmp_path / "bin"  # no other compiler is found
    programs.mkdir()
    for tool in (compiler, "ld", "as", "addr2line", "sh"):
        if path := shutil.which(tool):
            (programs / tool).symlink_to(path)
    environment = {"CXX": compiler, "CUDA_COURSE_CACHE": str(tmp_path / "cache"), "PATH": str(programs)}
    if os.path.basename(system.cxx_compiler()) == compiler:
        del environment["CUDA_COURSE_CACHE"]  # what the other tests have built will do
    told = json.loads(run_python(ONE_RUN_AND_ONE_TRACE, **environment))[1]
    line = SOURCE[: SOURCE.index("if (i < n) x[i] += 1;")].count("\n") + 1
    assert told == {
        "result": True,
        "ok": True,
        "requests": 16,  # 8 warps load and store
        "sectors": 64,
        "kind": "out_of_bounds",
        "line": line,
        "block": [4, 0, 0],
    }
    for kernel in (tmp_path / "cache" / "cpu").glob("*/commands.txt"):
        assert kernel.read_text().startswith(compiler) or f"/{compiler} " in kernel.read_text()


def test_without_a_compiler_the_error_names_how_to_get_one(tmp_path):
    script = r"""
import torch
from utils import compile_kernel, load_cuda
from utils.ground.errors import ToolchainError
source = "__global__ void f(int* x) { x[0] = 1; }"
x = torch.zeros(1, dtype=torch.int32)
for attempt in (lambda: compile_kernel(source, "f"),
                lambda: load_cuda(source + " void g() {}", "void g();", ["g"]),
                lambda: load_cuda(source + " void g() {}", "void g();", ["g"], trace=True)):
    try:
        attempt()
        print("built")
    except ToolchainError as error:
        print(error)
"""
    environment = {"PATH": str(tmp_path), "CUDA_COURSE_CACHE": str(tmp_path / "cache"), "CXX": ""}
    told = run_python(script, **environment).splitlines()
    assert len(told) == 3
    for message in told:
        assert message.startswith("there is no C++ compiler (g++ or clang++). To fix it: ")
        assert message.split(": ")[1], "a command, or the packages where no package manager is found either"
