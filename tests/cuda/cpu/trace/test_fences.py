"""What a flag makes visible: what its thread knew at its last fence, from its warp, named barriers and phases too; the
scopes of fences and atomics; and what `__ldg` may not see."""

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

FLAGS = r"""
__device__ void named() { asm volatile("bar.sync 1, 64;" ::: "memory"); }
__global__ void publish(int* x, int* flag, int* out, int how) {
    const int t = threadIdx.x;
    if (t < 64) {
        x[t] = t + 1;
        if (how == 0) { __syncwarp(); if (t % 32 == 0) __threadfence(); }
        if (how == 1) { __threadfence(); __syncwarp(); }
        if (how == 2) { __syncwarp(); if (t % 32 == 0) __threadfence(); __syncwarp(); }
        if (how == 3) { named(); if (t % 32 == 0) __threadfence(); }
        if (how == 4) { __threadfence(); named(); }
        if (how == 5 && t % 32 == 0) __threadfence();
        if (how == 6) { if (t % 32 == 0) __threadfence(); __syncwarp(); }
        if (how == 7) { if (t % 32 == 0) __threadfence(); named(); }
        if (how == 8) __syncwarp();
        if (t % 32 == 0) atomicAdd(flag, 1);
    } else {
        while (atomicAdd(flag, 0) < 2) {}
        __threadfence();
        out[t - 64] = x[t - 64];
    }
}
"""


@pytest.mark.parametrize("how", range(9))
def test_a_flag_publishes_what_its_thread_knew_at_its_fence(how):
    x, flag, out = (torch.zeros(n, dtype=torch.int32) for n in (64, 1, 64))
    trace = compile_kernel(FLAGS, "publish").trace[1, 128](x, flag, out, how)
    assert trace.ok == (how < 5), trace.problems[:1]
    assert {problem.kind for problem in trace.problems} <= {"race"}


SHARED_FLAG = r"""
__global__ void hand_over(const int* x, int* out, bool fenced) {
    __shared__ volatile int ready;
    __shared__ int data[32];
    const int t = threadIdx.x;
    if (t == 0) ready = 0;
    __syncthreads();
    if (t < 32) {
        data[t] = x[t];
        __syncwarp();
        if (t == 0 && fenced) __threadfence_block();
        if (t == 0) ready = 1;
    } else {
        while (ready == 0) {}  // polls
        __threadfence_block();
        out[t - 32] = data[t - 32];
    }
}
__global__ void halve(const int* x, int* out) {
    __shared__ volatile int sums[128];
    const int t = threadIdx.x;
    sums[t] = x[t];
    if (t < 64) sums[t] += sums[t + 64];
    out[t] = sums[t];
}
"""


def test_a_volatile_flag_in_shared_memory_is_no_race_but_what_is_read_without_a_barrier_is():
    x = torch.arange(128, dtype=torch.int32)
    traced = compile_kernel(SHARED_FLAG, "hand_over").trace[1, 64]
    assert traced(x, torch.zeros_like(x), True).ok
    problem = traced(x, torch.zeros_like(x), False).problems[0]
    assert problem.kind == "race" and {problem.line, problem.other_line} == {9, 16}
    problems = compile_kernel(SHARED_FLAG, "halve").trace[1, 128](x, torch.zeros_like(x)).problems
    assert {problem.kind for problem in problems} == {"race"}


LDG = """
__global__ void neighbours(int* x, int* out) {
    x[threadIdx.x] = 3;
    __syncthreads();
    out[threadIdx.x] = __ldg(&x[threadIdx.x ^ 1]);
}
__global__ void copied(const int* x, int* out) { out[threadIdx.x] = __ldg(x + threadIdx.x); }
"""


def test_ldg_of_what_the_same_launch_writes_is_stale():
    x, out = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    (problem,) = compile_kernel(LDG, "neighbours").trace[1, 64](x, out).problems
    assert (problem.kind, problem.line, problem.other_line) == ("stale", 5, 3)
    assert problem.count == 64 and "reads x[1] with `__ldg`" in problem.message
    assert compile_kernel(LDG, "copied").trace[1, 64](x, out).ok


VOLATILE = """
__global__ void go(volatile int* x, volatile int* flag, int* out, const int* n) {{
    const int b = blockIdx.x, t = threadIdx.x;
    {}
}}
"""


