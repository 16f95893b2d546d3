"""Every device function that NVIDIA's headers declare exists here, or its absence has a reason."""

import re
import subprocess

import pytest
import torch

from utils import compile_kernel
from utils.cuda.common import cxx
from utils.cuda.common.toolchain import cuda_home
from utils.cuda.cpu.placed import INCLUDE
from utils.cuda.kernel import compile_kernels
from utils.ground.system import cxx_compiler

HEADERS = """crt/math_functions.h crt/device_functions.h crt/device_double_functions.h crt/sm_70_rt.h crt/sm_80_rt.h
crt/sm_90_rt.h device_atomic_functions.h sm_20_intrinsics.h sm_30_intrinsics.h sm_32_intrinsics.h sm_35_intrinsics.h
sm_32_atomic_functions.h sm_60_atomic_functions.h sm_61_intrinsics.h sm_20_atomic_functions.h vector_functions.h
cuda_fp16.h cuda_bf16.h cuda_fp8.h cuda_pipeline_primitives.h""".split()

ABSENT = {
    "not for sources: NVIDIA's own headers call them": r"""
        _\w+|__\w*_impl|__(BFLOAT16|HALF)_TO_US|__(FLOAT|DOUBLE)_BITS|__libcpp_\w+|__pow_helper|__cmath_power|__isfinite
        |__nv_(aligned_device_malloc|associate_access_property|memcpy_async_shared_global_\d+)|__cudaPushCallConfiguration
        |__internal_cast_u2s|__u128Atomic\w+""",
    "outdated: NVIDIA documents none of them any more": r"""
        dmul|dadd|dsub|double2u?(int|ll)|double2ull|u?ll2double|u?int2double|float2double|syncthreads_(count|and|or)""",
    "no compute capability of a profile has them": r"__f(fma|add|mul)2_r[nzdu]|__\w*e8m0\w*",
    "constants and arguments have no address space of their own": r"""
        __is(Constant|GridConstant)|__cvta_(generic_to_)?(grid_)?constant(_to_generic)?""",
}


def declared():
    """The names before parentheses in declarations that are marked as device functions."""
    home = cuda_home()
    if home is None:
        pytest.skip("NVIDIA's headers are not installed")
    found = set()
    for header in HEADERS:
        path = home / "include" / header
        text = cxx.code(path.read_text()) if path.exists() else ""
        marks = r"\w*(?:DEVICE|MATH|INTRINSICS|FP16|BF16|ATOMIC|VECTOR)\w*_DECL__|__device__"
        found |= set(re.findall(rf"(?:{marks})[^;(){{}}#]*?\b(\w+)\s*\(", text))
    words = {"operator", "throw", "noexcept", "asm", "defined"}
    marks = r"DECL__|DEPRECATED|^__(attribute|declspec|builtin|align)|^alignas$|^__NV_ATOMIC"
    return {name for name in found - words if not re.search(marks, name)}


def test_every_device_function_of_nvidias_headers_exists_or_has_a_reason_not_to(tmp_path):
    names = sorted(declared())
    assert len(names) > 800
    includes = ["cuda_runtime", "cuda_fp16", "cuda_bf16", "cuda_fp8", "cuda_pipeline"]
    includes += ["vector_functions", "cuda_occupancy", "crt/host_defines", "math_functions"]
    uses = [f"#include <{header}.h>" for header in includes] + ["namespace check {"]
    uses += ["#line 1", *(f"using ::{name};" for name in names), "}"]
    source = tmp_path / "names.cpp"
    source.write_text("\n".join(uses))
    command = [cxx_compiler(), "-std=gnu++17", f"-I{INCLUDE}", "-fsyntax-only", str(source)]
    log = subprocess.run(command, capture_output=True, text=True).stderr
    absent = {names[int(line) - 1] for line in re.findall(r"names\.cpp:(\d+):\d+: error", log)}
    reasons = [re.sub(r"\s", "", pattern) for pattern in ABSENT.values()]
    assert {name for name in absent if not any(re.fullmatch(pattern, name) for pattern in reasons)} == set()


