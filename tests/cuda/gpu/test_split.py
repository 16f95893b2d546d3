"""Cutting a source for nvcc and the C++ compiler, and the modules that nvcc builds; without a GPU they are not run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import kernels
from utils import CompileError
from utils.cuda import compile
from utils.cuda.common import toolchain
from utils.cuda.gpu.split import NotSplit, device_code, split
from utils.cuda.gpu.stock import tools_for_load_inline
from utils.ground import system

KERNEL = """
__global__ void scale_kernel(const float* x, float* out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
"""
HOST = """
torch::Tensor scale(torch::Tensor x, double factor) {
    CHECK_INPUT(x);
    torch::Tensor out = torch::empty_like(x);
    int n = x.numel();
    if (n) scale_kernel<<<cdiv(n, 64), 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), factor, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""
DECLARED = "torch::Tensor scale(torch::Tensor x, double factor);"
TILED = """
template <int tile = 16, class T = float>
__global__ void tiled_kernel(T* x, int n) { __shared__ T s[tile]; s[threadIdx.x] = x[threadIdx.x]; x[0] = s[0]; }
"""


def lecture(kernel=KERNEL, host=HOST):
    return kernels.cuda_begin + kernel + host


def line_of(text, words):
    return next(n for n, line in enumerate(text.splitlines(), 1) if words in line)


# ---- the cut ---------------------------------------------------------------------------------------------------------


def test_each_compiler_gets_its_part_on_the_same_lines():
    source = lecture()
    device, host, names, _ = split(source)
    assert "scale_kernel(const float* x" in device and "torch" not in re.sub("#define.*", "", device)
    assert "blockIdx" not in host and "::cuda_course::launch(scale_kernel, cdiv(n, 64), 64)(" in host
    assert names == ["scale_kernel"]
    for words in ("__global__ void scale_kernel", "if (i < n)"):
        assert line_of(device, words) == line_of(source, words)
    for words in ("torch::Tensor scale(", "return out;"):
        assert line_of(host, words) == line_of(source, words)


def test_what_both_need_stays_in_both():
    shared = (
        "struct Pair { float a, b; };\nusing Number = float;\nconstexpr int WIDTH = 16;\n#define TWICE(x) (2 * (x))\n"
    )
    device, host, *_ = split(lecture(shared + KERNEL))
    for words in shared.splitlines():
        assert words in device and words in host


@pytest.mark.parametrize(
    ("text", "in_device", "in_host"),
    [
        ("__device__ float twice(float a) { return 2 * a; }\n", True, False),
        ("__constant__ float weights[3];\n", True, False),
        ("__device__ int count = 0;\n", True, False),
        ("int rows(const torch::Tensor& x) { return x.size(0); }\n", False, True),
        ("static int threads_of(int n) { return n < 64 ? n : 64; }\n", False, True),
        ("constexpr int more(int n = 3) { return n + 1; }\n", False, True),
        ("namespace helpers { float half(float a) { return a / 2; } }\n", False, True),
        ("__host__ __device__ float third(float a) { return a / 3; }\n", True, True),
    ],
)
def test_where_a_declaration_goes(text, in_device, in_host):
    device, host, *_ = split(lecture(text + KERNEL))
    name = re.search(r"(twice|weights|count|rows|threads_of|more|half|third)\b", text)[0]
    assert (name in device, name in host) == (in_device, in_host)


def test_a_function_of_both_sides_is_defined_once_for_the_linker():
    _, host, *_ = split(lecture("__host__ __device__ float third(float a) { return a / 3; }\n" + KERNEL))
    assert "inline __host__ __device__ float third" in host


def test_instances_of_templates_are_named_to_nvcc():
    host = HOST.replace("scale_kernel<<<", "tiled_kernel<32, float><<<1, 32>>>(nullptr, 3); scale_kernel<<<")
    device, _, names, _ = split(lecture(KERNEL + TILED, host))
    assert "(void*)&tiled_kernel<32, float>;" in device and "tiled_kernel" in names


def test_instances_of_a_dispatch_are_all_named():
    launch = "tiled_kernel<8, scalar_t><<<1, 8>>>(p<scalar_t>(), 8);"
    launch = f'AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "k", [&] {{ {launch} }});'
    device, *_ = split(lecture(KERNEL + TILED, HOST.replace("    C10", f"    {launch}\n    C10")))
    assert "&tiled_kernel<8, double>;" in device and "&tiled_kernel<8, float>;" in device


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("__global__ void scale_kernel(", "static __global__ void scale_kernel("), "static or inline"),
        (("const float* x", "torch::PackedTensorAccessor32<float, 1> x"), "a kernel uses torch"),
        (("__global__", "#ifdef __CUDACC__\n#endif\n__global__"), r"__CUDACC__"),
        (("__global__ void", "#define LAUNCH(k) k<<<1, 1>>>()\n__global__ void"), "a macro holds"),
        (
            ("__global__ void scale_kernel(", "namespace { int hidden; }\n__global__ void scale_kernel("),
            "without a name",
        ),
        (("cdiv(n, 64), 64>>>", "cdiv(n, 64), 64>>>(cudaMemcpyToSymbol(w, p, 4)); f<<<1, 1>>>"), None),
    ],
)
def test_what_cannot_be_cut_says_why(change, why):
    source = lecture().replace(*change)
    if why is None:
        source = "__constant__ float w[1];\n" + source
        why = "the host uses w, which is on the GPU"
    with pytest.raises(NotSplit, match=why):
        split(source)