@pytest.mark.parametrize(
    ("text", "races"),
    [
        ("if (t == 0) x[0] += 1;", True),
        ("if (b == 0) for (int half = 16; half > 0; half /= 2) x[t % 4] += x[(t + half) % 4];", True),
        ("x[b] = 1; out[b] = x[(b + 1) % 4];", True),
        ("if (t) return; while (b && flag[b - 1] == 0) {}\n int p = b ? x[b - 1] : 0; x[b] = p + 1;"
         " flag[b] = 1;", True),
        ("if (t) return; while (b && flag[b - 1] == 0) {} __threadfence(); int p = b ? x[b - 1] : 0; x[b] = p + 1;"
         " __threadfence(); flag[b] = 1;", False),
        ("if (t) return; int f = b;\n while (f) {\n f = 1 - flag[b - 1];\n }\n flag[b] = 1;", False),
        ("if (*flag) return;\n if (n[b] == 3) *flag = 1;", False),
        ("if (t) return; while (atomicCAS((int*)flag, 0, 1)) {} __threadfence(); x[0] = x[0] + 1; __threadfence();"
         " *flag = 0;", False),
    ],
)  # fmt: skip
def test_volatile_orders_nothing_unless_a_thread_decides_by_it(text, races):
    x, flag, out, n = (torch.zeros(4, dtype=torch.int32) for _ in range(4))
    trace = compile_kernel(VOLATILE.format(text), "go").trace[4, 32](x, flag, out, n)
    assert ("race" in {problem.kind for problem in trace.problems}) == races, trace.problems


CHECKED = """
__device__ float highest(float* p, float v) {
    int* q = (int*)p;
    int old = *q, seen;
    do {
        seen = old;
        old = atomicCAS(q, seen, __float_as_int(fmaxf(v, __int_as_float(seen))));
    } while (seen != old);
    return __int_as_float(old);
}
__global__ void all(const float* x, float* out) { highest(out, x[threadIdx.x]); }
__global__ void early(const float* x, float* out) {
    highest(out, x[threadIdx.x]);
    out[1 + threadIdx.x] = out[0];
}
"""


def test_what_a_compare_and_swap_verifies_may_be_read_without_one():
    x, out = torch.rand(64), torch.zeros(65)
    assert compile_kernel(CHECKED, "all").trace[2, 64](x, out).ok
    problem = compile_kernel(CHECKED, "early").trace[2, 64](x, out).problems[0]
    assert problem.kind == "race" and 14 in (problem.line, problem.other_line)


SCOPES = r"""
#include <cuda/atomic>
template <cuda::thread_scope scope> using Ref = cuda::atomic_ref<int, scope>;
__global__ void counts(int* x, int apart) {
    x += blockIdx.x * apart;
    CODE
}
__global__ void hand_over(int* x, int apart) {
    const int number = 64 * blockIdx.x + threadIdx.x;
    int *flag = x, *data = x + 1, *out = x + 2;
    if (number == 0) {
        *data = 7;
        CODE
        atomicExch(flag, 1);
    } else if (number == 32 + 32 * apart) {
        while (atomicAdd(flag, 0) == 0) {}
        CODE
        *out = *data;
    }
}
__global__ void passed_on(int* x, int apart) {
    const int number = 64 * blockIdx.x + threadIdx.x;
    if (number == 0) {
        x[1] = 7;
        __threadfence_block();
        atomicExch(x, 1);
    } else if (number == 32) {
        while (atomicAdd(x, 0) == 0) {}
        CODE
        atomicExch(x + 2, 1);
    } else if (number == 64 * apart) {
        while (atomicAdd(x + 2, 0) == 0) {}
        CODE
        x[3] = x[1];
    }
}
"""
OF_BLOCK = {
    "counts": (
        "atomicAdd_block(x, 1);",
        "atomicSub_block(x, 1);",
        "atomicCAS_block(x, 1, 2);",
        "Ref<cuda::thread_scope_block>(*x).fetch_add(1, cuda::memory_order_relaxed);",
        "if (threadIdx.x) atomicAdd(x, 1); else Ref<cuda::thread_scope_block>(*x).load();",
        'asm volatile("red.relaxed.cta.global.add.s32 [%0], 1;" :: "l"(x) : "memory");',
    ),
    "hand_over": (
        "__threadfence_block();",
        "cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_block);",
        'asm volatile("fence.acq_rel.cta;" ::: "memory");',
        'asm volatile("membar.cta;" ::: "memory");',
    ),
    "passed_on": ("__threadfence_block();",),
}
WIDER = (("_block", ""), ("thread_scope_block", "thread_scope_device"), ("membar.cta", "membar.gl"), (".cta", ".gpu"))


@pytest.mark.parametrize(("kernel", "code"), [(kernel, code) for kernel, codes in OF_BLOCK.items() for code in codes])
def test_what_is_of_a_block_orders_nothing_between_two(kernel, code):
    wider = code
    for of_block, of_grid in WIDER if "thread_scope" not in code else WIDER[1:2]:
        wider = wider.replace(of_block, of_grid)
    narrow, wide = (compile_kernel(SCOPES.replace("CODE", each), kernel) for each in (code, wider))
    x = torch.zeros(8, dtype=torch.int32)
    problems = narrow.trace[2, 64](x, 0 if kernel == "counts" else 1).problems
    assert {problem.kind for problem in problems} == {"race"} and problems[0].block != problems[0].other_block
    if kernel == "counts":
        assert "but not among the threads of both blocks" in problems[0].message
        assert narrow.trace[2, 64](x, 4).ok and wide.trace[2, 64](x, 0).ok  # two addresses; the wider scope
    else:
        assert ("is for the threads of one block" in problems[0].hint) == ("__threadfence_block" in code)
        assert wide.trace[2, 64](x, 1).ok
        assert kernel == "passed_on" or narrow.trace[2, 64](x, 0).ok  # within a block


