"""Every mistake of mistakes.py, compiled by nvcc and by the engine's compiler: the learner's line and the hint."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cuda.common.mistakes import MISTAKES, in_kernel
from utils.cuda import verdict
from utils.cuda.common import cxx, extension
from utils.cuda.common.chosen import chosen_kernel
from utils.cuda.common.diagnostics import CompileError, explained
from utils.cuda.common.hints import hint
from utils.cuda.cpu import build, library

NO_INSTANCE = 'no instance of function template "{}" matches the argument list: argument types are: (double)'


def both(source, folder):
    """The CompileErrors of nvcc and of the C++ compiler; None for one that accepts the source."""
    name = next(iter(cxx.kernels(source)), "k")
    sources, logs = {"cuda_src": source, "name": name}, {}

    def by_engine():
        try:
            logs["g++"] = build.build_kernels(source, [name], folder, say=lambda command: None)
        except CompileError as error:
            logs["g++"] = error
        return ""

    judge = verdict.on_kernels(source, [name])
    if judge is None:
        pytest.skip("there is no nvcc here")
    logs["nvcc"] = judge.beside(by_engine, folder, lambda command: None)
    return {
        compiler: explained(log, sources, folder) if isinstance(log, str) and log else log or None
        for compiler, log in logs.items()
    }


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """What both compilers say about every mistake, by its name."""

    def only_checked(commands, link, folder, say):
        return extension.run([[*command, "-fsyntax-only"] for command in commands], say)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(os.cpu_count()) as pool:
        patch.setattr(library, "compile_and_link", only_checked)
        asked = {
            name: pool.submit(both, source, tmp_path_factory.mktemp("mistake"))
            for name, (source, _, _) in MISTAKES.items()
        }
        return {name: future.result() for name, future in asked.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_the_learners_line_and_a_hint(errors, name):
    source, lines, words = MISTAKES[name]
    judged = errors[name]["nvcc"] is not None  # a missing header is left to the engine's compiler
    assert judged or "#include" in source and errors[name]["g++"], "nvcc accepts it"
    for compiler, error in errors[name].items():
        if error is None:  # the C++ compiler may accept what nvcc rejects
            continue
        text = str(error)
        assert error.line in ((lines,) if isinstance(lines, int) else lines), f"{compiler}: {text}"
        assert f"--> {error.line:4} | {source.splitlines()[error.line - 1]}" in text
        if compiler == "nvcc" or error.hint or not judged:
            assert words in error.hint if words else not error.hint, f"{compiler}: {text}"
            assert not error.hint or text.splitlines()[-1] == f"Hint: {error.hint}"
        if compiler == "nvcc":
            assert not re.search(r"cuda_on_cpu|cuda_course|/include/", text.split("\nThe whole log")[0]), text


ASM = 'asm("add.s32 %0, %1, 1;" : "=f"(v) : "f"(v));'
CONCEPT = "template <class T> concept Num = sizeof(T) == 4;\ntemplate <Num T> __device__ T twice(T t) { return 2 * t; }"
NOT_MEANT = {
    "asm": (in_kernel(f"    {ASM}"), 3, "Arguments mismatch for instruction 'add'"),
    "a concept": (f"{CONCEPT}\nfloat f(double x) {{ return twice(x); }}", 3, NO_INSTANCE.format("twice")),
    "a requirement": (
        "template <class T> requires (sizeof(T) == 4) T twice(T t);\nfloat f(double x) { return twice(x); }",
        2,
        NO_INSTANCE.format("twice"),
    ),
    "a space in a comment": (in_kernel("    x[i] = zzz();  // a\u00a0comment"), 3, 'identifier "zzz" is undefined'),
}


LVALUE, NEEDS_BEGIN = (
    "expression must be a modifiable lvalue",
    'requires a suitable "begin" function and none was found',
)
NO_CLASS, IS_FLOAT = "expression must have class type but", 'it has type "const float"'
NO_CUDA = 'identifier "cuda" is undefined'
FEW = "too few arguments in function call"
VECTOR = 'no suitable conversion function from "std::vector<float, std::allocator<float>>" to "float *" exists'
ADDED = "__device__ float f(float a, float b = 1, float c = 2) { return a; }\n__device__ float g(float a, float b);\n"
TORCH = "torch::Tensor f(torch::Tensor x) {\n    return WHAT;\n}\n"
# The source, the line and nvcc's message about it (the first one), and the hint.
WORDS = {
    "torch in a kernel": (
        in_kernel("    x[i] = torch.relu(y[i]);"),
        3,
        'identifier "torch" is undefined',
        "A kernel has no `torch`: CUDA's functions need no prefix, as in",
    ),
    "torch on the host": (
        TORCH.replace("WHAT", "torch.relu(x)"),
        2,
        "expected primary-expression before '.' token",
        "In C++, it is `torch::relu(...)`, with `::`.",
    ),
    "length of a tensor": (
        TORCH.replace("return WHAT", "int n = len(x)"),
        2,
        "'len' was not declared in this scope",
        "C++ has no `len`: a tensor's is `x.size(0)`, a vector's is `v.size()`.",
    ),
    "tensor's size": (
        TORCH.replace("return WHAT", "int n = x.size"),
        2,
        "cannot convert 'at::TensorBase::size' from type 'int64_t (at::TensorBase::)(int64_t) const' to type 'int'",
        "`size` is a function: `x.size(0)` is that of the first dimension.",
    ),
    "tensor's type": (
        TORCH.replace("return WHAT", "bool is_float = x.dtype == torch::kFloat32"),
        2,
        "invalid use of non-static member function 'caffe2::TypeMeta at::TensorBase::dtype() const'",
        "A tensor's type is `x.scalar_type()`: compare it with `torch::kFloat32` and the like.",
    ),
    "stream's header": (
        TORCH.replace("return WHAT", "k<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>(p)"),
        2,
        "'getCurrentCUDAStream' is not a member of 'at::cuda'",
        "`getCurrentCUDAStream` needs `#include <ATen/cuda/CUDAContext.h>` at the top of the source.",
    ),
    "matrix product": (
        in_kernel("    x[i] = x @ y;"),
        3,
        "unrecognized token",
        "C++ has no `@`: an element of the product is a sum, in a loop over `j`, of `x[r * n + j] * y[j * w + c]`.",
    ),
    "global": (
        in_kernel("    global n;"),
        3,
        'identifier "global" is undefined',
        "C++ has no `global`: remove this line. A function can use `n` without it.",
    ),
    "launch in the line of its function": (
        "__global__ void k(float* y, int n) { y[0] = n; }\nvoid f(float* y, int n) { k<<<1, 1>>>(y); }\n",
        2,
        FEW,
        "Line 1 declares `__global__ void k(float* y, int n)`.",
    ),
    "call among calls": (
        in_kernel("    x[i] = 2 * f(g(y[i]));", ADDED),
        5,
        FEW,
        "Line 2 declares `__device__ float g(",
    ),
    "call over two lines": (in_kernel("    x[i] = f(1,\n        2) + g(1);", ADDED), 5, FEW, ""),
    "if without parentheses": (
        in_kernel("    if i < n { x[i] = 1; }"),
        3,
        'expected a "("',
        "In C++, the condition needs parentheses: `if (i < n) {`.",
    ),
    "if without any": (
        in_kernel("    if i < n x[i] = 1;"),
        3,
        'expected a "("',
        "In C++, the condition needs parentheses: `if (...)`.",
    ),
    "comment with if": (
        in_kernel("    # if we are inside"),
        3,
        'missing binary operator before token "are"',
        "A comment begins with `//` in C++. A line",
    ),
    "comment if needed": (
        in_kernel("    # if needed"),
        3,
        "unterminated #if",
        "This `#if` has no `#endif`. If it is a ",
    ),
    "comment with include": (
        in_kernel("    # include the halo"),
        3,
        '#include expects "FILENAME"',
        "A comment begins with",
    ),
    "condition": ("#if FIRST and 3\n#if defined TWO\n#error no\n", 1, "FIRST: undefined", ""),
    "syncthreads": (
        in_kernel("    cuda.syncthreads();"),
        3,
        NO_CUDA,
        "C++ has no `cuda.syncthreads`: write `__syncthreads()`.",
    ),
    "threadIdx": (
        in_kernel("    int j = cuda.threadIdx.y;"),
        3,
        NO_CUDA,
        "C++ has no `cuda.threadIdx`: write `threadIdx.y",
    ),
    "shared": (
        in_kernel("    s = cuda.shared.array(32, float32);"),
        3,
        'identifier "s" is undefined',
        "C++ has no `cuda.shared.array`: write `__shared__ float s[32];`.",
    ),
    "element is None": (
        in_kernel("    x[i] = y[i] is None;"),
        3,
        'expected a ";"',
        "C++ has no `is`: compare with `==`",
    ),
    "digits": (
        in_kernel("    int m = 1_000_000;"),
        3,
        "user-defined literal operator not found",
        "C++ has no `_` in numbers: write `1000000` or `1'000'000`.",
    ),
    "conversion": (
        in_kernel("    x[i] = int y[i];"),
        3,
        "type name is not allowed",
        "A conversion needs parentheses: `(int)y[i]`.",
    ),
    "conversion to two words": (
        in_kernel("    x[i] = unsigned long long(i);"),
        3,
        "type name is not allowed",
        "Only a type of one word can be written like a function: `(unsigned long long)i`.",
    ),
    "conversion of a term": (
        in_kernel("    x[i] = long long(i + 1) * i;"),
        3,
        "type name is not allowed",
        "Only a type of one word can be written like a function: `(long long)(i + 1)`.",
    ),
    "long long of a value": (
        in_kernel("    x[i] = long long i;"),
        3,
        "type name is not allowed",
        "A conversion needs parentheses: `(long long)i`.",
    ),
    "a sum without a type": (
        in_kernel("    sum = 0;\n    for (int j = 0; j < n; j++) sum += y[j];"),
        3,
        'identifier "sum" is undefined',
        "A variable needs a type where it is first set: `int sum = ...` or `float sum = ...`.",
    ),
    "a sum whose scope has ended": (
        in_kernel("    if (i < n)\n        float sum = 0;\n        sum += y[i];"),
        5,
        'identifier "sum" is undefined',
        "`sum` of line 4 exists only inside the braces",
    ),
    "a maximum without a type": (
        in_kernel("    max = 0;"),
        3,
        'cannot determine which instance of overloaded function "max" is intended',
        "A variable needs a type where it is first set: `int max = ...` or `float max = ...`.",
    ),
    "a sum declared in its loop": (
        in_kernel("    for (int j = 0; j < n; j++) float s += y[j];"),
        3,
        'expected a ";"',
        "A new variable has no value yet: declare `float s = 0;` before the loop, and write `s += ...` without",
    ),
    "a loop that a semicolon ends": (
        in_kernel("    for (int j = 0; j < n; j++);\n        x[i] += y[j];"),
        4,
        'identifier "j" is undefined',
        "The `;` of line 3 ends the loop, and `j` with it: remove the `;`.",
    ),
    "a scope that ends in its line": (
        in_kernel("    { float a = y[i]; } x[i] = a;"),
        3,
        'identifier "a" is undefined',
        "`a` of line 3 exists only inside the braces",
    ),
    "an index that nothing declares": (
        "__global__ void k(float* x) {\n    x[row] = 1;\n}",
        2,
        'identifier "row" is undefined',
        "`row` is not declared. Is it meant to be the thread's index, `int row = blockIdx.y * blockDim.y + thread",
    ),
    "a magic in a source": (
        "%%cuda\n__global__ void k(float* x) {}",
        1,
        "expected a declaration",
        "`%%cuda` starts a notebook cell: leave this line out of source text.",
    ),
    "restrict without a pointer": (
        "__global__ void k(const unsigned char __restrict__ x, float* out) {}",
        1,
        '"restrict" is not allowed',
        "`__restrict__` applies to a pointer, and the `*` is missing: `char* __restrict__ x`.",
    ),
    "const within a guard": (
        in_kernel("    if (i < n) { y[i] = 2; }"),
        3,
        LVALUE,
        "`y` is declared `const`, for reading",
    ),
    "increment": (in_kernel("    x[i] = y[i]++;"), 3, LVALUE, "`y` is declared `const`, for reading only"),
    "decrement": (in_kernel("    x[i] = --y[i];"), 3, LVALUE, "`y` is declared `const`, for reading only"),
    "increment of a member": (in_kernel("    x[i] = p.y++;"), 3, LVALUE, ""),
    "increment of a call": (in_kernel("    x[i] = f(i)++;"), 3, LVALUE, ""),
    "address": (
        in_kernel("    &x[i] = y[i];"),
        3,
        LVALUE,
        "`&x[i]` is an address: to set what is there, write `x[i] = ...`.",
    ),
    "pointer and index": (
        in_kernel("    *x + i = y[i];"),
        3,
        LVALUE,
        "`*` comes before `+`: write `*(x + i) = ...` or `x[i] = ...`.",
    ),
    "loop over a pointer": (
        in_kernel("    for (float v : y) x[i] += v;"),
        3,
        NEEDS_BEGIN,
        "A pointer has no length: count, `for (int j = 0; j < n; j++)`, and read `y[j]`.",
    ),
    "loop up to a number": (
        in_kernel("    for (int r : h) x[i] += r;"),
        3,
        NEEDS_BEGIN,
        "`h` is a number: write `for (int r = 0; r < h; r++)`.",
    ),
    "loop over a struct": (in_kernel("    for (int r : rows) x[i] += r;"), 3, NEEDS_BEGIN, ""),
    "arrow": (
        in_kernel("    x[i] = y->size;"),
        3,
        'expression must have pointer-to-class type but it has type "const float *"',
        "`y` points to numbers, which have no `size`: an element is `y[i]`.",
    ),
    "arrow of an element": (
        in_kernel("    x[i] = y[i]->size;"),
        3,
        'operator -> or ->* applied to "const float" instead of to a pointer type',
        "A number has no members, such as `size`.",
    ),
    "arrow of a struct": (
        in_kernel("    x[i] = p->size;"),
        3,
        'operator -> or ->* applied to "P" instead of to a pointer type',
        "`->` is for pointers: write `.`.",
    ),
    "vector for a kernel": (
        "void f(std::vector<float>& v) {\n    k<<<1, 1>>>(v);\n}\n",
        2,
        VECTOR,
        "A vector is in the host's memory: copy its elements by `cudaMemcpy`",
    ),
    "vector beside torch": (
        TORCH.replace("return WHAT", "k<<<1, 1>>>(v)"),
        2,
        VECTOR,
        "A vector is in the host's memory: pass the address of a copy on the GPU, such as `torch::tensor(v).cuda()`.",
    ),
    "item of a result": (
        in_kernel("    x[i] = float(y[i]).item();"),
        3,
        f'{NO_CLASS} it has type "float"',
        "A number has no methods: leave out `.item()`.",
    ),
    "item": (in_kernel("    x[i] = y[i].item();"), 3, f"{NO_CLASS} {IS_FLOAT}", "A number has no methods: leave out"),
    "astype": (
        in_kernel("    x[i] = (2 * y[i]).astype(i);"),
        3,
        f'{NO_CLASS} it has type "float"',
        "A number has no methods: instead of `.astype(...)`, convert it by `(float)value` or `(int)value`.",
    ),
    "method of a result": (in_kernel("    x[i] = f(i).size();"), 3, f'{NO_CLASS} it has type "float"', ""),
    "grid as a variable": (
        "dim3 grid(4, 4);\n" + in_kernel("    x[i] = grid.x;"),
        4,
        'identifier "grid" is undefined in device code',
        "`grid` is in the host's memory: pass its value to the kernel, as an argument.",
    ),
    "host's fence": (
        in_kernel("    std::atomic_thread_fence(std::memory_order_seq_cst);"),
        3,
        'calling a __host__ function("std::atomic_thread_fence(::std::memory_order)") from a __global__ function("k")',
        "In a kernel, `__threadfence();` orders",
    ),
    "atomicLoad": (
        in_kernel("    n = atomicLoad(x);"),
        3,
        'identifier "atomicLoad" is undefined',
        "C++ has no `atomicLoad`: write `atomicAdd(address, 0)`",
    ),
    "sign": (
        in_kernel("    x[i] = sign(y[i]);"),
        3,
        'identifier "sign" is undefined',
        "C++ has no `sign`: write `(x > 0)",
    ),
    "own float2": (
        in_kernel("    x[i] = 1;", "struct float2 { float x, y; };\n"),
        1,
        'type "float2" has already been defined',
        "CUDA has a `float2` of its own: give yours another name.",
    ),
    "std's clamp": (
        in_kernel("    x[i] = clamp(y[i]);", "using namespace std;\n__device__ float clamp(float v) { return v; }\n"),
        5,
        'more than one instance of overloaded function "clamp" matches the argument list',
        "With `using namespace std;`, the library's `clamp` fits too",
    ),
    "too late": (
        in_kernel("    x[i] = add(1, 2);", "template <class... T> int add(int a, T... b) { return a + add(b...); }\n")
        + "int add(int a) { return a; }\n",
        1,
        'no instance of overloaded function "add" matches the argument list',
        "The `add` of line 6 comes too late: declare it before line 1.",
    ),
    "half and int": (
        in_kernel("    if (h < 0) x[i] = 1;"),
        3,
        'more than one operator "<" matches these operands: operand types are: half < int',
        "Both sides need one type: compare floats, `__half2float(h) < f`.",
    ),
    "zero-width space": (
        in_kernel("    x[i] = \u200b1;"),
        3,
        r'identifier "\u200b1" is undefined',
        "Column 12 of this line has an invisible character, zero width space (U+200B): delete it.",
    ),
    "byte order mark": (
        in_kernel("    x[i] = \ufeffy[i];"),
        3,
        r'identifier "\ufeffy" is undefined',
        "Column 12 of this line has an invisible character, zero width no-break space (U+FEFF): delete it.",
    ),
    "byte order mark, g++": (
        in_kernel("    x[i] = \ufeffy[i];"),
        3,
        r"'\U0000feffy' was not declared in this scope",
        "Column 12 of this line has an invisible character",
    ),
    "soft hyphen": (
        in_kernel("    x[i] =\u00ad 1;"),
        3,
        "unrecognized token",
        "Column 11 of this line has an invisible character, soft hyphen (U+00AD): delete it.",
    ),
    "invisible in a comment": (in_kernel("    x[i] = zzz();  // a\u200bb"), 3, 'identifier "zzz" is undefined', ""),
}


@pytest.mark.parametrize("name", WORDS)
def test_what_the_hint_says_about_a_compiler_s_message(name):
    *place, words = WORDS[name]
    found = hint(*place)
    assert found.startswith(words) if words else found == ""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "// one\n__gloabl__ void k(float* x) {}",
            "function but no kernel: line 2 has `__gloabl__` before it. Did you mean",
        ),
        ("_global_ void k(float* x) {}", "line 1 has `_global_` before it. Did you mean `__global__`?"),
        ("static __glboal__ void k(float* x) {}", "line 1 has `__glboal__` before it. Did you mean `__global__`?"),
        ("__global__void k(float* x) {}", "Did you mean `__global__ void`, with a space?"),
        ("#define GLOBL __host__\nGLOBL void k(float* x) {}", "only a __global__ function can be launched"),
        ("__device__ void k(float* x) {}", "only a __global__ function can be launched"),
        (
            "// one\n__global__ void k\u200b(float* x) {}",
            r"Line 2 has an invisible character in column 18, zero width sp",
        ),
    ],
)
def test_a_name_that_is_no_kernel_s(source, said):
    with pytest.raises(ValueError) as raised:
        chosen_kernel(source, "k")
    assert said in str(raised.value)


@pytest.mark.parametrize("name", NOT_MEANT)
def test_a_hint_is_not_given_for_what_only_looks_like_its_mistake(name):
    assert hint(*NOT_MEANT[name]) == ""


@pytest.mark.parametrize(
    "message",
    [
        'class "Row" has no member "len"',
        "'struct Row' has no member named 'len'",
        "no member named 'len' in 'Row'",
    ],
)
def test_a_member_is_no_word_of_python_s(message):
    source, line, words = MISTAKES["member len"]
    assert hint(source, line, message) == words
    assert "cudaDevAttrClockRate" in hint(source, line, message.replace("len", "clockRate"))


def test_a_template_beside_the_call_that_fails_is_no_hint():
    source = "template <class T> float mm(T a) { return a; }\nfloat f(C a) { return mm(max(a, a)); }\n"
    assert not hint(source, 2, "no matching function for call to 'max(C&, C&)'")
    assert "`mm` is a `template <class T>`" in hint(source, 2, "no matching function for call to 'mm(C&)'")
