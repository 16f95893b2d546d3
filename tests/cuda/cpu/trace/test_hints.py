"""Hints that depend on the learner's source: on what surrounds a line, and on how the program copies and allocates."""

import pytest
import torch

from tests.cuda.cpu.trace.reports import at, hint, problem, shared
from utils import load_cuda
from utils.cuda.cpu.trace.allocations import counts_elements
from utils.cuda.cpu.trace.problems import KernelProblem
from utils.cuda.kernel import Tracer

# ---- indexes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["(i - 1) % n", "left"])
def test_a_remainder_of_a_negative_number(index):
    source = f"""__global__ void k(const float* x, float* out, int n) {{
        int i = threadIdx.x, left = (i + n - n - 1) % n;
        out[i] = x[{index}];
    }}"""
    (found,) = Tracer(source, "k")[1, 32](torch.zeros(32), torch.zeros(32), 32).problems
    assert "reads x[-1]" in found.message
    assert found.hint.startswith("In C++, unlike in Python, `%` of a negative number is negative: write `(i + n) % n`")


def test_a_condition_that_picks_one_thread_is_no_guard():
    source = (
        "__global__ void k(float* x, int n) {\n    int i = threadIdx.x;\n    if (i % 32 == 0)\n        x[i] = n;\n}"
    )
    (found,) = Tracer(source, "k")[1, 64](torch.zeros(32), 32).problems
    assert found.hint == "Guard the line, as in `if (i < n)`: only indexes below 32 are inside x."
    (found,) = Tracer(source.replace("i % 32 == 0", "i <= 32"), "k")[1, 64](torch.zeros(32), 32).problems
    assert "the `if` of line 3 lets this one through" in found.hint


def test_a_condition_that_a_semicolon_ends_is_no_guard():
    source = "__global__ void k(float* x, int n) {\n    int i = threadIdx.x;\n    if (i < int(n)); x[i] = n;\n}"
    (found,) = Tracer(source, "k")[1, 64](torch.zeros(32), 32).problems
    assert found.hint.endswith("are inside x, but the `;` behind the `if` of line 3 ends it: remove that `;`.")


def test_rows_that_do_not_all_begin_at_a_vectors_alignment():
    source = """__global__ void k(float* out) {
        __shared__ float tile[8][33];
        for (int c = 0; c < 33; c++) tile[threadIdx.x][c] = c;
        float4 v = *(float4*)&tile[threadIdx.x][4];
        out[threadIdx.x] = v.x;
    }"""
    (found,) = Tracer(source, "k")[1, 8](torch.zeros(8)).problems
    assert found.hint == (
        "The rows of tile have 132 bytes, so only some begin at a multiple of 16: make their length a multiple of 4 "
        "elements."
    )


@pytest.mark.parametrize(
    ("declared", "line", "touches", "has", "below"),
    [
        ("int* p = new int[10];", "p[i] = i;", "writes element 10 of", "10 elements", "indexes below 10 "),
        ("double* p = (double*)malloc(80);", "p[i] = i;", "writes element 10 of", "10 elements", "indexes below 10 "),
        ("char* p = new char[10];", "p[i] = i;", "writes element 10 of", "10 elements", "indexes below 10 "),
        ("int2* p = new int2[10];", "p[i].y = i;", "writes 4 bytes at byte 84 of", "80 bytes", "bytes below 80 "),
    ],
)
def test_memory_that_a_kernel_allocates(declared, line, touches, has, below):
    source = f"""__global__ void k(float* out, int n) {{
        {declared}
        for (int i = 0; i <= n; i++)
            {line}
        delete[] p;
    }}"""
    found = Tracer(source, "k")[1, 1](torch.zeros(32), 10).problems[0]
    of = "malloc" if "malloc" in declared else "new"
    assert f"{touches} memory from {of}, but it has {has} (line 4" in found.message
    assert found.hint.startswith(f"Only {below}are inside it: look at where the loop of line 3 ends")


@pytest.mark.parametrize("rows", ["4", "ROWS", "rows"])
def test_a_local_array_of_two_dimensions_in_a_function_that_it_is_passed_to(rows):
    source = f"""#define ROWS 4
const int rows = 4;
__device__ void rotate(float (*m)[3]) {{
    for (int r = 0; r <= 4; r++)
        m[r][0] = m[r][2];
}}
__global__ void k(const float* x, float* out) {{
    float m[{rows}][3];
    for (int i = 0; i < 12; i++) m[i / 3][i % 3] = x[i];
    rotate(m);
    out[threadIdx.x] = m[threadIdx.x & 3][0];
}}"""
    (found,) = Tracer(source, "k")[1, 4](torch.ones(64), torch.zeros(64)).problems
    assert "reads m[4][2], but the first index of m ends at 3 (line 5" in found.message
    assert found.hint == "m is a local array: its first index runs from 0 to 3, in every function that it is passed to."


