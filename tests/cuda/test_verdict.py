"""NVIDIA's compiler judges every text, and what it rejects does not run."""

import os
import subprocess
import sys
import warnings

import pytest
import torch

import kernels
from utils import CompileError, compile_kernel, load_cuda
from utils.cuda import run, verdict
from utils.cuda.common import diagnostics, extension, toolchain
from utils.cuda.common.diagnostics import CompileWarning
from utils.cuda.cpu import module
from utils.cuda.gpu import judging
from utils.cuda.gpu.split import NotSplit, device_code
from utils.cuda.kernel import Tracer

pytestmark = [
    pytest.mark.skipif(not toolchain.nvcc_candidates(), reason="there is no nvcc"),
    pytest.mark.usefixtures("on_cpu"),
]

RIGHT = "__global__ void k(float* x) { x[0] = max(x[0], 0.0f); }"
WRONG = "\n__global__ void k(float* x) {\n    x[0] = max(x[0], 0);\n}"
TORCH = "#include <torch/extension.h>\n{}\nvoid run(torch::Tensor x) {{ k<<<1, 1>>>(x.data_ptr<float>()); }}\n"


@pytest.fixture(autouse=True)
def new_cache(monkeypatch, tmp_path):
    """Every build is a new one; the engine's own library is the real cache's."""
    runtime = toolchain.cache_folder() / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    (tmp_path / "runtime").symlink_to(runtime)
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_loaded", {})
    monkeypatch.setattr(judging, "_accepted", {})
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    return tmp_path


def left_in(cache):
    return [path for path in cache.rglob("*") if path.name in ("nvcc", "nvrtc") or path.name.startswith("tmpxft")]


def test_what_nvcc_rejects_does_not_run(new_cache):
    with pytest.raises(CompileError, match='more than one instance of overloaded function "max"') as raised:
        compile_kernel(WRONG, "k")
    assert raised.value.line == 3 and diagnostics.ACCEPTED not in str(raised.value)
    x = torch.full((1,), -1.0)
    with pytest.raises(CompileError, match="max"):
        Tracer(WRONG, "k")[1, 1](x)
    assert x.item() == -1 and not left_in(new_cache)


@pytest.mark.parametrize(
    ("host", "said"),
    [("#error of the host", "of the host"), ("static_assert(sizeof(int) == 8);", "static assertion failed")],
)
def test_what_is_only_for_the_host_is_judged_too(host, said):
    compile_kernel(f"#ifdef __CUDA_ARCH__\n#define BLOCKS 2\n#endif\n{RIGHT}", "k")
    with pytest.raises(CompileError, match=said) as raised:
        compile_kernel(f"#ifndef __CUDA_ARCH__\n{host}\n#endif\n{RIGHT}", "k")
    assert raised.value.line == 2


def test_a_template_that_nothing_uses_calls_what_is_declared_before_it():
    """nvcc notices when it compiles for the host, as in a real build."""
    calls, later = "template <class T> __device__ T get(T t) { return later(1) + t; }\n", "__device__ int later(int);\n"
    compile_kernel(later + calls + RIGHT, "k")
    with pytest.raises(CompileError, match="'later' was not declared in this scope, in a templ") as raised:
        compile_kernel(f"\n{calls}{later}{RIGHT}", "k")
    assert raised.value.line == 2 and diagnostics.ACCEPTED not in str(raised.value)


def test_the_instance_that_is_asked_for_is_judged():
    source = "template <class T> __global__ void k(T* x) {\n    x[0] = max(x[0], 0);\n}"
    compile_kernel(source, "k<int>")
    with pytest.raises(CompileError, match='overloaded function "max"') as raised:
        compile_kernel(source, "k<float>")
    assert raised.value.line == 2
    with pytest.raises(CompileError, match="is no instance of"):
        compile_kernel(source, "k<16>")


def test_extensions_are_judged_without_torch(new_cache):
    load_cuda(TORCH.format(RIGHT), "void run(torch::Tensor x);", "run")
    for trace in (False, True):
        with pytest.raises(CompileError, match='overloaded function "max"') as raised:
            load_cuda(TORCH.format(WRONG), "void run(torch::Tensor x);", "run", trace=trace)
        assert raised.value.line == 4
    assert not left_in(new_cache)


