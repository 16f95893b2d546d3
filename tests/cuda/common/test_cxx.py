"""The one reader of C++, on sources that are awkward to read."""

import subprocess
import sys
from itertools import pairwise

import pytest

import kernels
from utils.cuda.common import cxx

KERNEL = "__global__ void k(float* x, int n) { x[n] = 1; }"


def texts(source):
    return [token.text for token in cxx.tokens(source)]


def names(source):
    return {name: kernel.names for name, kernel in cxx.kernels(source).items()}


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", []),
        ("  \n\t\r\n", []),
        ("// only a comment", []),
        ("/* one */ // two \\\n still two\n/* three\n */", []),
        ("\ufeffint x;", ["int", "x", ";"]),
        ("a<b<c>> d", ["a", "<", "b", "<", "c", ">", ">", "d"]),
        ("k<<<1, 2>>>()", ["k", "<<<", "1", ",", "2", ">>>", "(", ")"]),
        ("k<a<b<c>>><<<1, 2>>>()", ["k", "<", "a", "<", "b", "<", "c", ">>>", "<<<", "1", ",", "2", ">>>", "(", ")"]),
        ("1'000'000 << 0x1Fu >> 1e-5f .5", ["1'000'000", "<", "<", "0x1Fu", ">", ">", "1e-5f", ".5"]),
        ('\'"\' \'\\\'\' "\\"//" u8"}"', ["'\"'", "'\\''", '"\\"//"', 'u8"}"']),
        ('R"(a " ) b)" LR"x(\n)" )x" y', ['R"(a " ) b)"', 'LR"x(\n)" )x"', "y"]),
        ('"not closed\nx', ['"', "not", "closed", "x"]),
        ("__sha\\\nred__ int do\\ \r\nne; a\\\n b", ["__shared__", "int", "done", ";", "a", "b"]),
        ("__attribute__((global)) void k() {}", ["__global__", "void", "k", "(", ")", "{", "}"]),
        ("__attribute__((shared, x)) (device))", [*"__attribute__ ( ( shared , x ) ) ( device ) )".split()]),
        ("/* not closed", ["/", "*", "not", "closed"]),
        ("a \\\n b", ["a", "b"]),
        ("größe->x::y", ["größe", "->", "x", "::", "y"]),
        ("<%a<:1:>;%> %:%: c", ["{", "a", "[", "1", "]", ";", "}", "#", "#", "c"]),
        ("a<::b> c<:::d:>", ["a", "<", "::", "b", ">", "c", "[", "::", "d", "]"]),
        ("k<\\\n<\\\n<1>\\\n>>()", ["k", "<<<", "1", ">>>", "(", ")"]),
    ],
)
def test_tokens(source, expected):
    assert texts(source) == expected


def test_a_token_knows_where_it_is():
    source = 'int /* a\nb */ x = 1; // c\n\nR"(\n)" y'
    for token in cxx.tokens(source):
        assert source[token.start : token.end] == token.text
    assert [(token.text, token.line) for token in cxx.tokens(source)] == [
        ("int", 1), ("x", 2), ("=", 2), ("1", 2), (";", 2), ('R"(\n)"', 4), ("y", 5)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("#define A 1\nint x;", [["#", "define", "A", "1"]]),
        ("\ufeff#pragma once", [["#", "pragma", "once"]]),
        ("#define A \\\n  1 \\\r\n  + 2\nint x;", [["#", "define", "A", "1", "+", "2"]]),
        ("#define A /* one\n two */ 1\nint x;", [["#", "define", "A", "1"]]),
        ("#define A 1 // what follows \\\n is still a comment\nint x;", [["#", "define", "A", "1"]]),
        ('#define A "/*"\nint x; /**/', [["#", "define", "A", '"/*"']]),
        ("/* a */ #define A\n  #  define B", [["#", "define", "A"], ["#", "define", "B"]]),
        ("#define TEXT(x) \\\n #x\nint x;", [["#", "define", "TEXT", "(", "x", ")", "#", "x"]]),
        ("#error it's wrong\nint x;", [["#", "error", "it", "'", "s", "wrong"]]),
        ("int x = a # b;", []),
        ("#", [["#"]]),
        ('const char* s = R"(\n#define A\n)";', []),
    ],
)
def test_preprocessor_lines(source, expected):
    assert [[token.text for token in line] for line in cxx.directives(source)] == expected


