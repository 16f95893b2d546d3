"""Hints on races, barriers and loops whose cause is not simply a barrier that is missing between two lines."""

import pytest
import torch

from tests.cuda.cpu.trace.reports import hint, shared
from utils.cuda.cpu.trace.causes import polled, returned, set_by_one, where_they_meet, writes_own
from utils.cuda.cpu.trace.locks import lock_around
from utils.cuda.kernel import Tracer


def problems(source, launch, *arguments, **options):
    arguments = [torch.zeros(of) if isinstance(of, list) else of for of in arguments]
    return Tracer(source, "k")[launch](*arguments, **options).problems


def ints(*shape, value=0):
    return torch.full(shape, value, dtype=torch.int32)


def race_hint(source, launch, *arguments, lines=None):
    """The hint on the first race, or on that of two lines."""
    races = [found for found in problems(source, launch, *arguments) if found.kind == "race"]
    return next(found.hint for found in races if lines in (None, {found.line, found.other_line}))


# ---- one block ------------------------------------------------------------------------------------------------------

BROADCASTS = [
    ("""__global__ void k(const float* w, const float* x, float* y) {
    __shared__ float weight[32];
    if (threadIdx.y == 0) weight[threadIdx.x] = w[threadIdx.x];
    y[threadIdx.y * 32 + threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x] * weight[threadIdx.x];
}""", "Put `__syncthreads();` after the `if` of line 3, before line 4: every thread must reach it."),
    ("""__global__ void k(const float* w, const float* x, float* y) {
    __shared__ float l[32];
    int tx = threadIdx.x, ty = threadIdx.y;
    if (tx == 0) l[ty] = x[ty];
    y[ty * 32 + tx] = l[ty];
}""", "Put `__syncthreads();` after the `if` of line 4, before line 5: every thread must reach it."),
    ("""__global__ void k(const float* w, const float* x, float* y) {
    __shared__ float m[32];
    int tx = threadIdx.x, ty = threadIdx.y;
    if (tx == 0) m[ty] = x[ty];
    __syncthreads();
    float old = m[ty];
    if (tx == 0) m[ty] = old + 1;
    y[ty * 32 + tx] = old;
}""", "Put `__syncthreads();` before the `if` of line 7, after line 6: every thread must reach it."),
    ("""__global__ void k(const float* w, const float* x, float* y) {
    if (threadIdx.y == 0) y[threadIdx.x] = w[threadIdx.x];
    float v = y[threadIdx.x];
    if (v < 0) y[threadIdx.y * 32 + 200] = v;
}""", "Put `__syncthreads();` after the `if` of line 2, before line 3: every thread must reach it."),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), BROADCASTS)
def test_one_row_of_threads_writes_what_all_read(source, expected):
    assert race_hint(source, (1, (32, 4)), [32], [128], [512]) == expected


def test_a_shared_array_that_lacks_an_index():
    source = """__global__ void k(const float* x) {
    __shared__ float m[16];
    m[threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x];
}"""
    found = race_hint(source, (1, (16, 4)), [64])
    expected = "The index of m does not depend on `threadIdx.y`, in which the two threads differ: is it meant to be "
    assert found.startswith(f"{expected}`threadIdx.y`, or to use both?") and "blockIdx" not in found


ONE_WAITS = """__global__ void k(const float* x, float* y) {
    __shared__ float mean;
    if (threadIdx.x == 0) { mean = x[0];
        __syncthreads(); }
    y[threadIdx.x] = x[threadIdx.x] - mean;
}"""


@pytest.mark.parametrize("line", ["{ mean = x[0];", "{\nmean = x[0];"])
def test_a_barrier_that_one_thread_reaches_comes_first_and_separates_nothing(line):
    source = ONE_WAITS.replace("{ mean = x[0];", line)
    barrier, race = problems(source, (1, 128), [128], [128])
    at = 4 + line.count("\n")
    assert barrier.kind == "divergent_barrier" and "move it out of the `if`" in barrier.hint
    assert race.hint == (
        f"The barrier of line {at} is in the `if` of line 3, which skips it at times: let every thread always reach it."
    )


