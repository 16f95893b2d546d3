"""Hints about the cause of an error, where the message is about something that only follows from it."""

import pytest

from utils import CompileError, compile_kernel
from utils.cuda.common.hints import hint

K = "__global__ void k(int* a) { WHAT }\n"
HOST = "int main() { WHAT }\n"
EXPRESSION, INTEGRAL = "expected an expression", "expression must have integral or unscoped enum type"
UNDEFINED, MEMBER = 'identifier "{}" is undefined', 'class "{}" has no member "{}"'
NO_MEMBER_OF_STD = 'namespace "std" has no member "{}"'
NO_CLASS = 'name followed by "::" must be a class or namespace name'
CONSTANT, CLASS = "expression must have a constant value", 'expression must have class type but it has type "{}"'
TO_DEVICE = 'calling a constexpr __host__ function("{}") from a __global__ function("k") is not allowed'
ARGUMENT = 'argument of type "{}" is incompatible with parameter of type "{}"'
VALUE = 'a value of type "{}" cannot be used to initialize an entity of type "{}"'
HALF = 'more than one conversion function from "half" (aka "__half") to a built-in type applies: function "__half::oper'
MARKED = "__host__ or __device__ annotation on lambda requires --extended-lambda nvcc flag"
NOT_CONFIGURED = "a __device__ function call cannot be configured"
LAUNCH = "kernel launch from __device__ or __global__ functions requires separate compilation mode"
PASSES = "the kernel takes ({}), but this launch passes ({})"
TENSOR, LITERAL = "cannot convert 'at::Tensor' to 'float' in initialization", "user-defined literal operator not found"
FMA = "__device__ float fma(float a, float b, float c) { return a * b + c; }\n"
H, F = "__device__ void h(int* a) { a[0] = 1; }\n", "__device__ void f(int* p) { p[0] = 1; }\n"
TWO = "__device__ float f(float x);\nint f(int x);\n"
THROWS, SQUARE = "int f(int x) { return x ? x : throw 1; }\n", "auto sq = [](int x) { return x * x; };\n"
ENUM = "enum class E { A, B = 3 };\n"
PYTHONS = "A kernel does not see Python's variables"
BITS = "`<<`, `>>`, `&`, `|` and `^` take whole numbers: `__half_as_ushort(x)` has the bits of a half."


def kernel(statement, before=""):
    return before + K.replace("WHAT", statement)


def host(statement, before=""):
    return before + HOST.replace("WHAT", statement)


