"""The verdict on sources with torch in them, whose host code nvcc does not get to see."""

import pytest
import torch

from tests.cuda.test_verdict import new_cache  # noqa: F401 (every build is a new one)
from utils import CompileError, load_cuda
from utils.cuda import verdict
from utils.cuda.common import calls, toolchain
from utils.cuda.cpu.translate import translate

pytestmark = [
    pytest.mark.skipif(not toolchain.nvcc_candidates(), reason="there is no nvcc"),
    pytest.mark.usefixtures("on_cpu"),
]

GO = "torch::Tensor go(torch::Tensor x)"


def built(source, body):
    """The source with a function that launches, for the CPU."""
    return load_cuda(f"{source}\n{GO} {{\n    {body}\n    return x;\n}}\n", f"{GO};", ["go"])


USES_TORCH = """#include <torch/extension.h>
#include <ATen/OpMathType.h>
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/detail/KernelUtils.h>
using namespace at::cuda::detail;
template <class scalar_t>
__global__ void C10_LAUNCH_BOUNDS_1(64) halves(torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> x) {
    using acc_t = at::opmath_type<scalar_t>;
    CUDA_KERNEL_LOOP(i, x.size(0)) x[i] = static_cast<scalar_t>(acc_t(x[i]) / MORE);
}
__global__ void conjugate(c10::complex<float>* x) { x[threadIdx.x] = std::conj(x[threadIdx.x]); }
__global__ void all(float* sum, const float* x) { gpuAtomicAdd(sum, x[threadIdx.x]); }
"""
LAUNCHES = """x = x.clone();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "go", [&] {
        halves<scalar_t><<<1, 64>>>(x.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>());
    });
    conjugate<<<1, 2>>>(reinterpret_cast<c10::complex<float>*>(x.data_ptr<float>()));
    all<<<1, 3>>>(x.data_ptr<float>() + 3, x.data_ptr<float>());"""


def test_what_kernels_use_of_torch_is_judged_with_its_headers(new_cache):  # noqa: F811
    x = torch.tensor([2.0, 4, 6, 8])
    module = built(USES_TORCH.replace("MORE", "acc_t(2)"), LAUNCHES)
    torch.testing.assert_close(module.go(x), torch.tensor([1.0, -2, 3, -4 + 1 - 2 + 3]))
    (warnings,) = [path.read_text() for path in new_cache.rglob("warnings.log")]  # nvcc has judged it
    assert "error" not in warnings
    wrong = USES_TORCH.replace("MORE", "max(2.0, 2)") + "void go(torch::Tensor x) { halves<float><<<1, 1>>>(x); }"
    judge, place = verdict.on_extension(wrong), new_cache / "wrong"
    place.mkdir()
    assert 'cuda_src(9): error: more than one instance of overloaded function "max"' in judge.beside(str, place, print)


def test_a_source_may_have_a_macro_of_torch_s_name():
    own = "#include <ATen/ATen.h>\n#define CUDA_KERNEL_LOOP(i, n) for (int i = threadIdx.x; i < n; i += blockDim.x)\n"
    judge = verdict.on_extension(own + "__global__ void k(float* x, int n) { CUDA_KERNEL_LOOP(i, n) x[i] = i; }")
    assert not judge.headers


def test_a_name_that_may_be_torch_s_is_no_mistake(new_cache):  # noqa: F811
    source = "#include <torch/extension.h>\nusing namespace at;\n__global__ void k(PhiloxCudaState x) {}\n"
    assert verdict.on_extension(source).beside(str, new_cache, print) == ""
    source = source.replace("PhiloxCudaState x", "float* x").replace("{}", "{ x[0] = max(x[0], 0); }")
    assert 'overloaded function "max"' in verdict.on_extension(source).beside(str, new_cache, print)


TWICE = "template <class T> T twice(T v) { return 2 * v; }\n"
KERNEL = "template <class T, int N = 1> __global__ void k(T* x) {\n    x[threadIdx.x] = twice(x[threadIdx.x]) + N;\n}\n"
LAUNCHER = "template <class T> void launch(torch::Tensor x) { k<T><<<1, 4>>>(x.data_ptr<T>()); }\n"
FUNCTOR = "struct Twice { DEVICE float operator()(float v) const { return 2 * v + 1; } };\n"
MAP = "template <class F> __global__ void k(F f, float* x) {\n    x[threadIdx.x] = f(x[threadIdx.x]);\n}\n"