AFTER_ATOMICS = r"""
__global__ void last_reads(int* x, int* out) {
    atomicAdd(x, 1);
    SYNC
    if (threadIdx.x == blockDim.x - 1) out[0] = *x;
}
__global__ void last_writes(int* x, int* out) {
    __shared__ int s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    atomicAdd(&s, 1);
    SYNC
    if (threadIdx.x == blockDim.x - 1) s = 0;
}
__global__ void last_block(int* x, int* out) {
    int seen = 0;  // what an exchange expects
    if (threadIdx.x == 0) {
        x[1 + blockIdx.x] = 1;
        __threadfence();
        const bool last = COUNTS;
        if (last) out[0] = x[1] + x[2];
    }
}
__global__ void resets(int* x, int* out) {
    int seen = 0;
    if (threadIdx.x == 0 && COUNTS) *x = 0;
}
__global__ void block_resets(int* x, int* out) {
    __shared__ bool last;
    int seen = 0;
    if (threadIdx.x == 0) last = COUNTS;
    __syncthreads();
    if (threadIdx.x == 5 && last) *x = 0;
}
__global__ void all_read(int* x, int* out) {
    const int old = *x;
    SYNC
    if (threadIdx.x == 64) *x = old + 1;
}
"""
COUNTERS = r"""
#include <cuda/atomic>
using Ref = cuda::atomic_ref<int>;
__device__ int by_atom(int* x) {
    int old;
    asm volatile("atom.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(x) : "memory");
    return old;
}
__device__ void by_red(int* x) { asm volatile("red.add.s32 [%0], 1;" :: "l"(x) : "memory"); }
"""
PAIR = 'if (threadIdx.x / 32 != 1) asm volatile("bar.sync 1, 64;" ::: "memory");'  # warps 0 and 2
LOOKED = "atomicAdd(x, 1) == 1"
ORDERED_OR_NOT = [
    ("last_reads", 32, "__syncwarp();", ""),
    ("last_reads", 96, "__syncthreads();", ""),
    ("last_reads", 96, "__syncthreads();", "__syncwarp();"),
    ("last_reads", 96, "__syncthreads();", PAIR),
    ("last_writes", 64, "__syncthreads();", ""),
    ("last_writes", 96, "__syncthreads();", PAIR),
    ("all_read", 96, "__syncthreads();", PAIR),
]


@pytest.mark.parametrize(("kernel", "threads", "ordered", "missing"), ORDERED_OR_NOT)
def test_who_comes_last_does_not_know_that_the_others_came(kernel, threads, ordered, missing):
    x, out = torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    traces = [
        compile_kernel(AFTER_ATOMICS.replace("SYNC", code).replace("COUNTS", LOOKED), kernel).trace
        for code in (ordered, missing)
    ]
    assert traces[0][1, threads](x, out).ok
    assert {problem.kind for problem in traces[1][1, threads](x, out).problems} == {"race"}


@pytest.mark.parametrize(
    ("counts", "looks"),
    [
        (LOOKED, True),
        ("(atomicAdd(x, 1), blockIdx.x == 1)", False),
        ("Ref(*x).fetch_add(1) == 1", True),
        ("(Ref(*x).fetch_add(1), blockIdx.x == 1)", False),
        ("Ref(*x).compare_exchange_strong(seen, 1) == false", True),
        ("by_atom(x) == 1", True),
        ("(by_atom(x), blockIdx.x == 1)", False),
        ("(by_red(x), blockIdx.x == 1)", False),
    ],
)
def test_a_count_that_nobody_looks_at_orders_nothing(counts, looks):
    source, names = COUNTERS + AFTER_ATOMICS.replace("SYNC", ""), ["last_block", "resets", "block_resets"]
    x, out = torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    for name in names:
        problems = Tracer(source.replace("COUNTS", counts), name, (), names)[2, 32](x, out).problems
        assert [problem.kind for problem in problems] == ([] if looks else ["race"])


def test_who_is_not_the_last_to_take_a_ticket_must_not_reset_the_count():
    x, out = torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    source = AFTER_ATOMICS.replace("SYNC", "").replace("COUNTS", LOOKED)
    for name in ("resets", "block_resets"):
        (problem,) = Tracer(source, name, (), ["resets", "block_resets"])[3, 32](x, out).problems
        lines = [source.splitlines()[line - 1] for line in (problem.line, problem.other_line)]
        assert problem.kind == "race" and any("*x = 0;" in line for line in lines), problem