RETURNED = """struct Four { float v[4]; };
__device__ float* made(float v) {
    float a[4] = {v, v, v, v};
    float* p = a;
    return p;
}
__device__ Four held(float v) {
    Four a = {{v, v, v, v}};
    return a;
}
__device__ __noinline__ float sum(const float* x, int deep) {
    float b[8];
    float* q = b;
    for (int i = 0; i < 8; i++) q[i] = x[i % 4];
    return deep ? q[1] + sum(q, deep - 1) + sum(b + 4, 0) : q[1];
}
__global__ void k(float* out) {
    float mine[4] = {1, 2, 3, 4};
    CODE
}
"""


@pytest.mark.parametrize(
    ("code", "touches"),
    [
        ("float* p = made(1);\n    out[0] = p[1];", "reads a[1]"),
        ("float* p = made(1);\n    p[3] = out[0];", "writes a[3]"),
        ("Four f = held(1);\n    out[0] = f.v[1];", None),
        ("float* p = mine;\n    out[0] = sum(p, 3) + sum(mine, 1) + sum(p, 2);", None),
        ("for (int i = 0; i < 3; i++) out[i] = sum(mine, i);\n    out[3] = sum(out, 2);", None),
    ],
)
def test_a_pointer_to_a_local_array_of_a_function_that_has_returned(code, touches):
    trace = Tracer(RETURNED.replace("CODE", code), "k")[1, 1](torch.ones(8))
    assert trace.ok == (touches is None), trace.problems
    for found in trace.problems:
        assert found.kind == "out_of_bounds" and found.line == 20
        assert f"{touches}, but a is gone: its function has returned (line 20" in found.message
        assert found.hint.startswith("Let the caller declare a and pass it on")


ENDED = """__device__ float largest(const float* x) { return fmaxf(x[0], x[1]); }
__global__ void k(float* out) {
    float* p = out;
    for (int i = 0; i < 3; i++) {
        float row[2] = {out[i], 2};
        out[i] = largest(row);
        if (i == KEPT) p = row;
    }
    {
        float other[2] = {7, 8};
        out[3] = largest(other);
    }
    out[4] = p[1];
}
"""


def test_a_pointer_to_a_local_array_whose_braces_have_ended():
    (found,) = Tracer(ENDED.replace("KEPT", "1"), "k")[1, 1](torch.ones(8)).problems
    told = "reads row[1], but row is gone: the braces that it is declared in have ended (line 13"
    assert found.kind == "out_of_bounds" and told in found.message
    assert found.hint == "Declare row before the braces, where the pointer to it is declared."
    assert Tracer(ENDED.replace("KEPT", "9"), "k")[1, 1](torch.ones(8)).ok


def test_dynamic_shared_memory_that_the_launch_does_not_give():
    source = "__global__ void k(float* x) {\n    extern __shared__ float s[];\n    s[threadIdx.x] = x[threadIdx.x];\n}"
    (found,) = Tracer(source, "k")[1, 32](torch.zeros(32)).problems
    assert found.hint == (
        "This launch has no dynamic shared memory: the third number gives s its bytes, as in `kernel[blocks, threads, "
        "bytes]`, or in C++ `kernel<<<blocks, threads, bytes>>>`."
    )


# ---- other barriers --------------------------------------------------------------------------------------------------


def test_a_barrier_in_a_loop_of_unequal_rounds():
    source = """__global__ void k(int* x) {
        for (int i = 0; i < threadIdx.x; i++)
            __syncthreads();
        x[threadIdx.x] = 1;
    }"""
    (found,) = Tracer(source, "k")[1, 32](torch.zeros(32).int()).problems
    assert found.hint == (
        "Every thread must reach the same `__syncthreads()`: let all of them run the loop of line 2 equally often."
    )


def test_a_barrier_that_some_threads_skip_by_break():
    source = """__global__ void k(int* x, int n) {
        for (int i = 0; i < n; i++) {
            if (threadIdx.x > 15) break;
            __syncthreads();
            x[threadIdx.x] = i;
        }
    }"""
    (found,) = Tracer(source, "k")[1, 32](torch.zeros(32).int(), 2).problems
    assert found.hint.endswith("move it out of the `if`, and let no thread break out of the loop before it.")