def test_an_earlier_verdict_asks_no_compiler(monkeypatch):
    compile_kernel(RIGHT, "k")
    module._loaded.clear()
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a compiler was started"))
    compile_kernel(RIGHT, "k")


def test_what_only_the_engine_rejects_says_so(monkeypatch):
    monkeypatch.setattr(module, "build_kernels", lambda *a: "cuda_src:1:1: error: not here\n")
    with pytest.raises(CompileError) as raised:
        compile_kernel(RIGHT, "k")
    assert "not here" in str(raised.value) and diagnostics.ACCEPTED in str(raised.value)


def test_what_only_the_engine_rejects_is_read_for_the_host_too():
    source = "template <class T> __device__ T f(T v) { return missing; }\n__global__ void k(float* x) { x[0] = 1; }"
    with pytest.raises(CompileError, match='identifier "missing" is undefined') as raised:
        compile_kernel(source, "k")
    assert raised.value.line == 1 and diagnostics.ACCEPTED not in str(raised.value)


@pytest.mark.parametrize("also", ["#if __CUDA_ARCH__\n#endif\n", "__constant__ int c[] = {1};\n", "F f;\n"])
def test_kernels_may_print_without_a_header_whatever_is_read_for_the_host(also):
    source = f"struct F {{ __host__ __device__ F() {{}} }};\n{also}"
    compile_kernel(source + '__global__ void k(int* x) { assert(x); printf("%d", x[0]); }', "k")


def test_options_reach_nvcc():
    source = "__global__ void k(int* j) { concept_or_not; }"
    compile_kernel(source, "k", ("-Dconcept_or_not=j[0] = 1",))
    source = "template <class T> concept Any = true;\n__global__ void k(int* j) { j[0] = 1; }"
    with pytest.raises(CompileError):
        compile_kernel(source, "k")
    compile_kernel(source, "k", ("--std=c++20",))


WMMA = """#include <mma.h>
#include <cuda_bf16.h>
using namespace nvcuda;
__global__ void k(float* x) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fill_fragment(a, __nv_bfloat16(1.0f));
    x[0] = a.x[0];
}"""
CP_ASYNC = """__global__ void k(const float* x) {
    __shared__ float s[32];
    unsigned to = __cvta_generic_to_shared(s + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(x + threadIdx.x));
}"""


def test_tensor_cores_that_a_t4_lacks_are_rejected_in_nvcc_s_words(monkeypatch):
    monkeypatch.setenv("CUDA_COURSE_GPU", "T4")
    with pytest.raises(CompileError, match="incomplete type|no instance of"):
        compile_kernel(WMMA, "k")
    monkeypatch.setenv("CUDA_COURSE_GPU", "A100")
    kernel, x = compile_kernel(WMMA, "k"), torch.zeros(1)
    kernel[1, 32](x)
    assert x == 1


@pytest.mark.parametrize(("source", "said"), [(CP_ASYNC, "'cp.async' requires .target sm_80 or higher")])
def test_what_a_t4_lacks_is_rejected_in_nvcc_s_words(monkeypatch, source, said):
    monkeypatch.setenv("CUDA_COURSE_GPU", "T4")
    with pytest.raises(CompileError, match=said):
        compile_kernel(source, "k")
    monkeypatch.setenv("CUDA_COURSE_GPU", "A100")
    compile_kernel(source, "k")[1, 32](torch.zeros(32))


def test_host_functions_are_judged_too():
    calls = f"__device__ float f(float v) {{ return v; }}\n{RIGHT}\nfloat host() {{ return f(1); }}"
    with pytest.raises(CompileError, match=r'calling a __device__ function\("f\(float\)"\) from a __host__') as raised:
        compile_kernel(calls, "k")
    assert raised.value.line == 3 and not verdict.on_kernels(RIGHT, ["k"]).for_host
    with pytest.raises(CompileError, match="from a __host__ __device__ function"):
        compile_kernel(calls.replace("float host()", "__host__ __device__ float host()"), "k")