BITONIC = """__global__ void k(float* x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int len = 2; len <= 64; len *= 2) {
        for (int j = len / 2; j > 0; j /= 2) {
            int p = t ^ j;
            if (p > t) {
                bool up = (t & len) == 0;
                if ((s[t] > s[p]) == up) {
                    float h = s[t];
                    s[t] = s[p];
                    s[p] = h;
                }
                __syncthreads();
            }
        }
    }
    __syncthreads();
    x[t] = s[t];
}"""


def test_a_barrier_behind_one_that_not_all_threads_reach_separates_nothing_either():
    found = problems(BITONIC, (1, 64), torch.rand(64, generator=torch.Generator().manual_seed(0)))
    assert found[0].kind == "divergent_barrier" and found[0].line == 16
    assert not any("There is a barrier between" in each.hint for each in found)
    last = next(each for each in found if {each.line, each.other_line} == {14, 21})
    assert last.hint.startswith("The barrier of line 16 is in the `if` of line 9, which skips it at times")


def test_a_race_by_which_threads_leave_a_loop_too_early_stays_first():
    source = """__global__ void k(int* x) {
    __shared__ int more;
    do {
        more = 0;
        __syncthreads();
        if (x[threadIdx.x]-- > 0) more = 1;
        __syncthreads();
    } while (more);
}"""
    assert problems(source, (1, 64), ints(64, value=1))[0].kind == "race"


def test_two_lines_that_write_one_element():
    source = """__global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = 0;
    if (t == 0) s[127] = x[0];
    __syncthreads();
    y[t] = s[t];
}"""
    assert race_hint(source, (1, 128), [128], [128]) == (
        "Put `__syncthreads();` before the `if` of line 5, after line 4: every thread must reach it. Or is only one of "
        "the lines meant to write it?"
    )
    one_of_two = source.replace("s[t] = 0;", "if (t < 64) s[0] = 1;").replace("if (t == 0) s[127]", "else s[0]")
    assert race_hint(one_of_two, (1, 128), [128], [128], lines={4, 5}).startswith("Let one thread write it")


ODD_EVEN = """__global__ void k(float* x, int n) {
    for (int round = 0; round < n; round++) {
        int i = 2 * threadIdx.x + round % 2;
        if (i + 1 < n && x[i] > x[i + 1]) { float t = x[i]; x[i] = x[i + 1]; x[i + 1] = t; }
    }
}"""


def test_a_sort_in_global_memory_waits_after_each_round():
    x = torch.arange(128.0).flip(0)
    assert race_hint(ODD_EVEN, (1, 64), x.clone(), 128) == (
        "Is one of them already in the next round of the loop of line 2? Then put `__syncthreads();` at the end of its "
        "body, where every thread of the block reaches it."
    )
    found = problems(ODD_EVEN.replace("; ", ";\n"), (1, 64), x.clone(), 128)
    ends = (
        "end of the loop of line 2: every thread must reach it.",
        "of the loop of line 2? Then put `__syncthreads();` at its end.",
    )
    assert found and all(each.hint.endswith(ends) for each in found)


def test_a_line_that_reads_neighbours_may_race_within_one_round():
    source = """__global__ void k(float* x, int n) {
    for (int s = n / 2; s > 0; s /= 2)
        if (threadIdx.x < s) x[threadIdx.x] += x[threadIdx.x + s];
}"""
    found = race_hint(source, (1, 64), [128], 128)
    assert found.startswith("Is one of them already in the next round of the loop of line 2? Then put")
    assert found.endswith("Otherwise read into a variable, `__syncthreads();`, then write.")


