"""Hints on races: which barrier is missing, and where every thread reaches it."""

import re

import pytest
import torch

from tests.cuda.cpu.trace.reports import at, hint, problem, shared, traced
from utils.cuda.cpu.trace.waits import where_to_wait
from utils.cuda.kernel import Tracer


def race(first, last, **more):
    place = {"block": [0, 0, 0], "thread": [3, 0, 0], "op": "store"}
    other = {"pc": at(last), "op": "load", "block": [0, 0, 0], "thread": [4, 0, 0]}
    return shared("race", first, **place, other=other, **more)


def traced_race(source, threads):
    """The race in a launch of one block; it may read elements as well that nobody has written."""
    problems = Tracer(source, "k")[1, threads](torch.ones(1024), torch.zeros(1024), 32).problems
    (found,) = (problem for problem in problems if problem.kind == "race")
    return found


WARPS = """\
__global__ void k(const float* x, float* out, int rows) {
    __shared__ float row[4][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int r = warp; r < rows; r += 4) {
        row[warp][lane] = x[r * 32 + lane];
        __syncwarp();
        out[r * 32 + lane] = row[warp][(lane + 1) % 32];
    }
}
"""
BRANCH = """\
__global__ void k(const float* x, float* out, int rows) {
    __shared__ float row[32];
    int t = threadIdx.x;
    if (t / 32 == 0) {
        row[t] = x[t];
        out[t] = row[31 - t];
    }
}
"""


def test_a_syncwarp_in_a_loop_needs_another_at_its_end():
    found = hint(race(5, 7, one_warp=True), WARPS)
    assert found == (
        "There is a `__syncwarp();` between lines 5 and 7. In a loop, put another at its end: one thread may already "
        "be in the next round."
    )
    assert hint(race(5, 7), WARPS).startswith("Put `__syncthreads();` between lines 5 and 7")
    found = traced_race(WARPS, 128)
    assert found.hint.startswith("There is a `__syncwarp();` between lines 5 and 7. In a loop, put another at its end")


def test_threads_of_one_warp_in_a_branch_wait_for_their_warp():
    one_warp = (
        "Put `__syncwarp();` between lines 5 and 6: both threads are of one warp, and every lane of its mask must"
    )
    assert hint(race(5, 6, one_warp=True), BRANCH).startswith(one_warp)
    assert hint(race(5, 6), BRANCH).startswith("End the `if` of line 4 after line 5, put `__syncthreads();` there")
    found = traced_race(BRANCH, 64)
    assert found.hint.startswith(one_warp)
    in_one_line = BRANCH.replace("row[t] = x[t]", "row[t] += row[t + 1]")
    assert "Within the `if` of line 4, `__syncwarp();` instead" in hint(race(5, 5, one_warp=True), in_one_line)


def test_a_loop_over_the_warps_rows_lacks_both_barriers():
    expected = "Put `__syncwarp();` between lines 5 and 7, and at the end of the loop of line 4: both threads are of"
    assert hint(race(5, 7, one_warp=True), WARPS.replace("__syncwarp();", "")).startswith(expected)


def test_a_loop_that_threads_run_unequally_often_has_to_become_even():
    source = WARPS.replace("__syncwarp();", "").replace("(lane + 1) % 32", "0").replace("[warp][0]", "[0][0]")
    expected = (
        "Put `__syncthreads();` between lines 5 and 7 and at the end of the loop of line 4, and let that run equally "
        "often in all threads: every thread must reach it."
    )
    assert hint(race(5, 7), source) == expected
    assert traced_race(source, 128).hint == expected


BITONIC = """\
__global__ void k(float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int j = n / 2; j > 0; j /= 2) {
        int p = t ^ j;
        if (p > t) {
            if (s[t] > s[p]) {
                float h = s[t];
                s[t] = s[p];
                s[p] = h;
            }
        }
    }
}
"""


def test_a_race_of_a_condition_with_what_depends_on_it():
    problems = Tracer(BITONIC, "k")[1, 64](torch.rand(64), torch.zeros(64), 64).problems
    hints = {found.hint for found in problems if found.kind == "race"}
    behind = "Put `__syncthreads();` behind the `if` of line 8, at the end of the loop of line 6: every thread must"
    rounds = "Are these two rounds of the loop of line 6? Then put `__syncthreads();` at its end."
    assert any(found.startswith(behind) for found in hints) and any(found.endswith(rounds) for found in hints)
    assert all(found.startswith(behind) or found.endswith(rounds) for found in hints)


