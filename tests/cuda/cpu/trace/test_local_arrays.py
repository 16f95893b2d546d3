"""Overruns of local variables through references to elements and through addresses: the line, by any amount."""

import pytest
import torch

from tests.cuda.cpu.trace.reports import in_device_code
from utils.cuda.cpu.local_arrays import with_marks
from utils.cuda.kernel import compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#define ON_CHIP __shared__
struct Hit { float t; int id; __device__ void set(int i) { id = i; } };
__device__ void load(float& to, const float* from) { to = *from; }
__device__ __noinline__ void put(float& to, float v) { to = v; }
__device__ __noinline__ void set(float* p, int i) { p[i] = 9; }
__device__ __noinline__ void only(float* p, int* n) { *p = *n; }
__global__ void reference(float* x, int n) {
    Hit hits[4];
    for (int i = 0; i <= n; i++) {
        Hit& h = hits[i];
        h.t = i;
    }
    x[threadIdx.x] = hits[0].t;
}
__global__ void automatic(float* x, int n) {
    float c[4] = {};
    const auto& a = c[n];
    x[threadIdx.x] = a;
}
__global__ void argument(float* x, int n) {
    float c[4] = {};
    load(c[n], x);
    x[threadIdx.x] = c[0];
}
__global__ void not_inlined(float* x, int n) {
    float c[4] = {1, 2, 3, 4};
    put(c[n], 7);
    x[threadIdx.x] = c[0] + c[3];
}
__global__ void lambda(float* x, int n) {
    float c[4] = {};
    auto at = [&](int i) -> float& { return c[i]; };
    at(n) = 7;
    x[threadIdx.x] = c[0];
}
__global__ void method(float* x, int n) {
    Hit hits[4] = {};
    hits[n].set(3);
    x[threadIdx.x] = hits[0].id;
}
__global__ void row(float* x, int n) {
    float m[4][3] = {};
    put(m[n][1], 7);
    x[threadIdx.x] = m[0][1];
}
__global__ void column(float* x, int n) {
    float m[3][4] = {};
    put(m[1][n], 7);
    x[threadIdx.x] = m[1][1];
}
__global__ void past_the_end(float* x, int n) {
    float c[4] = {1, 2, 3, 4}, sum = 0;
    const float *end = c + n, *same = &c[n];
    for (float* p = c; p != end; p++) sum += *p;
    x[threadIdx.x] = end == same ? sum : 0;
}
__global__ void scalar(float* x, int n) {
    float a = 1, b = 2;
    set(&a, n);
    x[threadIdx.x] = a + b;
}
__global__ void through_pointer(float* x, int n) {
    float4 v = {};
    float b = 2, *p = &v.x;
    set(p, n + 3);
    x[threadIdx.x] = v.w + b;
}
__global__ void of_class(float* x, int n) {
    Hit h{1, 2};
    set(reinterpret_cast<float*>(&h), n + 1);
    x[threadIdx.x] = h.t;
}
__global__ void out(float* x, int n) {
    float a;
    only(&a, &n);
    x[threadIdx.x] = a;
}
"""
LINES = {
    "reference": "        Hit& h = hits[i];",
    "automatic": "    const auto& a = c[n];",
    "argument": "    load(c[n], x);",
    "not_inlined": "    put(c[n], 7);",
    "lambda": "    auto at = [&](int i) -> float& { return c[i]; };",
    "method": "    hits[n].set(3);",
    "row": "    put(m[n][1], 7);",
    "column": "    put(m[1][n], 7);",
}
SET = "__device__ __noinline__ void set(float* p, int i) { p[i] = 9; }"
ADDRESSES = {"scalar": "a", "through_pointer": "v", "of_class": "h"}
INSIDE = ["past_the_end", "out"]


@pytest.fixture(scope="module")
def kernels():
    names = [*LINES, *ADDRESSES, *INSIDE]
    return dict(zip(names, compile_kernels(SOURCE, names), strict=True))


@pytest.mark.parametrize("name", LINES)
def test_a_reference_to_an_element_beyond_the_end(kernels, name):
    assert kernels[name].trace[1, 1](torch.zeros(32), 3).ok
    for n in [4, 5, 9, 100] + [-1, -9] * (name != "reference"):
        (problem, *_) = kernels[name].trace[1, 1](torch.zeros(32), n).problems
        assert (problem.kind, SOURCE.splitlines()[problem.line - 1]) == ("out_of_bounds", LINES[name]), (n, problem)


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_function_that_takes_a_variable_for_an_array(kernels, name):
    assert kernels[name].trace[1, 32](torch.zeros(32), 0).ok
    for n in (1, 2, 3, 4, 9, 10, 19, 20, 200, -5, -12, -13, -200):
        (problem, *_) = kernels[name].trace[1, 32](torch.zeros(32), n).problems
        assert (problem.kind, SOURCE.splitlines()[problem.line - 1]) == ("out_of_bounds", SET), (n, problem)
        assert problem.thread == (0, 0, 0) and f" of {ADDRESSES[name]}, but {ADDRESSES[name]} has " in str(problem)


@pytest.mark.parametrize("name", INSIDE)
def test_an_address_that_nobody_uses_beyond_its_variable(kernels, name):
    assert kernels[name].trace[1, 32](x := torch.zeros(32), 4).ok
    kernels[name][1, 32](x, 4)
    assert x.unique().tolist() == [10 if name == "past_the_end" else 4]


DECLARED = {
    "float a = 1, b; set(&a, n); b = a;": 'Local<float> cuda_on_cpu_room_of_a{{"a", sizeof(float)}, 1, {}}; '
    "auto& a = cuda_on_cpu_room_of_a.value; float b; set(&a, n); b = a;",
    "float a, b; set(&a, n); set(&b, n);": 'UnsetLocal<float> cuda_on_cpu_room_of_b{"b", 6}; auto& b',
    "float c[4], b; set(c, n);": 'UnsetLocal<float[(4)]> cuda_on_cpu_room_of_c{"c"}',
    "Hit h{1, 2}; set((float*)&h, n);": 'Local<Hit> cuda_on_cpu_room_of_h{{"h", sizeof(Hit)}, Hit{1, 2}, {}}',
    "float c[4]; put(c[n++], 1); c[n] = c[0] * 2;": "put(::cuda_on_cpu::element(c, n++), 1); c[n] = c[0] * 2;",
    "int m[2][3]; f(m[m[0][n]][1]);": "f(::cuda_on_cpu::element(::cuda_on_cpu::element(m, m[0][n]), 1));",
    "Hit h[2]; f(h[n].id); h[n] = h[0];": "f(h[n].id); ::cuda_on_cpu::element(h, n) = ::cuda_on_cpu::element(h, 0);",
    'const char* s = " ;"; float c[4], b; set(c, n);': 'const char* s = " ;"; ::cuda_on_cpu::UnsetLocal<float[(4)]>',
    'const char *s, *t = " ;"; set((float*)&s, n);': 'const char * t = " ;";',
    "float a; int k; only(&a, &k);": None,
    "float a, b; sincosf(x, &a, &b); b = n & a;": None,
    "ON_CHIP float c[4], a; set(&a, 1); set(c, 1);": None,
    "const int a = 2; only2(&a); set(&x[n], a);": None,
    "float c[4]; c[n] = 1; x[0] = c[1] + sizeof(c[n]);": None,
    "float c[4]; decltype(c) d; f(c[n]);": None,
}


@pytest.mark.parametrize("text", DECLARED)
def test_which_variables_get_marks_and_which_elements_are_checked(text):
    found = in_device_code(with_marks, SOURCE, text)
    assert found is None if DECLARED[text] is None else DECLARED[text] in found