LAST_BLOCK = """__device__ unsigned count;
__global__ void k(const float* x, float* part, float* y) {
    __shared__ bool last;
    int t = threadIdx.x;
    part[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t];
    WAIT __threadfence();
    if (t == 0) last = atomicAdd(&count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last)
        for (int b = 0; b < gridDim.x; b++) y[t] += part[b * 64 + 63 - t];
}
"""


def test_a_block_that_counts_before_all_of_its_threads_have_written():
    arguments = torch.ones(128), torch.zeros(128), torch.zeros(64)
    (found,) = Tracer(LAST_BLOCK.replace("WAIT", ""), "k")[2, 64](*arguments).problems
    assert found.hint.startswith("The counter that announces it is raised too early") and found.line == 10
    assert Tracer(LAST_BLOCK.replace("WAIT", "__threadfence(); __syncthreads();"), "k")[2, 64](*arguments).ok


def test_threads_that_each_do_the_work_of_all():
    source = "__global__ void k(float* x, int n) {\n    for (int i = 0; i < n; i++)\n        x[i] = i;\n}"
    problems = Tracer(source, "k")[1, 256](torch.zeros(1009), 1009, max_steps=10_000).problems
    found = next(found for found in problems if found.kind == "runaway")
    assert found.message.startswith(
        "the threads of block (0,0,0) have run 80,000 steps between them, one of them in the loop at line"
    )
    assert found.hint.startswith("Does each thread do the work of all?")


def test_a_while_that_is_meant_to_be_an_if():
    source = "__global__ void k(float* x, int n) {\n    int i = threadIdx.x;\n    while (i < n) x[i] = i;\n}"
    (found,) = Tracer(source, "k")[1, 32](torch.zeros(32), 32, max_steps=1000).problems
    expected = "Nothing in the loop changes `i < n`: did you mean `if`? Otherwise count in it, as with `i += gridDim.x"
    assert found.hint.startswith(expected)


@pytest.mark.parametrize(
    ("statement", "guard"),
    [
        ("x[threadIdx.x] /= n;", ": `if (n != 0) ...`"),
        ("x[threadIdx.x] = 7 % x[n];  // or 7 / n", ": `if (x[n] != 0) ...`"),
        ("x[threadIdx.x] = x[1] / 2 / x[n];", ": `if (x[n] != 0) ...`"),
        ("x[threadIdx.x] = 7 / n + 7 % x[n];", ""),
        ("x[threadIdx.x] = 7 / (n + n);", ""),
    ],
)
def test_a_whole_number_divided_by_zero(statement, guard):
    source = f"__global__ void k(int* x, int n) {{\n    {statement}\n}}"
    (found,) = Tracer(source, "k")[1, 1](torch.zeros(2).int(), 0).problems
    assert found.hint == f"Why is the divisor 0? Guard the line{guard}."


# ---- conditions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("y[i] = i < n + 1 ? x[i] : 0;", True),
        ("y[i] = i >= n + 1 ? 0 : x[i];", True),
        ("s[t][i] = i < n && t + i < n + 1 ? x[i * n + t] : 0;", True),
        ("f(y, (i < n ? x : x + 1)[0], i <= n ? g(0, x[i]) : 0);", True),
        ("y[i] = i < n + 1 ? row[i] : 0;", False),  # y may be another name of x
        ("v = i < n + 1 ? row[i] : 0;", True),
        ("y[i] = x[i] > 0 ? 1 : 0;", False),
        ("x[i] = i < n ? 1 : 0;", False),
        ("f(n > 0 ? 1 : 0, x[i]);", False),
        ("y[i] = x[n > 0 ? i : 0];", False),
        ("int m = n > 0 ? 1 : 0; y[i] = x[i * m];", False),
    ],
)
def test_a_condition_before_a_question_mark_is_a_guard(line, question):
    source = f"__global__ void k(const float* x, float* y, int n) {{\n    int i = 0;\n    {line}\n}}\n"
    guarded = (
        "Only indexes below 1024 are inside x, but the condition before `?` in line 3 lets this one through: look "
    )
    expected = guarded + "at it, and at how" if question else "Guard the line, as in `if (i < n)`"
    assert hint(problem("out_of_bounds", 3), source).startswith(expected)