@pytest.mark.parametrize("array", ["tile", "out"])
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_a_loop_over_all_elements_in_every_thread(array, barrier):
    source = f"""__global__ void k(const float* x, float* out, int n) {{
        __shared__ float tile[64];
        for (int j = 0; j < n; j++) {{
            {array}[j] = x[j] + 1;
            {barrier}
        }}
    }}"""
    (found, *_) = Tracer(source, "k")[2, 64](torch.rand(64), torch.zeros(64), 64).problems
    said = (
        f"In the loop of line 3, every thread writes every element: the index of {array} does not depend on the thread"
    )
    assert found.hint.startswith(said)
    begin = (
        "threadIdx.x` and step by `blockDim.x`." if array == "tile" else "threadIdx.x` and step by `gridDim.x * block"
    )
    assert begin in found.hint


def test_a_loop_that_writes_one_element_is_not_one_over_all():
    source = """__global__ void k(float* out, int n) {
        int last = n - 1;
        for (int j = 0; j < n; j++) out[last] = j;
    }"""
    (found, *_) = Tracer(source, "k")[1, 64](torch.zeros(64), 64).problems
    assert found.hint.startswith("Let one thread write it")


def test_a_counter_needs_an_atomic_in_two_lines_too():
    source = "__global__ void k(int* x, int* count) {\n    x[*count] = threadIdx.x;\n    *count += 1;\n}"
    problems = Tracer(source, "k")[1, 64](torch.zeros(64).int(), torch.zeros(1).int()).problems
    assert next(found.hint for found in problems if {found.line, found.other_line} == {2, 3}).startswith(
        "Use `atomicAdd`, which reads and adds in one step"
    )


