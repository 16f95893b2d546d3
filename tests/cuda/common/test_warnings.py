"""What compiles but hardly does what is meant: a CompileWarning with the learner's line, whenever a build is used."""

import os
import shutil
import subprocess
import warnings

import pytest

from tests.cuda.common.mistakes import MISTAKES, in_kernel
from tests.nvcc.sources import course
from utils import compile_kernel
from utils.cuda.common import diagnostics
from utils.cuda.common.cache import build_once
from utils.cuda.common.diagnostics import CompileWarning
from utils.cuda.common.suspects import suspects
from utils.cuda.common.toolchain import device

SOURCE = "__global__ void k(float* x, unsigned n) {\n    for (unsigned j = n; j >= 0; j--) x[j] = 3;\n    n == 2;\n}\n"
LOG = """cuda_src(2): warning #186-D: pointless comparison of unsigned integer with zero
      for (unsigned j = n; j >= 0; j--) x[j] = 3;
                             ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

cuda_src(3): warning #174-D: expression has no effect
cuda_src(3): warning #174-D: expression has no effect
cuda_src(3): warning #177-D: variable "c" was declared but never referenced
/usr/include/header.h(3): warning #174-D: expression has no effect
"""


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    monkeypatch.setattr(diagnostics, "_told", {})


def built(folder, source=SOURCE):
    def build(place):
        (place / "commands.txt").write_text("nvcc")
        (place / "warnings.log").write_text(LOG)
        return ""

    build_once(folder, build, "compiling", {"cuda_src": source, "name": "k"}, 1)


def test_a_compilers_warnings_are_shown_when_the_build_is_made_and_when_it_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    for _ in range(2):
        with pytest.warns(CompileWarning) as caught:
            built(tmp_path / "cpu" / "k")
        shown = [(warning.filename, warning.lineno, str(warning.message)) for warning in caught]
        assert shown == [
            (
                "cuda_src",
                2,
                "pointless comparison of unsigned integer with zero\n"
                "-->    2 |     for (unsigned j = n; j >= 0; j--) x[j] = 3;",
            ),
            ("cuda_src", 3, "expression has no effect: `==` compares, `=` assigns\n-->    3 |     n == 2;"),
        ]