def test_template_arguments_that_the_compiler_finds_itself_are_not_cut():
    with pytest.raises(NotSplit, match="template arguments of tiled_kernel are left to the compiler"):
        split(lecture(KERNEL + TILED, HOST.replace("scale_kernel<<<", "tiled_kernel<<<1, 1>>>(p, 1); scale_kernel<<<")))


# ---- nvcc ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def builder(monkeypatch, tmp_path):
    """nvcc, for sm_80 where there is no GPU, with an empty cache."""
    from utils.cuda.gpu.nvcc import Builder

    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    try:
        return Builder(None if torch.cuda.is_available() else 80)
    except toolchain.ToolchainError as missing:
        pytest.skip(str(missing))


def test_nvcc_builds_templates_and_what_they_are_launched_with(builder, capsys):
    host = HOST.replace(
        "scale_kernel<<<", "tiled_kernel<32, float><<<1, 32>>>(out.data_ptr<float>(), n); scale_kernel<<<"
    )
    module = compile.load_with(builder, lecture(KERNEL + TILED, host), DECLARED, ["scale"], verbose=True)
    printed = capsys.readouterr().out
    assert "stock" not in printed and "-gencode=arch=compute_" in printed
    with pytest.raises(RuntimeError, match="x must be a CUDA tensor"):
        module.scale(torch.ones(3), 2.0)
    if torch.cuda.is_available():
        x = torch.randn(1031, device="cuda")
        torch.testing.assert_close(module.scale(x, 2.0), 2 * x)


def test_nvcc_builds_the_kernels_of_the_course(builder):
    module = compile.load_with(builder, kernels.source("square"), kernels.host("square"), ["square"])
    with pytest.raises(RuntimeError, match="must be a CUDA tensor"):
        module.square(torch.ones(3))


@pytest.mark.parametrize(
    ("change", "source", "words"),
    [
        (("factor * x[i]", "factr * x[i]"), "cuda_src", "factr"),
        (("cdiv(n, 64), 64>>>", "cdiv(n, 64), threds>>>"), "cuda_src", "threds"),
        (("return out;\n", "retrun out;\n"), "cuda_src", "retrun"),
    ],
)
def test_a_mistake_of_the_learner_is_told_at_once(builder, monkeypatch, change, source, words):
    monkeypatch.setattr(
        builder, "stock", lambda *args: pytest.fail("stock load_inline was asked, which takes a minute")
    )
    with pytest.raises(CompileError, match=words) as raised:
        compile.load_with(builder, lecture().replace(*change), DECLARED, ["scale"])
    assert raised.value.errors[0][:2] == (source, line_of(lecture().replace(*change), words))