# The source, its last line being the one that nvcc names, nvcc's message, and the hint.
LANGUAGE = {
    "C++20's library": (kernel("a[0] = std::popcount(7u);"), NO_MEMBER_OF_STD.format("popcount"),
                        "A kernel cannot use `std::popcount`, which is for the host: use `__popc(x)` or "
                        "`cuda::std::popcount`, of `<cuda/std/bit>`."),
    "C++20's library with the flag": (kernel("a[0] = std::midpoint(1, 3);"), TO_DEVICE.format("midpoint"),
                                      "A kernel cannot use `std::midpoint`, which is for the host: use `cuda::std::mi"),
    "a range": (kernel("std::ranges::sort(a);"), NO_CLASS, "A kernel cannot use `std::ranges`, which is for the host."),
    "C++20's library on the host": (host("int n = std::popcount(7u);"), NO_MEMBER_OF_STD.format("popcount"),
                                    "`std::popcount` is C++20, of `<bit>`, and nvcc takes C++17"),
    "a type of C++20": (kernel("std::remove_cvref_t<int&> x;"), NO_MEMBER_OF_STD.format("remove_cvref_t"),
                        "`std::remove_cvref_t` is C++20, of `<type_traits>`, and nvcc takes C++17"),
    "a comparison": (kernel("a[0] = (a[1] <=> a[2]) < 0;"), EXPRESSION, "A kernel cannot use what `<=>` returns"),
    "its result": (kernel("a[0] = (a[1] <=> a[2]) < 0;"), TO_DEVICE.format("__unspec"), "A kernel cannot use what `<="),
    "a comparison on the host": (host("bool b = (1 <=> 2) < 0;"), EXPRESSION, "`<=>` is C++20, and nvcc takes C++17"),
    "if consteval": ("constexpr int f() { if consteval { return 1; } return 2; }", 'expected a "("',
                     "`if consteval` is C++23, which nvcc does not have: write `if (__builtin_is_constant_evaluated("),
    "consteval": ("consteval int f() { return 1; }", 'expected a ";"', "`consteval` is C++20, and nvcc takes C++17"),
    "a coroutine": ("__device__ int f() { co_return 1; }", UNDEFINED.format("co_return"), "Device code has no corou"),
    "an enumerator": (kernel("E e = A;", ENUM), UNDEFINED.format("A"),
                      "The names of an `enum class` need its name before them: write `E::A`."),
    "an enumerator with a value": (kernel("E e = B;", ENUM), UNDEFINED.format("B"), "The names of an `enum class` nee"),
    "an enumerator in a namespace": (kernel("auto e = A;", f"namespace n {{ {ENUM} }}\n"), UNDEFINED.format("A"),
                                     "The names of an `enum class` need its name before them: write `n::E::A`."),
    "no such enumerator": (kernel("E e = C;", ENUM), UNDEFINED.format("C"), ""),
    "a constant outside": ("constexpr float r = std::sqrt(2.0f);", CONSTANT,
                           "The compiler cannot compute that: write the number itself, or compute it where it is used"),
    "a constant in a kernel": (kernel("constexpr float r = sqrtf(2);"), CONSTANT,
                               "What is known only when the kernel runs needs `const` instead."),
    "asm in a constant": ('constexpr int f() { asm(""); return 3; }', "inline assembly is not a constant expression",
                          "A `constexpr` function cannot have `asm`: leave out its `constexpr`."),
    "a full name elsewhere": (kernel("a[0] = cuda::std::get<1>(t) + get<0>(t);"), UNDEFINED.format("get"),
                              "Did you mean `cuda::std::get`?"),
    "a full name here": (kernel("cg::this_multi_grid();"), 'namespace "cg" has no member "this_multi_grid"', ""),
    "a type of nobody's": ("__global__ void k(Foo* a) { }", UNDEFINED.format("Foo"), ""),
    "a name like a type": (kernel("a[flat] = 1;"), UNDEFINED.format("flat"), PYTHONS),
    "a condition like a type": (kernel("if (boot) a[0] = 1;"), UNDEFINED.format("boot"), PYTHONS),
    "a type misspelt": (kernel("boll b = true;"), UNDEFINED.format("boll"), "Did you mean `bool`?"),
    "a conversion misspelt": (kernel("a[0] = (flaot)a[1];"), UNDEFINED.format("flaot"), "Did you mean `float`?"),
    "a factor": (kernel("a[0] = n * v; a[1] = v;"), UNDEFINED.format("v"), PYTHONS),
    "a header of CUDA's library": (kernel("cuda::barrier<cuda::thread_scope_block> b;"), NO_CLASS,
                                   "`cuda::barrier` needs `#include <cuda/barrier>` at the top of the source."),
}  # fmt: skip
KINDS = {
    "volatile for an own function": (kernel("f(v);", F), ARGUMENT.format("volatile int *", "int *"),
                                     "That pointer is volatile: declare what takes it as `volatile int*`."),
    "volatile for CUDA's": (kernel("memcpy(a, v, 4);"), ARGUMENT.format("volatile int *", "const void *"),
                            "That pointer is volatile: cast it, `(const void*)pointer`."),
    "a vector's part": (kernel("v.x = 1;"), CLASS.format("float4 *"),
                        "`v` is a pointer to a `float4`: write `v->x`, or `v[i].x`."),
    "no part of a vector": (kernel("v.w = 1;"), CLASS.format("float3 *"),
                            "`v` is a pointer, the address of an array: it has no `w`."),
    "a pointer's shape": (kernel("n = a.shape;"), CLASS.format("int *"),
                          "`a` is a pointer, the address of an array: it has no `shape`. Pass the sizes as arguments."),
    "parts of three": (kernel("v[0].w = 1;"), MEMBER.format("float3", "w"),
                       "A `float3` has the parts `.x`, `.y`, `.z`."),
    "two texts": (kernel('const char* s = "x" + "y";'), INTEGRAL, "C++ does not join texts with `+`: write them side"),
    "rows for pointers": (kernel("f(m);"), ARGUMENT.format("float (*)[4]", "float **"),
                          "An array of arrays has no pointers to its rows: declare what takes it as `float (*m)[4]`."),
    "a value for a pointer": (kernel("int* p = atomicAdd(a, 1);"), VALUE.format("int", "int *"),
                              "The value is no address: declare `int p`, without the `*`."),
    "an element for a pointer": (kernel("int* p = a[1];"), VALUE.format("int", "int *"), "A pointer is needed here"),
    "a shift of a half": (kernel("h[0] = h[1] << 1;"), HALF, BITS),
    "bits of a half": (kernel("h[0] = h[1] & 3;"), HALF, BITS),
    "a remainder of halves": (kernel("h[0] = h[1] % h[2];"), HALF, "`%` takes whole numbers: write `__float2half(fmod"),
    "a half in asm": (kernel('asm("mov.b16 %0, 0;" : "=h"(h[0]));'), HALF,
                      "A 16-bit operand is an `unsigned short`: `__half_as_ushort(x)` has the bits of a half, "),
    "a condition of halves": (kernel("if (h[0] && h[1]) a[0] = 1;"), HALF, "Convert it: `__half2float(x)`"),
    "an imaginary number": (kernel("a[0] = 1.0i;"), LITERAL, "Numbers have no suffix `i`: keep the real and the imag"),
    "another tensor": (host("k<<<dim3(1), 4>>>(x.data_ptr<int>());"), PASSES.format("const float*", "int*"),
                       "The kernel takes `float*`: for a tensor of that type, write `x.data_ptr<float>()`."),
    "another order": (host("k<<<1, 4>>>(n, x.data_ptr<float>());"), PASSES.format("float*, int", "int&, float*"),
                      "The arguments are in another order than the kernel's parameters, `(float*, int)`."),
    "a tensor's sum": (host("float s = 2 * x.sum();"), TENSOR,
                       "`x.sum()` is a tensor too: its value is `x.sum().item<float>()`."),
    "an element's sum": (host("float s = x[0].sum();"), TENSOR, "`x[0].sum()` is a tensor too: its value is `x[0].sum"),
}  # fmt: skip
CALLS = {
    "an own fma": (kernel("a[0] = fma(a[0], 1, 2);", FMA), TO_DEVICE.format("fma"),
                   "This call means another `fma`, not that of line 1: give yours another name."),
    "one of two": (kernel("a[0] = f(3);", TWO), TO_DEVICE.format("f(int)"), "Mark `f` (line 2) with `__device__`: the"),
    "a function that throws": (kernel("a[0] = f(3);", THROWS), TO_DEVICE.format("f(int)"),
                               "Mark `f` (line 1) with `__device__`, and leave out its `throw`, which kernels do not "),
    "a marked lambda": (kernel("auto f = [=] __device__ (int i) { a[i] = i; };"), MARKED,
                        "A lambda in a kernel needs no mark: leave the `__device__` out."),
    "a marked lambda outside": ("auto f = [] __device__ (int i) { return i; };", MARKED,
                                "Make it a function: `__device__ auto f(...)`."),
    "a marked lambda on the host": (host("auto f = [] __device__ (int i) { };"), MARKED,
                                    "Outside the function, write a struct whose `operator()`"),
    "a lambda outside": (kernel("a[0] = sq(3);", SQUARE), TO_DEVICE.format("operator()"),
                         "A kernel cannot call a lambda that is defined outside it: make `sq` a `__device__` function"),
    "a constant of a lambda": (kernel("constexpr int n = sq(3);", SQUARE), TO_DEVICE.format("operator()"),
                               "A kernel cannot call a lambda that is defined outside it: make `sq` a `__device__ con"),
    "a launch of a function": (kernel("h<<<1, 1>>>(a);", H), LAUNCH,
                               "`h` is not a kernel: call it without `<<<...>>>`, as `h(...)`."),
    "the host's launch of a function": (host("h<<<1, 1>>>(0);", H), NOT_CONFIGURED,
                                        "Only kernels are launched: mark `h` with `__global__` instead of `__device__"),
    "the least of a list": (kernel("a[0] = std::min({a[0], a[1], a[2]});"), TO_DEVICE.format("min"),
                            "`min` takes two arguments: nest it without `std::`, `min(min(a, b), c)`."),
    "a vector of one": ("float1 v; v.y = 1;", MEMBER.format("float1", "y"), "A `float1` has only the part `.x`."),
    "a part of dim3": ("dim3 d; d.w = 1;", MEMBER.format("dim3", "w"), "The parts are `.x`, `.y` and `.z`."),
    "no fast root": (kernel("a[0] = __sqrtf(2);"), TO_DEVICE.format("__sqrtf"), "A kernel has no `__sqrtf`: write `sq"),
    "a long number's root": (kernel("unsigned long long n = 3; a[0] = sqrt(n);"), TO_DEVICE.format("sqrt"),
                             "`sqrt` takes floats or doubles, all of one type: write `(double)n`."),
}  # fmt: skip
CASES = LANGUAGE | KINDS | CALLS