def test_lanes_that_add_to_shared_counters_need_an_atomic_too():
    source = """__global__ void k(const int* x, int* out, int n) {
    __shared__ int counts[64];
    if (threadIdx.x < 64) counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256) counts[x[i]] += 1;
    __syncthreads();
    if (threadIdx.x < 64) out[threadIdx.x] = counts[threadIdx.x];
}"""
    for x in (torch.arange(512) // 8 % 64, torch.arange(512) % 64):  # lanes of a warp meet; only warps do
        problems = Tracer(source, "k")[1, 256](x.int(), torch.zeros(64).int(), 512).problems
        assert {found.hint for found in problems} == {
            "Use `atomicAdd`, which reads and adds in one step, and returns what was there before."
        }


@pytest.mark.parametrize(
    ("line", "atomic"),
    [
        ("x[i / 32] |= 1 << i % 32;", "atomicOr"),
        ("x[0] = max(x[0], i);", "atomicMax"),
        ("if (y[i] < *x) *x = y[i];", "atomicMin"),
        ("if (x[0] < -y[i]) x[0] = -y[i];", "atomicMax"),
        ("if (x[0] > y[i]) x[0] = y[i];", "atomicMin"),
        ("if (x[i / 4] == -1)\n        x[i / 4] = i + 1;", "atomicCAS"),
        ("if (!x[i / 4]) x[i / 4] = i + 1;", "atomicCAS"),
        ("s = s ^ i; x[i] = s; s ^= i;", "atomicXor"),
    ],
)
def test_the_atomic_is_the_one_that_does_what_the_line_does(line, atomic):
    source = (
        f"__global__ void k(int* x, const int* y) {{\n    __shared__ int s;\n    int i = threadIdx.x;\n    {line}\n}}"
    )
    problems = Tracer(source, "k")[1, 64](-torch.arange(64).int(), -torch.arange(64, 128).int()).problems
    assert {found.hint.split(",")[0] for found in problems if found.hint.startswith("Use")} == {f"Use `{atomic}`"}


def test_a_race_of_blocks_in_a_cooperative_kernel_lacks_a_barrier_of_the_grid():
    source = (
        "#include <cooperative_groups.h>\n__global__ void k(float* x) {\n"
        "    auto grid = cooperative_groups::this_grid();\n    int i = grid.thread_rank(), n = grid.size();\n"
        "    x[i] = i;\n    float v = x[n - 1 - i];\n    grid.sync();\n    x[i] = v;\n}"
    )
    problems = Tracer(source, "k")[2, 32](torch.zeros(64)).problems
    assert problems[0].hint.startswith("Put `grid.sync();` between the two")


def test_a_race_between_arguments_that_are_one_tensor_names_them():
    source = "__global__ void k(const float* x, float* out) {\n    out[threadIdx.x] = x[threadIdx.x + 1];\n}"
    x = torch.zeros(128)
    (found,) = Tracer(source, "k")[1, 64](x, x).problems
    expected = (
        "`x` and `out` are one tensor in this launch: pass two, unless the kernel is to work in place. If all add"
    )
    assert found.hint.startswith(expected)
    assert Tracer(source, "k")[1, 64](x, x.clone()).ok


def test_a_race_between_arguments_that_overlap_names_both():
    source = """__global__ void k(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}"""
    x = torch.ones(256)
    (found,) = Tracer(source, "k")[2, 64](x[:127], torch.ones(127), x[1:128], 127).problems
    assert found.hint == (
        "`a` and `c` share memory in this launch: a[1] is also c[0]. Pass tensors that do not overlap."
    )
    (found,) = Tracer(source, "k")[2, 64](x[:127], x[1:128], x[1:128], 127).problems
    assert found.hint.startswith("`a`, `b` and `c` share memory in this launch: a[1] is also b[0] and c[0].")
    assert Tracer(source, "k")[2, 64](x[:127], x[1:128], x[128:], 127).ok
    race_in_c = source.replace("c[i] = a[i] + b[i]", "c[0] += b[i]")
    problems = Tracer(race_in_c, "k")[2, 64](x[:127], torch.ones(127), x[1:128], 127).problems
    assert not any("share memory" in found.hint for found in problems)


CARVED = """__global__ void k(const float* x, float* out, int n) {
    extern __shared__ float mem[];
    float* a = mem;
    int* b = (int*)(mem + n);
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = t;
    __syncthreads();
    out[t] = a[t] + b[t];
}
"""


def test_two_parts_of_a_shared_array_that_overlap():
    (found,) = Tracer(CARVED, "k")[1, 64, 512](torch.zeros(64), torch.zeros(64), 32).problems
    expected = "`a` and `b` overlap in mem: is that intended? If not, check where each begins and ends. Let one thread"
    assert found.hint.startswith(expected)
    assert Tracer(CARVED, "k")[1, 64, 512](torch.zeros(64), torch.zeros(64), 64).ok


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("    int* b = (int*)(mem + n);", "    int* b = (int*)mem;"),
        ("    b[t] = t;", "    mem[t] = t;"),
        ("    __syncthreads();", "    __syncthreads(); b += n;"),
        ("    __syncthreads();", "    __syncthreads(); swap(a, b);"),
        ("    int* b = (int*)(mem + n);", "    int* b = x + int(mem[0]);"),
    ],
)
def test_names_of_one_place_in_a_shared_array_do_not_overlap(line, instead):
    clash = race(6, 7, region="mem")
    assert hint(clash, CARVED).startswith("`a` and `b` overlap in mem")
    assert hint(clash, CARVED.replace(line, instead)).startswith("Put `__syncthreads();` between lines 6 and 7")


TILES = """\
__global__ void k(const float* x, float* out, int n) {
    __shared__ float row[64];
    int t = threadIdx.x, width = blockDim.x;
    for (int start = 0; start < n; start += width) {
        row[t] = x[start + t];
        out[start + t] = row[width - 1 - t];
    }
}
"""


@pytest.mark.parametrize("width", ["blockDim.x", "blockDim.x, all = threadIdx.x"])
def test_a_loop_over_tiles_is_even(width):
    found = traced_race(TILES.replace("blockDim.x", width), 64)
    assert found.hint == "Put `__syncthreads();` between lines 5 and 6; in a loop, also one at its end."


HALVING = """__global__ void k(float* x) {
    __shared__ float part[64];
    int t = threadIdx.x;
    part[t] = x[t];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2)
        if (t < step) part[t] += part[t + step];
    if (t == 0) x[0] = part[0];
}
"""


def test_a_reduction_waits_after_each_of_its_rounds():
    expected = (
        "Is one of them already in the next round of the loop of line 6? Then put `__syncthreads();` at the end of"
    )
    (found,) = Tracer(HALVING, "k")[1, 64](torch.zeros(64)).problems
    assert found.hint.startswith(expected)