@pytest.mark.parametrize(
    ("own", "used", "line"),
    [
        ("struct V { __device__ int a() { return 1; } __host__ __device__ int b() { return a(); } };", "", 1),
        ("struct V { int a; __device__ V(int a) : a(a) {} };", "int host() { return V(3).a; }", 3),
        ("__device__ float3 operator+(float3 a, float3 b) { return a; }", "float3 host(float3 a) { return a + a; }", 3),
        ("struct V { __device__ int a() const { return 1; } };", "int host(const V& v) { return v.a(); }", 3),
        ("#define DEV __device__ inline\nDEV int a() { return 1; }", "int host() { return a(); }", 4),
        ("__device__ int a() { return 1; }", "auto host = [] { return a(); };", 3),
    ],
)
def test_what_the_host_uses_of_the_device_is_judged(own, used, line):
    with pytest.raises(CompileError, match="calling a __device__ function.* from a __host__") as raised:
        compile_kernel(f"{own}\n{RIGHT.strip()}\n{used}\n", "k")
    assert raised.value.line == line


def test_functions_that_only_launch_cost_no_second_reading():
    assert not verdict.on_kernels(kernels.source("matmul"), ["matmul_kernel"]).for_host


@pytest.mark.parametrize("host", ["", '\n#include <cstdio>\nvoid host() { printf("done"); }'])
def test_what_ptxas_rejects_is_shown_with_its_line(host):
    source = """template <int n> __device__ int half_of(float x) {
    int bits = n;
    asm volatile("{\\n\\t"
                 "mov.b64 %0, {%1, %1};\\n\\t"
                 "}" : "=r"(bits) : "f"(x));
    return bits;
}
__global__ void k(float* x) { x[0] = half_of<3>(x[1]); }"""
    with pytest.raises(CompileError, match="Arguments mismatch for instruction 'mov'") as raised:
        compile_kernel(source + host, "k")
    assert raised.value.line == 4 and not raised.value.hint


def test_host_code_is_left_out_as_nvrtc_leaves_it_out():
    compile_kernel(f"{RIGHT}\n#ifndef __CUDACC_RTC__\nnobody reads this\n#endif\n", "k")


def test_an_interrupted_build_leaves_no_compiler_and_no_files(new_cache, monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: (started.append(popen(*a, **k)), started[-1])[1])

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "build_kernels", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_kernel(RIGHT, "k")
    assert started and all(process.returncode is not None for process in started) and not left_in(new_cache)


def test_nvcc_is_asked_once_about_two_kernels_of_a_text(monkeypatch):
    asked, nvcc = [], judging._nvcc
    monkeypatch.setattr(judging, "_nvcc", lambda *given: (asked.append(given[0]), nvcc(*given))[1])
    source = RIGHT + "\n__global__ void other(float* x) { x[1] == 2; x[0] = 1; }"
    for name in ("k", "other"):
        monkeypatch.setattr("utils.cuda.common.diagnostics._told", {})  # of a text, the first build shows its warnings
        with pytest.warns(CompileWarning, match="expression has no effect"):
            compile_kernel(source, name)
    for _ in range(2):
        with pytest.raises(CompileError):
            compile_kernel(WRONG, "k")
    assert len(asked) == 3


def test_a_broken_nvcc_is_no_judge(monkeypatch, tmp_path):
    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho nvcc fatal: no licence >&2\nexit 1\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(toolchain, "cuda_home", lambda: tmp_path / "toolkit")
    compile_kernel(RIGHT, "k")


def test_torch_passes_the_flags_that_extensions_are_judged_with():
    from torch.utils.cpp_extension import COMMON_NVCC_FLAGS

    assert sorted(extension.NVCC_FLAGS) == sorted([*COMMON_NVCC_FLAGS, "-std=c++20"])


# ---- without nvcc ---------------------------------------------------------------------------------------------------

CALLS = "float twice(float v) { return 2 * v; }\n__global__ void k(float* x) { x[0] = twice(x[0]); }"


@pytest.fixture
def no_nvcc(monkeypatch):
    monkeypatch.setattr(toolchain, "nvcc_candidates", list)


def test_without_nvcc_nvrtc_judges(no_nvcc, new_cache):
    pytest.importorskip("cuda.bindings.nvrtc")
    compile_kernel(f"{RIGHT}\nvoid host(float* x) {{ cudaMalloc(&x, 4); }}", "k")
    with pytest.raises(CompileError, match='overloaded function "max"') as raised:
        compile_kernel(WRONG, "k")
    assert raised.value.line == 3 and not left_in(new_cache)
    with pytest.raises(CompileError, match='overloaded function "max"'):
        load_cuda(TORCH.format(WRONG), "void run(torch::Tensor x);", "run")


