"""What a learner is told by each compiler about each mistake: their own line, and words that they understand."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import utils.cuda.kernel
from utils import CompileError, compile_kernel
from utils.cuda.common.diagnostics import explained
from utils.cuda.common.toolchain import cuda_home, nvcc_hint
from utils.cuda.cpu.translate import TranslationError, translate

KERNEL = """__global__ void k(float* x, int n) {
    int i = threadIdx.x;
    if (i < n) WHAT
}
"""


def in_kernel(what):
    return KERNEL.replace("WHAT", what)


BIG = """__global__ void k(float* x) {
    __shared__ float s[20000];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x + 1];
}
"""
TWICE = """template <class T>
__device__ T twice(T a) {
    return a.real * 2;
}
"""
LAUNCH = in_kernel("x[i] = 1;") + "void go(int* x) {\n    k<<<1, 32>>>(WHAT);\n}\n"

# The mistake, its line (or the lines that compilers may name), and what is said of it.
MISTAKES = {
    "no semicolon": (in_kernel("x[i] = 1"), (3, 4), "\";\"|';'"),
    "unknown name": (in_kernel("x[i] = y;"), 3, "[\"']y[\"']"),
    "two unknown names": (in_kernel("{ x[i] = y; x[0] = z; }"), 3, "(?s)y.*z"),
    "wrong argument": ("__device__ float f(float a) { return a; }\n" + in_kernel("x[i] = f(x);"), 4, r"float ?\*"),
    "no argument": (
        "__device__ float f(float a) { return a; }\n" + in_kernel("x[i] = f();"),
        4,
        "few|1 was not|requires",
    ),
    "in a template": (TWICE + in_kernel("x[i] = twice(x[i]);"), 3, r"float.*\(used in line 7\)"),
    "in a macro": ("#define DOUBLE(a) (2 * (a)->b)\n" + in_kernel("x[i] = DOUBLE(x[i]);"), (1, 4), "->|pointer"),
    "const": (in_kernel("x[i] = 1;").replace("float*", "const float*"), 3, "modifiable|read-only"),
    "no header": ("#include <nothing.h>\n" + in_kernel("x[i] = 1;"), 1, "nothing.h"),
    "static_assert": (in_kernel('static_assert(sizeof(float) == 8, "not a double");'), 3, "not a double"),
    "too much shared": (BIG, (1, 2), "80,000 bytes.*a block has 49,152|a block has 48 KB of static shared memory"),
    "shared size": (
        in_kernel("return; __shared__ float s[n]; s[i] = 0;"),
        3,
        "size of a __shared__ array must be known",
    ),
    "not void": (
        "__global__ int k(float* x) {\n    return 1;\n}\n",
        1,
        "returns nothing: write|must have a void return",
    ),
    "no brace": ("__global__ void k(float* x, int n) {\n    if (n) {\n        x[0] = 1;\n}\n", (2, 4), "}|{"),
    "launch": (LAUNCH.replace("WHAT", "x, 3"), 6, r"int ?\*.*float ?\*|float ?\*.*int ?\*"),
    "launch with too few": (LAUNCH.replace("int*", "float*").replace("WHAT", "x"), 6, "few|2 arguments"),
    "undefined": (
        "__device__ float other(float);\n" + in_kernel("x[i] = other(x[i]);"),
        4,
        r"`other\(float\)` is declared",
    ),
}
HOST_SIDE = ("launch", "launch with too few")  # NVRTC compiles no host code


@pytest.fixture(params=["nvcc", "nvrtc", "g++", "clang++"])
def refused(request, tmp_path, monkeypatch):
    """Compile a text that is wrong with one compiler after the other: the CompileError that a learner would get."""
    name = request.param
    if name == "nvcc":
        home = cuda_home()
        if home is None and sys.platform != "linux":
            pytest.skip("NVIDIA has no nvcc for this system")
        assert home, f"there is no nvcc, which the extra [test] brings: {nvcc_hint()}"
        return SimpleNamespace(name=name, compile=lambda source, kernel: _by_nvcc(home, source, tmp_path))
    if name == "nvrtc":
        pytest.importorskip("cuda.bindings", reason="torch for this system brings no NVRTC")
        return SimpleNamespace(name=name, compile=lambda source, kernel: _by_nvrtc(source, kernel, tmp_path))
    if not shutil.which(name):
        pytest.skip(f"there is no {name} here")
    monkeypatch.setenv("CXX", name)
    monkeypatch.setattr(utils.cuda.kernel, "device", lambda: torch.device("cpu"))
    return SimpleNamespace(name=name, compile=_by_engine)


def _by_nvcc(home, source, folder):
    (folder / "cuda.cu").write_text(f'#include <cuda_runtime.h>\n#line 1 "cuda_src"\n{source}')
    command = [home / "bin" / "nvcc", "-std=c++17", "-arch=sm_75", "-Werror=all-warnings", "-cubin", "cuda.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode, "it compiles"
    return explained(done.stdout + done.stderr, {"cuda_src": source}, folder)


def _by_nvrtc(source, kernel, folder):
    from utils.cuda.gpu.nvrtc import build

    log = build(source, [kernel], folder, ["-default-device", "--gpu-architecture=sm_75"])
    assert log, "it compiles"
    return explained(log, {"cuda_src": source, "name": kernel}, folder)


def log_of(text):
    """Where the message says that the whole log is kept."""
    return Path(re.search(r"^The whole log: (.*)$", text, re.MULTILINE)[1]).expanduser()


def _by_engine(source, kernel):
    with pytest.raises(CompileError) as raised:
        compile_kernel(source, kernel)
    return raised.value


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_shown_on_the_learners_line(refused, mistake):
    source, lines, said = MISTAKES[mistake]
    if refused.name == "nvrtc" and mistake in HOST_SIDE:
        pytest.skip("NVRTC compiles no host code")
    error = refused.compile(source, "k")
    text = str(error)
    assert re.search(said, text), text
    assert not re.search("cuda_on_cpu|cuda_course|__invoke", text.split("\nThe whole log")[0]), text
    which, line, _ = error.errors[0]
    assert which == "cuda_src" and line in ((lines,) if isinstance(lines, int) else lines), text
    shown = source.splitlines()[line - 1]
    assert re.search(rf"^-->\s+{line} \| {re.escape(shown)}$", text, re.MULTILINE), text
    if error.log:  # else no compiler was asked
        assert log_of(text).read_text() == error.log
    assert len(text.splitlines()) < 25


def test_a_name_that_does_not_fit_the_template(refused):
    if refused.name == "nvcc":
        pytest.skip("nvcc is not asked for a kernel by name")
    source = "template <int tile>\n__global__ void k(float* x, int n) {\n    x[0] = tile;\n}\n"
    error = refused.compile(source, "k<float>")
    ((which, line, message),) = error.errors
    assert (which, line) == ("name", 1)
    assert message == "`k<float>` is no instance of `template <int tile>`, which precedes `k`"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("__global__ float k(float* x)", r"a kernel returns nothing: write `__global__ void k\(...\)`"),
        ("template <class T>\n__global__ T* k(T* x)", "a kernel returns nothing"),
    ],
)
def test_what_no_kernel_may_be_is_refused_before_a_compiler_is_asked(head, said):
    with pytest.raises(TranslationError, match=said) as raised:
        translate("// first\n" + head + " {\n    x[0] = 1;\n}\n")
    assert raised.value.line == 2 + head.count("\n")


@pytest.mark.parametrize(
    "head",
    [
        "void __global__ k(float* x, int n)",
        "template <class T, int n = 1 & 3>\n__global__ static void __launch_bounds__(64 & 96) k(T* x)",
        "__global__ void k(float* x, int n = 1 & 3)",
        "#define GLOBAL __global__\nfloat half(float& a) { return a / 2; }\nGLOBAL void k(float* x)",
        'extern "C" __global__ void k(float* x)',
    ],
)
def test_what_a_kernel_may_be_is_let_through(head):
    assert "x[0] = 1;" in translate(head + " {\n    x[0] = 1;\n}\n")


def test_a_linker_that_misses_a_function_names_it(tmp_path):
    """nvcc's linker of device code, and the C++ one."""
    for log in (
        "ptxas fatal   : Unresolved extern function '_Z5otherf'",
        "nvlink error   : Undefined reference to '_Z5otherf' in 'cuda.o'",
        "/usr/bin/ld: cuda.o: in function `go()':\ncuda.cpp:(.text+0x5): undefined reference to `other(float)'",
    ):
        error = explained(log, {"cuda_src": "void other(float);\nvoid go(float a) { other(a); }"}, tmp_path)
        assert "`other(float)` is declared and called, but no source defines it. They define: go" in str(error)
        assert error.line == 2