LAST_WARP = """__global__ void k(float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        for (int h = 32; h > 0; h /= 2) {
            s[t] += s[t + h];
            __syncwarp();
        }
    }
    if (t == 0) x[0] = s[0];
}
"""


def test_the_last_warp_of_a_reduction_reads_before_it_writes():
    expected = (
        "Both threads are of one warp: read into a variable, `__syncwarp();`, write, then `__syncwarp();`, where every "
        "lane of its mask reaches it."
    )
    (found,) = Tracer(LAST_WARP, "k")[1, 64](torch.zeros(64)).problems
    assert found.hint == expected
    (found,) = Tracer(LAST_WARP.replace("__syncwarp();", ""), "k")[1, 64](torch.zeros(64)).problems
    assert found.hint == expected
    s = "float v = s[t] + s[t + h]; __syncwarp(); s[t] = v;"
    assert Tracer(LAST_WARP.replace("s[t] += s[t + h];", s), "k")[1, 64](torch.zeros(64)).ok


def test_a_scan_with_one_barrier_per_round_needs_a_second():
    scan = HALVING.replace("if (t < step) part[t] += part[t + step]", "{ if (t >= step) part[t] += part[t - step]")
    (found,) = Tracer(scan.replace(";\n    if", "; __syncthreads(); }\n    if"), "k")[1, 64](torch.zeros(64)).problems
    assert found.hint == (
        "Both are in one round of the loop of line 6: read into a variable, `__syncthreads();`, then write. Put "
        "`__syncthreads();` outside the `if` of line 7: every thread must reach it."
    )


SKIPPED = """__global__ void k(const float* x, float* out, int n) {
    __shared__ float buf[2][64];
    int t = threadIdx.x, now = 0;
    buf[0][t] = x[t];
    __syncthreads();
    for (int s = 1; s < 64; s *= 2) {
        buf[now ^ 1][t] = buf[now][t] + (t >= s ? buf[now][t - s] : 0);
        now ^= 1;
        if (s < 32)
            __syncthreads();
    }
    out[t] = buf[now][63 - t];
}
"""


def test_a_barrier_that_an_if_skips_at_times():
    expected = "The barrier of line 10 is in the `if` of line 9, which skips it at times: let every thread always reach"
    assert traced_race(SKIPPED, 64).hint == f"{expected} it."
    source = HALVING.replace("\n        if (t <", " {\n        if (step > 4) __syncthreads();\n        if (t <")
    (found,) = Tracer(source.replace("    if (t == 0)", "} if (t == 0)"), "k")[1, 64](torch.zeros(64)).problems
    assert found.hint.startswith("The barrier of line 7 is in an `if`, which skips it at times")
    assert hint(race(7, 12), SKIPPED.replace("if (s < 32)", "")).startswith("There is a barrier between lines 7 and 12")


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_race_between_blocks_too_is_not_mended_by_a_barrier(blocks):
    source = "__global__ void k(float* x) {\n    x[0] = x[0] + 1;\n}"
    (found,) = Tracer(source, "k")[blocks, 64](torch.zeros(1)).problems
    assert found.message.startswith("threads (1,0,0) and (0,0,0) of block (0,0,0) both touch x[0] in line 2")
    expected = "Threads of different blocks do this, too, and no barrier orders those. Are both meant to touch this"
    if blocks == 1:
        expected = "If all add to it, use `atomicAdd`; otherwise read into a variable, `__syncthreads();`, then write."
    assert found.hint.startswith(expected)