def test_without_nvcc_the_reader_knows_functions_of_the_host(no_nvcc, monkeypatch):
    monkeypatch.setattr(verdict, "_has_nvrtc", lambda: False)
    with pytest.raises(CompileError, match="`k` runs on the GPU and calls `twice`, a function of the host") as raised:
        compile_kernel(CALLS, "k")
    assert raised.value.line == 2
    for mark in ("__device__", "__host__ __device__", "constexpr"):
        compile_kernel(f"{mark} {CALLS}", "k")
    compile_kernel(WRONG, "k")  # nobody notices


def test_a_gpu_rejects_the_same_functions_of_the_host(monkeypatch, no_nvcc):
    monkeypatch.setattr(toolchain, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(toolchain, "gpu_architecture", lambda: 90)
    judge = verdict.on_kernels(CALLS, ["k"])
    with pytest.raises(CompileError, match="a function of the host"):
        judge.beside(lambda: pytest.fail("it was compiled"), None, print)


# ---- the text that is judged ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "#define KERNEL(name) __global__ void name(float* x) { x[0] = 1; }\nKERNEL(k)\n",
        "namespace {\n__global__ void k(float* x) { x[0] = 1; }\n}\n",
        "static __global__ void k(float* x) { x[0] = 1; }\n",
        "__global__ void k(float* x) {}\nvoid b(torch::Tensor x) {\n#ifdef A\n  f(\n#else\n  g(\n#endif\n);}\n",
        "#ifdef __CUDACC__\n__global__ void k(float* x) { x[0] = 1; }\n#endif\n",
    ],
)
def test_what_is_judged_keeps_kernels_and_lines(text):
    source = f"#include <torch/extension.h>\n{text}torch::Tensor run(torch::Tensor x) {{\n  return x;\n}}\n"
    code = device_code(source)
    assert code.text.count("\n") == source.count("\n") and "torch" not in code.text and "__global__" in code.text
    assert [line for line in code.text.splitlines() if line.startswith("#")] == [
        line for line in source.splitlines() if line.startswith("#") and "torch" not in line
    ]


@pytest.mark.parametrize(
    ("header", "halves"),
    [
        ("torch/types.h", "halves.h"),
        ("ATen/cuda/CUDAContext.h", "halves.h"),
        ("c10/util/Half.h", "<cuda_fp16.h>"),
        ("c10/util/BFloat16.h", "<cuda_bf16.h>"),
        ("c10/util/Exception.h", ""),
        ("c10/cuda/CUDAException.h", ""),
    ],
)
def test_torch_s_headers_bring_the_types_of_16_bits_as_for_nvcc(header, halves):
    """`g++ -M -D__CUDACC__` of each header names what is expected here."""
    source = f"#include <{header}>\n__global__ void k(TYPE* x) {{ x[0] = x[1]; }}\n"
    (included, *kernel) = device_code(source.replace("TYPE", "half")).text.splitlines()
    assert halves in included and bool(halves) == bool(included) and "half" in kernel[0]
    assert device_code(source.replace("TYPE", "float")).text.startswith("\n")  # it would only take time


def test_kernels_that_use_torch_are_not_judged():
    source = "#include <ATen/ATen.h>\n__global__ void k(at::PhiloxCudaState x) {}\n"
    with pytest.raises(NotSplit):
        device_code(source)
    assert verdict.on_extension(source) is None


def test_kernels_that_use_torch_s_numbers_are_judged_with_their_headers(new_cache):
    source = """#include <torch/extension.h>
    using Half = at::Half;
    template <class T> __global__ void k(T* x) {{ x[0] = x[1] + T(2.0f); {} }}
    __global__ void k2(Half* x, c10::BFloat16* y) {{ y[0] = float(x[0]) + y[1]; x[1] = __float2half(2); }}
    void launch(torch::Tensor x) {{
        AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "k", [&] {{
            k<scalar_t><<<1, 1>>>(x.data_ptr<scalar_t>());
        }});
    }}"""
    bodies = [
        ("", ""),
        ("x[0] %= T(2);", 'no operator "%=" matches'),
        ("x[0] = half(1);", "no instance of constructor"),
    ]
    for number, (body, told) in enumerate(bodies):
        place = new_cache / str(number)
        place.mkdir()
        log = verdict.on_extension(source.format(body)).beside(lambda: "", place, print)
        assert bool(told) == bool(log) and told in log
        assert (place / "warnings.log").exists() != bool(told)