@pytest.mark.parametrize("between", ["\n", " "])
def test_both_branches_of_an_if_write_the_next_buffer(between):
    source = f"""__global__ void k(const float* x, float* y) {{
    __shared__ float temp[2][64];
    int t = threadIdx.x, from = 0;
    temp[0][t] = x[t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {{
        if (t >= d){between}temp[1 - from][t] = temp[from][t] + temp[from][t - d];
        else{between}temp[1 - from][t] = temp[from][t];
        from = 1 - from;
    }}
    __syncthreads();
    y[t] = temp[from][t];
}}"""
    lines = {8, 10} if between == "\n" else {7, 8}
    expected = "Put `__syncthreads();` at the end of the loop of line 6: every thread must reach it."
    assert race_hint(source, (1, 64), [64], [64], lines=lines) == expected


IN_ANOTHER_BODY = """__global__ void k(const float* x, float* y, int n) {
    __shared__ float tile[2][64];
    int t = threadIdx.x;
    auto load = [&](int stage, int at) {
        tile[stage][t] = x[at * 64 + t];
    };
    load(0, 0);
    float sum = 0;
    for (int i = 0; i < n; i++) {
        __syncthreads();
        if (i + 1 < n) load(i % 2, i + 1);
        sum += tile[i % 2][63 - t];
    }
    y[t] = sum;
}
"""


def test_a_line_in_a_lambda_is_where_its_call_is():
    expected = "Put `__syncthreads();` between lines 11 and 12; in a loop, also one at its end."
    assert race_hint(IN_ANOTHER_BODY, (1, 64), [512], [64], 8, lines={5, 12}) == expected
    assert where_they_meet(IN_ANOTHER_BODY, 5, 12) == ([11, 12], [])
    assert where_they_meet(IN_ANOTHER_BODY, 5, 14) == ([5, 14], [5])  # which of the two calls?
    place = {"block": [0, 0, 0], "thread": [3, 0, 0], "op": "store", "region": "tile"}
    other = {"pc": hex(1400), "op": "load", "block": [0, 0, 0], "thread": [4, 0, 0]}
    found = hint(shared("race", 5, other=other, **place), IN_ANOTHER_BODY)
    expected = (
        "Put `__syncthreads();` between the call that comes to line 5 and line 14; in a loop, also one at its end."
    )
    assert found == expected


def test_a_line_in_a_function_is_where_its_call_is():
    source = """__device__ void load(float* to, const float* from) {
    to[threadIdx.x] = from[threadIdx.x];
}
__global__ void k(const float* x, float* y, int n) {
    __shared__ float tile[64];
    float sum = 0;
    for (int i = 0; i < n; i++) {
        load(tile, x + i * 64);
        __syncthreads();
        sum += tile[63 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}"""
    expected = "There is a barrier between lines 8 and 10. In a loop, put another at its end: one thread may already be"
    assert race_hint(source, (1, 64), [512], [64], 8).startswith(expected)


# ---- locks, flags and counters --------------------------------------------------------------------------------------

LOCKED = """__global__ void k(const float* x, float* sum, int* lock) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *sum += x[threadIdx.x];
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}"""
FENCE = "            __threadfence();\n"


@pytest.mark.parametrize("launch", [(2, 1), (1, 64)])
@pytest.mark.parametrize(
    ("source", "then"),
    [
        (LOCKED.replace(f"x];\n{FENCE}", "x];\n"), "put `__threadfence();` before the line that releases it."),
        (LOCKED.replace(FENCE, ""),
         "put `__threadfence();` after the line that takes it, and before the line that releases it."),
        (LOCKED.replace("atomicExch(lock, 0)", "*lock = 0"), "release it with `atomicExch(lock, 0);`."),
    ],
)  # fmt: skip
def test_a_lock_that_lacks_a_fence_or_a_release(source, then, launch):
    line = next(k for k, text in enumerate(source.split("\n"), 1) if "+=" in text)
    found = race_hint(source, launch, [64], [1], ints(1), lines={line})
    assert found == f"Does the lock that `atomicCAS` takes protect it? Then {then}"


def test_a_plain_store_releases_no_lock():
    source = LOCKED.replace("atomicExch(lock, 0)", "*lock = 0")
    found = race_hint(source, (2, 1), [64], [1], ints(1), lines={4, 8})
    assert found == "Release the lock with an atomic, as it is taken: `atomicExch(lock, 0);`."
    assert not problems(LOCKED, (2, 1), [64], [1], ints(1))


