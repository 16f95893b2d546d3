"""The list of problems: what one holds, which records are one problem, and the exception."""

import ctypes
import pickle
import re

import pytest
import torch

from tests.cuda.cpu.limits import cases
from tests.cuda.cpu.trace.reports import at, problem, shared, traced
from utils import compile_kernel
from utils.cuda.cpu.trace.problems import KernelProblem, Problem
from utils.cuda.kernel import compile_kernels


def test_a_problem_holds_its_place():
    (found,) = traced(problem("out_of_bounds", 7, count=24)).problems
    assert (found.kind, found.line, found.source) == ("out_of_bounds", 7, "y[i] = x[i];")
    assert (found.block, found.thread, found.count) == ((3, 0, 0), (31, 0, 0), 24)
    assert (found.other_block, found.other_thread, found.other_line) == (None, None, None)
    assert "only indexes below 1024" in found.hint.lower() and found.hint not in found.message
    assert repr(found) == f"{found.message}\n    hint: {found.hint}"
    assert repr(Problem("trap", "it stopped")) == "it stopped"
    with pytest.raises(AttributeError):
        found.line = 8


def test_one_problem_for_one_kind_and_place():
    unrolled = [problem("out_of_bounds", 7, count=3), problem("out_of_bounds", 7, count=4, pc=at(7, 1), offset=5000)]
    written = problem("out_of_bounds", 7, region="y", op="store")
    elsewhere = problem("out_of_bounds", 5)
    unknown = [problem("out_of_bounds", 0, pc=hex(n)) for n in (11, 12)]
    found = traced(*unrolled, written, elsewhere, *unknown).problems
    assert [(p.line, p.count) for p in found] == [(7, 7), (7, 1), (5, 1), (None, 1), (None, 1)]
    assert "x[1024]" in found[0].message and "writes y[1024]" in found[1].message


def test_a_race_is_the_same_from_either_side():
    def race(here, there):
        other = {"pc": at(there), "op": "store", "block": [3, 0, 0], "thread": [4, 0, 0]}
        return shared("race", here, other=other)

    assert [p.count for p in traced(race(5, 9), race(9, 5), race(5, 5)).problems] == [2, 1]