def test_what_a_line_includes():
    lines = cxx.directives('#include <torch/extension.h> // yes\n#include "cdiv.h"\n#define include\n#include')
    assert [cxx.included(line) for line in lines] == ["torch/extension.h", "cdiv.h", "", ""]


def test_code_keeps_its_places():
    source = 'int x; // {\n/* __global__\n*/ char* s = "}"; #x\nR"(\n{)" y \'}\''
    code = cxx.code(source)
    assert len(code) == len(source) and code.count("\n") == source.count("\n")
    assert code.split() == ["int", "x;", "char*", "s", "=", ";", "#x", "y"]
    assert code.index("y") == source.index("y")
    respelled = "__glo\\\nbal__ /* */ void __attribute__((device)) x; %: y"
    assert cxx.code(respelled) == "__global__\n            void __device__              x; #  y"
    assert cxx.code("") == "" and cxx.code("// x") == "    "


def test_written():
    assert cxx.written(cxx.tokens("float  *  (&x) /* c */ [4]\n= {1,2}")) == "float * (&x) [4] = {1,2}"
    assert cxx.written([]) == ""


# ---- brackets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "opens", "closes"),
    [
        ("f(a, (b), [c]{d}) e", 1, 14),
        ("{ ( } )", 0, 2),
        ("a<b<c>> d", 1, 6),
        ("k<(a > b)>", 1, 7),
        ("k<f(x), sizeof(int[2])> y", 1, 14),
        ("a<b->c> d", 1, 5),
    ],
)
def test_matching_both_ways(source, opens, closes):
    tokens = cxx.tokens(source)
    assert cxx.matching(tokens, opens) == closes and cxx.matching(tokens, closes) == opens


@pytest.mark.parametrize(
    ("source", "at"),
    [
        ("f(a", 1),
        ("f a)", 2),
        ("if (a < b) c > d", 3),  # compares
        ("a < b; c > d", 1),
        ("a > b", 1),
        ("for (i < n; j > m)", 7),
        ("a < (b > c", 1),
        ("k<1><<<n < 2, 3>>>(x)", 6),
    ],
)
def test_a_bracket_without_a_partner(source, at):
    assert cxx.matching(cxx.tokens(source), at) is None


def test_angles_that_one_token_closes():
    tokens = cxx.tokens("k<a<b<c>>> d")
    assert cxx.matching(tokens, 1) == cxx.matching(tokens, 1) == 7 and cxx.matching(tokens, 7) == 1


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("", []),
        ("a", ["a"]),
        ("a, f(b, c), d[e, f], {g, h}", ["a", "f(b, c)", "d[e, f]", "{g, h}"]),
        ("std::pair<int, A<B<int, C>>> p, q", ["std::pair<int, A<B<int, C>>> p", "q"]),
        ("bool a = b < c, int d", ["bool a = b < c", "int d"]),
        ("f(a, b", ["f(a", "b"]),
        ("a,", ["a", ""]),
    ],
)
def test_splitting_at_commas(source, parts):
    assert [cxx.written(part) for part in cxx.at_commas(cxx.tokens(source))] == parts


def test_brackets_that_do_not_match():
    def unmatched(source, *brackets):
        return [(token.text, token.line) for token in cxx.unmatched(cxx.tokens(source), *brackets)]

    assert unmatched("f(a[1], {2});") == unmatched("// (\n") == unmatched('"("') == []
    assert unmatched("void f() {\n if (a {\n }\n") == [("{", 1), ("(", 2)]
    assert unmatched("}\n(]", "{}") == [("}", 1)]


# ---- declarations ----------------------------------------------------------------------------------------------------


def declared(source):
    return [(d.names, d.parameters is not None, d.defined) for d in cxx.declarations(source)]