def test_if_any_two_threads_are_of_two_warps_the_block_has_to_wait():
    source = BRANCH.replace("t / 32 == 0", "t < 64").replace("row[31 - t]", "row[(t + 1) % 64]").replace("[32]", "[64]")
    assert traced_race(source, 96).hint.startswith("End the `if` of line 4 after line 5")
    (found,) = traced(race(5, 6, one_warp=True), race(5, 6, count=2), source=BRANCH).problems
    assert found.hint.startswith("End the `if` of line 4 after line 5") and found.count == 3


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("if (t < 48) {", "s[t] = i;", "x[t] = s[t + 1]; }"),
         "End the `if` of line 5 after line 6, put `__syncthreads();` there, and open it again for line 8: every "
         "thread must reach it. Put another at the end of the loop of line 4."),
        (("", "if (t < 48) s[t] = i;", "x[t] = s[t + 1];"),
         "Put `__syncthreads();` after the `if` of line 6, before line 8: every thread must reach it. Put another at "
         "the end of the loop of line 4."),
        (("if (t > n) return;", "s[t] = i;", "x[t] = s[t + 1];"),
         "Put `__syncthreads();` between lines 6 and 8, and let no thread return before it (line 5): guard single "
         "lines instead; put another at the end of the loop of line 4."),
        (("", "s[t] = i;", "x[t] = s[t + 1];"),
         "Put `__syncthreads();` between lines 6 and 8; in a loop, also one at its end."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("loop", [("for (int i = 0; i < n; i++) {", "}"), ("do {", "} while (i < n);")])
def test_a_barrier_in_a_loop_is_not_enough_wherever_it_is_put(loop, texts, expected):
    before, first, last = texts
    start = "__global__ void k(float* x, int n) {\n    __shared__ float s[256];\n    int t = threadIdx.x;"
    source = f"{start}\n    {loop[0]}\n    {before}\n    {first}\n\n    {last}\n    {loop[1]}\n}}\n"
    assert hint(race(6, 8), source) == expected


CALLED_TWICE = """\
__device__ float sum(float* s, float v) {
    int t = threadIdx.x;
    s[t] = v;
    __syncthreads();
    float all = 0.0f;
    for (int i = 0; i < 64; i++)
        all += s[i];
    return all;
}
__global__ void k(const float* x, float* out) {
    __shared__ float s[64];
    float v = sum(s, x[threadIdx.x]);
    out[threadIdx.x] = sum(s, v);
}
"""


AGAIN = """__device__ float first(float* s, const float* x, int t) {
    s[t] = x[t];
    return s[31 - t];
}
__global__ void k(float* x, float* out, int n) {
    __shared__ float s[32];
    int t = threadIdx.x;
    LOOP {
        s[t] = x[t];
        out[t] = s[31 - t];
    }
}
"""


def test_a_barrier_at_the_end_of_a_loop_only_where_there_may_be_one():
    again = "; in a loop, also one at its end."
    assert hint(race(9, 10), AGAIN.replace("LOOP", "for (int i = 0; i < n; i++)")).endswith(f"lines 9 and 10{again}")
    assert hint(race(9, 10), AGAIN.replace("LOOP", "")) == "Put `__syncthreads();` between lines 9 and 10."
    assert hint(race(2, 3), AGAIN.replace("LOOP", "")).endswith(f"lines 2 and 3{again}")  # the call may be in one


def test_a_function_that_is_called_twice_is_no_loop():
    found = hint(race(3, 7), CALLED_TWICE)
    assert found == (
        "There is a barrier between lines 3 and 7. If the function is called again, put another at its end: one thread "
        "may already be in the next call."
    )


RELAXED = """__global__ void relax(float* d, const float* w, int m) {
    int e = threadIdx.x;
    if (e >= m) return;
    float through = d[e] + w[e];
    if (through < d[e + 1])
        d[e + 1] = through;
}
"""


def test_where_to_wait_between_a_condition_and_what_depends_on_it():
    reach = "every thread must reach it. Let no thread return before it (line 3)."
    first = "Read what the condition of line 5 needs into variables before it, then `__syncthreads();`"
    assert where_to_wait(RELAXED, 5, 6) == f"{first}: {reach}"
    assert where_to_wait(RELAXED, 4, 6) == f"Put `__syncthreads();` before the `if` of line 5, after line 4: {reach}"


OTHERS = """__global__ void other(float* x, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    x[i] *= 2;
}
__global__ void k(const float* x, float* out) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    out[i] = s[63 - i];
}
"""


def test_only_the_functions_own_return_counts():
    assert hint(race(9, 10), OTHERS) == "Put `__syncthreads();` between lines 9 and 10."
    assert hint(problem("out_of_bounds", 9), OTHERS).startswith("Guard the line, as in `if (i < n)`")
    together = OTHERS.replace("__global__ void k(", "__device__ void f(")
    assert "let no thread return" not in hint(race(9, 10), together)


FLAG = """__global__ void k(int* out) {
    __shared__ int flag, data;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        while (flag == 0) {}
        out[0] = data;
    } else if (threadIdx.x == 32) {
        data = 42;
        flag = 1;
    }
}
"""


def test_between_an_if_and_its_else_a_flag_is_waited_for():
    flag = "int* flag, int* data"
    source = FLAG.replace("int* out", f"{flag}, int* out").replace("__shared__ int flag, data;", "")
    source = re.sub(r"\b(flag|data)( ==? \d|;)", r"*\1\2", source)
    expected = (
        "Line 6 waits for a flag from the other branch: read and set the flag with atomics or as `volatile`, and call "
        "`__threadfence_block();` before it is set and after the wait."
    )
    assert hint(race(7, 9), FLAG) == hint(race(7, 9), FLAG.replace("flag == 0", "atomicAdd(&flag, 0) == 0")) == expected
    zeros = [torch.zeros(1, dtype=torch.int32) for _ in range(3)]
    problems = Tracer(source, "k")[1, 64](*zeros).problems
    assert {(found.line, found.other_line) for found in problems} == {(10, 6), (7, 9)}
    assert all(found.hint == expected for found in problems)
    fixed = source.replace(flag, f"volatile {flag}").replace("*flag = 1", "__threadfence_block(); *flag = 1")
    fixed = fixed.replace("== 0) {}", "== 0) {} __threadfence_block();")
    assert Tracer(fixed, "k")[1, 64](*zeros).ok


def test_what_an_else_reads_moves_behind_the_whole_if():
    source = FLAG.replace("while (flag == 0) {}", "")
    assert hint(race(7, 9), source) == (
        "Put `__syncthreads();` after the whole `if` of line 5, and move line 9 behind it: every thread must reach it."
    )
    apart = source.replace("} else if", "}   if")
    expected = "Put `__syncthreads();` after the `if` of line 5, before line 9: every thread must reach it."
    assert hint(race(7, 9), apart) == expected


BRANCHES = """__global__ void k(const float* x, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 64) {
        for (int i = 0; i < n; i++) {
            if (CONDITION)
                s[t] = x[t];
            else if (n > 1)
                out[t] = s[63 - t];
        }
    }
}
"""


def test_no_barrier_is_put_between_an_if_and_its_else():
    of_round = hint(race(7, 9), BRANCHES.replace("CONDITION", "i % 2"))
    assert of_round == "Put `__syncthreads();` at the end of the loop of line 5: every thread must reach it."
    of_threads = BRANCHES.replace("CONDITION", "t < 48")
    end = "Put another at the end of the loop of line 5."
    outside = "Put `__syncthreads();` after the whole `if` of line 4, and move line 9 behind it: every thread must"
    assert hint(race(7, 9), of_threads) == f"{outside} reach it. {end}"
    in_warp = "Put `__syncwarp();` after the whole `if` of line 6, and move line 9 behind it: both threads are of one"
    assert hint(race(7, 9, one_warp=True), of_threads).startswith(in_warp)


@pytest.mark.parametrize(
    ("line", "same"),
    [("any = 1;", True), ("if (x[t] > 0) any = true;", True), ("any = -1.5f; }", True), ("any = t;", False)]
    + [("any += 1;", False), ("any = x[0];", False), ("if (any == 1) any = t;", False)]
    + [("out[t] = t; if (t == 0) out[0] = 5;", False)],
)
def test_where_all_threads_write_the_same_number(line, same):
    source = f"__global__ void k(const float* x, float* out, int t) {{\n    __shared__ float any;\n    {line}\n}}\n"
    found = race(3, 3)
    found["other"]["op"] = "store"
    found = hint(found, source)
    assert found.startswith("All write the same, so a GPU stores it") == same


def test_blocks_that_write_the_same_number():
    source = "__global__ void k(int* changed) {\n    *changed = 1;\n}"
    (found,) = Tracer(source, "k")[2, 64](torch.zeros(1).int()).problems
    assert found.hint.startswith("All write the same, so a GPU stores it")


def test_a_lock_without_fences():
    taken, given = "while (atomicCAS(lock, 0, 1)) {}", "atomicExch(lock, 0);"
    source = f"__global__ void k(int* lock, float* sum) {{\n    {taken}\n    *sum += 1;\n    {given}\n}}"
    (found,) = Tracer(source, "k")[4, 1](torch.zeros(1).int(), torch.zeros(1)).problems
    assert found.hint.startswith("Does the lock that `atomicCAS` takes protect it? Then put `__threadfence();` after")
    source = source.replace("*sum", "__threadfence(); *sum").replace("= 1;", "= 1; __threadfence();")
    assert Tracer(source, "k")[4, 1](torch.zeros(1).int(), torch.zeros(1)).ok
