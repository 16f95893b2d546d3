"""Arrays that are members of a local variable, and copies by memcpy: an overrun is reported with its line and names."""

import re

import pytest
import torch

from tests.cuda.cpu.trace.reports import in_device_code
from utils import compile_kernel
from utils.cuda.cpu import build
from utils.cuda.cpu.array_members import may_be_longer, with_marks_around_structs
from utils.cuda.kernel import compile_kernels
from utils.ground import system

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
struct Row { int n; float v[8]; };
struct Stack {
    int top = 0;
    float v[8];
    __device__ void push(float x) { v[top++] = x; }
};
template <int N> struct Tile { float cells[N][4]; };
struct Nested { Row row; int last; };
__device__ __noinline__ void fill(float* v, int n) {
    for (int i = 0; i < n; i++)
        v[i] = i;
}
__device__ __noinline__ void fill_row(Row& r, int n) {
    for (int i = 0; i < n; i++)
        r.v[i] = i;
}
template <int N> __device__ void fill_tile(Tile<N>& t, int n) {
    for (int i = 0; i < n; i++)
        t.cells[i][n % 4] = i;
}
__global__ void index(float* x, int n) {
    Row r{};
    r.v[n] = 1;
    x[threadIdx.x] = r.v[0];
}
__global__ void pointer(float* x, int n) {
    Row r;
    fill(r.v, n);
    x[threadIdx.x] = r.v[0];
}
__global__ void reference(float* x, int n) {
    Row r;
    fill_row(r, n);
    x[threadIdx.x] = r.v[0];
}
__global__ void method(float* x, int n) {
    Stack s;
    for (int i = 0; i < n; i++) s.push(i);
    x[threadIdx.x] = s.v[0];
}
__global__ void instance(float* x, int n) {
    Tile<8> t = {};
    fill_tile(t, n);
    x[threadIdx.x] = t.cells[0][0];
}
__global__ void nested(float* x, int n) {
    Nested two[2];
    Nested one = {};
    fill(&one.row.v[0], n);
    two[0] = one;
    x[threadIdx.x] = two[0].row.v[0];
}
__global__ void own_type(float* x, int n) {
    struct Own { int n; float v[8]; } one = {4};
    float* p = one.v;
    for (int i = 0; i < n; i++)
        *p++ = i;
    x[threadIdx.x] = one.v[0] + one.n;
}
__global__ void unnamed_type(float* x, int n) {
    struct {
        float v[8];
        int n;
    } one, other;
    other.v[0] = 1;
    fill(one.v, n);
    x[threadIdx.x] = one.v[0] + other.v[0];
}
__global__ void in_shared_memory(float* x, int n) {
    __shared__ Row r;
    for (int i = 0; i < n; i++)
        r.v[i] = i;
    x[threadIdx.x] = r.v[0];
}
__global__ void cleared(float* x, int n) {
    float v[8];
    memset(v, 0, n * 4);
    x[threadIdx.x] = v[0];
}
__global__ void copied(float* x, int n) {
    float v[8];
    memcpy(v, x + 32, n * sizeof(float));
    x[threadIdx.x] = v[0];
}
__global__ void copied_out(float* x, int n) {
    float v[16] = {1, 2, 3, 4, 5, 6, 7, 8};
    memcpy(x + 56, v, n * sizeof(float));
}
"""
INDEX = "uses v[8], but v has 8 elements"
BYTES = "writes 4 bytes at byte 36 of r, but r has 36 bytes"
OVERRUNS = {
    "index": (8, "    r.v[n] = 1;", INDEX),
    "pointer": (9, "        v[i] = i;", BYTES),
    "reference": (9, "        r.v[i] = i;", INDEX),
    "method": (9, "    __device__ void push(float x) { v[top++] = x; }", INDEX),
    "instance": (9, "        t.cells[i][n % 4] = i;", "uses cells[8][..], but the first index of cells ends at 7"),
    "nested": (10, "        v[i] = i;", "writes 4 bytes at byte 40 of one, but one has 40 bytes"),
    "own_type": (9, "        *p++ = i;", BYTES.replace(" r", " one")),
    "unnamed_type": (10, "        v[i] = i;", BYTES.replace(" r", " one")),
    "in_shared_memory": (9, "        r.v[i] = i;", INDEX),
    "cleared": (9, "    memset(v, 0, n * 4);", "writes v[0] to v[8], but v has 8 elements"),
    "copied": (10, "    memcpy(v, x + 32, n * sizeof(float));", "writes v[0] to v[9], but v has 8 elements"),
    "copied_out": (9, "    memcpy(x + 56, v, n * sizeof(float));", "writes x[56] to x[64], but x has 64 elements"),
}


@pytest.fixture(scope="module")
def kernels():
    return dict(zip(OVERRUNS, compile_kernels(SOURCE, list(OVERRUNS)), strict=True))


@pytest.mark.parametrize("name", OVERRUNS)
def test_a_trace_finds_the_overrun(kernels, name):
    n, line, told = OVERRUNS[name]
    assert kernels[name].trace[1, 1](torch.zeros(64), 8 - (name == "index")).ok
    (problem, *others) = kernels[name].trace[1, 1](torch.zeros(64), n).problems
    assert (problem.kind, SOURCE.splitlines()[problem.line - 1]) == ("out_of_bounds", line), problem
    assert told in str(problem)
    assert not others, others


VECTORS = """
struct Vec { float e[3]; __device__ float& operator[](int i) { return e[i]; } };
struct Row { int n; Vec v; };
__device__ void put(Vec& a, int n) { for (int i = 0; i < n; i++) a[i] = i; }
__device__ Vec made(float x) { Vec a; a[0] = a[1] = a[2] = x; return a; }
"""
WAYS = {
    "two": "Vec a, b; put(b, 3); put(a, n); x[0] = a.e[0] + b.e[0];",
    "with_a_pointer": "Vec a = made(1), b = {}, *p = &a; put(b, 3); put(*p, n); x[0] = a.e[0] + b.e[0];",
    "by_a_function": "auto a = made(x[0]); put(a, n); x[0] = a.e[0];",
    "by_braces": "auto a = Vec{}; put(a, n); x[0] = a.e[0];",
    "of_an_array": "Vec a[2] = {}; a[1][n - 1] = 3; x[0] = a[1].e[0];",
    "of_an_array_without_a_value": "Vec a[2]; put(a[0], 3); put(a[1], n); x[0] = a[1].e[0];",
    "member": "Row r; r.v = made(2); put(r.v, n); x[0] = r.v.e[0];",
    "operator_of_a_member": "Row r = {}; r.v[n - 1] = 2; x[0] = r.v.e[0];",
    "by_parentheses": "Vec a(made(2)); put(a, n); x[0] = a.e[0];",
}


@pytest.fixture(scope="module")
def vectors():
    kernels = (f"__global__ void {name}(float* x, int n) {{ {code} }}\n" for name, code in WAYS.items())
    return dict(zip(WAYS, compile_kernels(VECTORS + "".join(kernels), list(WAYS)), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_one_element_more_however_the_variable_is_declared(vectors, way):
    assert vectors[way].trace[1, 1](torch.zeros(64), 3).ok
    (problem, *_) = vectors[way].trace[1, 1](torch.zeros(64), 4).problems
    assert problem.kind == "out_of_bounds" and re.search(r" (?:of|writes) ([ar])\b.*, but \1 has ", str(problem)), (
        problem
    )


def test_a_compiler_that_checks_memcpy_by_itself_as_ubuntu_s_does(tmp_path, monkeypatch):
    if "clang" in system.cxx_compiler():
        pytest.skip("about g++")
    wrapper = tmp_path / "g++"
    wrapper.write_text(f'#!/bin/sh\nexec {system.cxx_compiler()} -D_FORTIFY_SOURCE=2 "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(build, "_compiler", lambda traced: str(wrapper))
    n, line, told = OVERRUNS["copied"]
    kernel = compile_kernel(SOURCE + "// built by another compiler", "copied")
    (problem,) = kernel.trace[1, 1](torch.zeros(64), n).problems
    assert (problem.kind, SOURCE.splitlines()[problem.line - 1]) == ("out_of_bounds", line) and told in str(problem)
    with pytest.raises(RuntimeError, match="of copied writes past the end of a local array"):
        kernel[1, 1](torch.zeros(64), 16)


def test_a_copy_over_several_arrays_is_blamed_on_the_one_where_it_begins():
    source = """__global__ void k(const float* x, float* y, int n) {
        float a[4], b[4], c[4];
        for (int i = 0; i < 4; i++) c[i] = b[i] = i;
        memcpy(a, x, n * sizeof(float));
        y[0] = a[n % 4] + b[n % 3] + c[n % 2];
    }"""
    (problem, *_) = compile_kernel(source, "k").trace[1, 1](torch.rand(64), torch.zeros(1), 16).problems
    assert problem.line == 4 and "writes a[0] to a[15], but a has 4 elements" in problem.message


def test_memcpy_to_where_it_overlaps_itself():
    source = "__global__ void k(float* x, int to) {\n    memcpy(x + to, x + 4, 16);\n}\n"
    traced = compile_kernel(source, "k").trace
    for to, message in {
        5: "copies 16 bytes with memcpy to a place that overlaps them, 4 bytes further on",
        1: "copies 16 bytes with memcpy to a place that overlaps them, 12 bytes further back",
    }.items():
        (problem,) = traced[1, 1](torch.ones(16), to).problems
        assert problem.kind == "undefined" and problem.line == 2 and message in problem.message
        assert "C++ leaves this undefined: use a loop" in problem.hint
    for apart in (0, 4, 8):
        assert traced[1, 1](torch.ones(16), apart).ok


def test_memcpy_is_counted_as_nvcc_compiles_it():
    source = """
    struct Four { float v[4]; };
    __global__ void k(float* y, const float* x) {
        __shared__ float4 s[32];
        memcpy(s + threadIdx.x, x + 4 * threadIdx.x, 16);
        memcpy(y + 4 * threadIdx.x, s + threadIdx.x, 16);
    }
    __global__ void whole(Four* y, const Four* x) { y[threadIdx.x] = x[threadIdx.x]; }"""
    copied, whole = compile_kernels(source, ["k", "whole"])
    x = torch.rand(128)
    for kernel in (copied, whole):
        kernel[1, 32](y := torch.empty(128), x)
        assert torch.equal(x, y)
    found = copied.trace[1, 32](torch.empty(128), x).requests
    told = found.groupby(["line", "space", "op"])[["requests", "bytes"]].max()
    # Its PTX: 16 times ld.global.u8 and st.global.u8, and whole float4 in shared memory, whose alignment it knows.
    assert told.loc[5, "global", "load"].tolist() == told.loc[6, "global", "store"].tolist() == [16, 1]
    assert told.loc[5, "shared", "store"].tolist() == told.loc[6, "shared", "load"].tolist() == [1, 16]
    found = whole.trace[1, 32](torch.empty(128), x).requests
    assert found["requests"].tolist() == [4, 4] and found["bytes"].tolist() == [4, 4]


def test_races_through_memcpy_are_noticed():
    source = """
    __global__ void k(float* y, const float* x) {
        __shared__ float s[64];
        memset(s, 0, 256);
        memcpy(s + 2 * threadIdx.x, x + 2 * threadIdx.x, 8);
        y[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    (problem, *_) = compile_kernel(source, "k").trace[1, 32](torch.zeros(32), torch.rand(64)).problems
    assert (problem.kind, problem.line) == ("race", 4)


def test_the_last_array_of_a_type_may_stand_for_more_elements():
    source = """
    struct List { int n; float v[1]; };
    __global__ void k(float* x, int n) {
        extern __shared__ char memory[];
        List* list = reinterpret_cast<List*>(memory);
        if (threadIdx.x == 0) {
            list->n = n;
            for (int i = 0; i < n; i++) list->v[i] = i;
        }
        __syncthreads();
        x[threadIdx.x] = list->v[threadIdx.x % n];
    }"""
    assert may_be_longer(source) and not may_be_longer(source.replace("v[1]", "v[2]"))
    kernel = compile_kernel(source, "k")
    assert kernel.trace[1, 32, 4 + 4 * 16](x := torch.zeros(32), 16).ok
    kernel[1, 32, 4 + 4 * 16](x, 16)
    assert x.tolist() == [*range(16)] * 2


TYPES = """
struct Row { int n; float v[8]; Row() {} Row(int, int) {} };
template <class T> struct Pair { T x[2], y; };
struct Plain { float x, y; };
struct Holder { Plain p; Pair<int> pair; };
struct Pointing { Row* row; };
using Ints = Pair<int>;
"""
DECLARED = {
    "Row r; f(r);": 'UnsetLocal<Row> cuda_on_cpu_room_of_r{"r"}; auto& r',
    "Row r(1, 2); f(&r);": 'Local<Row> cuda_on_cpu_room_of_r{{"r", sizeof(Row)}, Row(1, 2), {}}; auto& r',
    "const Pair<float> q{{1, 2}, 3}; f(q.x);": 'Local<const Pair<float>> cuda_on_cpu_room_of_q{{"q", '
    "sizeof(const Pair<float>)}, Pair<float>{{1, 2}, 3}, {}}; auto& q",
    "Holder h = make(1, 2); h.go();": 'Local<Holder> cuda_on_cpu_room_of_h{{"h", sizeof(Holder)}, make(1, 2), {}}',
    "Ints i; f(i.x);": 'UnsetLocal<Ints> cuda_on_cpu_room_of_i{"i"}; auto& i',
    "Row r; r.v[i] = r.n;": None,
    "Row r(int a, int b); Row* p; Row& s = *p; static Row t; __shared__ Row u; f(p, s, t, u);": None,
    "Row r; f(r); decltype(r) other;": None,
    "Row r; f(r); constexpr int n = r.size();": None,
    "Plain p; f(p); Pointing q; f(q); Row(1, 2);": None,
    "struct Own { float v[4]; } o = {4}; f(o.v);": "struct Own { float v[4]; }; ::cuda_on_cpu::Local<Own> "
    'cuda_on_cpu_room_of_o{{"o", sizeof(Own)}, {4}, {}}; auto& o',
    "const struct { float v[4]; } o{}; f(o.v);": "{ float v[4]; }; ::cuda_on_cpu::Local<const cuda_on_cpu_type_",
    "struct Own { float x; } o; f(o);": None,
    "struct Own { float v[4]; }; f(3);": None,
    "Row r, s; f(s);": 'Row r; ::cuda_on_cpu::UnsetLocal<Row> cuda_on_cpu_room_of_s{"s"}; auto& s',
}


@pytest.mark.parametrize("text", DECLARED)
def test_which_variables_get_marks(text):
    found = in_device_code(with_marks_around_structs, TYPES, text)
    if DECLARED[text] is None:
        assert found is None
    else:
        assert DECLARED[text] in found and found.count("cuda_on_cpu_room_of") == 2