@pytest.mark.parametrize("case", CASES)
def test_what_is_the_cause(case):
    source, message, words = CASES[case]
    found = hint(source, len(source.splitlines()), message)
    assert found.startswith(words) if words else found == ""


W = "template <class T> struct W { T x; __device__ W(T t) : x(t) {} };\ntemplate <class T> using A = W<T>;\n"
THIS, FP16 = "struct S { int x; __device__ int f(this S& s) { return s.x; } };\n", "#include <cuda_fp16.h>\n"
A_TEMPLATE = "`A` is a template: write its arguments between `<` and `>` after its name."
# The source, and the hint: nvcc has more to say about what follows from the mistake.
FOLLOWS = {
    "a library without its header": (kernel("cuda::std::array<int, 2> v{1, 2}; a[0] = v[0];"),
                                     "`cuda::std::array` needs `#include <cuda/std/array>` at the top of the source."),
    "an object of it": (kernel("cuda::atomic_ref<int> r(a[0]); r++;"), "`cuda::atomic_ref` needs `#include <cuda/ato"),
    "an object of a template": (kernel("A x(3); a[0] = x.x;", W), A_TEMPLATE),
    "a name in two cases": (W + "__global__ void k(int* o) { A a(3); o[0] = a.x; }", A_TEMPLATE),
    "this": (kernel("S s{1}; a[0] = s.f();", THIS), "A `this` parameter is C++23, which nvcc does not have"),
    "comments": (kernel("a[0] = 1;", "/* outer /* inner */ */\n"), "Comments cannot be nested: the first `*/` ends"),
    "half4": (FP16 + "__global__ void k(half4* a) { a[0] = a[1]; }", "C++ has no `half4`: write two `half2`, of"),
    "_Float16": (kernel("_Float16 h = 1; a[0] = h;"), "CUDA's type of 16 bits is `__half`, of `cuda_fp16.h`."),
}  # fmt: skip


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("case", FOLLOWS)
def test_what_the_other_errors_follow_from(case):
    source, words = FOLLOWS[case]
    with pytest.raises(CompileError) as raised:
        compile_kernel(source, "k")
    assert raised.value.hint.startswith(words)
    assert raised.value.line