def test_sources_can_ask_whether_a_header_of_nvidias_was_included():
    home = cuda_home()
    if home is None:
        pytest.skip("NVIDIA's headers are not installed")
    asked = {}
    for own in sorted(INCLUDE.glob("*.h")):
        theirs = home / "include" / own.name
        guard = theirs.exists() and re.search(
            r"^#\s*(?:ifndef|if !defined\s*\()\s*(\w+_H_+)\b", theirs.read_text(), re.M
        )
        if guard:
            command = [cxx_compiler(), "-std=gnu++17", f"-I{INCLUDE}", "-dM", "-E", "-x", "c++", str(own)]
            defined = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            asked[own.name, guard[1]] = re.search(rf"^#define {guard[1]}\b", defined, re.M) is not None
    assert ("cublas_v2.h", "CUBLAS_V2_H_") in asked and ("cuda_runtime.h", "__CUDA_RUNTIME_H__") in asked
    assert [guard for guard, is_defined in asked.items() if not is_defined] == []
    # samples of NVIDIA's ask for these two, which are in headers that those headers include
    assert "#define __DRIVER_TYPES_H__" in (INCLUDE / "cuda_runtime.h").read_text()
    assert "#define CUBLAS_API_H_" in (INCLUDE / "cublas_v2.h").read_text()


HEADERS_ALONE = """
driver_types.h builtin_types.h device_types.h vector_functions.hpp sm_20_intrinsics.h sm_30_intrinsics.h
device_atomic_functions.h cuda_device_runtime_api.h math_functions.h host_defines.h crt/host_defines.h
device_double_functions.h cuda_pipeline_helpers.h nv/target cuda_fp16.h cuda_bf16.h""".split()
USES = r"""
__host__ __device__ int side() { NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return 1;), (return 2;)) }
__global__ void k(float* x) {
    x[0] = side();
    NV_IF_TARGET(NV_PROVIDES_SM_80, (x[1] = 8; x[2] = 80;))
    NV_IF_TARGET(NV_IS_HOST, (x[3] = 9;), (x[3] = 3;))
    x[4] = __half2float(CUDART_ONE_FP16) + __half2float(CUDART_MAX_NORMAL_FP16) + __half2float(CUDART_ZERO_FP16);
    x[5] = __half2float(CUDART_INF_FP16), x[6] = __half2float(CUDART_MIN_DENORM_FP16);
    x[7] = __bfloat162float(CUDART_ONE_BF16) + __bfloat162float(CUDART_ZERO_BF16);
    x[8] = __bfloat162float(CUDART_MAX_NORMAL_BF16), x[9] = __bfloat162float(CUDART_INF_BF16);
    x[10] = isnan(__half2float(CUDART_NAN_FP16)) + isnan(__bfloat162float(CUDART_NAN_BF16));
    x[11] = 1 / __half2float(CUDART_NEG_ZERO_FP16) + 1 / __bfloat162float(CUDART_NEG_ZERO_BF16);
}
"""


@pytest.mark.usefixtures("on_cpu")
def test_headers_and_constants_of_nvidias():
    x = torch.zeros(12)
    compile_kernel("".join(f"#include <{header}>\n" for header in HEADERS_ALONE) + USES, "k")[1, 1](x)
    inf, most = float("inf"), torch.finfo(torch.bfloat16).max
    assert x.tolist() == [1, 8, 80, 3, 65505, inf, 2**-24, 1, most, inf, 2, -inf]


# Every name that a kernel has is here something else's, too.
HIDDEN = r"""
#include <functional>
template <class F> __device__ void each(F f, int n) { for (int i = 0; i < n; i++) f(i); }
__global__ void f(float* x) { each([&](int i) { x[i] = i; }, 4); }

struct Base { __device__ float hidden(float v) { return v + 1; } };
struct Factor : Base {
    float k;
    __device__ float twice(float v) { return scale(v) * 2 + hidden(v); }
    __device__ float half(float v);
    __device__ float scale(float v) { return k * v; }
};
__device__ float Factor::half(float v) { return scale(v) / 2; }
__global__ void scale(float* x) { Factor a{{}, 3}; x[0] = a.twice(2) + a.half(4); }
__global__ void hidden(float* x) {
    auto hidden = [](float v) { return v - 1; };
    x[0] = hidden(x[1]);
}
__device__ float third(float v) { return v / 3; }
__global__ void pointer(float* x) {
    float (*pointer)(float) = third;
    x[0] = pointer(6);
}
template <class F> struct Work { F f; Work(F given) : f(given) {} int go(); };
template <class F> int Work<F>::go() { return f(1); }
int run(std::function<int(int)> scale) { auto g = [f = scale](int i) { return f(i); }; return scale(1) + g(2); }
"""


@pytest.mark.usefixtures("on_cpu")
def test_a_variable_or_a_member_may_be_named_like_a_kernel():
    kernels = compile_kernels(HIDDEN, ["f", "scale", "hidden", "pointer"])
    results = []
    for kernel in kernels:
        x = torch.full((4,), 5.0)
        kernel[1, 1](x)
        results.append(x.tolist())
    assert results == [[0, 1, 2, 3], [21, 5, 5, 5], [4, 5, 5, 5], [2, 5, 5, 5]]
