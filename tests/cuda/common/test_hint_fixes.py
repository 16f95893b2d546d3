"""Hints that once named a wrong cause, or a fix that does not compile: what each source is answered with."""

import pytest

from utils import CompileError, compile_kernel
from utils.cuda.common.hints import hint

pytestmark = pytest.mark.usefixtures("on_cpu")


def kernel(statement, parameters="float* x, int n", before=""):
    return f"{before}__global__ void k({parameters}) {{ {statement} }}\n"


ONLY_KNOWN = "Only a number that the compiler knows can be here: is `constexpr int {} = 256;` or a macro missing?"
MASK = "Write `{}_sync(0xffffffff, ...)`: its first argument is the mask of the lanes that take part."
SAME = "Both arguments of `{}` must have the same type: write `{}`."
ONE_TYPE, ONE = (
    "`{}` takes floats or doubles, all of one type: write {}.",
    "`{}` takes a float or a double: write `{}`.",
)
NEWER = "and nvcc takes C++17 unless told: add `-std=c++20`"
THROW = "Device code cannot throw: {}, or end the launch with `assert(condition);` of `<cassert>`."
NO_EXCEPTIONS = "Device code has no exceptions: check before, as in `if (b != 0)`, and remove `try` and `catch`."
MARK, LATER = "Mark `{}` (line 1) with `__device__`", "`Foo` is declared only in line 2: declare it before its use."
HOST = "A `constexpr` function is compiled for the host, too, which has no `{}`: leave out `constexpr`."
BOUNDS = 'extern "C" __launch_bounds__({}) __global__ void k(float* x) {{ x[0] = 1; }}\n'
HALVES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
BOTH = "nv_bfloat16* x, half* h"
DEFAULT = "__device__ int h(int a, int b = 2) { return a * b; }\n__device__ int h(int a) { return a; }\n"
PARSE = '__host__ __device__ int parse(int a) { if (a < 0) throw "negative"; return a; }\n'
TRY = "try { x[0] = 1 / x[1]; } catch (...) { x[0] = 0; }"
EQUAL = "struct A { int a; __device__ bool operator==(const A&) const = default; };\n"
AB = "struct A { int a, b; };\n"