def test_locks_as_the_text_shows_them():
    helpers = "__device__ void take(int* m) { while (atomicCAS(m, 0, 1)) {} }\n"
    helpers += "__device__ void give(int* mutex) { atomicExch(mutex, 0); }\n"
    kernel = "__global__ void k(int* locks, float* s, int b) {\n    TAKE\n    s[0] += 1;\n    GIVE\n}"
    called = helpers + kernel.replace("TAKE", "take(locks);").replace("GIVE", "give(locks);")
    assert lock_around(called, 5, "s")[1:3] == (False, False)
    assert lock_around(called.replace("take(locks);", ""), 5, "s") is None
    assert lock_around(called.replace("{} }", "{} __threadfence(); }"), 5, "s")[1:3] == (True, False)
    cleared = called.replace("give(locks);", "b = 0; give(locks);")
    assert lock_around(cleared, 5, "s").stored == ""
    plain = kernel.replace("TAKE", "while (atomicCAS(&locks[b], 0, 1)) {} __threadfence();")
    assert lock_around(plain.replace("GIVE", "locks[b] = 0;"), 3, "s") == (
        "&locks[b]",
        True,
        False,
        "locks[b] = 0;",
        "0",
    )
    assert lock_around(plain.replace("GIVE", ""), 3, "s") is None
    assert lock_around(plain.replace("GIVE", "locks[b + 1] = 0;"), 3, "s") is None
    before = plain.replace("TAKE", "").replace("GIVE", "atomicExch(&locks[b], 0);\n    s[1] += 1;")
    assert lock_around(before, 5, "s") is None


def test_a_table_with_atomic_keys_has_no_lock():
    source = """struct Slot { int key, value; };
__global__ void k(Slot* table, const int* keys) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = keys[i] % 64;
    while (true) {
        int old = atomicCAS(&table[s].key, -1, keys[i]);
        if (old == -1 || old == keys[i]) break;
        s = (s + 1) % 64;
    }
    table[s].value++;
}"""
    found = race_hint(source, (2, 64), ints(128, value=-1), torch.arange(128).int() % 40, lines={9})
    assert "the lock" not in found and "use an atomic such as `atomicAdd`" in found


@pytest.mark.parametrize("launch", [(1, 32), (1, 64), (2, 64)])
@pytest.mark.parametrize(
    "lines",
    [
        "atomicAdd(count, 1);\n    out[*count - 1] = x[i];",
        "int p = *count;\n    atomicAdd(count, 1);\n    out[p] = x[i];",
    ],
)
def test_a_counter_that_is_read_instead_of_what_the_atomic_returns(lines, launch):
    source = f"""__global__ void k(const float* x, float* out, int* count) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {lines}
}}"""
    assert race_hint(source, launch, [128], [256], ints(1)) == (
        "Another thread may count in between: use what the atomic returns, the number before, as in "
        "`int at = atomicAdd(count, 1);`."
    )


@pytest.mark.parametrize(
    "after", ["if (i == 0) out[*n] = 1;", "out[0] = *n;", "x = out[*n];", "if (out[*n] == 1) i++;"]
)
def test_a_total_that_is_read_behind_the_atomic_needs_a_barrier(after):
    source = f"__global__ void k(float* out, int* n, int i) {{\n    atomicAdd(n, 1);\n    {after}\n}}"
    assert returned(source, "n", 2, 3) == ""
    used = "__global__ void k(float* out, int* n, int i) {\n    int at = atomicAdd(n, 1);\n    out[*n] = at;\n}"
    assert returned(used, "n", 2, 3) == "" and returned(used.replace("int at = ", ""), "n", 2, 3) == "atomicAdd(n, 1)"


FLAG = """__global__ void k(float* x, int* flag, float* y) {
    if (blockIdx.x == 0) {
        *x = 3;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) ;
        __threadfence();
        *y = *x;
    }
}"""


