"""What only g++ refuses: the hint says what both compilers take, and that compiles."""

import pytest

from utils import CompileError, compile_kernel, load_cuda

CASTER = """
template <class T> struct Caster { template <int N> static __device__ float cast(T v) { return v * N; } };
template <class T> __device__ float twice(T v) { return WHAT; }
__global__ void k(float* y) { y[0] = twice(y[0]); }
"""
SUM = "__device__ float sum(const float* v) { return v[0] + v[1]; }\n__global__ void k(float* y) { y[0] = WHAT; }\n"
PACKED = """
struct __attribute__((packed)) Odd { char c; int i; };
__device__ void add_one(int* x) { int old; memcpy(&old, x, 4); old++; memcpy(x, &old, 4); }
__device__ void add_one(int& x) { x++; }
__global__ void k(Odd* y) { WHAT; }
"""
# The source, its part that g++ refuses, what it is to be, and the hint.
CASES = {
    "a member template": (CASTER, "Caster<T>::cast<2>(v)", "Caster<T>::template cast<2>(v)",
                          "C++ wants the word `template` there: `Caster<T>::template cast<2>(...)`."),
    "an array without a name": (SUM, "sum((float[2]){y[0], y[1]})",
                                "0; const float weights[] = {y[0], y[1]}; y[0] = sum(weights)",
                                "Give the array a name, `const float weights[] = {1.0f, 2.0f};`, and pass that."),
    "a packed struct": (PACKED, "add_one(y->i)", "int i = y->i; add_one(i); y->i = i",
                        "A reference must be aligned, which `y->Odd::i` of a packed struct may not be: pass a copy"),
    "a pointer above 0": ("__global__ void k(float* y) { if (WHAT) y[0] = 1; }", "y > 0", "y != nullptr",
                          "To ask whether a pointer is set, write `y != nullptr`."),
    "asm": ("__global__ void k(int* y) { WHAT; y[0] = a; }", 'const int a = 0; asm("mov.u32 %0, 3;" : "=r"(a))',
            'int a = 0; asm("mov.u32 %0, 3;" : "=r"(a))', "What `asm` writes to must be a variable without `const`."),
}  # fmt: skip


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("case", CASES)
def test_the_hint_says_what_both_compilers_take(case):
    source, refused, taken, words = CASES[case]
    with pytest.raises(CompileError, match="NVIDIA's compiler accepts this device code") as raised:
        compile_kernel(source.replace("WHAT", refused), "k")
    assert raised.value.hint.startswith(words)
    compile_kernel(source.replace("WHAT", taken), "k")


BRACES = """
struct Point { float x, y; };
template <class T> __global__ void sum(T* out, Point p) { out[0] = p.x + p.y; }
void run(torch::Tensor out) { sum<<<1, 1>>>(out.data_ptr<float>(), WHAT); }
"""


@pytest.mark.usefixtures("on_cpu")
def test_braces_in_the_launch_of_a_template():
    with pytest.raises(CompileError) as raised:
        load_cuda(BRACES.replace("WHAT", "{1.0f, 2.0f}"), "void run(torch::Tensor out);", ["run"])
    assert (raised.value.line, "a template passes braces without a type" in str(raised.value)) == (4, True)
    assert raised.value.hint == "Name the type in front of the braces: `Point{1.0f, 2.0f}`."