def test_a_question_mark_is_nearer_than_the_loop_around_it():
    source = "__global__ void k() {\n    for (int k = 0; k < n; k++)\n        s = k < n ?\n            x[k] : 0;\n}\n"
    assert "the condition before `?` in line 3" in hint(problem("out_of_bounds", 4), source)
    assert "where the loop of line 2 ends" in hint(
        problem("out_of_bounds", 4, region="y"), source.replace("x[k]", "*y")
    )


OTHER_BLOCK = (
    "If it waits for another block: that one may not have begun; only a cooperative launch runs all blocks at once."
)


@pytest.mark.parametrize("text", ["", "together"])
@pytest.mark.parametrize(
    "condition", ["*flag != 1", "*(volatile int*)flag != 1", "flag[blockIdx.x] == 0", "flag[i] * n != 0"]
)
def test_a_loop_that_only_waits(condition, text):
    source = f"__global__ void k(int* flag, int n) {{\n    int i = 0;\n    while ({condition}) {{}}\n}}\n"
    found = hint(problem("runaway", 3, index=10_000_000, text=text), source)
    assert found == f"Nothing in the loop changes `{condition}`: does another thread? {OTHER_BLOCK}"


@pytest.mark.parametrize(
    ("loop", "other_block"),
    [
        ("while (atomicAdd(flag, 0) != 1) {}", True),
        ("do { i++; } while (atomicCAS(flag, 1, 0) != 1);", True),
        ("while (i < n * 2) i--;", False),
        ("for (int k = x[0]; k < n; k += s[1]) n++;", False),
        ("while (true) {}", False),
    ],
)
def test_a_loop_that_may_wait_for_another_block(loop, other_block):
    source = f"__global__ void k(int* flag, int n) {{\n    int i = 0;\n    {loop}\n}}\n"
    found = hint(problem("runaway", 3, index=10_000_000), source)
    assert found.startswith("Does the loop's condition ever change? If the loop is correct and just long, raise")
    assert found.endswith(OTHER_BLOCK) == other_block


@pytest.mark.parametrize(
    ("loop", "stuck"),
    [
        ("while (i < n) { x[i] = 1; }", True),
        ("for (int j = i; j < n; j + 1) x[j] = 1;", True),
        ("while (i < n) { int j = 0; j++; }", True),
        ("while (i < n) { x[i] = 1; i += 32; }", False),
        ("for (int j = i; j < n; ++j) x[j] = 1;", False),
        ("while (i != n) { if (i < n) i++; else i = n; }", False),
        ("while (more(i)) { x[i] = 1; }", False),
        ("while (x[i] < n) {}", True),
        ("while (*x < n) { __nanosleep(20); i = 0; }", True),
        ("while (x[i] < n) { x[0]++; }", False),
        ("while (*x < n) { *x += 1; }", False),
        ("while (*x < n) { ++x[i]; }", False),
        ("while (x[i] < n) { advance(x); }", False),
        ("while (x[i] < n) { i += 32; }", False),
        ("while (atomicAdd(x, 0) < n) {}", False),
        ("while (i < n) { advance(&i); }", False),
        ("while (true) {}", False),
    ],
)
def test_a_loop_in_which_nothing_changes_the_condition(loop, stuck):
    source = f"__global__ void k(int* x, int n) {{\n    int i = 0;\n    {loop}\n}}\n"
    told = "Nothing in the loop changes `"
    assert hint(problem("runaway", 3, index=10_000_000), source).startswith(told) == stuck
    assert hint(problem("runaway", 3, index=10_000_000, text="together"), source).startswith(told) == stuck


# ---- memory ---------------------------------------------------------------------------------------------------------

COPIES = """\
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void k(const float* x, float* out) {
    __shared__ float s[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof(s));
    block.sync();
    out[threadIdx.x] = s[threadIdx.x];
}
"""


def test_copies_of_a_group_are_waited_for_by_the_group():
    copy = {"pc": at(7), "op": "store", "block": [0, 0, 0], "thread": [0, 0, 0]}
    early = shared("uninitialized", 9, under_way=True, other=copy)
    found = hint(early, COPIES)
    assert found == (
        "Let the group that copies wait with `cg::wait(block);` (`cooperative_groups::wait`): `sync()` alone does not "
        "wait for copies."
    )
    by_thread = COPIES.replace("cg::memcpy_async(block,", "__pipeline_memcpy_async(")
    assert hint(early, by_thread).startswith("Commit the copies, wait for them, as with `cp.async.wait_group 0`")
    assert hint(early, COPIES.replace("cg::memcpy", "cuda::memcpy")).startswith("Commit the copies")
    left = shared("asynchronous", 7, under_way=True)
    assert "as with `cg::wait(block);`" in hint(left, COPIES) and "`cp.async.wait_all`" in hint(left, by_thread)