CASES = {
    "a number of a launch's bounds": (BOUNDS.format("blockSize"), ONLY_KNOWN.format("blockSize")),
    "another one": (BOUNDS.format("threads"), ONLY_KNOWN.format("threads")),
    "a number of elements": (kernel("float a[4][threads]; x[0] = a[0][0];"), ONLY_KNOWN.format("threads")),
    "a misspelt one": (kernel("constexpr int kSize = 3; float a[kSiz]; x[0] = a[0];"), "Did you mean `kSize`?"),
    "no array": (kernel("x[0] = 2 * x[threads];"), "Did you mean `threadIdx`?"),
    "shfl": (kernel("x[0] = __shfl(x[0], 1);"), MASK.format("__shfl")),
    "shfl_up": (kernel("x[0] = __shfl_up(x[0], 1);"), MASK.format("__shfl_up")),
    "shfl_down": (kernel("x[0] = __shfl_down(x[0], 1);"), MASK.format("__shfl_down")),
    "shfl_xor": (kernel("x[0] = __shfl_xor(x[0], 1);"), MASK.format("__shfl_xor")),
    "any": (kernel("x[0] = __any(x[0] > 1);"), MASK.format("__any")),
    "all": (kernel("x[0] = __all(x[0] > 1);"), MASK.format("__all")),
    "ballot": (kernel("x[0] = __ballot(x[0] > 1);"), MASK.format("__ballot")),
    "a default argument": (kernel("x[0] = h(1);", before=DEFAULT),
                           "With its default argument, the `h` of line 1 fits this call, too: remove the default, or "
                           "rename one of the two."),
    "throw in a function": (kernel("x[0] = parse(1);", before=PARSE), THROW.format("return a value that says so")),
    "throw in a kernel": (kernel("if (n < 0) throw 1;"), THROW.format("leave with `return;`")),
    "try": (kernel(TRY), NO_EXCEPTIONS),
    "fma of doubles": (kernel("float f = 2; x[2] = fma(f, x[2], 1);", "double* x"),
                       ONE_TYPE.format("fma", "`(double)f` and `1.0`")),
    "fmod of doubles": (kernel("x[2] = fmod(x[3], 2);", "double* x"), ONE_TYPE.format("fmod", "`2.0`")),
    "fmin of doubles": (kernel("x[2] = fmin(x[3], 1);", "double* x"), ONE_TYPE.format("fmin", "`1.0`")),
    "fmin of floats": (kernel("x[2] = fmin(x[3], n);"), ONE_TYPE.format("fmin", "`fminf`, or `(float)n`")),
    "a root for a double": (kernel("x[0] = sqrt(n);", "double* x, int n"), ONE_TYPE.format("sqrt", "`(double)n`")),
    "a member": (kernel("x[0] = fmax(a.b, x[0]);", "double* x, A a", AB),
                 ONE_TYPE.format("fmax", "`(double)n` for an `n` of another type")),
    "isnan": (kernel("x[0] = isnan(n);"), ONE.format("isnan", "(float)n")),
    "std::isnan": (kernel("x[0] = std::isnan(n);"), ONE.format("isnan", "(float)n")),
    "std::isinf": (kernel("x[0] = std::isinf(n + 1);"), ONE.format("isinf", "(float)(n + 1)")),
    "std::sqrt": (kernel("x[0] = std::sqrt(n);"), ONE_TYPE.format("sqrt", "`sqrtf`, or `(float)n`")),
    "a pointer to char8_t": (kernel("x[0] = 1;", "char8_t* x"),
                             "nvcc compiles no kernel with a `char8_t*`, not even as C++20: use `unsigned char*`."),
    "a char8_t": (kernel("char8_t c = 1; x[0] = c;"), f"`char8_t` is C++20, {NEWER}"),
    "max of a variable": (kernel("x[0] = max(x[0], n);"), SAME.format("max", "(float)n")),
    "min of a variable": (kernel("x[0] = min(n, 2.5f);"), SAME.format("min", "(float)n")),
    "max of a bool": (kernel("x[0] = max(b[0], x[1]);", "bool* b, float* x"), SAME.format("max", "(float)b[0]")),
    "max of a literal": (kernel("x[0] = max(x[0], 255);", "double* x"), SAME.format("max", "255.0")),
    "max of a sum": (kernel("x[0] = max(n % 32, x[0]);"), SAME.format("max", "(float)(n % 32)")),
    "two calls": (kernel("x[0] = max(x[1], 1.0f) + max(x[0], 0);"), SAME.format("max", "0.0f")),
    "two calls alike": (kernel("x[0] = max(x[0], 0) + max(x[1], n);"),
                        "Both arguments of `max` must have the same type: convert one, as in `max(a, (float)b)`."),
    "max of unsigned": (kernel("x[0] = max(x[0], n);", "unsigned long* x, int n"),
                        "Both arguments of `max` must have the same type: convert one, as in `max(a, (unsigned long)b"),
    "std::max": ("#include <algorithm>\nfloat go(float f, int n) { return std::max(f, n); }\n" + kernel("x[0] = 1;"),
                 SAME.format("max", "(float)n")),
    "swap": (kernel("int a = 1, b = n; std::swap(a, b); x[0] = a;", before="#include <utility>\n"),
             "Swap by hand: `auto t = a; a = b; b = t;`."),
    "a bfloat16": (kernel("x[0] = h[0];", BOTH, HALVES), "Convert it: `__float2bfloat16(__half2float(h[0]))`."),
    "a half": (kernel("h[0] = x[0];", BOTH, HALVES), "Convert it: `__float2half(__bfloat162float(x[0]))`."),
    "its first value": (kernel("nv_bfloat16 b = h[0]; x[0] = b;", BOTH, HALVES),
                        "Convert it: `__float2bfloat16(__half2float(h[0]))`."),
    "a text beside a printf": (kernel('printf("%d\\n", n); int m = "three"; x[0] = m;'), "A text is not a number."),
    "a number for a text": (kernel("printf(n);"), "The first argument of `printf` is a text"),
    "another extern template": ('extern "C" template <typename T> __global__ void l(T* x) { x[0] = 1; }\n'
                                + kernel("x[0] = 1;"), 'A template cannot be `extern "C"`: leave that out.'),
    "a header": (kernel("x[0] = 1;", before="#include <myheader.h>\n"),
                 "Is the name right? `-I FOLDER` names another place to look."),
    "import": ("import torch\n" + kernel("x[0] = 1;"),
               "CUDA C++ has no `import`: remove it, or include a header, `#include <cstdio>`."),
    "prose": ("this is not code\n" + kernel("x[0] = 1;"), "Is this line a comment? Then it begins with `//`."),
    "using enum": ("using enum cudaError;\n" + kernel("x[0] = cudaSuccess;"), f"`using enum` is C++20, {NEWER}"),
    "a comparison": (EQUAL + kernel("x[0] = A{1} == A{1};"), f"A comparison by `= default` is C++20, {NEWER}"),
    "parentheses": (AB + kernel("A g(1, 2); x[0] = g.a;"),
                    "Without a constructor, that takes braces: `A g{1, 2};`. With parentheses, it is C++20."),
    "too many values": (AB + kernel("A g(1, 2, 3); x[0] = g.a;"), ""),
    "a struct that comes later": ("__global__ void k(Foo* x) { x[0].a = 1; }\nstruct Foo { int a; };\n", LATER),
    "an enum that comes later": ("__device__ int f(Foo a) { return 1; }\nenum class Foo { a };\n" + kernel("x[0] = 1;"),
                                 LATER),
    "a static method": ("struct C { static int twice() { return 2; } };\n" + kernel("x[0] = C::twice();"),
                        MARK.format("C::twice")),
    "a constexpr one": ("struct C { static constexpr int twice() { return 2; } };\n" + kernel("x[0] = C::twice();"),
                        MARK.format("twice")),
    "a namesake": ("struct C { constexpr float sqrt() const { return 2; } };\n" + kernel("x[0] = sqrt(n);"),
                   ONE_TYPE.format("sqrt", "`sqrtf`, or `(float)n`")),
    "an aligned one": ("struct alignas(8) C { static int twice() { return 2; } };\n" + kernel("x[0] = C::twice();"),
                       MARK.format("C::twice")),
    "a name of CUDA's": ("__device__ float atomicAdd(float* x, float y) { return x[0] + y; }\n" + kernel("x[0] = 1;"),
                         "CUDA has an `atomicAdd` of its own: give yours another name."),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_gets_its_hint(case):
    source, words = CASES[case]
    with pytest.raises(CompileError) as raised:
        compile_kernel(source, "k")
    assert raised.value.hint.startswith(words) if words else not raised.value.hint


# What these hints say to write.
FIXES = {
    "doubles": kernel(
        "float f = 2; x[0] = fma((double)f, x[2], 1.0) + fmod(x[3], 2.0) + sqrt((double)3);", "double* x"
    ),
    "floats": kernel("x[0] = max(x[0], (float)n) + min((float)n, 2.5f) + isnan((float)n) + std::sqrt((float)n);"),
    "halves": kernel("x[0] = __float2bfloat16(__half2float(h[0]));", BOTH, HALVES),
    "swap": kernel("int a = 1, b = n; auto t = a; a = b; b = t; x[0] = a;"),
    "braces": AB + kernel("A g{1, 2}; x[0] = g.a;"),
    "shuffle": kernel("x[0] = __shfl_up_sync(0xffffffff, x[0], 1);"),
    "no constexpr": "__device__ float g(float x) { return __fdividef(x, 2); }\n" + kernel("x[0] = g(x[0]);"),
}
NEWER_FIXES = {
    "using enum": "using enum cudaError;\n" + kernel("x[0] = cudaSuccess;"),
    "a comparison": EQUAL + kernel("x[0] = A{1} == A{1};"),
    "a char8_t": kernel("char8_t c = 1; x[0] = c;"),
}


@pytest.mark.parametrize("case", FIXES)
def test_what_a_hint_says_compiles(case):
    compile_kernel(FIXES[case], "k")


@pytest.mark.parametrize("case", NEWER_FIXES)
def test_what_needs_the_newer_language_compiles_with_it(case):
    compile_kernel(NEWER_FIXES[case], "k", options=["-std=c++20"])


def test_a_prose_line_is_no_code():
    undefined = 'identifier "y" is undefined'
    assert hint("if x is not y", 1, undefined) and "comment" not in hint("if x is not y", 1, undefined)


@pytest.mark.parametrize("head", ['extern "C" template', 'extern "C" { template'])
def test_a_template_is_not_extern_c(head):
    source = f"{head} <typename T> __global__ void k(T* x) {{ x[0] = 1; }} {'}' * head.count('{')}\n"
    with pytest.raises(ValueError, match='a template cannot be extern "C": leave that out. Then name an instance'):
        compile_kernel(source, "k")


def test_a_header_s_assertion_keeps_its_words():
    source = kernel("auto t = cooperative_groups::tiled_partition<3>(cooperative_groups::this_thread_block());")
    with pytest.raises(CompileError) as raised:
        compile_kernel("#include <cooperative_groups.h>\n" + source, "k")
    assert raised.value.errors[0] == ("cuda_src", 2, "Size must be one of 1/2/4/8/16/32")


PYTHONS = {
    "if r >= h or c >= w: return": "In C++, write `if (r >= h or c >= w)` and the statement with its `;`, without the",
    "while i < k: o += x[i]": "In C++, write `while (i < k)` and the statement with its `;`, without the `:`.",
    "if i < n:": "In C++, write `if (i < n) {` and close the body with `}`: indentation means nothing.",
}


@pytest.mark.parametrize("line", PYTHONS)
def test_a_statement_of_python_s(line):
    assert hint(line, 1, 'expected a "("').startswith(PYTHONS[line])


def test_none_is_a_pointer_or_a_number():
    assert hint("float o = None;", 1, 'identifier "None" is undefined').endswith("for a pointer, `0` for a number.")


def test_a_constexpr_function_is_compiled_for_the_host_too():
    line = "constexpr __device__ float g(float x) { return __fdividef(x, 2); }"
    said = "'__fdividef' was not declared in this scope; did you mean '__finitef'?"  # by g++, where nvcc calls it
    assert hint(line, 1, said) == HOST.format("__fdividef")


STARS = """
__global__ void add(const float* a, const float* b, int n) {}
int main() {
    float* da, db; float* other, x = 1;
    USE
}
"""
NO_MALLOC = (
    'no instance of overloaded function "cudaMalloc" matches the argument list: argument types are: (float *, int)'
)
NO_POINTER = 'argument of type "float" is incompatible with parameter of type "const float *"'


def test_each_pointer_has_a_star_of_its_own():
    words = "In `float* da, db;` only `da` is a pointer: write `float *da, *db;`."
    assert hint(STARS.replace("USE", "cudaMalloc(&db, 4);"), 5, NO_MALLOC) == words
    assert hint(STARS.replace("USE", "add<<<1, 1>>>(da, db, 1);"), 5, NO_POINTER) == words
    assert "only" not in hint(STARS.replace("USE", "add<<<1, 1>>>(da, x, 1);"), 5, NO_POINTER)