def test_headers_that_torch_includes_are_there_for_nvcc(new_cache):
    source = "#include <torch/extension.h>\n__global__ void k(float* x) {{ {} }}"
    halves = "x[0] = __half2float(__float2half(x[0])) + __bfloat162float(__float2bfloat16(x[0]));"
    bodies = [("std::mutex m; m.lock();", True), ("x[0] = FLT_MAX;", False), (halves, False)]
    for number, (body, rejected) in enumerate(bodies):
        place = new_cache / str(number)
        place.mkdir()
        log = verdict.on_extension(source.format(body)).beside(lambda: "", place, print)
        assert ("__host__ function" in log) == rejected and bool(log) == rejected
        assert (place / "warnings.log").exists() != rejected  # that is, nvcc accepts it


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('"%d %s\\n", 1.0f', 'expected type "int" but argument has type "double"'),
        ('"%d %d\\n", 1', "requires additional arguments"),
        ('"%d\\n", 1ll', 'expected type "int" but argument has type "long long"'),
        ('"%d %f %lld %s\\n", 1, 1.0f, 1ll, "one"', None),
    ],
)
def test_a_format_of_printf_that_does_not_fit_its_arguments(arguments, told):
    source = f"__global__ void k(float* x) {{\n    printf({arguments});\n}}"
    if told:
        with pytest.warns(CompileWarning, match=told):
            compile_kernel(source, "k")
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompileWarning)
            compile_kernel(source, "k")


WARNED = {
    "written in a host function": """__device__ int n = 3;
__global__ void k(float* x) { x[0] = n; }
void run(long p) { n = 4; k<<<1, 1>>>((float*)p); }""",
    "read in a host function": """__constant__ float c[2] = {1, 2};
__global__ void k(float* x) { x[0] = c[0]; }
void run(long p) { k<<<1, 1>>>((float*)p); ((float*)p)[1] = c[1]; }""",
    "calling a __host__ function": """int there(int v) { return v; }
__host__ __device__ int f(int t) { return there(t); }
__global__ void k(float* x) { x[0] = f(3); }
void run(long p) {}""",
    "dynamic initialization is not supported": """struct V { float a; __device__ V() : a(3) {} };
__global__ void k(float* x) { __shared__ V v; x[0] = v.a; }
void run(long p) {}""",
}


@pytest.mark.parametrize("warning", WARNED)
def test_what_nvcc_accepts_and_a_gpu_does_not_do_has_its_warning(warning):
    with pytest.warns(CompileWarning, match=warning):
        load_cuda(WARNED[warning], "void run(long p);", ["run"])


def test_nvcc_is_no_witness_for_a_text_that_it_does_not_see():
    with pytest.raises(CompileError, match="cpp_src, line 2: 'unknown' was not declared") as raised:
        load_cuda("void go() {}", "void go();\nvoid run() { unknown(); go(); }", ["run"])
    assert diagnostics.ACCEPTED not in str(raised.value)


def test_the_host_s_functions_may_have_a_macro_for_a_head():
    source = """#include <torch/types.h>
#define FUNCTION(name) torch::Tensor name(torch::Tensor x)
__global__ void k(float* p) { p[threadIdx.x] = 1; }
FUNCTION(launches) {
    k<<<1, 4>>>(x.data_ptr<float>());
    return x;
}
FUNCTION(frees) {
    cudaFree(nullptr);
    return x;
}
"""
    text = device_code(source).text
    assert "FUNCTION(" not in text.replace("define FUNCTION(", "") and "__global__ void k" in text


def test_special_functions_are_there_where_a_text_names_them():
    for host in ("float at(float x) { return std::riemann_zeta(x); }", "#include <tr1/cmath>"):
        compile_kernel(f"{host}\n__global__ void k(float* x) {{ x[0] = 1; }}", "k")
    named = "float at(float x) { return ZETA(x); }\n__global__ void k(float* x) { x[0] = 1; }"
    compile_kernel(named, "k", ("-DZETA=std::riemann_zeta",))
    with pytest.raises(CompileError, match="calling a __host__ function"):
        compile_kernel("__global__ void k(float* x) { x[0] = std::riemann_zeta(x[0]); }", "k")