@pytest.mark.parametrize(
    ("source", "names", "is_function", "defined"),
    [
        ("int f(int a, float b);", ["f"], True, False),
        ("int f() { return 1; }", ["f"], True, True),
        ("template <class T, int n = (3 > 2)> static inline T* f(T& x) noexcept { }", ["f"], True, True),
        ('extern "C" void f(void) { }', ["f"], True, True),
        ("__attribute__((noinline)) void __launch_bounds__(K(1, 2)) f(int x) { }", ["f"], True, True),
        ("C10_LAUNCH_BOUNDS_1(256) __global__ void f(int x) { }", ["f"], True, True),
        ("void f(int x) __attribute__((cold));", ["f"], True, False),
        ("auto f(int x) -> decltype(g(x)) { }", ["f"], True, True),
        ("template <> void f<float>(float x) { }", ["f"], True, True),
        ("bool operator<(const A& a, const A& b) { }", ["operator"], True, True),
        ("int A::operator()(int a) const { }", ["operator"], True, True),
        ("A::A(int x) : x{x}, y(x) { }", ["A"], True, True),
        ("A::A() : x{1}, y{2} { }", ["A"], True, True),
        ("auto f(int x = a ? b : c) -> int { }", ["f"], True, True),
        ("PYBIND11_MODULE(name, m) { }", ["PYBIND11_MODULE"], True, True),
        ("struct alignas(16) Quad { float x, y; int f() { return 1; } };", ["Quad"], False, True),
        ("typedef struct __align__(8) { float x; } Pair;", [], False, True),
        ("enum class Way : int { up, down };", ["Way"], False, True),
        ("__constant__ float w[N], v[2] = {1, 2};", ["w", "v"], False, True),
        ("__device__ std::pair<int, int> a, *b = nullptr, c{3};", ["a", "b", "c"], False, True),
        ("constexpr int n = f(3);", ["n"], False, False),
        ("auto g = [](int x) { return x; };", ["g"], False, True),
        ("void (*callback)(int) = nullptr;", [], False, False),
        ("using Launch = void (*)(int);", ["Launch"], False, False),
        ("int f(int x", ["f"], True, False),
        ("int f(int x {\n return g(1); }", ["f"], True, True),
        ("void f() { if (x) {", ["f"], True, True),
    ],
)
def test_one_declaration(source, names, is_function, defined):
    assert declared(source) == [(names, is_function, defined)]


def test_declarations_one_after_the_other():
    source = """
        namespace a { namespace b::c { int f(); } inline namespace d { } namespace e = a::b; }
        extern "C" { int g(); }
        ;; struct S { int h() { return 1; } } s;
        #define F(x) int x() { }
        namespace { int i = 1; }
        int j() { } int k() { }
    """
    assert [d.name for d in cxx.declarations(source)] == ["f", "e", "g", "S", "i", "j", "k"]
    assert cxx.declarations("// nothing\n#define X\n") == cxx.declarations(") ] }") == ()


def test_a_function():
    (f,) = cxx.functions("template <int n>\nstatic at::Tensor\nf(const at::Tensor& x, int64_t n = 3) {}")
    assert (f.template, f.returns, f.name, f.line) == ("template <int n>", "static at::Tensor", "f", 3)
    assert [cxx.written(parameter) for parameter in f.parameters] == ["const at::Tensor& x", "int64_t n = 3"]
    assert f.signature == "template <int n> static at::Tensor f(const at::Tensor& x, int64_t n = 3)"


def test_what_other_files_can_call():
    source = f"""
        {KERNEL} __device__ int a(); __host__ __device__ int b() {{ }} static int c() {{ }} inline int d() {{ }}
        template <class T> int e() {{ }} int S::f() {{ }} MACRO(g) at::Tensor h(int x) {{ return a(x); }} int i();
    """
    assert [function.name for function in cxx.functions(source) if function.exported] == ["h", "i"]


@pytest.mark.parametrize(
    ("parameter", "name"),
    [
        ("float* x", "x"),
        ("const float* __restrict__ x", "x"),
        ("int x = f(a, b)", "x"),
        ("unsigned long long", ""),
        ("const Pair*", ""),
        ("Pair", ""),
        ("const Pair", ""),
        ("std::bool_constant<Atomic>", ""),
        ("at::PackedTensorAccessor<float, 1> x", "x"),
        ("float (*rows)[16]", "rows"),
        ("const float (&table)[4]", "table"),
        ("int (*f)(int, float)", "f"),
        ("int d[4]", "d"),
        ("int[]", ""),
        ("[[maybe_unused]] int n", "n"),
        ("Ts... rest", "rest"),
    ],
)
def test_the_name_of_a_parameter(parameter, name):
    assert cxx.parameter_name(cxx.tokens(parameter)) == name


