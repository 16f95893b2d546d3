"""`__shared__` variables are static: lambdas use them without capturing them, and their types are what nvcc says."""

import pytest
import torch

from utils.cuda.cpu.translate import TranslationError, translate
from utils.cuda.kernel import compile_kernel, compile_kernels

KERNELS = r"""
#include <type_traits>
#define AT(q) t[(q) % 32]
#define ROW(type, name) __shared__ type name##_row[32]
template <class A, class B> constexpr bool same = std::is_same<A, B>::value;
template <class T, int N> __host__ __device__ constexpr int length(T (&)[N]) { return N; }
__shared__ int outside[32];
extern __shared__ float sized[];
#define SHARED(type) __shared__ type
#define SIZES [4][8]
namespace inner { __shared__ int used[2]; }
using inner::used;
namespace inner { __shared__ int number; __device__ int get() { return [] { return number; }(); } }
struct Pair { int a; float b[3]; };
template <class F> __device__ int called(F f, int q) { return f(q); }

__global__ void copied(int* x) {  // by [=], a lambda would read what the array held when it was made
    int i = threadIdx.x;
    __shared__ int t[32], n;
    __shared__ Pair p;
    ROW(int, my);
    auto read = [=](int q) { return t[q] + n + p.a + outside[q] + my_row[q]; };
    auto write = [=](int v) { t[i] = v, outside[i] = 2 * v, my_row[i] = 0; if (!i) n = 100, p.a = 1000; };
    static_assert(sizeof(read) == 1);
    write(i);
    __syncthreads();
    x[i] = read(31 - i);
}

__global__ void uncaptured(int* x) {
    int i = threadIdx.x;
    __shared__ int t[32];
    extern __shared__ int more[];
    auto put = [](int q, auto v) { t[q] = v; };
    int (*get)(int) = [](int q) { return t[q]; };
    auto make = [](int a) { return [=](int q) -> decltype(t[0] + a) { return AT(q) + a + [] { return more[1]; }(); }; };
    struct Local { int n = sizeof(t) / 4; __device__ int get(int q) const { return t[q] + n; } };
    auto own = [](int q) {
        __shared__ int z[32];
        z[q] = q;
        __syncthreads();
        return [] { return z[31 - threadIdx.x]; }();
    };
    put(i, i);
    if (!i) more[1] = 100, inner::number = 5000;
    __syncthreads();
    x[i] = get(31 - i) + called(make(1000), 31 - i) + Local().get(0) + own(i) + inner::get();
}

template <int N> __global__ void typed(int* x) {
    __shared__ float s[N][8], v;
    __shared__ Pair p[2];
    extern __shared__ double d[];
    static_assert(same<decltype(s), float[N][8]> && same<decltype((s)), float (&)[N][8]> && same<decltype(v), float>);
    static_assert(same<decltype(p), Pair[2]> && same<decltype(d), double[]> && same<decltype(sized), float[]>);
    static_assert(same<decltype(&d), double (*)[]> && same<decltype(outside), int[32]> && length(s) == N);
    constexpr int columns = length(s[0]), bytes = [] { return sizeof(s); }();
    decltype(s) own;
    decltype(v) one = 1;
    auto copy = v;
    auto first = s[0];
    static_assert(same<decltype(copy), float> && same<decltype(first), float*> && sizeof(own) == sizeof s);
    own[0][0] = v = 2, copy = one;
    x[0] = columns, x[1] = bytes, x[2] = own[0][0], x[3] = v, x[4] = copy, x[5] = first == &s[0][0];
    d[1] = 7, x[6] = reinterpret_cast<float2*>(&d)[1].y == (*(float2*)(d + 1)).y, x[7] = (float*)&d == sized;
}

__global__ void hidden(int* x) {  // other variables of the same name
    __shared__ int t[4];
    int i = threadIdx.x;
    t[i] = 1;
    auto given = [](const int* t) { return t[0]; };
    auto made = [t = 5] { return t; };
    int sum = given(x) + made();
    for (int t = 0; t < 2; t++) sum += [=] { return t; }();
    { int *t = x; sum += [=] { return t[0]; }(); }
    { int a = 2, t = 30; sum += [&] { return a + t; }(); }
    for (auto& [t, u] : {Two{100, 1}}) sum += [t = t] { return t; }();
    struct Has { int t; __device__ int get() { return [this] { return t; }(); } };
    x[i] = sum + Has{1000}.get() + [] { return t[threadIdx.x]; }();
}

__global__ void spelled(int* x) {
    SHARED(int) m[32];
    __shared__ int n SIZES, (o)[4], p[sizeof(n) / sizeof(n[0])];
    static_assert(sizeof(p) == 16 && sizeof(o) == 16);
    m[31] = 1, n[3][7] = 10, o[3] = 100, p[3] = 1000, used[1] = 10000;
    x[0] = m[31] + n[3][7] + o[3] + p[3] + inner::used[1];
}

namespace p {
__shared__ int buf[4];
struct V { __device__ int& operator[](int i) const { return buf[i]; } };
namespace in { __shared__ int n; }
}
namespace { __shared__ int hidden_away; }
__device__ int directive() { using namespace p; return in::n + buf[0] + [] { return buf[1]; }(); }
__global__ void spaced(int* x) {
    using p::buf, p::in::n;
    p::V v;
    v[0] = 1, v[1] = 2, buf[2] = 3, n = 100, hidden_away = 1000;
    x[0] = v[2] + [] { return buf[0] + buf[1] + n + hidden_away; }();
    x[1] = directive();
}

#define DECL2(T, a, b) __shared__ T a##_s[2]; __shared__ T b##_s[2]
#define DECL4(T, n) DECL2(T, n, n##n)
#define DIMS(a, b) [a][b]
#define PTR(T) T*
#define C2(a, b) a##b
#define C1(a, b) C2(a, b)
#define UNIQUE(T) __shared__ T C1(sh_, __LINE__)
__global__ void by_macros(int* x) {
    DECL2(int, a, b);
    DECL4(short, c);
    a_s[0] = 1, b_s[1] = 2, c_s[0] = 3, cc_s[1] = 4;
    x[0] = [] { return a_s[0] + b_s[1] + c_s[0] + cc_s[1]; }();
    __shared__ int m DIMS(2, 3);
    __shared__ PTR(int) q;
    __shared__ int o, r DIMS(1, sizeof(int) == 4 ? 2 : 1)[3], *pp;
    m[1][2] = 4, q = x, o = sizeof(m) + sizeof(r), pp = q;
    x[1] = [] { return m[1][2] + o; }() + (pp == x);
    UNIQUE(int); C1(sh_, __LINE__) = 6, x[2] = C1(sh_, __LINE__);
}

__device__ int s__shared(int x) { return x; }
__device__ int labelled__bounds = 3, s__type = 1;
__global__ void __launch_bounds__(32) labelled(int* x) {
    __shared__ int s, t;
    goto s;
s:
    s = 1, t = labelled__bounds + s__type + s__shared(s) + s;
    x[0] = t;
    if (s > 5) goto t;
    x[1] = 7;
t:
    x[2] = t + 1;
}
""".replace("struct Pair", "struct Two { int t, u; };\nstruct Pair")


