"""Hints about pointers, numbers and vectors, and about names of other languages: what each mistake is answered with."""

import pytest

from utils import CompileError, compile_kernel
from utils.cuda.common.hints import hint

pytestmark = pytest.mark.usefixtures("on_cpu")

KERNEL = "__global__ void k({}) {{\n    int i = threadIdx.x;\n    {}\n}}\n"
HALF, GROUPS = "#include <cuda_fp16.h>\n", "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
POINT = "struct Point { float a; };\n"
ROUND = "struct Round { float r; Round(float r) : r(r) {} float twice() { return 2 * r; } };\n"
SUM = POINT + "Point operator+(Point p, Point q) { return {p.a + q.a}; }\n"

FP16 = "#include <cuda_fp16.h>\n"
MISTAKES = {
    "float index": ("", "float* x, float r", "x[2 * r] = 1;", "An index is a whole number, but `r` is not"),
    "dot": (POINT, "Point* p", "p.a = 1;", "`p` is a pointer to a `Point`: write `p->a`, or `p[i].a`."),
    "method": (ROUND, "Round* p, float* x", "x[i] = p->twice();", "Mark `Round::twice` (line 1) with `__device__`"),
    "constructor": (ROUND, "float* x", "x[i] = Round(2).r;", "Mark `Round::Round` (line 1) with `__device__`"),
    "operator": (SUM, "Point* p", "p[i] = p[0] + p[1];", "Mark `operator+` (line 2) with `__device__`"),
    "min of array": ("", "int* x", "x[i] = min(x + 60, 255);", "`x` is a pointer, the address of an array: write `"),
    "constexpr": ("", "float* x, int n", "constexpr int m = n * 2; x[m] = 0;", "What is known only when the kernel "
                  "runs needs `const` instead"),
    "case": ("", "float* x, int n", "switch (i) { case n: x[i] = 0; }", "What is known only when the kernel runs needs "
             "`if` and `else if`"),
    "if constexpr": ("", "float* x, int n", "if constexpr (n > 3) x[i] = 1;", "What is known only when the kernel runs "
                     "needs `if` instead"),
    "limit": ("", "float* x", "x[i] = FLT_MAX;", "`FLT_MAX` needs `#include <cfloat>`"),
    "min of long and int": ("", "long* x, long n", "x[i] = min(n, 0);",
                            "Both arguments of `min` must have the same type: write `0L`."),
    "min of two types": ("", "int* x", "x[i] = min(x[i] + 60, 255.0);",
                         "Both arguments of `min` must have the same type"),
    "shared number": ("", "float* x", "__shared__ float tile; tile[threadIdx.x] = x[0];",
                      "`tile` is one number, not an array: declare it as in `__shared__ float tile[64];`."),
    "shared by the launch": ("", "float* x", "extern __shared__ float tile; tile[threadIdx.x] = x[0];",
                             "`tile` is one number, not an array: declare it as in `extern __shared__ float tile[];`."),
    "max of halves": (HALF, "half* x", "x[i] = max(x[1], x[2]);", "For these there is `__hmax`"),
    "half and float": (HALF, "half* x, float f", "x[i] = x[1] * f;", "Both sides need one type: `__half2"),
    "sqrt of half": (HALF, "half* x", "x[i] = sqrt(x[1]);", "For half there is `hsqrt`"),
    "bfloat16": ("", "bfloat16* x", "", "C++ has no `bfloat16`: write `__nv_bfloat16`, of `cuda_bf16.h`."),
    "long long": ("", "long long* x", "atomicAdd(x, 1LL);", "CUDA has it for `unsigned long long`: cast the"),
    "bytes": ("", "unsigned char* x", "atomicAdd(x, 1);", "CUDA has no `atomicAdd` for `unsigned char *`: use"),
    "no factor sign": ("", "float* x, float t", "x[i] = (1 - t) x[1];", "C++ needs the `*` between two factors"),
    "number and name": ("", "float* x, int r", "x[i] = 2r;", "C++ needs the `*`: `2 * r`."),
    "parentheses": ("", "float* x", "x[i] = x(i);", "An element is `x[i]`, with brackets."),
    "upper case": ("", "float* x, int n", "x[i] = N;", "Upper and lower case differ in C++: did you mean `n`?"),
    "numba": ("", "float* x", "int j = cuda.grid(1); x[j] = 0;", "C++ has no `cuda.grid`: write `blockIdx"),
    "no mask": ("", "float* x", "x[i] = __shfl_xor_sync(x[i], 1);", "Its first argument is the mask of the lanes"),
    "without sync": ("", "unsigned* x", "x[i] = __ballot(x[1]);", "Write `__ballot_sync(0xffffffff, ...)`"),
    "no alias": ("", "float* x", "auto b = cg::this_thread_block();", "Put `#include <cooperative_groups.h>` and"),
    "no header": (GROUPS, "float* x", "auto b = cg::this_thread_block(); x[i] = cg::reduce(b, 1, cg::plus<int>());",
                  "That needs `#include <cooperative_groups/reduce.h>`"),
    "wmma": ("#include <mma.h>\n", "float* x", "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;", "Put `#incl"),
    "float3": ("", "float3* x", "x[i] = float3(1, 2, 3);", "`make_float3(...)` makes one."),
    "arrays": ("", "float* x", "float a[3], b[3]; a = b; x[i] = a[0];", "`a` is an array, which cannot be assig"),
    "brackets": ("", "float* x", "float[3] a; x[i] = a[0];", "The brackets come after the name: `float a[3]`."),
    "semicolon": ("", "int* x", "x[i] = min(x[i] + 60; 255);", "A `;` ends a statement: within the brackets of line 3"),
    "ldg of three": ("", "float3* x", "float3 v = __ldg(x); x[i] = v;", "`__ldg` reads no `float3`: read it member"),
    "shuffle of four": ("", "float4* x", "x[i] = __shfl_xor_sync(~0u, x[i], 1);", "`__shfl_xor_sync` takes no `flo"),
    "half2 to float2": (FP16, "half2* x, float2* y", "float2 v = x[i];", "Both numbers are converted by `__half22flo"),
    "float2 to half2": (FP16, "half2* x, float2* y", "x[i] = y[i];", "Both numbers are converted by `__float22half2_r"),
    "host variable": ("int base = 3;\n", "int* x", "x[i] = base;", "`base` is in the host's memory: pass its value"),
    "another function's variable": (
        "__device__ int f(int a) { int row = 2 * a; return row; }\n",
        "int* x",
        "x[i] = f(i) + row;",
        "`row` of line 1 is known only in `f`: pass it on as an argument.",
    ),
    "the nearest of two such variables": (
        "__device__ int f(int a) { return a; }\n\n\n",
        "int* x",
        "x[i] = a; }\nint g(int a) { return a;",
        "`a` of line 7 is known only in `g`: pass it on as an argument.",
    ),
    "a decimal index": ("", "float* x, size_t n", "x[2.0f * n] = 1;", "An index is a whole number: `2.0` in it makes"),
    "Python's choice": ("", "int* x", "x[i] = True if x[i] else False;", "C++ writes that as `x[i] ? true : false`."),
    "half without its header": ("", "float* x", "x[i] = __half2float(3);", "`__half2float` needs `#include <cuda_fp1"),
    "a kernel's parameter": (
        "__device__ int f(int a) { return a * width; }\n",
        "int* x, int width",
        "x[i] = f(i);",
        "`width` of line 2 is known only in `k`: pass it on as an argument.",
    ),
    "twice": ("__device__ int one() { return 1; }\n" * 2, "int* x", "x[i] = one();", "Line 1 has a `one` already"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_its_hint(mistake):
    before, parameters, text, hint = MISTAKES[mistake]
    with pytest.raises(CompileError) as raised:
        compile_kernel(before + KERNEL.format(parameters, text), "k")
    assert (raised.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("line", "message", "expected"),
    [
        (
            "cudaMalloc(h[1], 16);",
            'no instance of overloaded function "cudaMalloc" matches the argument list',
            "It sets the pointer, so it takes the pointer's address: `cudaMalloc(&h[1], ...)`.",
        ),
        (
            "float v = x[i];",
            'no suitable conversion function from "const __half" to "float" exists',
            "Convert it: `__half2float(x)`, `__float2half(x)`; for bfloat16, `__bfloat162float(x)`.",
        ),
        (
            "float v = x[i];",
            "cannot convert 'at::Tensor' to 'float' in initialization",
            "`x[i]` is a tensor too: its value is `x[i].item<float>()`.",
        ),
        (
            "cudaMemPrefetchAsync(d, 16, 0, 0);",
            'no suitable constructor exists to convert from "int" to "cudaMemLocation"',
            "CUDA 13 takes a place: `cudaMemLocation{cudaMemLocationTypeDevice, device}`, and for a prefetch 0 flags.",
        ),
    ],
)
def test_calls_of_the_host(line, message, expected):
    assert hint(f"int main() {{\n{line}\n}}\n", 2, message) == expected


def test_an_extern_shared_array_of_two_types():
    source = "template <class T> __device__ void f(T* x) { extern __shared__ T s[]; s[0] = x[0]; x[1] = s[0]; }\n"
    with pytest.raises(CompileError) as raised:
        compile_kernel(f"{source}__global__ void k(float* x, int* y) {{ f(x); f(y); }}", "k")
    assert raised.value.hint.startswith("All kernels share one `extern __shared__` array of a name")