@pytest.mark.parametrize(
    ("source", "body"),
    [
        (KERNEL, "auto p = x.data_ptr<float>(); k<<<1, 4>>>(p);"),
        (KERNEL + LAUNCHER, "launch<float>(x);"),
        (KERNEL, "using F = float; constexpr int N = 1; k<F, N><<<1, 4>>>(x.data_ptr<float>());"),
        (KERNEL, 'AT_DISPATCH_ALL_TYPES(x.scalar_type(), "k", [&] { k<<<1, 4>>>(x.data_ptr<scalar_t>()); });'),
        (FUNCTOR + MAP, "k<<<1, 4>>>(Twice{}, x.data_ptr<float>());"),
    ],
)
def test_instances_that_only_the_build_shows_are_judged(source, body):
    """Two builds each: what the instances call is a function of the host, and then of both."""
    for_device = "__host__ __device__ "
    with pytest.raises(CompileError, match="__host__ function.*is not allowed") as raised:
        built(TWICE + source.replace("DEVICE", ""), body)
    lines = (TWICE + source).splitlines()
    assert "x[threadIdx.x] = " in lines[raised.value.line - 1]
    right = TWICE.replace("T twice", f"{for_device}T twice") + source.replace("DEVICE", for_device)
    assert built(right, body).go(torch.ones(4)).tolist() == [3.0] * 4


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("k<<<1, 4>>>([](float v) { return 2 * v; }, x.data_ptr<float>());", "A type defined inside a __host__ fun"),
        (
            "struct Add { float a; __device__ float operator()(float v) const { return v + a; } };\n"
            "    k<<<1, 4>>>(Add{2}, x.data_ptr<float>());",
            r'A type defined inside a __host__ function \("Add"\)',
        ),
        ("k<<<1, 4>>>([=] __device__(float v) { return 2 * v; }, x.data_ptr<float>());", "requires --extended-lambda"),
    ],
)
def test_a_kernel_takes_no_type_of_a_host_function(body, told):
    with pytest.raises(CompileError, match=told) as raised:
        built(MAP, body)
    hint = "Move `Add` out of the function" if "struct" in body else "Outside the function, write a struct"
    assert raised.value.line == 6 + body.count("\n") and raised.value.hint.startswith(hint)


DEVICE = "__device__ float twice(float v) { return 2 * v; }\n__global__ void k(float* x) { x[0] = twice(x[0]); }"


@pytest.mark.parametrize("call", ["float y = twice(1);", "return x * twice(1);", "__syncwarp();", "atomicAdd(p, 1);"])
def test_the_host_does_not_call_what_is_for_the_device(call):
    with pytest.raises(CompileError, match="calling a __device__ function.* from a __host__ function") as raised:
        built(DEVICE, f"auto p = x.data_ptr<float>();\n    {call}")
    assert raised.value.line == 5 and "is for kernels" in raised.value.hint


def test_the_host_may_have_functions_of_its_own_with_these_names():
    source = f"{DEVICE}\nnamespace host {{ float twice(float v) {{ return v; }} }}\n"
    source += "float atomicAdd(float v) { return v; }\n"
    body = "auto add = [](float v) { return v; };\n    x = x * host::twice(2) + atomicAdd(1) + add(0);\n"
    body += "    auto twice = [](float v) { return 3 * v; };\n    x = x * twice(2);"
    body += "\n#ifdef __CUDA_ARCH__\n    __syncthreads();\n#endif"
    assert built(source, body).go(torch.ones(1)).item() == (1 * 2 + 1) * 6


@pytest.mark.parametrize(
    ("macro", "head"),
    [
        ("#define GLOBAL __global__", "GLOBAL void first(float* x)"),
        ("#define G __global__\n#define KERNEL G void", "KERNEL first(float* x)"),
        ("#define KERNEL(name) __global__ void name(float* x)", "KERNEL(first)"),
    ],
)
def test_a_macro_may_have_a_kernels_mark(macro, head):
    body = "{ x[threadIdx.x] = put(x[threadIdx.x]); __syncthreads(); }"
    device = "#define DEVICE_FLOAT static __device__ float\nDEVICE_FLOAT put(float v) { return v + 1; }"
    source = f"#include <torch/extension.h>\n{macro}\n{device}\n{head} {body}\n"
    calls.check_host(source)
    calls.check_device(source)
    translate(source)
    with pytest.raises(CompileError, match=r'calling a __device__ function\("put"\) from a __host__ function\("go"\)'):
        calls.check_host(source + "void go() { put(1); }\n")