def test_other_texts_do_not_wait_for_special_functions(capfd):
    for text, read in (("float a = std::numeric_limits<float>::max();", False), ("float beta = 1;", True)):
        compile_kernel(f"__device__ constexpr {text}\n__global__ void k(float* x) {{ x[0] = 1; }}", "k", verbose=True)
        assert ("-D_GLIBCXX_BITS_SPECFUN_H" in capfd.readouterr().out) != read


# nvcc's front end accepts each of these lines, some with a warning, and g++, to which it passes what is the host's,
# rejects those with words here.
_POINT = "struct P { int v; constexpr __host__ __device__ P(int x) : v(x) {}MORE }; __device__ P p(3);"
OF_HOST_PASS = [
    (_POINT.replace("MORE", ""), "no matching function(.|\n)*give P a constructor without arguments"),
    (_POINT.replace("MORE", " P() = default;"), ""),
    (
        "__constant__ float w[4]; template <float* p> __global__ void t(float* x) { x[0] = p[0]; } "
        "void go() { t<w><<<1, 1>>>(nullptr); }",
        "insufficient contextual information(.|\n)*template argument of a kernel",
    ),
    ("int f(int n) { switch (n) { case 0: int x = 1; return x; case 1: return 2; } return 3; }", "jump to case label"),
    ("__host__ __device__ int f(int* p) { return (int)p; }", "loses precision"),
    ("int many() { unsigned char few{300}; return few; }", "narrowing"),
    ("struct S { int S::f() { return 0; } };", "extra qualification"),
    ("__device__ int f(int n) { switch (n) { case 0: int x = 1; return x; case 1: return 2; } return 3; }", ""),
    ("__device__ int f(int* p) { return (int)p; }", ""),
    ("template <class T> int f(T* p) { return (int)p; }", ""),
    ("__host__ __device__ int f(int* p) {\n#ifdef __CUDA_ARCH__\n    return (int)p;\n#endif\n    return 0;\n}", ""),
]


@pytest.mark.parametrize(("line", "told"), OF_HOST_PASS)
def test_what_only_the_host_s_compiler_rejects(line, told):
    source = f"{RIGHT}\n{line}\nint main() {{ k<<<1, 1>>>(nullptr); }}\n"
    if not told:
        compile_kernel(source, "k")
        return
    with pytest.raises(CompileError, match=told) as raised:
        compile_kernel(source, "k")
    assert raised.value.line == 2


def test_a_rejection_has_its_line_where_the_locale_is_ascii(tmp_path):
    (tmp_path / "one.cu").write_text("int main() { int a = 1  // é\n    return a; }\n", encoding="utf-8")
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "utils.cuda.run", str(tmp_path / "one.cu")]
    ran = subprocess.run(command, env={**os.environ, **ascii_only}, capture_output=True, text=True)
    assert ran.returncode == 2 and 'one.cu, line 1: expected a ";"' in ran.stderr, ran.stderr


def test_what_nvcc_warns_of_in_a_header_is_no_mistake_of_the_source(tmp_path):
    cast = "__device__ int of(int* p) {\n    return (int)p;\n}\n"
    (tmp_path / "cast.cuh").write_text(cast)
    main = '#include "cast.cuh"\nint main() {\n    return 0;\n}\n'
    (tmp_path / "one.cu").write_text(main)
    assert run.main([str(tmp_path / "one.cu")]) == 0
    (tmp_path / "one.cu").write_text(main.replace("0", "(int)&main"))
    assert run.main([str(tmp_path / "one.cu")]) == 2


@pytest.mark.parametrize("header", ["cuda/std/barier", "cub/nothing.cuh", "thrust/nothing.h"])
def test_a_header_that_no_toolkit_has(header):
    if not any((toolchain.cuda_home() / "include" / place / "cub").is_dir() for place in ("", "cccl")):
        pytest.skip("this toolkit lacks the libraries whose headers these would be")
    with pytest.raises(CompileError, match=f"{header}: No such file"):
        compile_kernel(f"#include <{header}>\n{RIGHT}", "k")
    compile_kernel(f"#include <cub/cub.cuh>\n#include <cuda/std/cmath>\n{RIGHT}", "k")  # no name of which is used
