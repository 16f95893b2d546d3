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


ASSIGNED = 'no operator "=" matches these operands: operand types are: const dim3 = dim3'
NO_INSTANCE = 'no instance of overloaded function "{}" matches the argument list: argument types are: ({})'
SEVERAL = 'more than one instance of overloaded function "f" matches the argument list: argument types are: (int)'
TYPES = "matches these operands: operand types are: {}"
NO_OPERATOR, OPERATORS = f'no operator "{{}}" {TYPES}', f'more than one operator "{{}}" {TYPES}'
ARGUMENT = 'argument of type "{}" is incompatible with parameter of type "{}"'
CONVERSION = 'no suitable user-defined conversion from "{}" to "{}" exists'
CONSTANT = "expression must have a constant value"
T = "constexpr int t[2] = {1, 2};"
F = "__device__ int f(int x) { return x; }"
ROW = "struct Base { int length; };\nstruct Row : Base { int width; };\n"
VALUES = {
    "a built-in set": (K.replace("WHAT", "gridDim = dim3(1);"), ASSIGNED, "`gridDim` can only be read: the launch set"),
    "a built-in compared": (K.replace("WHAT", "p[0] = gridDim == 1;"), NO_OPERATOR.format("==", "const dim3 == int"),
                            "`gridDim` has three parts: write `gridDim.x` (or .y, .z)."),
    "a member of CUDA's": (K.replace("WHAT", "b.meta_group_rank(); t.meta_group_size();"),
                           'class "cooperative_groups::__v1::thread_block" has no member "meta_group_rank"', ""),
    "a member": (ROW + "r.wdth = height + wide;", 'class "Row" has no member "wdth"', "Did you mean `width`?"),
    "a member of a base": (ROW + "r.len = lens;", 'class "Row" has no member "len"', "Did you mean `length`?"),
    "a name that is no member": (ROW + "r.colr = color;", 'class "Row" has no member "colr"', ""),
    "beyond an array": (f"{T} constexpr int v = t[5];", CONSTANT, "`t` has 2 elements: there is no `t[5]`."),
    "in an array": (K.replace("WHAT", f"{T} constexpr int v = t[1] + n;"), CONSTANT, "What is known only when the ker"),
    "in an if": ("if constexpr (p[0] == 1) p[0] = 2;", CONSTANT, "What is known only when the kernel runs needs `if`"),
    "an array's size": ("float a[n];", CONSTANT, "The compiler must know the size of an array"),
    "loads of three": ("y[0] = __ldcs(a).x;", NO_INSTANCE.format("__ldcs", "const float3 *"),
                       "`__ldcs` reads no `float3`: read it member by member, `__ldcs(&p->x)`"),
    "stores of three": ("__stcs(a, v);", NO_INSTANCE.format("__stcs", "float3 *, float3"), "`__stcs` writes no `float"),
    "a texture of three": ("tex2D<float3>(t, 0, 0);", NO_INSTANCE.format("tex2D", "float3 *, cudaTextureObject_t"),
                           "A texture has no elements of three numbers: use `float4` with `tex2D`."),
    "a vector among arguments": ("y[0] = f(a);", NO_INSTANCE.format("f", "const float3 *"), ""),
    "a vector from a number": ("float4 v = n;", 'no suitable constructor exists to convert from "int" to "float4"',
                               "`make_float4(a, b, c, d)` makes a vector"),
    "two numbers for blocks": ("k<<<g, 4>>>(0);", CONVERSION.format("int2", "dim3"),
                               "The sizes of a launch are numbers or a `dim3`: write `dim3(v.x, v.y)` for the vector"),
    "two vectors": ("float4 v = u;", CONVERSION.format("int4", "float4"), "Vectors are converted number by number: `m"),
    "ints for a number": ("float v = u;", CONVERSION.format("int2", "float"), "An `int2` has several numbers: take on"),
    "half2 and half": ("p[0] = p[0] * h;", NO_OPERATOR.format("*", "half2 * half"), "`__half2half2(v)` makes a `half2"),
    "bfloat162 and float": ("p[0] = p[0] * f;", NO_OPERATOR.format("*", "const __nv_bfloat162 * float"),
                            "`__float2bfloat162_rn(v)` makes a `bfloat162` whose numbers are both `v`."),
    "half of half2": ("h = p[0];", NO_OPERATOR.format("=", "half = half2"), "A `half2` has two numbers: take one, `__"),
    "two halves": ("h = h * g;", NO_OPERATOR.format("*", "half * half"), "Without operators for half: compute with fl"),
    "a half's sign": ("h = -h;", NO_OPERATOR.format("-", "- half"), "Without operators for half: compute with floats"),
    "half of size_t": ("p[0] = n;", OPERATORS.format("=", "half = size_t"), "Convert it: `__float2half((float)v)`."),
    "bfloat16 of half": ("p[0] = q[0];", OPERATORS.format("=", "__nv_bfloat16 = half"),
                         "Convert it: `__float2bfloat16(__half2float(q[0]))`."),
    "half by float": ("p[0] = p[1] * f;", OPERATORS.format("*", "half * float"), "Both sides need one type: `__half2f"),
    "namespaces": (f"namespace a {{ {F} }}\nnamespace b {{ {F} }}\nusing namespace a; using namespace b;\nx[0] = f(1);",
                   SEVERAL, "Several namespaces have a function `f`: say which one is meant, as in `a::f`."),
    "a value and a reference": (f"{F}\n{F.replace('int x', 'const int& x')}\nx[0] = f(1);", SEVERAL,
                                "No call tells the functions of lines 1 and 2 apart: remove one, or give it another n"),
    "other types": (f"{F.replace('int x', 'float x')}\n{F.replace('int x', 'double x')}\nx[0] = f(1);", SEVERAL,
                    "Several fit equally well: convert the arguments to the types of one"),
    "a pointer to anything": ("k<<<1, 1>>>(d);", ARGUMENT.format("void *", "float *"),
                              "That pointer may point to anything: declare it as `float*`, or cast it, `(float*)point"),
    "an array of arrays": ("k<<<1, 1>>>(a);", ARGUMENT.format("float (*)[4]", "float *"),
                           "That is an array of arrays: `&x[0][0]` is the address of its first element. A kernel need"),
    "a number for a pointer": ("f(n);", ARGUMENT.format("float", "float *"), "A pointer is needed here: pass the arra"),
    "free of const": ("cudaFree(d);", ARGUMENT.format("const float *", "void *"),
                      "That pointer is for reading only: remove the `const`, or cast it, `const_cast<float*>(pointer)"),
    "copy to const": ("cudaMemcpy(d, h, 4, kind);", ARGUMENT.format("const float *", "void *"), "What is written to m"),
    "a variable's address": ("int n = 3; k<<<1, 1>>>(0, &n);", ARGUMENT.format("int *", "int"), "`&n` is an address:"),
    "an array as a number": ("float* d; cudaMalloc(&d, 4); k<<<1, 1>>>(d);", ARGUMENT.format("float *", "float"),
                             "A pointer is the address of an array: write `[i]` after it"),
    "double for CUDA's float": ("double s, c; sincosf(x, &s, &c);", ARGUMENT.format("double *", "float *"),
                                "`s` is of type `double`: declare it as `float`."),
    "doubles for CUDA's floats": (K.replace("WHAT", "modff(1.f, x);"), ARGUMENT.format("double *", "float *"),
                                  "The elements are of type `double`: make them `float`."),
    "doubles for floats": (f"{F}\nf(x);", ARGUMENT.format("double *", "float *"),
                           "The elements are of type `double`: make them `float`, or the pointer `double*`."),
    "const doubles for floats": (f"{F}\nf(x);", ARGUMENT.format("const double *", "float *"),
                                 "The elements are of type `double`: make them `float`, or the pointer `const dou"),
    "a variable of Python's": (K.replace("WHAT", "x[0] = scale * 2;"), 'identifier "scale" is undefined',
                               "A kernel does not see Python's variables: if `scale` is one, pass it as an argument."),
    "a function of nobody's": (K.replace("WHAT", "x[0] = scale(2);"), 'identifier "scale" is undefined', ""),
    "a const variable's address": ("const int x = 1; int* p = &x;", ARGUMENT.format("const int *", "int *"),
                                   "That pointer is for reading only: declare what takes it as `const int*`."),
    "uchar": ("uchar c = 1;", 'identifier "uchar" is undefined', "C++ has no `uchar`: write `unsigned char`."),
    "restrict": ("__global__ void k(float* restrict x) {}", 'identifier "x" is undefined', "C++ and CUDA spell"),
    "using enum": (K.replace("WHAT", "using enum Op; x[0] = add;"), "expected an identifier", "`using enum` is C++20"),
    "a text for an array": ('char s[3] = "abc";', ARGUMENT.format("const char [4]", "char [3]"), "The array is too sh"),
    "a pointer to pointers": ("float** q = p;", ARGUMENT.format("float *", "float **"), "`float**` points to `float"),
    "a reference to a pointer": ("x[0] = f(p);", ARGUMENT.format("float *&", "float *"), ""),
    "char8_t": ("char8_t c = 1;", 'identifier "char8_t" is undefined', "`char8_t` is C++20, and nvcc takes C++17 unle"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_types_and_what_has_another(case):
    check(*VALUES[case])


UNDEFINED, LACKS = (
    'identifier "{}" is undefined',
    "a kernel can call `{}` only where the source is built with -rdc=true",
)
DECLARED = '"{}" has already been declared in the current scope'
OTHER = 'declaration is incompatible with "int {}" (declared at line 1)'
PRINTS, ARITHMETIC = "A kernel prints with `printf(", "expression must have arithmetic or unscoped enum type"
CLASS, NO_TYPE = 'expression must have class type but it has type "S (*)()"', 'explicit type is missing ("int" assumed)'
UNFIT = 'more than one instance of overloaded function "{}" matches the argument list: argument types are: (__int128, '
VOLATILE = 'no operator "=" matches these operands: operand types are: volatile int2 = int2'
NEW = (
    'no instance of overloaded "operator new" matches the argument list: argument types are: (unsigned long, char [4])'
)
CONSTANT, S = "expression must have a constant value", "struct S { int a; };\n"
RETURNS = "__device__ constexpr int f(int a) { BODY }\n" + K.replace("WHAT", "constexpr int x = f(0);")
FPRINTF = 'fprintf(stderr, "%d", 1);'
USED = "The name `{}` is already used in line 1: give one of the two another name."
# Hints that were once misleading: what is meant by the source as it is.
MISLEADING = {
    "a variable's name": ("__device__ int k = 3;\n" + K, OTHER.format("k"), USED.format("k")),
    "a namespace's name": ("namespace f { }\n__device__ int f() { return 1; }", DECLARED.format("f"), USED.format("f")),
    "a name in one line": ("int f; __device__ int f() { return 1; }", DECLARED.format("f"), USED.format("f")),
    "a name of CUDA's": ("__device__ int uint2() { return 1; }", DECLARED.format("uint2"), "CUDA has a `uint2` of its"),
    "a name that CUDA has, too": ("__device__ float fma(float a) { return a; }\n" + K.replace("WHAT", "fma(1.0f);"),
                                  UNFIT.format("fma"), "CUDA has a `fma` of its own: give yours another name."),
    "uintptr_t": (K.replace("WHAT", "uintptr_t a = 1;"), UNDEFINED.format("uintptr_t"),
                  "`uintptr_t` needs `#include <cstdint>`"),
    "std::uint32_t": (K.replace("WHAT", "std::uint32_t a = 1;"), NO_MEMBER_OF_STD.format("uint32_t"),
                      "`uint32_t` needs `#include <cstdint>`"),
    "UINT32_MAX": (K.replace("WHAT", "p[0] = UINT32_MAX;"), UNDEFINED.format("UINT32_MAX"), "`UINT32_MAX` needs `#in"),
    "INT64_MAX": (K.replace("WHAT", "p[0] = INT64_MAX;"), UNDEFINED.format("INT64_MAX"), "`INT64_MAX` needs `#inclu"),
    "SIZE_MAX": (K.replace("WHAT", "p[0] = SIZE_MAX;"), UNDEFINED.format("SIZE_MAX"), "`SIZE_MAX` needs `#include <"),
    "uint128_t": ("__global__ void k(uint128_t* o) {}", UNDEFINED.format("uint128_t"),
                  "C++ has no `uint128_t`: write `unsigned __int128`."),
    "fprintf": (K.replace("WHAT", FPRINTF), GLOBAL.format("stderr"), PRINTS),
    "fprintf without a header": (K.replace("WHAT", FPRINTF), UNDEFINED.format("fprintf"), PRINTS),
    "fprintf of the host": (f"int main() {{ {FPRINTF} }}", UNDEFINED.format("fprintf"), "`fprintf` needs `#include <c"),
    "puts": (K.replace("WHAT", 'puts("a");'), TO_DEVICE.format("puts"), PRINTS),
    "vprintf": (K.replace("WHAT", 'vprintf("%d", (char*)p);'), ARGUMENT.format("char *", "__va_list_tag *"), PRINTS),
    "a function for a variable": (S + K.replace("WHAT", "S s(); *p = s.a;"), CLASS,
                                  "`S s();` declares a function: write `S s;`."),
    "a function without its call": (S + "__device__ S s();\n" + K.replace("WHAT", "*p = s.a;"), CLASS,
                                    "`s` is a function: call it, `s(...).a`."),
    "a pointer to arrays": ("x = a.shape;", CLASS.replace("S (*)()", "float (*)[4]"), "`a` is a pointer"),
    "atomicMul": (K.replace("WHAT", "atomicMul(p, 2);"), UNDEFINED.format("atomicMul"),
                  "CUDA has no `atomicMul`: loop with `atomicCAS`"),
    "__float2int": (K.replace("WHAT", "*p = __float2int(2.5f);"), UNDEFINED.format("__float2int"),
                    "CUDA has no `__float2int`: `__float2int_rz(x)` cuts the fraction off, `__float2int_rn(x)` round"),
    "an unlike name": ("int main() { foo(); }", UNDEFINED.format("foo"), ""),
    "a like name": ("int main() { flor(2.5f); }", UNDEFINED.format("flor"), "Did you mean `floorf`?"),
    "static without a type": (K.replace("WHAT", "static x = 3;"), NO_TYPE,
                              "A variable needs a type: `static int x` or `static float x`."),
    "a kernel without a type": ("__global__ k(int* p) { }", NO_TYPE, "A kernel returns nothing: write `__global__ vo"),
    "max of __int128": ("o = max(a, b);", UNFIT.format("max"), "There is no `max` for `__int128`: write `a > b ? a"),
    "min of __int128": ("o = min(a, b);", UNFIT.format("min"), "There is no `min` for `__int128`: write `a < b ? a"),
    "a volatile vector": ("a[0] = make_int2(1, 2);", VOLATILE, "A volatile vector cannot be assigned as a whole: set"),
    "no end above a pointer": ("__global__ void k(int* o) { int i = 3\n    *o = i;", ARITHMETIC,
                               "Put a `;` at the end of line 1: without it, the `*` of line 2 multiplies."),
    "no end above elements": ("int i = f(3)\n*(p + 1) += i;", ARITHMETIC, "Put a `;` at the end of line 1"),
    "a branch above a pointer": ("int* o;\nif (a)\n*o = b * o;", ARITHMETIC, "`o` is a pointer"),
    "a function of the host": (K.replace("WHAT", "*p = (int)cudaGetLastError();"), LACKS.format("cudaGetLastError"),
                               "Call `cudaGetLastError` on the host, in the code that launches the kernels."),
    "a text of the host": (K.replace("WHAT", "cudaGetErrorString(e);"), LACKS.format("cudaGetErrorString"),
                           "Call `cudaGetErrorString` on the host"),
    "memory of the host": (K.replace("WHAT", "cudaMemcpyAsync(p, p, 4, e);"),
                           LACKS.format("cudaMemcpyAsync") + " and linked with cudadevrt", "The host does it: before"),
    "new in a buffer": (K.replace("WHAT", "P* q = new (buffer) P(7);"), NEW,
                        "`new (address) T` needs `#include <new>` at the top of the source."),
    "new with its header": ("#include <new>\n" + K.replace("WHAT", "P* q = new (buffer) P(7);"), NEW, ""),
    "no return": (RETURNS.replace("BODY", "if (a) return 1;"), CONSTANT,
                  "`f` of line 1 can end without a value: put a `return` at its end."),
    "no return in braces": (RETURNS.replace("BODY", "if (a) { return 1; }"), CONSTANT, "`f` of line 1 can end without"),
    "a return at the end": (RETURNS.replace("BODY", "if (a) { return 1; } return 2;"), CONSTANT, "What is known"),
    "a return on both sides": (RETURNS.replace("BODY", "if (a) return 1; else return 2;"), CONSTANT, "What is known"),
    "a return of a member": (RETURNS.replace("BODY", "return S{2}.a;"), CONSTANT, "What is known"),
    "halves in a sum": ("s += o[i];", 'more than one conversion function from "half" (aka "__half") to a built-in type '
                        'applies: function "__half::operator float() const" and 12 more', "Convert it: `__half2float("),
}  # fmt: skip


@pytest.mark.parametrize("case", MISLEADING)
def test_what_is_meant(case):
    check(*MISLEADING[case])


def check(source, message, words):
    found = hint(source, len(source.splitlines()), message)
    assert found.startswith(words) if words else found == ""