# ---- kernels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", {}),
        ("// __global__ void no() {}", {}),
        ('/* __global__ void no() {} */ const char* s = "__global__ void no() {"; auto t = R"(__global__ no())";', {}),
        (KERNEL, {"k": ["x", "n"]}),
        ("\ufeff" + KERNEL, {"k": ["x", "n"]}),
        (f"/* }} */ {KERNEL}", {"k": ["x", "n"]}),
        ("__global__ void \\\n k(int \\\n n) { }", {"k": ["n"]}),
        ("template <class T, int n = (1 > 0)>\n__global__ void __launch_bounds__(64) k(A<B<T>> x) { }", {"k": ["x"]}),
        ("__global__ void C10_LAUNCH_BOUNDS_1(256) k(int* x) { }", {"k": ["x"]}),
        ("__global__ void k(float* x, int n", {"k": ["x", "n"]}),
        ("__global__ void k(float* x, int n {\n if (n) x[0] = f(1); }", {"k": ["x", "n"]}),
        (f"__global__ void broken() {{ if (1) {{ }}\n{KERNEL}", {"broken": [], "k": ["x", "n"]}),
        (f"#if A\n__global__ void one() {{\n#else\n__global__ void two() {{\n#endif\n}}\n{KERNEL}",
         {"one": [], "two": [], "k": ["x", "n"]}),
        (f"__global__ void k(float*, int);\n{KERNEL}", {"k": ["", ""]}),
        (f"int i = f(3) // no semicolon\ntemplate <class T> {KERNEL}", {"k": ["x", "n"]}),
        (f"`f(x)` is not C++) {KERNEL}", {"k": ["x", "n"]}),
        (f"class A {{ friend void f(); }}; namespace n {{ {KERNEL} }}", {"k": ["x", "n"]}),
    ],
)  # fmt: skip
def test_kernels(source, expected):
    assert names(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("#define GLOBAL __global__\nGLOBAL void k(int n) { }\nfloat half(float& a);", {"k": ["n"]}),
        ("#define KERNEL(name) __global__ void name\nKERNEL(made)(int* out) { }", {"made": ["out"]}),
        (
            "#define K(name, ...) __global__ void name(__VA_ARGS__)\nK(made, int* out, int n) { }",
            {"made": ["out", "n"]},
        ),
        ("#define K(name, rest...) __global__ void name(rest)\nK(made, int* out, int n) { }", {"made": ["out", "n"]}),
        ("#define K(...) __global__ void __VA_ARGS__\nK(made(int* out, int n)) { }", {"made": ["out", "n"]}),
        (
            "#define K(name, ...) __global__ void name(int* out, ##__VA_ARGS__)\nK(made, int n) { }",
            {"made": ["out", "n"]},
        ),
        (
            "#define MAKE(name, T, op) \\\n  __global__ void name##_kernel(T* x, T y) { \\\n    *x = op(y); }\n"
            "MAKE(sine, float, sinf)\nMAKE(cosine, double, (cos))\nint n;",
            {"sine_kernel": ["x", "y"], "cosine_kernel": ["x", "y"]},
        ),
        ("#define K() __global__ void\nK() k() { }", {"k": []}),
        ("#define MAKE(name) __global__ void name() { }\nMAKE(", {}),
        ("#define MAKE(name) __global__ void name() { }\nint MAKE;", {}),
        ("#define UNUSED(name) __global__ void name() { }", {}),
    ],
)
def test_kernels_that_macros_make(source, expected):
    assert names(source) == expected


def test_a_kernel_s_line_and_template():
    kernel = cxx.kernels("\n\ntemplate <class T,\n   int n>  // two\n__global__ void\nk(T* x) { }")["k"]
    assert (kernel.line, kernel.template) == (6, "template <class T, int n>")


def test_which_kernels_wait_for_the_grid():
    waits = "auto g = cg::this_grid(); g.sync();"
    alone = f"__global__ void a() {{ {waits} }} __global__ void b() {{ }} // this_grid"
    shared = f"__device__ void wait() {{ {waits} }} __global__ void a() {{ wait(); }} __global__ void b() {{ }}"
    assert [kernel.cooperative for kernel in cxx.kernels(alone).values()] == [True, False]
    assert [kernel.cooperative for kernel in cxx.kernels(shared).values()] == [True, True]
    made = f"#define MAKE(k) __global__ void k() {{ {waits} }}\nMAKE(a)\nMAKE(b)"
    assert [kernel.cooperative for kernel in cxx.kernels(made).values()] == [True, True]