def test_a_flag_that_is_not_volatile():
    hints = {each.line: each.hint for each in problems(FLAG, (2, 1), [1], ints(1), [1])}
    assert hints[7] == (
        "Does one thread wait here for the other? Then declare it `volatile int* flag`, or read and set it with "
        "atomics, as in `atomicAdd(flag, 0)`."
    )
    assert hints[9].endswith(
        "Does a flag or counter say that it is written? Then make that `volatile` or use atomics, with "
        "`__threadfence();` before it is set and after it is read."
    )
    in_comments = problems(FLAG.replace("__thr", "// __thr"), (2, 1), [1], ints(1), [1])
    assert in_comments[-1].hint.endswith("Then put `__threadfence();` in front of that.")
    behind_the_wait = FLAG.replace("__threadfence();\n        *flag = 1", "atomicExch(flag, 1)")
    found = problems(behind_the_wait.replace("*flag == 0", "atomicAdd(flag, 0) == 0"), (2, 1), [1], ints(1), [1])[-1]
    assert found.hint.endswith("Then put `__threadfence();` in front of that.")
    atomics = FLAG.replace("*flag = 1", "atomicExch(flag, 1)").replace("*flag == 0", "atomicAdd(flag, 0) == 0")
    for source in (FLAG.replace("int*", "volatile int*"), atomics):
        assert not problems(source, (2, 1), [1], ints(1), [1])


@pytest.mark.parametrize(
    ("parameter", "loop", "declared"),
    [
        (
            "int* f",
            "while (f[i] == 0) {}",
            "`volatile int* f`, or read and set it with atomics, as in `atomicAdd(&f[i], 0)`",
        ),
        ("bool* f", "while (!*f) {}", "`volatile bool* f`"),
        (
            "unsigned long long* __restrict__ f",
            "while (f[0] == 0) {}",
            "`volatile unsigned long long* f`, or read and set it with atomics, as in `atomicAdd(&f[0], 0)`",
        ),
        ("volatile int* f", "while (*f == 0) {}", ""),
        ("int* f", "while (f[i] != 0) i++;", ""),
        ("int* f", "if (f[i] == 0) return;", ""),
    ],
)
def test_what_a_loop_waits_for(parameter, loop, declared):
    assert polled(f"__global__ void k({parameter}, int i) {{\n    {loop}\n}}", "f", 2) == declared


def test_loops_that_may_wait_forever():
    table = """__global__ void k(int* table, const int* keys, int n) {
    int s = keys[threadIdx.x] % n;
    while (true) {
        int old = atomicCAS(&table[s], -1, keys[threadIdx.x]);
        if (old == -1 || old == keys[threadIdx.x]) break;
        s = (s + 1) % n;
    }
}"""
    (found,) = problems(table, (1, 64), ints(32, value=-1), torch.arange(64).int(), 32, max_steps=10_000)
    assert found.hint.startswith("Can the condition to leave the loop ever be met: is the table full?")
    held = LOCKED.replace("            atomicExch(lock, 0);\n", "")
    found = problems(held, (1, 64), [64], [1], ints(1), max_steps=10_000)[-1]
    assert found.hint.startswith("Can the condition to leave the loop ever be met: does every thread that takes")


@pytest.mark.parametrize(
    ("lines", "launch"),
    [
        ("if (node->child[c] == 0) node->child[c] = atomicAdd(used, 1);", (2, 32)),
        ("if (node->child[c] == 0)\n        node->child[c] = atomicAdd(used, 1);", (1, 32)),
        ("if (!node->child[c]) node->child[c] = i + 1;", (1, 32)),
        ("while (nodes[c].child[0] != 0) c = (c + 1) % 64;\n    nodes[c].child[0] = i + 1;", (2, 32)),
    ],
)
def test_a_member_that_is_set_where_it_is_still_empty(lines, launch):
    source = f"""struct Node {{ int child[4]; }};
__global__ void k(Node* nodes, const int* words, int* used) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x, c = words[i];
    Node* node = nodes;
    {lines}
}}"""
    assert "`atomicCAS`" in race_hint(source, launch, ints(400), torch.arange(64).int() % 4, ints(1, value=1))