def test_raise_if_problems():
    traced().raise_if_problems()
    with pytest.raises(KernelProblem, match=r"^thread \(31,0,0\) of block \(3,0,0\) reads x\[1024\]") as caught:
        traced(problem("out_of_bounds", 7), shared("uninitialized", 9)).raise_if_problems()
    assert [p.kind for p in caught.value.problems] == ["out_of_bounds", "uninitialized"]
    assert str(caught.value).endswith("(1 more problem in .problems)")
    assert isinstance(caught.value, RuntimeError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


BFLOAT16 = """#include <cuda_bf16.h>
__global__ void sum(const __nv_bfloat16* x, float* out) {
    int i = threadIdx.x;
    float s = __bfloat162float(x[i]);
    for (int d = 16; d; d /= 2)
        s += __shfl_xor_sync(~0u, s, d);
    if (i == 0) out[0] = s;
}
"""


def test_a_load_in_front_of_a_loop_has_its_own_line(on_cpu):
    trace = compile_kernel(BFLOAT16, "sum").trace[1, 32](torch.zeros(20, dtype=torch.bfloat16), torch.zeros(1))
    assert [(p.line, p.thread) for p in trace.problems] == [(4, (20, 0, 0))]


VARIABLES = """__device__ int table[4];
__global__ void clear(int* y, long long bytes) { memset(table, 0, bytes); }
__global__ void step(int* y, int i) { table[i] = 1; y[0] = table[0]; }
"""


@pytest.mark.parametrize("bytes", [20, 1 << 32])
def test_a_memset_beyond_a_variable_of_the_source(on_cpu, bytes):
    y = torch.zeros(1, dtype=torch.int32)
    (problem,) = compile_kernel(VARIABLES, "clear").trace[1, 1](y, bytes).problems
    assert (problem.kind, problem.line) == ("out_of_bounds", 2) and "table" in problem.message
    traced = compile_kernel(VARIABLES, "step").trace[1, 1]
    assert traced(y, 3).ok and [p.kind for p in traced(y, 4).problems] == ["out_of_bounds"]


COUNTS = """__device__ int {0}[16];
__global__ void count(int* out, int n) {{ atomicAdd(&{0}[threadIdx.x % n], 1); out[threadIdx.x] = 0; }}
"""


@pytest.mark.parametrize("name", ["hist", "b"])  # as the name of a type, `b` is bool
def test_a_variable_of_the_source_is_named_and_those_of_the_engine_behind_it_are_not(on_cpu, name):
    traced, out = compile_kernel(COUNTS.format(name), "count").trace[1, 32], torch.zeros(32, dtype=torch.int32)
    assert traced(out, 16).ok
    (problem,) = traced(out, 17).problems
    assert problem.kind == "out_of_bounds"
    assert problem.message.startswith(
        f"thread (16,0,0) of block (0,0,0) updates {name}[16] atomically, but {name} has 16 elements"
    )


# ---- warp functions --------------------------------------------------------------------------------------------------

WARP_FUNCTIONS = {
    "shuffle": "__shfl_sync(~0u, v, 0)",
    "down": "__shfl_down_sync(~0u, v, 1)",
    "any": "__any_sync(~0u, v > 3)",
    "all": "__all_sync(~0u, v > 3)",
    "uni": "__uni_sync(~0u, v > 3)",
    "ballot": "__ballot_sync(~0u, v > 3)",
    "match": "__match_any_sync(~0u, v)",
    "sum": "__reduce_add_sync(~0u, v)",
    "most": "__reduce_max_sync(~0u, v)",
}
PAIRS = [("shuffle", "down"), ("shuffle", "any"), ("any", "all"), ("uni", "all"), ("any", "ballot")]
PAIRS += [("match", "ballot"), ("match", "shuffle"), ("sum", "any"), ("sum", "most")]
MEETING = "__global__ void meet_{0}_{1}(int* x) {{ int v = threadIdx.x; x[v] = v % 2 ? {2} : {3}; }}\n"


@pytest.fixture(scope="module")
def meetings():
    pairs = PAIRS + [(name, name) for name in WARP_FUNCTIONS]
    source = "".join(MEETING.format(*pair, *map(WARP_FUNCTIONS.get, pair)) for pair in pairs)
    return dict(zip(pairs, compile_kernels(source, [f"meet_{a}_{b}" for a, b in pairs]), strict=True))


def test_lanes_that_meet_at_two_functions_of_one_line(on_cpu, meetings):
    for (one, other), kernel in meetings.items():
        problems = kernel.trace[1, 32](torch.zeros(32, dtype=torch.int32)).problems
        told = [p.message for p in problems]
        names = [WARP_FUNCTIONS[name].partition("(")[0] for name in (one, other)]
        assert problems[0].kind == "divergent_barrier" and f"waits at {names[0]}()" in told[0], told
        assert ("waits elsewhere" if one == other else f"waits at {names[1]}()") in told[0], told


TABLES = """
__global__ void gather(const long long* rows, float* out, int n) {
    out[threadIdx.x] = ((const float*)rows[threadIdx.x])[n - 1];
}
struct Rows { float* at[4]; };
__global__ void scatter(Rows rows, float v, int n) { rows.at[threadIdx.x % 4][n - 1] = v; }
"""


def test_tensors_that_the_arguments_only_point_to(on_cpu):
    class Rows(ctypes.Structure):
        _fields_ = (("at", ctypes.c_void_p * 4),)

    gather, scatter = compile_kernels(TABLES, ["gather", "scatter"])
    tensors = [torch.full((40,), float(i)) for i in range(4)]
    table = torch.tensor([tensor.data_ptr() for tensor in tensors])
    struct = Rows((ctypes.c_void_p * 4)(*table.tolist()))
    trace = gather.trace[1, 4](table, torch.zeros(4), 40)
    assert trace.ok and trace.args[1].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert scatter.trace[1, 4](struct, 7.0, 40).ok
    (problem, *_) = gather.trace[1, 4](table, torch.zeros(4), 41).problems
    assert (problem.kind, problem.line) == ("out_of_bounds", 3)
    assert [problem.kind for problem in scatter.trace[1, 5](struct, 7.0, 40).problems] == ["race"]


WRONG_MEMORY = """#include <cuda_pipeline.h>
__constant__ float c[4];
__global__ void store(float* out) {
    float* p = const_cast<float*>(c);
    out[threadIdx.x] = c[1];
    p[threadIdx.x] = 9;
}
__global__ void ldg(float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = 1;
    __syncwarp();
    out[threadIdx.x] = __ldg(&s[threadIdx.x ^ 1]);
}
__global__ void copies(float* out, const float* x) {
    __pipeline_memcpy_async(&out[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
}
__global__ void first(float* x, int n) { x[n] = 1; }
__global__ void second(float* x, int n) {
    x[n] = 1;
}
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("store", r"writes .*, which is `__constant__`: a kernel can only read it \(line 6:"),
        ("ldg", r"reads s with `__ldg`, which is for global memory \(line 12:"),
        (
            "copies",
            r"copy to memory that is not shared, which `__pipeline_memcpy_async` cannot write \(line 15",
        ),
        ("second", r"writes x\[4\], but x has 4 elements \(line 21:"),
    ],
)
def test_memory_that_is_not_meant(on_cpu, name, told):
    x = torch.zeros(4 if name == "second" else 32)
    arguments = {"copies": (x, torch.ones(32)), "second": (x, 4)}.get(name, (x,))
    trace = compile_kernel(WRONG_MEMORY, name).trace[1, 1 if name == "second" else 4](*arguments)
    assert re.search(told, trace.problems[0].message), trace.problems


LOCAL_ATOMICS = """#include <cuda/atomic>
__device__ __noinline__ void add(int* p) {
    atomicAdd(p, 1);
}
__global__ void k(int* out) {
    __shared__ int s[32];
    int c[4] = {}, t = threadIdx.x;
    s[t] = 0;
    CODE
    out[t] = c[0] + s[t];
}
"""


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("atomicAdd(c, 1);", 9),
        ("atomicCAS(&t, 5, 6);", 9),
        ("add(c + t % 4);", 3),
        ('asm volatile("red.add.s32 [%0], 1;" :: "l"(c) : "memory");', 9),
        ("add(s + t);", None),
        ("add(out + t);", None),
        ("cuda::atomic_ref<int> r(c[0]); r.fetch_add(1); int e = 1; r.compare_exchange_strong(e, 2);", None),
    ],
)
def test_an_atomic_needs_memory_that_threads_share(on_cpu, code, line):
    trace = compile_kernel(LOCAL_ATOMICS.replace("CODE", code), "k").trace[1, 32](torch.zeros(32).int())
    assert trace.ok == (line is None), trace.problems
    if line:
        assert trace.problems[0].line == line
        assert "updates a local variable atomically" in trace.problems[0].message
    elif "cuda" in code:
        assert trace.args[0].tolist() == [2] * 32


PADDED = r"""
struct Last { int key; char flag; };
struct Middle { char key; double flag; };
__global__ void turn(TYPE* out) {
    MEMORY
    s[threadIdx.x].key = threadIdx.x;
    FLAG
    __syncthreads();
    out[32 * blockIdx.x + threadIdx.x] = s[31 - threadIdx.x];
}
"""


@pytest.mark.parametrize("struct", ["Last", "Middle"])
@pytest.mark.parametrize("memory", ["__shared__ TYPE s[32];", "extern __shared__ TYPE s[];"])
def test_what_is_between_the_members_of_a_struct_needs_no_value(struct, memory):
    source, out = PADDED.replace("MEMORY", memory).replace("TYPE", struct), torch.zeros(2048, dtype=torch.uint8)
    launch = (2, 32, 512 if "extern" in memory else 0)
    assert compile_kernel(source.replace("FLAG", "s[threadIdx.x].flag = 1;"), "turn").trace[launch](out).ok
    problems = compile_kernel(source.replace("FLAG", ""), "turn").trace[launch](out).problems
    assert {problem.kind for problem in problems} == {"uninitialized"} and problems[0].line == 9


def test_a_member_that_a_constructor_leaves_out():
    source = """struct Mean {
        float sum;
        int n;
        __device__ Mean(float first) : sum(first) {}
        __device__ Mean(float first, int many) : sum(first), n(many) {}
        __device__ void add(float x) { sum += x; n++; }
    };
    __global__ void left_out(const float* x, float* out) {
        float first = x[0];
        Mean mean(first);
        for (int i = 1; i < 4; i++) mean.add(x[i]);
        out[threadIdx.x] = mean.sum / mean.n;
    }
    __global__ void not_used(const float* x, float* out) {
        float first = x[0];
        Mean mean{first};
        out[threadIdx.x] = mean.sum;
    }
    __global__ void set(const float* x, float* out) {
        Mean mean(x[0], 1);
        for (int i = 1; i < 4; i++) mean.add(x[i]);
        out[threadIdx.x] = mean.sum / mean.n;
    }"""
    kernels, x = compile_kernels(source, ["left_out", "not_used", "set"]), torch.ones(4)
    left_out, not_used, complete = (kernel.trace[1, 1](x, torch.zeros(1)) for kernel in kernels)
    (problem,) = left_out.problems
    assert "what depends on a member of `mean` that was never set" in str(problem) and problem.line == 12
    assert not_used.ok and complete.ok and complete.args[1] == 1
    assert [kernel.requests["requests"].sum() for kernel in (left_out, not_used, complete)] == [5, 2, 5]


def test_members_that_the_constructor_of_an_array_s_elements_leaves_out():
    source = """struct Pair { int first, second; __device__ Pair() { first = 1; } };
    __global__ void k(int* x) {
        Pair pairs[4], rows[2][2];
        x[0] = pairs[x[0]].first + rows[1][x[0]].first;
        x[pairs[3].second & 1] = 5;
    }"""
    (problem,) = compile_kernel(source, "k").trace[1, 1](torch.zeros(4, dtype=torch.int32)).problems
    assert problem.kind == "uninitialized" and problem.line == 5 and "that was never set" in problem.message


def test_a_constructor_that_counts_runs_once_in_a_trace_too():
    source = """__device__ int made;
    struct Counted { int number; __device__ Counted() { number = atomicAdd(&made, 1); } };
    __global__ void k(int* x) { Counted a, b[2]; x[0] = a.number + b[1].number; x[1] = made; }"""
    trace = compile_kernel(source, "k").trace[1, 1](torch.zeros(2, dtype=torch.int32))
    assert trace.ok and trace.args[0].tolist() == [2, 3]


def test_a_loop_without_end_whose_result_nobody_uses():
    source = """__global__ void steps(int* out, const int* x) {
        int v = x[threadIdx.x], c = 0;
        while (v != 1) v = v % 2 ? 3 * v + 1 : v / 2;
        out[threadIdx.x] = c;
    }"""
    args = torch.zeros(4, dtype=torch.int32), torch.arange(4, dtype=torch.int32)
    (problem,) = compile_kernel(source, "steps").trace[1, 4](*args, max_steps=10_000).problems
    assert problem.kind == "runaway" and problem.line == 3


def test_what_a_launch_had_no_time_to_write_is_not_missing():
    sums = " ".join(f"s[t] += s[t + {step}];" for step in (32, 16, 8, 4, 2, 1))
    source = f"""__global__ void sum(const float* x, float* out) {{
        __shared__ float s[64];
        int t = threadIdx.x;
        s[t] = x[blockIdx.x * 64 + t];
        __syncthreads();
        if (t < 32) {{ {sums} if (t == 0) out[blockIdx.x] = s[0]; }}
    }}"""
    out = torch.empty(3)
    trace = compile_kernel(source, "sum").trace[3, 64](torch.rand(192), out, outputs=[out])
    assert {problem.kind for problem in trace.problems} == {"race"}


def test_a_sum_of_what_was_never_set_has_been_written():
    source = """__global__ void k(unsigned long long* hits) {
        __shared__ unsigned long long mine;
        if (threadIdx.x == 0) atomicAdd(&mine, 1);
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(hits, mine - 1);
    }"""
    trace = compile_kernel(source, "k").trace[2, 32](torch.zeros(1, dtype=torch.int64))
    assert [(problem.kind, problem.line) for problem in trace.problems] == [("uninitialized", 3)]


FREED = {
    "if (i == 0) delete[] p;": ("frees memory that was freed before: a malloc or new", "Free each allocation once"),
    "if (i == 0) free(p);": ("frees memory that was freed before: a malloc or new", "Free each allocation once"),
    "float* q = new float[2]; delete[] (q + 1);": (
        "frees an address 4 bytes past the start of a malloc or new allocation of 8 bytes",
        "Keep the pointer that malloc or new returned",
    ),
    "float t[4]; t[i % 4] = x[i]; free(t); x[i] = t[0];": (
        "frees a local variable, which is not",
        "leave the line out",
    ),
    "__shared__ float t[4]; free(t);": ("frees shared memory, which is not from malloc", "leave the line out"),
    "free(x + i);": ("frees x, which is not from malloc or new", "leave the line out"),
    "memset(x, 0, i - 33);": ("calls memset for -33 bytes", "A size is never negative"),
    "memcpy(x, x + 32, i - 64ll);": ("calls memcpy for -64 bytes", "A size is never negative"),
    "float t[4] = {x[i], x[i]}; __shared__ float* s; if (i == 1) s = t; __syncthreads(); x[i] = s[i & 1];": (
        "reads a local variable of another thread",
        "share a `__shared__` one, or pass the value with a shuffle",
    ),
}
LAUNCHES = """
for line in LINES:
    source = f'''#include <cooperative_groups.h>
__global__ void k(float* x) {{
    int i = threadIdx.x;
    float* p = new float[4];
    p[0] = i;
    delete[] p;
    x[i] = i;
    {line}
    x[i] += 1;
}}'''
    (found, *_) = compile_kernel(source, "k").trace[1, 32](torch.zeros(32)).problems
    tell(line, line=found.line, message=found.message, hint=found.hint)
"""


def test_what_ends_a_launch_is_in_the_line_that_does_it():  # in a process whose heap no other test has filled
    told = cases(LAUNCHES.replace("LINES", repr(list(FREED))))
    for line, (said, hint) in FREED.items():
        found = told[line]
        assert found["line"] == 8 and said in found["message"] and hint in found["hint"], found