def test_macros():
    source = "#define N 16\n#define SQUARE(x) ((x) * (x))\n#define EMPTY\n#define PAREN (1)\n#undef N\n#define NONE() f"
    found = {name: (m.parameters, cxx.written(m.body)) for name, m in cxx.macros(source).items()}
    assert found == {
        "N": (None, "16"),
        "SQUARE": (["x"], "((x) * (x))"),
        "EMPTY": (None, ""),
        "PAREN": (None, "(1)"),
        "NONE": ([], "f"),
    }


# ---- launches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kernel"),
    [
        ("k<<<1, 2>>>(x)", "k"),
        ("if (a) my::k<A<B<int>>><<<dim3(1, (2)), 3>>>(x)", "my::k<A<B<int>>>"),
        ("return ::k <<< f(2 >> 1), n < 3 ? 1 : 2 >>> (x)", "::k"),
        ("A<int>::k<(a > b)><<<1, 2>>>(x)", "A<int>::k<(a > b)>"),
        ("a > b; table[n]<<<1, 2>>>(x)", "table[n]"),
        ("(*chosen)<<<1, 2>>>(x)", "(*chosen)"),
        ("k \\\n <<<1, \\\n 2>>> \\\n (x)", "k"),
        ("#define GO(T) name_##T##_kernel<<<1, 2>>>(x)", "name_##T##_kernel"),
        ("/* k<<<1>>>(x) */ // l<<<1>>>(x)\nm<<<1, ')'>>>(x)", "m"),
    ],
)
def test_launches(source, kernel):
    (launch,) = cxx.launches(source)
    tokens = cxx.tokens(source)
    assert (launch.kernel, launch.named, launch.problem) == (kernel, kernel not in ("table[n]", "(*chosen)"), "")
    assert (tokens[launch.opens].text, tokens[launch.closes].text) == ("<<<", ">>>")


# What precedes `<<<`: nvcc takes any postfix expression.
NAMES = """(k) | (&my::k<4>) | ns::Class::fn | A<int>::f<2> | T::template f<2> | if (x) (k) | else { } (k) | i > (k)
for (;;) { } (k) | return (k) | case 3: (k) | for (auto k : {a, b}) k | #define GO(k) (k) | #define GO (k)
#define GO ::k | #define GO(k) k | x, ::k"""
EXPRESSIONS = """s.kernel | t->kernel | this->kernel | pick(1) | v.at(0) | std::get<0>(tup) | table["a"] | two[0][1]
(cond ? a : b) | obj.template f<2> | obj.template f<2>() | s.table[1] | vs.at(0).get() | s(3) | s.operator()(3) | K(ten)
static_cast<K>(ten) | K{ten} | S{ten}.kernel | typename std::decay<K>::type(ten) | decltype(pick(1))(ten) | ((K)ten)
A<B<int>>::f(3) | std::vector<std::vector<K>>{}[0][1] | (s.*(&S::kernel)) | [] { return ten; }() | fs[0]()
[](int) -> K { return ten; }(3) | [&](int n) mutable { return n ? a : b; }(4) | (*(K*)&p[0])"""
BEFORE = ["", "(void)", "return ", "if (a[i]) ", "else ", "{ } ", "x = i < 3, ", "case 3: ", "c ? a() : ", "#endif\n"]


@pytest.mark.parametrize("text", [text.strip() for text in NAMES.replace("\n", " | ").split(" | ")])
def test_a_launch_names_its_kernel(text):
    (launch,) = cxx.launches(f"{text}<<<1, 2>>>(x)")
    assert text.endswith(launch.kernel) and launch.named and not launch.problem


@pytest.mark.parametrize("text", EXPRESSIONS.replace("\n", " | ").split(" | "))
def test_an_expression_gives_the_kernel(text):
    for before in BEFORE:
        (launch,) = cxx.launches(f"{before}{text}<<<1, 2>>>(x)")
        assert (launch.kernel, launch.named, launch.problem) == (text, False, ""), before


@pytest.mark.parametrize(
    ("source", "line", "problem"),
    [
        ("<<<1, 2>>>(x)", 1, "no kernel's name"),
        ("\n = <<<1, 2>>>(x)", 2, "no kernel's name"),
        (")<<<1, 2>>>(x)", 1, "no kernel's name"),
        ("><<<1, 2>>>(x)", 1, "no kernel's name"),
        ("k<<<1, 2(x); }", 1, "no `>>>`"),
        ("k<<<(1, 2>>>(x)", 1, "no `>>>`"),
        ("k<<<", 1, "no `>>>`"),
        ("\nk<<<1,\n2>>>;", 3, "arguments in parentheses"),
    ],
)
def test_what_is_no_launch(source, line, problem):
    (launch,) = cxx.launches(source)
    assert problem in launch.problem and launch.line == line and not launch.kernel