# ---- several blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("if (i > 0 && i < n - 1) u[i] = 0.5f * (u[i - 1] + u[i + 1]);", "second array."),
        ("float s = 0; for (int j = 0; j < n; j++) s += u[j];\n    u[i] = s;", "second array."),
        ("for (int r = 0; r < 3; r++)\n        if (i > 0) u[i] = u[i - 1] + r;",
         "second array, with one launch for each round of the loop of line 3."),
    ],
)  # fmt: skip
def test_blocks_that_read_what_others_overwrite(lines, expected):
    source = (
        f"__global__ void k(float* u, int n) {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    {lines}\n}}"
    )
    found = race_hint(source, (4, 64), [256], 256)
    assert found == f"Each thread reads elements that others write: write the results to a {expected}"


@pytest.mark.parametrize(
    ("line", "own"),
    [("u[i] = u[i + 1];", True), ("u[n] = u[i];", False), ("u[v[i]] = u[i];", False), ("u[i].x += 1;", True)],
)
def test_an_element_that_is_the_threads_own(line, own):
    source = f"__global__ void k(float* u, int n) {{\n    int i = n * threadIdx.x;\n    {line}\n}}"
    assert writes_own(source, 3, "u") == own


# ---- other kinds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "asked"), [("threadIdx.x == 0", True), ("lane == 0", True), ("threadIdx.x < n", False)]
)
def test_a_local_variable_that_one_thread_sets(condition, asked):
    source = f"""__global__ void k(const float* x, float* y, int n) {{
    float mean;
    int lane = threadIdx.x % 32;
    if ({condition}) mean = x[lane];
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x] - mean;
}}"""
    (found,) = problems(source, (1, 128), [128], [128], 4)
    ask = "Does one thread set it for all? Then declare it `__shared__`. Otherwise give it a value where it is declared"
    assert found.hint.startswith(ask if asked else "Give it a value where it is declared, in line 2")


@pytest.mark.parametrize(
    ("lines", "one"),
    [
        ("if (t == 0) { v = x[0]; v *= 2; }", True),
        ("if (t == 0 && w == 0) v = 1;", True),
        ("if (!t) v = 1;", True),
        ("if (t == 0) v = 1; else v = 2;", False),
        ("if (x[t] == 0) v = 1;", False),
        ("if (t % 2 == 0) v = 1;", False),
        ("if (t == 0) read(&v);", False),
    ],
)
def test_what_picks_one_thread(lines, one):
    source = f"__global__ void k(float* x) {{\n    int t = threadIdx.x, w = t / 32;\n    float v;\n    {lines}\n}}"
    assert set_by_one(source, 3, "v") == one


@pytest.mark.parametrize("kind", ["float4", "float3"])
def test_a_member_is_no_variable_of_its_name(kind):
    source = f"""__global__ void k({kind}* a, float* out, int n) {{
    __shared__ {kind} tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    {kind} me = a[i];
    for (int t = 0; t < gridDim.x; t++) {{
        tile[threadIdx.x] = a[t * 32];
        __syncthreads();
        for (int j = 0; j < 32; j++) s += tile[j].y * me.z;
        __syncthreads();
    }}
    a[i].x = s;
}}"""
    found = problems(source, (3, 32), [65, int(kind[-1])], [65], 65)[0]
    assert found.kind == "divergent_barrier" and found.hint.endswith("let no thread return before it.")


def test_a_shuffle_in_a_loop_of_unequal_rounds():
    source = """__global__ void k(const float* x, float* y, int n) {
    for (int t = threadIdx.x; t < n; t += 32) {
        float v = x[t];
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
        y[t] = v;
    }
}"""
    found = problems(source, (1, 32), [65], [65], 65)[0]
    expected = (
        "Every thread must reach the same `__shfl_xor_sync()`: let all of them run the loop of line 2 equally often."
    )
    assert found.hint == expected