def test_a_variable_that_is_defined_nowhere_is_used_and_not_called(on_cpu):
    with pytest.raises(CompileError, match="`c` is declared and used, but no source defines it\n") as raised:
        compile_kernel("extern __device__ int c[];\n" + in_kernel("x[i] = c[i];"), "k")
    assert raised.value.line == 4


def test_too_much_constant_memory_is_reported_at_its_largest_variable(on_cpu):
    source = "__constant__ float s[9], t[17000];\n__constant__ int few;\n" + in_kernel("x[i] = t[i] + s[few];")
    with pytest.raises(CompileError, match="variables have 68,040 bytes, but there are 65,536") as raised:
        compile_kernel(source, "k")
    assert raised.value.line == 1
    assert compile_kernel(source.replace("17000", "16000"), "k")


def test_assembly_that_ptxas_refuses(refused):
    if refused.name not in ("nvcc", "nvrtc"):
        pytest.skip("inline PTX needs a GPU")
    error = refused.compile(in_kernel('asm("nonsense.f32 a, b;");'), "k")
    first = str(error).splitlines()[0]
    assert first.startswith("ptxas, which makes machine code of what nvcc compiled: ") and "nonsense" in first


def test_a_warning_that_counts_as_an_error(tmp_path):
    home = cuda_home()
    if home is None and sys.platform != "linux":
        pytest.skip("NVIDIA has no nvcc for this system")
    error = _by_nvcc(home, in_kernel("{ int unused = 3; x[i] = 1; }"), tmp_path)
    assert error.errors == [("cuda_src", 3, 'variable "unused" was declared but never referenced')]


