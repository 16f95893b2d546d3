"""C's designators in lists of values: elements in any order, ranges, and members of members, as nvcc accepts them."""

import pytest
import torch

from utils.cuda.cpu.designators import without_designators
from utils.cuda.kernel import compile_kernel

KERNEL = r"""
#define HEX 0x2
struct B { int u, v; };
struct A { B b; int x[3]; int y; };
namespace q { struct P { int x, y; static constexpr int I = 1; }; }
enum { E0, E4 = 4, E5 };
constexpr int N = 2, M = N * 2 - 1;
__constant__ int c[] = {[E5] = 1, [E0] = 3, [E4] = 6};
__device__ int cut[2][3] = {{1, [2] = 7}, {[1] = 5}};
__device__ int d[3][3] = {[1][2] = 1, [0][1] = 4, [2] = {[1] = 3}};
__device__ const char* names[3] = {[2] = "two", [0] = "ze, ro"};
template <class T> __device__ int of(T s) {
    T a[3] = {[2] = s, [0] = T(4)}, b[4] = {[1] = s, 9};
    return a[0] + 10 * a[1] + 100 * a[2] + 1000 * b[2];
}

__global__ void k(int* x) {
    int n = 0, i = 0;
    auto put = [&](const int* a, int count) { for (int j = 0; j < count; j++) x[n++] = a[j]; };
    int a1[4] = {[0 ... 2] = 3};
    put(a1, 4);
    int a2[5] = {1, [N] = 2, 4};
    put(a2, 5);
    int a3[3] = {[2] = i++, [0] = 10 + i++};
    put(a3, 3);
    unsigned long a4[] = {[HEX] = 5, [M] = 6, [q::P::I] = 8};
    x[n++] = a4[1] + 10 * a4[2] + 100 * a4[3] + 1000 * sizeof(a4);
    A s = {.b.v = 2, .x[1] = 4, .y = 3};
    put(&s.b.u, 2), put(s.x, 3), put(&s.y, 1);
    q::P p[3] = {[2].x = 1, [2].y = 2, [0].y = 3};
    put(&p[0].x, 6);
    q::P r[3] = {[0] = 5, [2] = 6};
    put(&r[0].x, 6);
    q::P t[3] = {[1] = 5, 6, 7};
    put(&t[0].x, 6);
    put(c, 6), put(cut[0], 6), put(d[0], 9);
    x[n++] = names[2][0] == 't' && names[0][2] == ',' && !names[1];
    int a5[7] = {[1 ... 3] = 9, [2] = 8, 7};
    put(a5, 5);
    int a6[] = {
        [1] = 5,  // one
        [3] = __LINE__,
    };
    put(a6, 4);
    float2 f[2] = {[1] = make_float2(1, 2), [0] = {3, 4}};
    x[n++] = f[0].x + 10 * f[1].y;
    x[n++] = of(3);
}
"""
LINE = 1 + KERNEL[: KERNEL.index("__LINE__")].count("\n")
VALUES = [[3, 3, 3, 0], [1, 0, 2, 4, 0], [10, 0, 1], [8 + 50 + 600 + 32000], [0, 2, 0, 4, 0, 3], [0, 3, 0, 0, 1, 2]]
VALUES += [[5, 0, 0, 0, 6, 0], [0, 0, 5, 6, 7, 0], [3, 0, 0, 0, 6, 1], [1, 0, 7, 0, 5, 0], [0, 4, 0, 0, 0, 1, 0, 3, 0]]
VALUES += [[1], [0, 9, 8, 7, 0], [0, 5, 0, LINE], [3 + 20], [4 + 300 + 9000]]


@pytest.mark.usefixtures("on_cpu")
def test_the_values_of_lists_with_designators():  # as in nvcc's PTX, which the order of i++ in a3 is from, too
    expected = [value for values in VALUES for value in values]
    kernel = compile_kernel(KERNEL, "k")
    x = torch.zeros(len(expected), dtype=torch.int32)
    kernel[1, 1](x)
    assert x.tolist() == expected
    assert kernel.trace[1, 1](torch.zeros(len(expected), dtype=torch.int32)).args[0].tolist() == expected


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("int a[] = {\n  [1] = 5,  // one\n  [3] = 7,\n};", "int a[] = {\n  {}, 5,  // one\n  {}, 7,\n};"),
        ("int a[] = {\n [1] = 5,\n [0] = 7}; b;", "int a[] = {\n 7, 5\n}; b;"),
        ("#define A {[1] = 5, \\\n [0] = 7} here", "#define A {{7}, {5}\\\n} here"),
        ("int a[9] = {[010] = 1};", "int a[9] = {{}, {}, {}, {}, {}, {}, {}, {}, 1};"),
        ("int a[3] = {[1] = -1, [1] = 3};", "int a[3] = {{}, 3};"),
        ("P p = {.a.x = {1, 2}, .y = 3};", "P p = {.a = {.x = {1, 2}}, .y = 3};"),
    ],
)
def test_lists_become_plain_on_their_lines(source, plain):
    assert without_designators(source) == plain


@pytest.mark.parametrize(
    "source",
    [
        "P p = {.a.x = 1, 5};",
        "P p[3] = {5, [2] = 6};",
        "int a[2][2] = {[0][1] = 1, 2};",
        "int a[3] = {[1] = f(), [1] = 3};",
        "int a[3] = {[0 ... 1] = {1,\n2}};",
        "void f() { int a[4] = {[n] = 4}; }",
        "const int n = 1; void f() { const int n = 2; int a[4] = {[n] = 4}; }",
        "P p = {.y = {.x = 1}, .z = 2};",
        "void f() { [=] { g(1, [&] { return x; }); }(); auto [a, b] = p; h({.x = 1}, [i] { return .5; }); }",
    ],
)
def test_what_is_unclear_or_plain_stays(source):
    assert without_designators(source) == source


def test_an_index_that_python_would_round_otherwise_is_left_to_the_compiler():
    source = "__global__ void k(int* x) { int a[6] = {[5 + -3 / 2] = 7}; x[0] = a[4]; }"
    assert without_designators(source) == source
    assert "{}, {}, 7}" in without_designators(source.replace("-3 / 2", "-3"))
