"""Which declarations of device code get a value in a trace, and that the text otherwise stays the same."""

import re

import pytest

from utils.cuda.cpu.unset_locals import with_unset_locals

DECLARED = [
    ("float v;", "v"),
    ("float v, w = 2, *p, q[4][3], r = f(a, b), t;", "v p q t"),
    ("unsigned i, j; long long k;", "i j k"),
    ("const float* x; T* y; T u;", "x u"),  # `T * y;` may be a product
    ("Vec<float, 4> m; Vec<float, (N + 1)>::type mm, m2{1}; int e(3); typename A<T>::B b;", "m mm b"),
    ("alignas(16) float a[4]; __align__(16) half h[8];", "a h"),
    ("auto f = [&](int i) { int inner; }; g([&] { double d; for (int i; ;) {} float ee; });", "inner d i ee"),
    ("for (int i, j; i < n, j > k; i++) { half h; x[i] = 1; }", "i j h"),
    ("if (n) for (unsigned u = 0, w; u < n; u++) y[u] = w; else if (int q; n < 3) y[0] = q; for (T t; ;) n++;", "w q"),
    ("switch (n) { case 0: float c; break; default: { int d; } }", "c d"),
    ("struct S { float member; int z; } s; S s2; struct S s3; enum E e;", "s s2 s3 e"),
    ("struct { int a; } one; union U { float f; int i; } *p, u; enum { A, B } c; decltype(n) m;", "one p u c m"),
    (
        "switch (n) { case N + 1: int c; case A::b: default: float d; break; } again: int e; [[maybe_unused]] int f;",
        "c d e f",
    ),
    ("n ? a : b; case 1: return; case 2: foo(x); here: a * b; label: n = 1; struct T; struct U { int m; };", ""),
    ("volatile float v; static int st; __shared__ float sh[3]; extern __shared__ int ex[];", "v"),
    ("struct T; a * b; enum E; n;", ""),
    ("a * b; i < n; i & n; x[i] = y; i++; foo(x); return x; goto lab; __syncthreads();", ""),
    ("float n, t = hit(&n), u; V v, *p = &v; int a[2], b = f(a); int i, j = (i = 3);", "n u i"),
    ("T v = g<a, b, c>::x, w; float first = x < y, second;", ""),
]


@pytest.mark.parametrize(("body", "names"), DECLARED)
def test_declarations_without_a_value(body, names):
    source = f"__global__ void k(float* y, int n) {{\n{body}\n}}\n"
    changed = with_unset_locals(source)
    assert re.findall(r"CUDA_ON_CPU_UNSET(?:_VALUE)?\((\w+)(?:, \d)?\)", changed) == names.split()
    assert re.sub(r" CUDA_ON_CPU_UNSET(_VALUE)?\(\w+(, \d)?\)", "", changed) == source


def test_only_device_code():
    for before, changes in (("__device__", True), ("DEVICE", True), ("", False), ("constexpr __device__", False)):
        source = f"#define DEVICE __device__ inline\n{before} void f() {{ int v; }}\nstruct S {{ float x; }};"
        assert ("CUDA_ON_CPU_UNSET(v)" in with_unset_locals(source)) == changes


CLASSES = """struct Sum { float a; int n; __device__ Sum(float x) : a(x) {} __device__ Sum(float x, int) { a = x; } };
template <class T> struct Of { T a; int n; __device__ explicit Of(T x) : a(x + 1) {} };
struct Counts { int n; __device__ Counts(int* p) { n = atomicAdd(p, 1); } };
struct Takes { int n; __device__ Takes(int* p) : n(atomicAdd(p, 1)) {} };
struct Braces { int n; __device__ Braces(int* p, int i) : n{i} { atomicAdd(p, 1); } };
struct Reads { int n; __device__ Reads(int* p) : n(p[1]) {} };
struct Adds { int n; __device__ Adds(int* p) { *p += 1; } };
struct Plain { int n; };
"""
CONSTRUCTED = {
    "Sum s(v);": "(s, 0, Sum(v))",
    "Sum s{(float)n, 3}; Sum t(2.f);": "(s, 0, Sum{(float)n, 3})(t, 1, Sum(2.f))",
    "Of<float> s(v + 2);": "(s, 0, Of<float>(v + 2))",
    "Sum s(float); Sum t(f(n)); Sum u(n++); Sum v(int m, int k); Sum w(); Sum* p(q); const Sum c(1);": "",
    "Takes t(q); Braces b(q, 1); Reads r(q); Sum s(y[n]); Sum u(*y); Sum w(p->x);": "",
    "Counts c(q); Adds a(q); Plain p{3}; Sum(3); float s(n); return Sum(3);": "",
}


@pytest.mark.parametrize("body", CONSTRUCTED)
def test_objects_that_may_be_constructed_twice(body):
    changed = with_unset_locals(f"{CLASSES}__global__ void k(float* y, int n, int* q) {{\n{body}\n}}\n")
    assert (
        "".join(re.findall(r"CUDA_ON_CPU_UNSET_MEMBERS(\(\w+, \d, .*?[)}]\))(?= |$)", changed, re.MULTILINE))
        == CONSTRUCTED[body]
    )