NOT_COHERENT = r"""
__global__ void neighbours(float* x) {
    const int t = threadIdx.x;
    float v;
    x[t] = t;
    __syncthreads();
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(x + (t ^ 1)));
    __syncthreads();
    x[t] = v;
}
__global__ void counted(const int* x, int* bins) {
    __shared__ int mine[4];  // which nobody sets
    atomicAdd(&mine[x[threadIdx.x] & 3], 1);
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
"""


def test_a_load_through_the_cache_that_hears_of_no_store_is_stale_in_ptx_too():
    (problem,) = Tracer(NOT_COHERENT, "neighbours", (), ["neighbours", "counted"])[1, 32](torch.zeros(32)).problems
    assert (problem.kind, problem.line, problem.other_line) == ("stale", 7, 5)
    assert "with `ld.global.nc`" in problem.message and "leave out `.nc`" in problem.hint


def test_what_is_computed_from_what_nobody_set_is_no_second_problem():
    x, bins = torch.zeros(32, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    problems = Tracer(NOT_COHERENT, "counted", (), ["neighbours", "counted"])[2, 32](x, bins).problems
    assert problems and not any("bins[" in problem.message.split(" (line")[0] for problem in problems), problems


POLLS = """__global__ void k(volatile int* flag, volatile int* sum, int* out) {
    int before = 0;
    if (blockIdx.x > 0) {
        while (flag[blockIdx.x - 1] == 0) {} __threadfence(); before = sum[blockIdx.x - 1];
    }
    sum[blockIdx.x] = before + 1;
    __threadfence();
    flag[blockIdx.x] = 1;
    out[blockIdx.x] = before;
}"""


@pytest.mark.parametrize("fenced", [True, False])
def test_what_is_read_in_the_line_of_the_loop_that_waits_is_no_flag(fenced):
    source = POLLS if fenced else POLLS.replace("    __threadfence();\n    flag", "    flag")
    trace = Tracer(source, "k")[4, 1](*(torch.zeros(4, dtype=torch.int32) for _ in range(3)))
    assert trace.ok == fenced and all("sum[0]" in problem.message for problem in trace.problems[:1])


# Each block publishes its own sum, flag 1, and later that of all up to it, flag 2.
LOOK_BACK = r"""
__global__ void scan(const int* x, int* y, volatile int* flags, volatile int* sums, volatile int* prefixes, int n) {
    if (threadIdx.x) return;
    const int b = blockIdx.x;
    int before = 0;
    if (b) {
        sums[b] = x[b];
        __threadfence();
        flags[b] = 1;
        for (int p = b - 1;;) {
            const int flag = flags[p];
            if (flag == 0) continue;
            __threadfence();
            if (flag == 2) { before += prefixes[p]; break; }
            before += sums[p];
            p--;
        }
    }
    prefixes[b] = before + x[b];
    __threadfence();
    flags[b] = 2;
    y[b] = before + x[b];
}
"""
SUM, SET = "sums[b] = x[b];", "flags[b] = 1;"
FENCED = f"{SUM}\n        __threadfence();\n        {SET}"
# What is wrong, instead of what, and the line that a race names: 0 if the numbers are wrong.
BROKEN = {
    "no fence": (FENCED, f"{SUM}\n\n        {SET}", 15),
    "a fence of the block": (FENCED, FENCED.replace("fence", "fence_block"), 15),
    "the flag first": (FENCED, f"{SET}\n        __threadfence();\n        {SUM}", 15),
    "the same block again": ("            p--;\n", "\n", 0),
    "no fence for the prefix": ("__threadfence();\n    flags", "\n    flags", 14),
}


@pytest.mark.parametrize("blocks", [1, 2, 5, 17])
def test_blocks_that_look_back_find_each_other_in_all_states(blocks):
    def trace(source):
        x, y = torch.randint(1, 9, (blocks,), dtype=torch.int32), torch.zeros(blocks, dtype=torch.int32)
        others = [torch.zeros(blocks, dtype=torch.int32) for _ in range(3)]
        done = compile_kernel(source, "scan").trace[blocks, 32](x, y, *others, blocks, outputs=[y])
        return done, torch.equal(y if done.args[1] is y else done.args[1], x.cumsum(0).int())

    right, equal = trace(LOOK_BACK)
    assert right.ok and equal
    for correct, broken, line in BROKEN.values() if blocks > 2 else ():
        assert correct in LOOK_BACK
        wrong, equal = trace(LOOK_BACK.replace(correct, broken))
        assert line in [problem.line for problem in wrong.problems] if line else not equal, broken