@pytest.fixture(scope="module")
def kernels():
    names = ["copied", "uncaptured", "typed<4>", "hidden", "spelled", "spaced", "by_macros", "labelled"]
    return dict(zip(names, compile_kernels(KERNELS, names), strict=True))


pytestmark = pytest.mark.usefixtures("on_cpu")
REVERSED = 31 - torch.arange(32, dtype=torch.int32)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("name", "threads", "expected"),
    [
        ("copied", 32, 3 * REVERSED + 1100),
        ("uncaptured", 32, REVERSED * 3 + 1000 + 100 + 0 + 32 + 5000),
        ("typed<4>", 1, torch.tensor([8, 4 * 8 * 4, 2, 2, 1, 1, 1, 1])),
        ("hidden", 1, torch.tensor([3 + 5 + 1 + 3 + 32 + 100 + 1000 + 1])),
        ("spelled", 1, torch.tensor([11111])),
        ("spaced", 1, torch.tensor([1106, 103])),
        ("by_macros", 1, torch.tensor([10, 4 + 24 + 24 + 1, 6])),
        ("labelled", 1, torch.tensor([6, 7, 7])),
    ],
)
def test_shared_variables_are_static(kernels, name, threads, expected, traced):
    x = torch.full((len(expected),), 3, dtype=torch.int32)
    launched = kernels[name]
    if traced:
        trace = launched.trace[1, threads, 64](x)
        assert trace.ok, trace
        x = trace.args[0]
    else:
        launched[1, threads, 64](x)
    assert x.tolist() == expected.tolist()


def test_a_trace_names_a_shared_variable_in_a_lambda_and_its_line():
    source = (
        "__global__ void k(float* x) {\n __shared__ float s[4][8];\n auto f = [](int q) {\n  s[1][q] = 1; };\n f(8);}"
    )
    report = str(compile_kernel(source, "k").trace[1, 1](torch.zeros(1)))
    assert "uses s[..][8], but the second index of s ends at 7 (line 4: " in report


def test_capturing_a_shared_variable_is_refused_as_by_nvcc():
    for captures in ("t", "&t", "=, &t", "a = 1, t"):
        with pytest.raises(TranslationError, match="`t` is a __shared__ variable") as raised:
            translate(
                "__global__ void k() {\n __shared__ int t[4];\n" + f"auto f = [{captures}] {{ return t[0]; }};" + "}"
            )
        assert raised.value.line == 3
    for captures in ("v = t[0]", "&r = t", "t = t[0]"):
        translate("__global__ void k() { __shared__ int t[4]; " + f"auto f = [{captures}] {{ return 1; }};" + "}")