@pytest.mark.parametrize(
    ("kernel", "host", "why"),
    [
        (KERNEL.replace("__global__", "static __global__"), HOST, "a kernel is static"),
        (
            KERNEL + TILED,
            HOST.replace("scale_kernel<<<", "constexpr int t = 8; tiled_kernel<t><<<1, 8>>>(p, 8); scale_kernel<<<"),
            "arguments mean something only where it is launched",
        ),
        (KERNEL.replace("int n)", "int n = 3)"), HOST.replace("factor, n);", "factor);"), "otherwise than nvcc"),
    ],
)
def test_stock_load_inline_builds_what_cannot_be_cut(builder, monkeypatch, kernel, host, why):
    said = []
    monkeypatch.setattr(builder, "stock", lambda *args: said.append(args) or "cuda_src(3): error: enough")
    with pytest.raises(CompileError, match="enough") as raised:
        compile.load_with(builder, lecture(kernel, host), DECLARED, ["scale"])
    assert said and why in "".join(p.read_text() for p in toolchain.cache_folder().rglob("commands.txt")), raised.value


def test_a_compiler_that_makes_no_empty_library_links_with_torch_s_own(tmp_path, monkeypatch):
    from utils.cuda.common import extension

    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    own = f"-L{Path(torch.__file__).parent / 'lib'}"
    assert own in extension.torch_libraries("false") and "-ltorch_cpu" in extension.torch_libraries("false")
    assert (own in extension.torch_libraries(system.cxx_compiler())) == (sys.platform != "linux")


def test_the_pip_wheel_s_runtime_is_found_by_the_linker(tmp_path):
    from utils.cuda.gpu.nvcc import cudart_link

    home = tmp_path / "cu13"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "libcudart.so.13").write_text("")
    (tmp_path / "build").mkdir()
    assert cudart_link(tmp_path / "build", home) == [f"-L{tmp_path / 'build'}", "-lcudart"]
    assert (tmp_path / "build" / "libcudart.so").resolve().name == "libcudart.so.13"
    shutil.copy(home / "lib" / "libcudart.so.13", home / "lib" / "libcudart.so")
    assert cudart_link(tmp_path / "build", home) == [f"-L{home / 'lib'}", "-lcudart"]


def test_load_inline_finds_its_tools_and_nothing_stays_behind(builder, tmp_path):
    before = dict(os.environ)
    with tools_for_load_inline(75):
        assert os.environ["TORCH_CUDA_ARCH_LIST"] == "7.5" and cpp_extension.CUDA_HOME == str(builder.home)
        assert cpp_extension.is_ninja_available()
        (tmp_path / "empty.cpp").write_text("int main() {}")
        command = [os.environ["CXX"], "-Wl,--no-as-needed", "empty.cpp", "-lcudart", "-o", "empty"]
        subprocess.run(command, cwd=tmp_path, check=True)
        listed = subprocess.run(["objdump", "-p", "empty"], cwd=tmp_path, capture_output=True, text=True).stdout
        assert "NEEDED" in listed and "libcudart.so" in listed
    assert {**os.environ, "PATH": ""} == {**before, "PATH": ""}


@pytest.mark.parametrize(("argument", "reads"), [("float", True), ("T", False), ("F", False), ("N", False)])
def test_a_template_of_the_host_may_launch_an_instance_that_does_not_depend_on_it(argument, reads):
    source = (
        "#include <torch/extension.h>\ntemplate <class A> __global__ void k(A* x) { x[0] = 1; }\n"
        "template <typename T, int N = 4> void launch(torch::Tensor x) {\n    using F = float;\n"
        f"    k<{argument}><<<1, 1>>>(x.data_ptr<float>());\n}}\n"
    )
    code = device_code(source)
    assert code.instances == (["k<float>"] if reads else []) and code.unread == (set() if reads else {"k"})