@pytest.mark.parametrize(
    "text", ["k << <1, 2 >> >(x);", "k<< <1, 2> >>(x);", "k<<<1, 2 >> > (x);", "k <<\t<1, 2>> >(x);"]
)
def test_a_launch_may_have_spaces_within_its_brackets(text):
    (launch,) = cxx.launches(text)
    assert (launch.kernel, launch.problem) == ("k", "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("k", ("k", "")),
        (" n :: k<16, A<int>> ", ("k", "<16, A<int>>")),
        ("::k", ("k", "")),
        ("k<", None),
        ("k()", None),
        ("", None),
    ],
)
def test_the_name_of_an_instance(name, expected):
    assert cxx.instance(name) == expected


# ---- what a source uses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "torch", "python"),
    [
        (KERNEL, False, False),
        ("torch::Tensor f();", True, False),
        ("int at; float c10 = a ? at : c10;", False, False),
        ("at :: Tensor f();", True, False),
        ("TORCH_CHECK(x);", True, False),
        ('// torch::Tensor, PyTorch\nconst char* s = "at::Tensor";', False, False),
        ("#include <torch/extension.h>", False, False),
        ("py::list f();", False, True),
        ("PyObject* f();", False, True),
        ("PYBIND11_MODULE(a, m) { }", False, True),
    ],
)
def test_what_a_source_uses(source, torch, python):
    assert (cxx.uses_torch(source), cxx.uses_python(source)) == (torch, python)


def test_what_only_a_macro_uses():
    source = "#define CHECK(x) TORCH_CHECK(x, \\\n  py::str())\n"
    assert cxx.uses_torch(source) and cxx.uses_python(source)
    assert not cxx.uses_torch(source, in_macros=False) and not cxx.uses_python(source, in_macros=False)
    assert cxx.uses_torch(source + "at::Tensor x;", in_macros=False)


def test_called():
    assert cxx.called("int f(int a) { return g (a); } // h()\n#define I(x) j(x)\nk<1>(2)") == {"f", "g", "I", "j"}


# ---- every source ----------------------------------------------------------------------------------------------------


def test_nothing_raises_wherever_a_source_ends():
    source = "\ufeff" + kernels.cuda_begin + kernels.source("transpose")[:1500]
    source += "#define MAKE(a) __global__ void a##_k() { a<<<1, b<2>>>>(x); }\nMAKE(x)\nn::k<A<int>><<<1, 2>>>(x);"
    for end in range(0, len(source), 7):
        part = source[end:] if end % 2 else source[:end]
        for read in (cxx.kernels, cxx.declarations, cxx.launches, cxx.macros, cxx.code, cxx.called, cxx.uses_torch):
            read(part)


@pytest.mark.parametrize("name", kernels.names())
def test_the_course_s_own_sources(name):
    source = kernels.source(name)
    tokens = cxx.tokens(source)
    assert all(before.end <= after.start and before.line <= after.line for before, after in pairwise(tokens))
    assert not cxx.unmatched(tokens)
    assert {cxx.instance(launch.kernel)[0] for launch in cxx.launches(source)} <= set(cxx.kernels(source))


def test_the_reader_needs_no_torch():
    """What was built before is loaded in some 20 ms: reading a source must cost little of that."""
    script = "import sys; from utils.cuda.common import cxx; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("source", "name", "address"),
    [
        ("__global__ void log(const float* __restrict__ x, int n = 2);", "log", "(const float*, int)"),
        ("__global__ void k(float (*rows)[4], float x[], int);", "k", "(float (* )[4], float [], int)"),
        ("__global__ void k();", "k", "()"),
        ("template <int n> __global__ void k(float* x);", "k<3>", None),
        ("namespace a { __global__ void k(float* x); }", "a::k", None),
        ("#if A\n__global__ void k(float* x);\n#else\n__global__ void k(int* x);\n#endif", "k", None),
    ],
)
def test_the_address_of_a_kernel_tells_it_from_a_function_of_that_name(source, name, address):
    expected = f"&{name}" if address is None else f"static_cast<void (*){address}>(&{name})"
    assert cxx.address(source, name) == expected