def test_memory_from_cudamalloc_is_not_made_by_torch():
    source = "__global__ void k(const float* x, float* out) {\n    out[threadIdx.x] = x[threadIdx.x];\n}\n"
    record = problem("uninitialized", 2, offset=512)
    assert hint(record, source).startswith("torch.empty leaves memory as it was: make x with torch.zeros")
    assert hint({**record, "origin": "memory from cudaMalloc"}, source) == (
        "cudaMalloc leaves memory as it was: write all of it first. cudaMemcpy and cudaMemset count in bytes."
    )
    of_kernel = {**record, "origin": "memory from malloc", "offset": 1024}
    assert hint(of_kernel, source) == ("malloc leaves memory as it was: write all of it first.")


PARTLY_COPIED = """
#include <torch/extension.h>
__global__ void k(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x]; }
void run(torch::Tensor x, torch::Tensor out, int64_t copied, bool in_bytes) {
    float* copy;
    if (in_bytes) cudaMalloc(&copy, x.numel() * sizeof(float));
    else cudaMalloc(&copy, x.numel());
    cudaMemcpy(copy, x.data_ptr<float>(), copied, cudaMemcpyDefault);
    k<<<1, x.numel()>>>(copy, out.data_ptr<float>());
    cudaFree(copy);
}
"""


def test_a_copy_or_an_allocation_of_too_few_bytes():
    declared = "void run(torch::Tensor x, torch::Tensor out, int64_t copied, bool in_bytes);"
    run = load_cuda(PARTLY_COPIED, declared, ["run"], trace=True).run
    for copied, in_bytes, said, told in (
        (64, True, r"reads x\[16\] before anything has been written to it", "Only the first 64 bytes of x"),
        (128, True, r"reads x\[32\] before anything has been written to it", "cudaMalloc leaves memory as it was"),
        (
            64,
            False,
            r"reads x\[16\], but x has 16 elements",
            "cudaMalloc counts in bytes: it has allocated 64 bytes for x in line 7 "
            "(`else cudaMalloc(&copy, x.numel());`). Is `* sizeof` missing there?",
        ),
    ):
        with pytest.raises(KernelProblem, match=said) as caught:
            run(torch.ones(64), torch.zeros(64), copied, in_bytes)
        assert caught.value.problems[0].hint.startswith(told)
    run(torch.ones(64), torch.zeros(64), 256, True)


ALLOCATES = """#define BYTES (100 * sizeof(float))
const int n = 100;
size_t total = n * 4;
void f(int rows, std::vector<float> h, size_t bytes) {
    float* d;
    LINE
}
"""


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("cudaMalloc(&d, n);", True),
        ("cudaMalloc((void**)&d, rows * n);", True),
        ("CHECK(cudaMallocManaged(&d, h.size()));", True),
        ("cudaMalloc(&d, n * sizeof(float));", False),
        ("cudaMalloc(&d, 4 * n);", False),
        ("cudaMalloc(&d, total);", False),
        ("cudaMalloc(&d, BYTES);", False),
        ("cudaMalloc(&d, bytes);", False),
        ("d = (float*)malloc(n);", False),
    ],
)
def test_a_size_that_counts_elements(line, counts):
    assert counts_elements(ALLOCATES.replace("LINE", line), 6) == counts


def test_an_allocation_whose_size_is_right_is_not_asked_about():
    source = "__global__ void k(float* x, int n) {\n    if (threadIdx.x <= n) x[threadIdx.x] = 1;\n}\n"
    source += "void f(int n) {\n    float* d;\n    cudaMalloc(&d, SIZE);\n    k<<<1, 32>>>(d, n);\n}\n"
    record = problem("out_of_bounds", 2, offset=4096, origin="memory from cudaMalloc", allocated={"pc": at(6)})
    assert hint(record, source.replace("SIZE", "n")).endswith("(`cudaMalloc(&d, n);`). Is `* sizeof` missing there?")
    assert "lets this one through" in hint(record, source.replace("SIZE", "n * sizeof(float)"))
    far = {**record, "offset": 4 * 4096}  # more than the number of bytes: it is not the number of elements
    assert "lets this one through" in hint(far, source.replace("SIZE", "n"))


