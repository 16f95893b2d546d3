"""What a hint says about nvcc's message on a line of a source: the right advice, and none that does not fit."""

import pytest

from utils.cuda.common.hints import hint

TO_HOST = 'calling a __device__ function("{}") from a __host__ function("{}") is not allowed'
TO_DEVICE = 'calling a __host__ function("{}") from a __global__ function("k") is not allowed'
AS_ARGUMENT = "cannot be used in the template argument type of a __global__ function template instantiation"
LOCAL = 'A type defined inside a __host__ function  ("{}") ' + AS_ARGUMENT
PRIVATE = 'A type that is defined inside a class and has private or protected access ("A::L") ' + AS_ARGUMENT
LAMBDA = 'The closure type for a lambda ("lambda []()->void") ' + AS_ARGUMENT
GLOBAL = 'identifier "{}" is undefined in device code'
PLUS = "struct C { float r; };\n__device__ C operator+(C a, C b) { return {a.r + b.r}; }\n"
ADD = "struct Add { float a; float operator()(float x) const { return x + a; } };\n"
LIMIT = "x[0] = std::numeric_limits<{}>::{}();"
TEXT = 'const char* text = "%d";\n'


def limit(kind, name, words):
    return LIMIT.format(kind, name), TO_DEVICE.format(name), words


# The source, its last line being the one that nvcc names, nvcc's message, and the hint.
MARKS = {
    "CUDA's own in main": ("int main() { __ldg(x); }", TO_HOST.format("__ldg(const float *)", "main"),
                           "`__ldg` is for kernels: call it in one."),
    "CUDA's own elsewhere": ("void f(float* x) { __ldg(x); }", TO_HOST.format("__ldg(const float *)", "f(float *)"),
                             "`__ldg` is for kernels: call it in one, or mark `f` with `__device__` if only ker"),
    "in a method": ("struct A { int f() { return __popc(1); } };", TO_HOST.format("__popc", "A::f()"),
                    "`__popc` is for kernels: call it in one, or mark `A::f` with `__device__` if only"),
    "an operator": (PLUS + "int main() { C a, b = a + a; }", TO_HOST.format("operator +(    ::C,     ::C)", "main"),
                    "`operator+` is for kernels: mark it with `__host__ __device__`"),
    "a library's": ("int main() { auto b = cooperative_groups::this_thread_block(); }",
                    TO_HOST.format("cooperative_groups::__v1::this_thread_block()", "main"),
                    "`cooperative_groups::this_thread_block` is for kernels: call it in one."),
    "a function object": (ADD + "p[0] = Add{1}(2);", TO_DEVICE.format("Add::operator ()(float) const"),
                          "Mark `Add::operator()` (line 1) with `__device__`"),
    "a conversion": ("struct I { operator int() const { return 3; } }; x[0] = I();",
                     TO_DEVICE.format("I::operator int() const"), "Mark `I::operator int` (line 1) with `__device__`"),
    "a template": ("template <class T> T twice(T v) { return 2 * v; }\nx[0] = twice(1);",
                   TO_DEVICE.format("T1  ::twice<int>(T1)"), "Mark `twice` (line 1) with `__device__`"),
    "in a namespace": ("namespace n { struct S { int get() { return 1; } }; }\nx[0] = n::S().get();",
                       TO_DEVICE.format("n::S::get()"), "Mark `n::S::get` (line 1) with `__device__`"),
    "float's largest": limit("float", "max", "Write `FLT_MAX` of `<cfloat>`, or name the limit"),
    "float's lowest": limit("float", "lowest", "Write `-FLT_MAX` of `<cfloat>`, or name the limit"),
    "int's least": limit("int", "lowest", "Write `INT_MIN` of `<climits>`, or name the limit"),
    "infinity": limit("float", "infinity", "Write `INFINITY`, or name the limit by a `constexpr` outside the kernel."),
    "unsigned's least": limit("unsigned", "min", "Name the limit by a `constexpr` outside the kernel."),
    "of a template": limit("T", "max", "Name the limit by a `constexpr` outside the kernel."),
    "host number": ("int n = 5;\nx[0] = n == 4;", GLOBAL.format("n"), "`n` is in the host's memory: pass its value to"),
    "host number in std": ("const std::size_t n = f();\nx[0] = n;", GLOBAL.format("n"), "`n` is in the host's memory"),
    "host number set": ("int n;\nn = 1;", GLOBAL.format("n"), "`n` is in the host's memory: mark it with `__d"),
    "host number's address": ("int n;\nint* p = &n;", GLOBAL.format("n"), "`n` is in the host's memory: mark it with"),
    "host array": ("void f(int* t, int n);\nint t[3];\nx[0] = t[0];", GLOBAL.format("t"),
                   "`t` is in the host's memory: mark it with `__constant__` or `__device__`, or pass a pointer"),
    "host pointer": ("float* d;\nx[0] = d[0];", GLOBAL.format("d"), "`d` is in the host's memory: if it points"),
    "host text": (TEXT + "printf(text, 1);", GLOBAL.format("text"), "`text` is in the host's memory: write the text"),
    "host vector": ("std::vector<int> v;\nx[0] = v[0];", GLOBAL.format("v"), "A kernel has pointers, shared memory"),
    "extern in a kernel": ("__global__ void k(float* p) { extern float s[]; p[0] = s[0]; }", GLOBAL.format("s"),
                           "Shared memory whose size the launch gives is `extern __shared__ float s[];`."),
    "a local type": ("k<<<1, 1>>>(l);", LOCAL.format("L"), "Move `L` out of the function: a kernel's template argum"),
    "an unnamed local type": ("k<<<1, 1>>>(l);", LOCAL.format("struct <unnamed>"), "Move the struct out of the functi"),
    "an unnamed local enum": ("k<<<1, 1>>>(l);", LOCAL.format("enum <unnamed>"),
                              "Move the enum out of the function and give it a name"),
    "an unnamed type": ("k<<<1, 1>>>(l);", 'An unnamed type ("struct <unnamed>") ' + AS_ARGUMENT,
                        "Give the struct a name: a kernel's template argument cannot be an unnamed type."),
    "a private type": ("k<<<1, 1>>>(l);", PRIVATE, "Make `A::L` public: a kernel's template argument cannot be a priv"),
    "a lambda": ("k<<<1, 1>>>(l);", LAMBDA, "Outside the function, write a struct whose `operator()` is marked"),
}  # fmt: skip


