"""A source may use `gridDim` and the like for names of its own: each hides the built-in variable as C++ says."""

import pytest
import torch

from utils.cuda.cpu.translate import translate
from utils.cuda.kernel import compile_kernel

OWN = r"""
namespace q {
enum { blockDim = 2 };
enum class E { gridDim = 7 };
__device__ int threadIdx() { return 3; }
__device__ int both() { return blockDim * 10 + threadIdx(); }
namespace r { constexpr int blockIdx = 6; }
int f(int gridDim);
}
namespace q { __device__ int again() { return blockDim + r::blockIdx; } }
template <int blockDim> __device__ int f() { return blockDim; }
template <int blockDim, int N = blockDim> constexpr int twice = 2 * blockDim + N;
template <int gridDim> struct G { static constexpr int v = gridDim; __device__ int get(int (&x)[gridDim]); };
template <int gridDim> __device__ int G<gridDim>::get(int (&x)[gridDim]) { return gridDim + x[gridDim - 1]; }
struct L {
    int gridDim, blockDim_;
    __device__ L(int, int);
    __device__ int sum() const { return gridDim + blockDim.x; }
};
__device__ L::L(int g, int blockDim) : gridDim(g), blockDim_(blockDim) { blockDim_ = 10 * blockDim; }
struct Base { int threadIdx = 3; };
struct Derived : Base { __device__ int get() { return threadIdx + blockIdx.x; } };
__device__ auto trailing(dim3 gridDim) -> decltype(gridDim.x) { return gridDim.x + blockDim.x; }

__global__ void k(int* x) {
    if (threadIdx.x) return;
    int s = 0, n = 0, four[4] = {1, 2, 3, 4};
    for (int blockIdx = 0; blockIdx < 3; ++blockIdx) s += blockIdx;
    x[n++] = s + blockIdx.x;
    { int blockIdx = 4; s = blockIdx; }
    x[n++] = blockIdx.x + s;
    if (x[0]) { int gridDim = 2; s = gridDim; }
    x[n++] = gridDim.x + s;
    auto g = [](int blockDim) { return blockDim + 1; };
    x[n++] = g(5) + blockDim.x;
    auto h = [threadIdx = threadIdx.x + 9] { return threadIdx * 2; };
    x[n++] = h() + threadIdx.x;
    { auto [gridDim, blockDim] = make_int2(1, 3); x[n++] = gridDim + blockDim; }
    x[n++] = gridDim.x + blockDim.x;
    x[n++] = q::blockDim + q::threadIdx() + (int)q::E::gridDim + q::both() + q::again();
    x[n++] = f<8>() + G<4>::v + twice<2>;
    x[n++] = G<4>().get(four);
    L l(5, 6);
    x[n++] = l.gridDim + l.sum() + l.blockDim_;
    x[n++] = Derived().get() + trailing(gridDim);
    for (int gridDim = 0; gridDim < 2; gridDim++) if (gridDim) s = gridDim; else s = 7 + gridDim;
    x[n++] = s + gridDim.x;
    if (int blockDim = 12; blockDim < 0) s = 1; else s = blockDim;
    x[n++] = s + blockDim.x;
    { using q::blockDim; x[n++] = blockDim + ::blockDim.x; }
    { struct T { int threadIdx; }; T threadIdx{5}, *p = &threadIdx; x[n++] = threadIdx.threadIdx + p->threadIdx; }
    { enum { gridDim = 11, blockDim }; x[n++] = gridDim + blockDim; }
    goto blockIdx;
blockIdx:
    x[n++] = blockIdx.x + blockDim.x;
    do { int threadIdx = 3; s = threadIdx; } while (threadIdx.x > 5);
    x[n++] = s + threadIdx.x;
    switch (s) {
        case 3: int* gridDim = x; gridDim[n++] = 5; break;
        default: uint3 blockIdx; blockIdx.x = 1; s = blockIdx.x;
    }
    x[n++] = gridDim.x;
    int i = threadIdx.x, threadIdx = 8;
    x[n++] = i + threadIdx;
}
"""
VALUES = [3, 4, 3, 8, 18, 4, 3, 2 + 3 + 7 + 23 + 8, 8 + 4 + 6, 8, 5 + 7 + 60, 6, 2, 14, 4, 10, 23, 2, 3, 5, 1, 8]


@pytest.mark.usefixtures("on_cpu")
def test_names_hide_the_built_in_ones_in_their_own_scope():
    x = torch.zeros(len(VALUES), dtype=torch.int32)
    compile_kernel(OWN, "k")[1, 2](x)
    assert x.tolist() == VALUES


PRINTF = """#include <cstdio>
struct S {
    int printf;
    __device__ int value() { return printf; }
};
struct T { __device__ int printf(int v) { return v + 1; } };
__device__ int twice(int printf) { return 2 * printf; }
__global__ void k(int* x) {
    S s{4};
    S* p = &s;
    p->printf += 1;
    std::printf("%d ", x[0]);
    ::printf("%d ", p->printf);
    T t;
    { int printf = t.printf(6); x[0] = printf + s.value() + twice(10); }
    printf("%d", x[0]);
}
"""


@pytest.mark.usefixtures("on_cpu")
def test_printf_may_be_the_name_of_something_else(capfd):
    x = torch.zeros(1, dtype=torch.int32)
    compile_kernel(PRINTF, "k")[1, 1](x)
    assert capfd.readouterr().out == "0 5 32"


STD = """#include <cstdio>
#include <cmath>
using namespace std;
const int size = 16, data = 2;
struct string { int v; };
enum { empty = 3, greater = 4 };
__device__ int plus(int a) { return a; }
__device__ int hash(int a) { return a; }
__device__ int less(int a) { return a; }
__global__ void k(int* x) { string s{5}; x[0] = plus(data) + s.v + hash(size) + less(2) + empty + greater; }
"""


@pytest.mark.usefixtures("on_cpu")
def test_no_name_of_std_is_there_that_nvcc_does_not_have():
    x = torch.zeros(1, dtype=torch.int32)
    compile_kernel(STD, "k")[1, 1](x)
    assert x == 32


def test_only_names_of_a_source_s_own_are_renamed():
    for usual in ("x[threadIdx.x] = blockDim.x;", "f(threadIdx, gridDim);", "a < b && b > blockIdx.x;"):
        assert translate(f"__global__ void k(int* x) {{ {usual} }}").endswith(f"{{ {usual} }}")
    kept = "struct S { dim3 gridDim_; S(dim3 gridDim) { gridDim_ = gridDim; } };"
    assert translate(kept) == "struct S { dim3 gridDim__; S(dim3 gridDim_) { gridDim__ = gridDim_; } };"