def test_local_variables_that_are_too_large():
    source = (
        "__device__ int f(int n) {\n    return n ? n + f(n - 1) : 0;\n}\n__global__ void k(int n) {\n    int a[9];\n}\n"
    )
    needs = {"ended": "needs more than 512 KB for its local variables"}
    assert hint(problem("trap", 2, **needs), source) == "Does the recursion end?"
    assert hint(problem("trap", 5, **needs), source) == "Large arrays belong in shared or global memory."
    assert hint(problem("trap", 0, **needs), source) == "Large arrays belong in shared or global memory."


# ---- pointers without a value ---------------------------------------------------------------------------------------

POINTER = """\
template <class T>
__global__ void k(const T* x, T* out, int w, int h, int at) {
    int r = threadIdx.x;
    const T* row;
    if (r < h) row = x + r * w;
    out[r] = row[at];
}
"""


@pytest.mark.parametrize("number", [torch.float32, torch.float64, torch.int16, torch.uint8])
@pytest.mark.parametrize("at_index", [0, 3])
def test_a_pointer_that_was_never_set(number, at_index):
    names = {torch.float32: "float", torch.float64: "double", torch.int16: "short", torch.uint8: "unsigned char"}
    x, out = torch.ones(16, dtype=number), torch.zeros(8, dtype=number)
    (found,) = Tracer(POINTER, f"k<{names[number]}>")[1, 8](x, out, 4, 4, at_index).problems
    size = "1 byte" if number.itemsize == 1 else f"{number.itemsize} bytes"
    assert found.kind == "uninitialized" and found.line == 6
    assert f" reads {size} through a pointer that was never set (line 6: " in found.message
    assert found.hint.startswith("The pointer has no value on every path to this line: set it where it is declared")
    assert Tracer(POINTER, f"k<{names[number]}>")[1, 4](x, out, 4, 4, at_index).ok


def test_an_unset_pointer_to_write_through():
    source = POINTER.replace("const T*", "T*").replace("out[r] = row[at]", "row[at] = out[r]")
    (found,) = Tracer(source, "k<float>")[1, 8](torch.ones(16), torch.zeros(8), 4, 4, 1).problems
    assert " writes 4 bytes through a pointer that was never set (line 6: " in found.message


LIST = """struct Node { int value; Node* next; };
__global__ void k(Node* head, int* out) {
    Node a{1, nullptr}, b{2, &a};
    Node* p = &b;
    while (p->value != 0)
        p = p->next;
    out[0] = p->value;
}
"""


@pytest.mark.parametrize(
    ("line", "instead", "why"),
    [
        ("", "", "does the list end here? Check the pointer before it is followed, as in `while (p)`."),
        ("p = p->next", "p->value--", "where does `p` get its value?"),
        (
            "= &b;\n    while (p->value != 0)",
            "= head;\n    while (p[1].value)",
            "what was passed to the kernel for it?",
        ),
    ],
)
def test_a_null_pointer(line, instead, why):
    found = hint(problem("out_of_bounds", 5, region=None, offset=0), LIST.replace(line, instead))
    assert found == f"That is next to a null pointer: {why}"


def test_a_list_that_ends():
    (found,) = Tracer(LIST, "k")[1, 1](torch.zeros(4), torch.zeros(1).int()).problems
    assert found.hint.startswith("That is next to a null pointer: does the list end here?")


@pytest.mark.parametrize("elements", [1 << 10, 1 << 24])
def test_a_pointer_for_which_the_heap_had_no_room(elements):
    source = """__global__ void k(float* out, float* given, int n) {
    float* p = new float[n];
    p[0] = 1;
    delete[] p;
    given[0] = 2;
}"""
    problems = Tracer(source, "k")[1, 1](torch.zeros(1), torch.zeros(0), elements).problems
    full = elements > 1 << 20
    assert problems[0].line == (3 if full else 5)
    assert ("`malloc` or `new` has returned one in this launch." in problems[0].hint) == full
    assert ("at most 8,388,608 bytes (cudaLimitMallocHeapSize)." in problems[0].hint) == full


def test_an_index_in_the_condition_of_an_if():
    """Its `else`, in the same line, has nothing to do with it."""
    source = """__global__ void k(const float* xs, float q, int* out) {
    int lo = 0, hi = 16;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (xs[mid] < q) lo = mid + 1; else hi = mid;
    }
    *out = lo;
}"""
    (found,) = Tracer(source, "k")[1, 1](torch.zeros(10), 5.0, torch.zeros(1).int()).problems
    assert found.line == 5 and "look at where the loop of line 3 ends" in found.hint