def test_a_warning_is_shown_once_in_a_cell_and_can_be_hidden(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda *shown: print(warnings.formatwarning(*shown[:4]))
        built(tmp_path / "cpu" / "k")
        built(tmp_path / "cpu" / "k")
    assert capsys.readouterr().out.count("cuda_src:3: CompileWarning: expression has no effect") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        built(tmp_path / "cpu" / "k")
    assert not capsys.readouterr().out


def test_in_a_notebook_a_warning_is_shown_once_whoever_touches_python_s_filters(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    for cell in (7, 8):
        monkeypatch.setattr(diagnostics, "_cell", lambda cell=cell: cell)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda *shown: print(warnings.formatwarning(*shown[:4]))
            for _ in range(3):
                built(tmp_path / "cpu" / "k")
                with warnings.catch_warnings():
                    pass
        assert capsys.readouterr().out.count("expression has no effect") == 1


def test_of_two_builds_of_a_text_the_first_shows_its_warnings(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    with pytest.warns(CompileWarning, match="expression has no effect"):
        built(tmp_path / "cpu" / "k")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built(tmp_path / "cpu" / "k_traced")
    with pytest.warns(CompileWarning, match="expression has no effect"):
        built(tmp_path / "cpu" / "k")
    with pytest.warns(CompileWarning, match="expression has no effect"):
        built(tmp_path / "cpu" / "edited", SOURCE + "\n")


VERSION = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True).stdout if shutil.which("g++") else "0"
ENDED = r"""
__device__ const float& larger(const float& a, const float& b) { return a > b ? a : b; }
__global__ void k(float* x) {
    const float& r = larger(x[0], x[1] + 1.0f);
    x[2] = r;
    float* last;
    for (int i = 0; i < 2; i++) { float here = x[i]; last = &here; }
    x[3] = *last;
}
"""


@pytest.mark.skipif(device() == "cuda", reason="nvcc has no such warning")
@pytest.mark.skipif(bool(os.environ.get("CXX")) or int(VERSION.split(".")[0]) < 12, reason="needs g++ 12 or later")
def test_a_reference_to_what_has_ended():
    with pytest.warns(CompileWarning) as shown:
        compile_kernel(ENDED, "k")
    first, second = [str(w.message) for w in shown if "dangling" in str(w.message)]
    assert "an unnamed temporary may be used: the temporary's statement has ended\n-->    5 |" in first
    assert "'last' to 'here' may be used: the `{ }` of 'here' has ended\n-->    8 |" in second


# ---- what no compiler rejects ---------------------------------------------------------------------------------------

GO = "__global__ void k(float* x) {}\nvoid go(float* x) {\n    WHAT\n}\n"
SUSPICIOUS = {
    "if (i = n) x[i] = 1;": "`if (i = n)` sets `i`, and what it is set to is the condition: `==` compares",
    "while (x[i] = 3) {}": "`while (x[i] = 3)` sets `x`",
    "if (h = n & 1) x[i] = 1;": "`if (h = n & 1)` sets `h`",
    "if (0 <= i < n) x[i] = 1;": "compares 0 or 1, the result of `a <= b`, with c: write `a <= b && b < c`",
    "if (h == 1 && (n > i > 0)) x[i] = 1;": "write `a > b && b > c`",
    "if (0 <= i <= n == h) x[i] = 1;": "write `a <= b && b <= c`",
    "if (not i < n) return;": "write `!(a < b)` to negate one",
    "if (!i == n) return;": "write `!(a < b)` to negate one",
    "if (i & 1 == 0) x[i] = 1;": "`==` comes before `&` in C++: write `(a & b) == c`",
    "if (i < n); {\n        x[i] = 1;\n    }": "ends it, so it decides nothing",
    "for (int j = 0; j < n; j++); {\n        x[i] = 1;\n    }": "so it repeats nothing",
    "if (i < n);\n        x[i] = 1;": "the `;` after `if (...)` ends it, so it decides nothing: remove the `;`",
    "for (int j = 0; j < n; j++);\n        x[i] += 1;": "so it repeats nothing",
    "for (int j = 0, k = 1; j < n; ++j, k *= 2);": "so it repeats nothing",
    "for (; h < n; h++);\n        x[i] += h;": "so it repeats nothing",
    "while (i < n);\n        i++;": "so it repeats nothing",
    "for (h = next(); h < n; h++);\n    {\n        x[i] += h;\n    }": "so it repeats nothing",
    "x[i, h] = 1;": "this is `[h]`. Element (r, c)",
    "x[(i, h)] = 1;": "this is `[h]`. Element (r, c)",
    "float v = 1 / 2 * y[i];": "`1 / 2` is 0, a whole number: write `1.0f / 2`",
    "int r = n ^ 2;": "`^` is the bitwise XOR, not a power",
    "float area = h ^ 2;": "`^` is the bitwise XOR, not a power",
    "x[i] = (n + h) ^ 2;": "`^` is the bitwise XOR, not a power",
    "int s = square(n); int area = h ^ 2;": "`^` is the bitwise XOR, not a power",
    "int r = 10^6;": "`^` is the bitwise XOR, not a power",
    "__syncthreads;": "`__syncthreads;` calls nothing: write `__syncthreads();`",
    "if (i < n) __syncwarp;": "`__syncwarp;` calls nothing: write `__syncwarp();`",
    "for (int j = 0; j < n; j++) __syncwarp;": "`__syncwarp;` calls nothing",
    "float s; for (int j = 0; j < n; j++) s += y[j];": "this reads `s`, which has no value yet: declare it as `float",
    "float s, t = 0; if (i < n) { s -= t; }": "this reads `s`",
    "float most; for (int j = 0; j < n; ++j) most = fmaxf(most, y[j]);": "declare it as `float most = ",
    "unsigned int count; for (int j = 0; j < n; ++j) if (y[j] > 0) count++;": "declare it as `unsigned int count = ",
    "int c; while (n--) { if (y[n] > 0 && n > 2) c = c + 1; } x[i] = c;": "this reads `c`",
    "{ double s; { s *= 2; } }": "this reads `s`",
}
TUPLES = {
    "k<<<(1, 1), (16, 16)>>>(x);": "`(1, 1)` is 1 in C++: write `dim3(1, 1)`",
    "k<<<4, (16, 16)>>>(x);": "`(16, 16)` is 16 in C++: write `dim3(16, 16)`",
    "dim3 b = (16, 16); k<<<1, b>>>(x);": "`(16, 16)` is 16 in C++: write `dim3(16, 16)`",
    "dim3 b((16, 8)); k<<<1, b>>>(x);": "`(16, 8)` is 8 in C++: write `dim3(16, 8)`",
    "dim3 b{(16, 8)}; k<<<1, b>>>(x);": "`(16, 8)` is 8 in C++: write `dim3(16, 8)`",
    "const dim3 g(1), b = (16, 8); k<<<g, b>>>(x);": "`(16, 8)` is 8 in C++: write `dim3(16, 8)`",
    "dim3 g(1), c; c = (8, 4); k<<<g, c>>>(x);": "`(8, 4)` is 4 in C++: write `dim3(8, 4)`",
    "switch (i) { case 1 ... 5: x[i] = 1; }": "nvcc compiles `case 1 ... 5` as `case 1`: name each value",
    "auto b = dim3((8, 4)); k<<<1, b>>>(x);": "`(8, 4)` is 4 in C++: write `dim3(8, 4)`",
}
FINE = """
if (i < n & h < w) x[i] = 1;
if (*(int*)&x[0] == 0) x[i] = 1;
switch (i) { case 1: case 0x2: x[i] = .5; break; default: x[i] = n ? 1 : 2.; }
if (int j = i * 2) x[j] = 1;
if ((i = n)) x[i] = 1;
while (const float* p = y) break;
if (i < n && (h = n) > 0) x[i] = h;
if (Opt<int> o = Opt<int>{4}) x[i] = 1;
if (i < n == h < w) x[i] = 1;
if (!i != !n) x[i] = 1;
while (atomicCAS(&lock, 0, 1) != 0); { x[0] += 1; }
while (h++ < n); { x[0] += h; }
if (0 <= i && i < n || n > i and i > 0) x[i] = 1;
if ((i & 1) == 0 && (i | 2) != 3 && !(i < n) && not (i == n)) x[i] = 1;
if (i < n & h == 0) x[i] = 1;
if (!(h) && h < 3 || i << 2 < n) x[i] = 1;
if (static_cast<float>(i) < y[0] && sizeof(int) < i) x[i] = 1;
for (; h < n; h *= 2);
while (n >>= 1) h++;
while (n <<= 1) h++;
for (int j = 0; j < n; x[j] = 1, j++);
for (int j = 0; j < n; x[i] += 2, j++);
for (int j = 0; j < n && next(&x); j++);
for (float* p = x; *p != 0; p++); x[0] = 1;
for (int j = 0; !y[0]; j++); x[0] = 1;
for (volatile int j = 0; j < 1000; j++);
if (i < n); else x[i] = 1;
do { i++; } while (i < n);
do i++; while (i < n);
while (x[0] != 1);
if (!same<unsigned int, float>(x, y) && !traits<float, 4>::same) x[i] = 1;
auto f = [i, n](float a) { return a; };
float v = 4 / 2, u = 1.0f / 2, t = n * 1 / 2;
int half = 5 / 2, lane = i ^ 1, other = i ^ 16, mask = i ^ 0x2;
x[i ^ 2] = y[(i >> 1) ^ 2];
int parity = i / 4 % 2 ^ 1;
int partner = threadIdx.x ^ 2; x[i] = y[partner];
int r = threadIdx.x; int p = r ^ 2; x[i] = y[p];
int a = i % 32; bool lower = a < (a ^ 2);
int p = n ^ 2; x[i] = y[p];
int a = h + n; float v = y[i]; v += __shfl_sync(~0u, v, a); int b = a ^ 2;
unsigned long long a = 3; x[i] = a ^ 2; n = (unsigned)n ^ 2; y[(int)h] = 3;
x[i] = warp.shfl(y[i], warp.thread_rank() ^ 2);
int a = partner_of(lane_id ^ 2), b = tile.thread_rank() ^ 2, c = threadIdx.x * 4 + h ^ 2;
dim3 b = dim3(16, 16), c(16, 16), d = {16, 16}, e((n + 1) / 2, (h)), f((n, 2), 3), g((16)); b = dim3(1, 2); b = (c);
__syncthreads(); int meet; meet;
float w2 = __shfl_xor_sync(~0u, v, 2), m = max(i, (n, h));
float s; for (int j = 0; j < n; ++j) { if (j) s += y[j]; else s = y[j]; }
float s; set(&s); s += 1; float t; set(t); t += 1; float u = 0; u += 1; int v; v = n, v++;
float s, *p = &s; *p = 0; s += 1; float* q; q++; float v[4]; v[0] += 1; __shared__ float t; t += 1;
float s; auto add = [&](float v) { s += v; }; s = 0; add(1);
float s; for (int j = 0; j < n; s += y[j++]) if (j == 0) s = 0;
float s; bool any = false; for (int j = 0; j < n; ++j) { if (any) s += y[j]; if (!any) { s = y[j]; any = true; } }
float s; asm("mov.f32 %0, 0f00000000;" : "=f"(s)); s += 1; int k; k = (k = 1) + k; int w; w = grid.w; w += grid.w;
int j, k; for (j = 0, k = 0; j < n; j++, k++) x[j] = k;
struct S { float s; __device__ void add(float v) { s += v; } };
typedef struct __align__(8) { float s; __device__ void add(float v) { s += v; } } T;
""".strip().splitlines()


@pytest.mark.parametrize("line", SUSPICIOUS)
def test_what_compiles_but_is_hardly_meant(line):
    ((number, message),) = suspects(in_kernel(f"    {line}")).items()
    assert number == 3 and SUSPICIOUS[line] in message


def test_a_power_is_not_what_a_function_of_a_thread_s_number_computes():
    square = "__device__ int f(int a) {\n    return a ^ 2;\n}\n"
    for use in ("int p = f(threadIdx.x);", "x[f(n)] = 1;", "int me = threadIdx.x, p = n * f(me);"):
        assert suspects(square + in_kernel(f"    {use}")) == {}, use
    assert list(suspects(square + in_kernel("    x[i] = f(n);"))) == [2]


@pytest.mark.parametrize("between", ["#ifdef ZERO\n    s = 0;\n#endif", "SET(0);", "if (n) goto set;\nset: s = 0;"])
def test_a_sum_that_may_have_got_its_value_where_this_cannot_be_read(between):
    assert not suspects("#define SET(v) s = v\n" + in_kernel(f"    float s;\n    {between}\n    s += x[i];"))


def test_a_function_of_the_source_that_is_not_called():
    source = "__device__ void meet() {}\n__device__ int add(int a);\n__global__ void k() {\n    meet;\n    add;\n}\n"
    assert suspects(source) == {
        4: "`meet;` calls nothing: write `meet();`",
        5: "`add;` calls nothing: write `add(...);`",
    }


@pytest.mark.parametrize("line", ["const void* f = (const void*)add;", "x[0] = (int)add;", "p.func = (void*)add;"])
def test_a_cast_of_a_function_is_no_statement(line):
    assert not suspects(f"__global__ void add(int* x);\nvoid go(int* x, P p) {{\n    {line}\n}}\n")


@pytest.mark.parametrize("line", TUPLES)
def test_python_s_tuples_in_a_launch(line):
    ((number, message),) = suspects(GO.replace("WHAT", line)).items()
    assert number == 3 and TUPLES[line] in message


@pytest.mark.parametrize("line", FINE)
def test_what_is_fine_is_not_suspected(line):
    assert not suspects(in_kernel(f"    {line}"))


def test_no_source_of_the_course_is_suspected():
    found = {source.where: suspects(source.text) for source in course()}
    assert len(found) > 30 and not any(found.values()), {where: lines for where, lines in found.items() if lines}


def test_the_reader_survives_every_mistake():
    for source, _, _ in MISTAKES.values():
        for end in range(0, len(source), 7):
            suspects(source[:end])


def test_a_learner_sees_both_kinds_once_and_the_kernel_still_runs():
    """nvcc's warnings and our own, for a source that it accepts."""
    source = in_kernel("    if (0 <= i < n) x[i] = 1;\n    for (unsigned j = 9; j >= 0; j--) if (j == 0) break;")
    with pytest.warns(CompileWarning) as caught:
        compile_kernel(source, "k")
    lines = [warning.lineno for warning in caught]
    assert lines[:1] == [3] and set(lines) <= {3, 4}, [str(warning.message) for warning in caught]


def test_a_tensor_map_that_each_thread_has_a_copy_of_is_suspicious():
    wrong = (
        "template <int n>\n__global__ void __launch_bounds__(32)\nk(float* x,\n  const CUtensorMap map) { use(&map); }"
    )
    assert suspects(wrong) == {
        4: "the copy engine cannot read `const CUtensorMap map`, of which each thread has a copy: write "
        "`const __grid_constant__ CUtensorMap map`"
    }
    for right in ("const __grid_constant__ CUtensorMap map", "const CUtensorMap* map"):
        assert suspects(f"__global__ void k({right}, float* x) {{ use(&map); }}") == {}
    assert suspects("CUtensorMap made(float* x);\n__device__ void f(CUtensorMap map);") == {}


def test_what_only_the_host_can_reach():
    device = "__device__ float table[4], total;\n__constant__ int sizes[2];\n__global__ void k(const void* p);\n"
    gives = "`cudaGetSymbolAddress((void**)&p, {0})` gives the GPU's address"
    message = f"in host code, `{{0}}` is a copy of the host's own: {gives}"
    for given, name in (("table", "table"), ("(float*)table", "table"), ("&total", "total"), ("sizes", "sizes")):
        found = suspects(f"{device}void go() {{\n    k<<<1, 1>>>({given});\n}}\n")
        assert found == {5: message.format(name)}, given
    for given, name in (("table, p, 16", "table"), ("p, &total, 4", "total"), ("(void*)sizes, p, 8", "sizes")):
        found = suspects(f"{device}void go(void* p) {{ cudaMemcpy({given}, cudaMemcpyDefault); }}\n")
        assert found == {4: message.format(name) + ", and cudaMemcpyToSymbol copies to it"}, given
    assert not suspects("__device__ __managed__ int sizes[2];\nvoid go() { cudaMemset(sizes, 0, 8); }\n")
    for fine in (
        "k<<<1, 1>>>(p);",
        "auto copy = cudaMemcpy; copy(p, p, 4, kind);",
        "float* table; k<<<1, 1>>>(table);",
        "cudaMemcpyToSymbol(table, p, 16);",
    ):
        assert not suspects(f"{device}void go(float* p) {{\n    {fine}\n}}\n"), fine
    found = suspects("template <class T> __global__ void k(float* y, const T& x) {}\n")
    assert found == {1: "a GPU cannot reach what `const T& x` refers to: take a pointer or a value"}
    found = suspects("__global__ void k(std::vector<float> v, const std::vector<int>* w, std::array<float, 4> a) {}\n")
    assert found == {1: "a GPU cannot reach what `std::vector<float> v` refers to: take a pointer"}


def test_a_copy_to_a_vector_itself():
    source = "void go(float* d, int n) {\n    std::vector<float> v(n);\n    LINE\n}\n"
    for call in (
        "cudaMemcpy(&v, d, 4, kind);",
        "CHECK(cudaMemcpyAsync(d, (void*)&v, 4, kind));",
        "cudaMemset(&v, 0, 4);",
    ):
        told = "`&v` is the address of the std::vector itself, which only points to its elements: write `v.data()`"
        assert suspects(source.replace("LINE", call)) == {3: told}, call
    for fine in (
        "cudaMemcpy(v.data(), d, 4, kind);",
        "cudaMemcpy(&v[1], d, 4, kind);",
        "cudaMemcpy(d, &v.front(), 4, kind);",
        "std::array<float, 4> v; cudaMemcpy(&v, d, 16, kind);",
        "{ float v; cudaMemcpy(&v, d, 4, kind); }",
        "fill(&v);",
    ):
        assert not suspects(source.replace("LINE", fine)), fine


def test_a_pragma_that_nvcc_ignores():
    source = """__global__ void k(float* x) {
#pragma unrol 16
    for (int j = 0; j < 16; j++) x[j] = 1;
#pragma unroll 16;
    for (int j = 0; j < 16; j++) x[j] += 1;
#pragma unroll 8
    for (int j = 0; j < 16; j++) x[j] += 2;
}"""
    with pytest.warns(CompileWarning) as caught:
        compile_kernel(source, "k")
    told = [(w.lineno, str(w.message).split(" in ")[0]) for w in caught]
    # NVRTC, which compiles for a GPU, says nothing of the first.
    assert told == [(2, "unrecognized #pragma"), (4, "extra characters")][device().type == "cuda" :]