@pytest.mark.parametrize("case", MARKS)
def test_what_belongs_to_the_other_side(case):
    check(*MARKS[case])


SEMICOLON, EXPRESSION = 'expected a ";"', "expected an expression"
NO_MEMBER_OF_STD = 'namespace "std" has no member "{}"'
NO_CLASS = 'name followed by "::" must be a class or namespace name'
ATTRIBUTES = "attributes are not permitted in a function definition"
K = "__global__ void k(int* p) { WHAT }\n"
GO = "__global__ void k(int* p) { p[0] = 1; }\nint main() { WHAT; }"
END, BEFORE = "Put a `;` at the end of this line.", "Put a `;` before the `}`."
NUMBERS = K.replace("WHAT", "p[0] = std::numbers::pi_v<float>;")
TYPE = "template <typename T> __device__ int f() { WHAT x = 3; return x; }"
STATEMENTS = {
    "the end of a line": ("int i = 3", SEMICOLON, END),
    "a struct": ("struct P : Q<int> { int x; }", SEMICOLON, END),
    "a value": ("float a[2] = {1, 2}", SEMICOLON, END),
    "a lambda": ("auto g = [](int a) { return a; }", SEMICOLON, END),
    "a function": ("__device__ int f(int a = 3) { return (a); }", SEMICOLON, ""),
    "a last statement": (K.replace("WHAT", "p[0] = 1"), SEMICOLON, BEFORE),
    "a last statement of a branch": (K.replace("WHAT", "if (p) { p[0] = 1 } p[1] = 2;"), SEMICOLON, BEFORE),
    "a last member": ("struct P { int x }; int y;", SEMICOLON, BEFORE),
    "a value in braces": (K.replace("WHAT", "int a[2] = {1, 2};"), SEMICOLON, ""),
    "a function in a kernel": (K.replace("WHAT", "int f(int x) { return x; }"), SEMICOLON, "A function cannot be insi"),
    "a loop in a kernel": (K.replace("WHAT", "for (int i = 0; i < 3; i++) { p[i] = 1; }"), SEMICOLON, ""),
    "a method": ("struct P { int f(int x) { return x; } };", SEMICOLON, ""),
    "asm": (K.replace("WHAT", 'asm volatile("mov.u32 %0, 1;" : "=r"(x)) p[0] = x;'), SEMICOLON, "Put a `;` between `)"),
    "a factor": (K.replace("WHAT", "p[1] = (1 - t) p[0];"), SEMICOLON, "C++ needs the `*` between two factors"),
    "a returned factor": ("float f(float* p) { return g(1) p[0]; }", SEMICOLON, "C++ needs the `*` between two factor"),
    "a mark behind": ("void k(int* p) __global__ { p[0] = 1; }", ATTRIBUTES,
                      "`__global__` comes before the type that the function returns: `__global__ void f(...)`."),
    "bounds behind": ("__global__ void k(int* p) __launch_bounds__(32) { p[0] = 1; }", ATTRIBUTES,
                      "It comes before the kernel's name"),
    "a launch with spaces": (GO.replace("WHAT", "k<< <1, 32> >>(p)"), EXPRESSION, "In C++, a launch is `k<<<1, 32>>>("),
    "a space first": (GO.replace("WHAT", "k< <<1, 32>>>(p)"), EXPRESSION, "In C++, a launch is `k<<<1, 32>>>(...)`."),
    "a launch": (GO.replace("WHAT", "k<<<1, 32>>>(1, )"), EXPRESSION, ""),
    "typename": (TYPE.replace("WHAT", "T::value_type"), SEMICOLON, "A type that depends on a template's parameter "
                 "needs `typename`: `typename T::value_type`."),
    "typename of a trait": (TYPE.replace("WHAT", "Traits<T>::type"), SEMICOLON, "A type that depends on a template's"),
    "no typename": (TYPE.replace("WHAT", "Traits<int>::type"), SEMICOLON, ""),
    "numbers": (f"#include <numbers>\n{NUMBERS}", NO_CLASS, "`std::numbers` is C++20, and nvcc takes C++17 unless "
                'told: add `-std=c++20` (for `compile_kernel`, `options=["-std=c++20"]`).'),
    "numbers without a header": (NUMBERS, NO_CLASS, "`std::numbers` is C++20, of `<numbers>`, and nvcc takes C++17 un"),
    "thread": ("int main() { std::thread t; }", NO_MEMBER_OF_STD.format("thread"), "It needs `#include <thread>` at t"),
    "thread in a kernel": (K.replace("WHAT", "std::thread t;"), NO_MEMBER_OF_STD.format("thread"), ""),
    "misspelt": ("int main() { std::unique_pointer<int> p; }", NO_MEMBER_OF_STD.format("unique_ptrs"),
                 "Did you mean `std::unique_ptr`?"),
    "CUDA's own": (K.replace("WHAT", "p[0] = std::rsqrtf(2);"), NO_MEMBER_OF_STD.format("rsqrtf"),
                   "Write `rsqrtf` without `std::`."),
}  # fmt: skip


@pytest.mark.parametrize("case", STATEMENTS)
def test_what_is_missing_and_what_the_language_has(case):
    check(*STATEMENTS[case])


def check(source, message, words):
    found = hint(source, len(source.splitlines()), message)
    assert found.startswith(words) if words else found == ""