def test_what_follows_from_a_missing_semicolon_comes_after_it(tmp_path):
    source = in_kernel("return  // guard\n    float v = i;\n    x[i] = v;")
    log = (
        "cuda_src(4): error: type name is not allowed\n      float v = i;\n      ^\n\n"
        'cuda_src(3): error: expected a ";"\n\ncuda_src(5): error: identifier "v" is undefined\n'
    )
    error = explained(log, {"cuda_src": source}, tmp_path)
    assert [line for _, line, _ in error.errors] == [3, 4, 5]
    assert error.wrong.startswith('cuda_src, line 3: expected a ";"') and "line 4: type name" not in error.wrong
    assert error.hint == "Put a `;` at the end of this line, before the comment."


def test_a_jump_over_an_initial_value_names_the_variable(tmp_path):
    log = """k.cu(3): error: transfer of control bypasses initialization of:
            variable "z" (declared at line 4)
            variable "q" (declared at line 5)
      goto end;
           ^
"""
    error = explained(log, {"k.cu": "int k;\n" * 6}, tmp_path)
    assert 'bypasses initialization of: "z" (declared at line 4), "q" (declared at line 5)\n' in str(error)


def test_a_message_that_ends_in_a_colon_goes_on(tmp_path):
    log = """k.cu(2): error: object of abstract class type "B" is not allowed:
            function "B::f" is a pure virtual function
            B b;
            ^

k.cu(3): error: more than one conversion function from "half" (aka "__half") to a built-in type applies:
            function "__half::operator float() const" (declared at line 138 of /include/cuda_fp16.hpp)
            function "__half::operator short() const" (declared at line 164 of /include/cuda_fp16.hpp)
            function "__half::operator int() const" (declared at line 166 of /include/cuda_fp16.hpp)
          s += o[i];
               ^
"""
    error = explained(log, {"k.cu": "int k;\n" * 6}, tmp_path)
    assert [message for _, _, message in error.errors] == [
        'object of abstract class type "B" is not allowed: function "B::f" is a pure virtual function',
        'more than one conversion function from "half" (aka "__half") to a built-in type applies: '
        'function "__half::operator float() const" and 2 more',
    ]
