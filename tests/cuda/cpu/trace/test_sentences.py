"""Every kind of problem has its sentence and its hint."""

import pytest
import torch

from tests.cuda.cpu.trace.reports import at, message, problem, shared, traced
from utils.cuda.cpu.trace.allocations import counts_elements
from utils.cuda.cpu.trace.source import guard
from utils.cuda.kernel import Tracer


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, "reads x[1024], but x has 1024 elements"),
        ({"op": "store"}, "writes x[1024], but x has 1024 elements"),
        ({"op": "atomic"}, "updates x[1024] atomically, but x has 1024 elements"),
        ({"offset": -4}, "reads x[-1], but the first element of x is x[0]"),
        ({"offset": 4080, "bytes": 32}, "reads x[1020] to x[1027], but x has 1024 elements"),
        ({"offset": 4094}, "reads 4 bytes at byte 4094 of x, but x has 1024 elements"),
        ({"offset": 4, "region_bytes": 4}, "reads x[1], but x has 1 element"),
        ({"offset": 0, "region_bytes": 0}, "reads x[0], but x has 0 elements"),
        ({"element": 12, "offset": 4096 + 8, "region_bytes": 4104}, "reads x[342], but x has 342 elements"),
        (
            {"element": 12, "offset": 4104 + 8, "region_bytes": 4104},
            "reads 4 bytes at byte 8 of x[342], but x has 342 elements",
        ),
        ({"element": 0}, "reads 4 bytes at byte 4096 of x, but x has 4096 bytes"),
        ({"space": "shared", "region": "s"}, "reads s[1024], but s has 1024 elements"),
        ({"region": None, "offset": 0}, "reads 4 bytes at address 0x0, outside every tensor and shared array"),
        ({"region": None, "offset": None}, "reads 4 bytes, outside every tensor and shared array"),
    ],
)
def test_out_of_bounds(fields, expected):
    where = " (line 7: `y[i] = x[i];`)"
    assert message(problem("out_of_bounds", 7, **fields)) == f"thread (31,0,0) of block (3,0,0) {expected}{where}"


@pytest.mark.parametrize(
    "fields, expected",
    [
        # tile[3][16] of 16 x 16 is tile[4][0] too: inside the array, outside its row
        ({"type": "float [16]", "index": 16, "offset": 4 * (3 * 16 + 16)}, "[3][16], @ [16][16], whose second index"),
        ({"type": "float [16][16]", "index": 16, "offset": 4 * 261}, "[16][5], @ [16][16], whose first index"),
        ({"type": "'float [4]'", "index": 4, "offset": 4 * (2 * 16 + 3 * 4 + 4), "shape": "float [4][4][4]",
          "region_bytes": 256}, "[2][3][4], @ [4][4][4], whose third index"),
        ({"type": "float [4][4]", "index": 4, "offset": 4 * (2 * 16 + 4 * 4 + 1), "shape": "float [4][4][4]",
          "region_bytes": 256}, "[2][4][1], @ [4][4][4], whose second index"),
    ],
)  # fmt: skip
def test_an_index_outside_its_dimension(fields, expected):
    arrays = [{"name": "tile", "offset": 0, "bytes": 1024, "element": 4}]
    if "shape" in fields:
        arrays[0]["type"] = fields.pop("shape")
    expected = expected.replace("@", "but tile is a float")
    last = fields["index"] - 1
    found = message(shared("out_of_bounds", 7, **{"region": "tile", **fields}), shared=arrays)
    assert found == f"thread (31,0,0) of block (3,0,0) reads tile{expected} ends at {last} (line 7: `y[i] = x[i];`)"


def test_an_index_outside_an_array():
    flat = {"type": "float [256]", "index": 256, "offset": 1024}
    assert " reads s[256], but s has 256 elements (line 7" in message(shared("out_of_bounds", 7, **flat))
    below = {"type": "float [256]", "index": -1, "offset": -4}
    assert " reads s[-1], but the first element of s is s[0] (" in message(shared("out_of_bounds", 7, **below))
    row = {"type": "float [16]", "index": -1, "offset": 4 * 47, "region": "tile"}
    expected = " reads tile[3][-1], but tile is a float [16][16], whose second index begins at 0 ("
    assert expected in message(shared("out_of_bounds", 7, **row))
    private = {"type": "int [4]", "index": 4, "region": None, "offset": None, "op": None}
    expected = " uses index 4 of an array int [4], whose last index is 3 (line 7"
    assert expected in message(problem("out_of_bounds", 7, **private))


@pytest.mark.parametrize(
    "declared, type_name, index, expected",
    [
        ("__shared__ float tile[4][8];", "float [8]", 8, "uses tile[..][8], but the second index of tile ends at 7"),
        ("__shared__ float tile[4][8];", "float [4][8]", 4, "uses tile[4][..], but the first index of tile ends at 3"),
        (
            "__shared__ float tile[4][8];",
            "float [8]",
            -1,
            "uses tile[..][-1], but the second index of tile begins at 0",
        ),
        ("float tile[8];", "float [8]", -1, "uses tile[-1], but the first element of tile is tile[0]"),
        ("float a[2], tile[N];", "'float [8]'", 8, "uses tile[8], but tile has 8 elements"),
        ("__shared__ T tile[8];", "float [8]", 8, "uses index 8 of an array float [8], whose last index is 7"),
        ("float tile[8], x[8];", "float [8]", 8, "uses index 8 of an array float [8], whose last index is 7"),
        ("float v = tile[8];", "float [8]", 8, "uses index 8 of an array float [8], whose last index is 7"),
    ],
)
def test_an_array_is_named_where_the_source_tells_it(declared, type_name, index, expected):
    source = f"void f(const float* x) {{ // float x[]\n    {declared}\n    tile[r][c] = x[i];  // BUG\n}}"
    unknown = {"region": None, "offset": 0, "element": 1, "bytes": 0, "region_bytes": 0}
    found = message(problem("out_of_bounds", 3, type=type_name, index=index, **unknown), source=source)
    assert found == f"thread (31,0,0) of block (3,0,0) {expected} (line 3: `tile[r][c] = x[i];`)"


def test_an_unsigned_index_below_zero():
    (found,) = traced(problem("out_of_bounds", 7, offset=4 * (2**32 - 1))).problems
    assert "reads x[4294967295], but x has 1024 elements" in found.message
    assert "4294967295 is -1 as an unsigned number" in found.hint


def test_names_that_are_no_names():
    assert " reads element 1024 of argument 2, but it has " in message(problem("out_of_bounds", 7, region="argument 2"))
    region = {"region": "a variable of the source", "offset": 77}
    assert " reads a variable of the source before " in message(problem("uninitialized", 7, **region))


def test_arrays_with_dimensions_are_named_with_them():
    arrays = [{"name": "tile", "offset": 0, "bytes": 1088, "element": 4, "type": "float [16][17]"}]
    fields = {"region": "tile", "region_bytes": 1088}
    assert " reads tile[2][3] before " in message(shared("uninitialized", 7, offset=4 * 37, **fields), shared=arrays)
    assert " reads tile[16][0], " in message(shared("out_of_bounds", 7, offset=1088, **fields), shared=arrays)


@pytest.mark.parametrize(
    "here, there, expected",
    [
        ((5, "store"), (9, "load"), "both touch s[3]: one writes it in line 5 (`s[threadIdx.x] = x[i];`), the other "
         "reads it in line 9 (`s[threadIdx.x] += s[threadIdx.x + 1];`), with no barrier between them"),
        ((9, "store"), (9, "load"), "both touch s[3] in line 9 (`s[threadIdx.x] += s[threadIdx.x + 1];`): one writes "
         "it, the other reads it, with no barrier between them"),
        ((5, "store"), (5, "store"), "both write s[3] in line 5 (`s[threadIdx.x] = x[i];`), with no barrier between "
         "them"),
        ((5, "store"), (7, "store"), "both write s[3]: one in line 5 (`s[threadIdx.x] = x[i];`), the other in line 7 "
         "(`y[i] = x[i];`), with no barrier between them"),
        ((5, "load"), (7, "atomic"), "both touch s[3]: one reads it in line 5 (`s[threadIdx.x] = x[i];`), the other "
         "updates it atomically in line 7 (`y[i] = x[i];`), with no barrier between them"),
        ((0, "store"), (0, "load"), "both touch s[3]: one writes it, the other reads it, with no barrier between "
         "them"),
    ],
)  # fmt: skip
def test_race(here, there, expected):
    place = {"block": [0, 0, 0], "thread": [3, 0, 0], "op": here[1]}
    other = {"pc": at(there[0]), "op": there[1], "block": [0, 0, 0], "thread": [4, 0, 0]}
    (found,) = traced(shared("race", here[0], **place, other=other)).problems
    assert found.message == f"threads (3,0,0) and (4,0,0) of block (0,0,0) {expected}"
    assert (found.line, found.other_line) == (here[0] or None, there[0] or None)
    assert (found.thread, found.other_thread, found.other_block) == ((3, 0, 0), (4, 0, 0), (0, 0, 0))


@pytest.mark.parametrize(
    ("barrier", "hint"),
    [
        ("", "Put `__syncthreads();` between lines 2 and 4; in a loop, also one at its end."),
        ("__syncthreads;", "Put `__syncthreads();` between lines 2 and 4; in a loop, also one at its end."),
        ("// __syncthreads();", "Put `__syncthreads();` between lines 2 and 4; in a loop, also one at its end."),
        ("__syncthreads();", "There is a barrier between lines 2 and 4. In a loop, put another at its end: one"),
    ],
)
def test_a_barrier_between_the_two_lines_is_not_enough(barrier, hint):
    source = f"for (;;) {{\n    s[i] = 1;\n    {barrier}\n    x[i] = s[i + 1];\n}}"
    place = {"block": [0, 0, 0], "thread": [3, 0, 0], "op": "store"}
    other = {"pc": at(4), "op": "load", "block": [0, 0, 0], "thread": [4, 0, 0]}
    (found,) = traced(shared("race", 2, **place, other=other), source=source).problems
    assert found.hint.startswith(hint)


def test_race_between_blocks():
    other = {"pc": at(7), "op": "store", "block": [1, 0, 0], "thread": [0, 0, 0]}
    place = {"block": [0, 0, 0], "thread": [0, 0, 0], "op": "store", "region": "y", "offset": 0}
    (found,) = traced(problem("race", 7, **place, other=other)).problems
    who = "thread (0,0,0) of block (0,0,0) and thread (0,0,0) of block (1,0,0)"
    assert found.message == (
        f"{who} both write y[0] in line 7 (`y[i] = x[i];`), and nothing orders blocks within a launch"
    )
    assert "__syncthreads" not in found.hint and "atomicAdd" in found.hint and "fence" not in found.hint


@pytest.mark.parametrize("line, fenced", [(7, False), (6, True)])
def test_a_race_between_blocks_in_two_lines_may_lack_a_fence(line, fenced):
    other = {"pc": at(line), "op": "load", "block": [1, 0, 0], "thread": [0, 0, 0]}
    place = {"block": [0, 0, 0], "thread": [0, 0, 0], "op": "store", "region": "y", "offset": 0}
    (found,) = traced(problem("race", 7, **place, other=other)).problems
    assert ("`__threadfence();`" in found.hint) == fenced


def test_one_barrier_that_the_compiler_wrote_twice_is_no_problem():
    other = {"pc": at(7, 1), "thread": [5, 0, 0], "block": [3, 0, 0]}
    assert traced(problem("divergent_barrier", 7, other=other)).problems == []


@pytest.mark.parametrize(
    "line, other, expected",
    [
        (6, {"pc": at(4), "thread": [5, 0, 0], "block": [3, 0, 0], "left": True},
         "waits at __syncthreads() in line 6, but thread (5,0,0) has left the kernel in line 4 (`if (i >= n) "
         "return;`)"),
        (6, {"pc": "0x0", "thread": [5, 0, 0], "block": [3, 0, 0], "left": True},
         "waits at __syncthreads() in line 6, but thread (5,0,0) has left the kernel"),
        (6, {"pc": at(7), "thread": [5, 0, 0], "block": [3, 0, 0]},
         "waits at __syncthreads() in line 6, but thread (5,0,0) waits in line 7 (`y[i] = x[i];`)"),
        (7, {"pc": at(7, 1), "thread": [5, 0, 0], "block": [3, 0, 0]},
         "waits at __syncthreads() in line 7 (`y[i] = x[i];`), but thread (5,0,0) waits elsewhere"),
        (6, {"pc": "0x0", "thread": [31, 0, 0], "block": [3, 0, 0], "left": False},
         "waits at __syncthreads() in line 6, but not every thread reaches it"),
        (6, None, "waits at __syncthreads() in line 6, but not every thread reaches it"),
    ],
)  # fmt: skip
def test_divergent_barrier(line, other, expected):
    found = message(problem("divergent_barrier", line, other=other, stuck=True))
    assert found == f"thread (31,0,0) of block (3,0,0) {expected}"


def test_divergent_barrier_of_a_warp():
    other = {"pc": at(4), "thread": [5, 0, 0], "block": [3, 0, 0], "left": True}
    found = message(problem("divergent_barrier", 7, other=other, text="__shfl_down_sync"))
    assert " waits at __shfl_down_sync() in line 7 (`y[i] = x[i];`), but thread (5,0,0) has left the kernel" in found


def test_uninitialized():
    found = message(shared("uninitialized", 7, offset=20))
    who = "thread (31,0,0) of block (3,0,0)"
    assert found == f"{who} reads s[5] before any thread of its block has written it (line 7: `y[i] = x[i];`)"


@pytest.mark.parametrize(
    "count, expected", [(1, ""), (2, " (and 1 more element of out)"), (1240, " (and 1239 more elements of out)")]
)
def test_unwritten(count, expected):
    record = problem("unwritten", 0, region="out", offset=68, count=count, block=None, thread=None, op=None)
    (found,) = traced(record).problems
    assert found.message == f"out[17] was never written{expected}"
    assert (found.line, found.source, found.thread, found.count) == (None, "", None, count)
    assert "1024 elements of out" in found.hint


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"offset": 4}, "reads 16 bytes at x[1], byte 4 of x: a 16-byte access needs an address that is a multiple of "
         "16"),
        ({"offset": 6, "op": "store"}, "writes 16 bytes at byte 6 of x: a 16-byte access needs an address "
         "that is a multiple of 16"),
        ({"offset": 0}, "reads 16 bytes at x[0], byte 0 of x: a 16-byte access needs an address that is a multiple of "
         "16, but x itself does not begin at one"),
        ({"offset": 4, "bytes": 24, "needs": 8}, "reads 24 bytes at x[1], byte 4 of x: this 24-byte access needs an "
         "address that is a multiple of 8"),
        ({"offset": 33, "bytes": 8, "needs": 8, "element": 1}, "reads 8 bytes at x[33], byte 33 of x: an 8-byte access "
         "needs an address that is a multiple of 8"),
        ({"offset": 20, "region": None}, "reads 16 bytes at address 0x14: a 16-byte access needs an address that is a "
         "multiple of 16"),
    ],
)  # fmt: skip
def test_misaligned(fields, expected):
    found = message(problem("misaligned", 7, **{"bytes": 16, "needs": 16, **fields}))
    assert found == f"thread (31,0,0) of block (3,0,0) {expected} (line 7: `y[i] = x[i];`)"


def test_runaway_and_trap():
    who = "thread (31,0,0) of block (3,0,0)"
    found = message(problem("runaway", 8, index=10_000_000))
    loop = "in the loop at line 8 (`while (s[0] == 0) i++;`): does it ever end?"
    assert found == f"{who} has run 10,000,000 steps {loop}"
    silent = "does nothing: does it ever end?"
    loop = "the loop at line 8 (`while (s[0] == 0) i++;`)"
    assert message(problem("runaway", 8)) == f"{who} keeps running {loop}, which {silent}"
    assert message(problem("runaway", 0)) == f"{who} keeps running a loop that {silent}"
    assert message(problem("trap", 7, ended="calls __trap")) == f"{who} calls __trap (line 7: `y[i] = x[i];`)"


def test_a_kind_that_is_new():
    assert message(problem("moonstruck", 7)).endswith("has a problem of kind moonstruck (line 7: `y[i] = x[i];`)")


def test_what_ended_the_launch():
    who = "thread (31,0,0) of block (3,0,0)"
    (found,) = traced({**problem("trap", 0, ended="fails the assertion `i < n`"), "line": 4}).problems
    assert found.message == f"{who} fails the assertion `i < n` (line 4: `if (i >= n) return;`)" and found.line == 4
    assert message(problem("trap", 0, ended="calls __trap")) == f"{who} calls __trap"
    found = message(problem("divergent_barrier", 7, ended="calls __shfl_sync without itself in the mask"))
    assert found == f"{who} calls __shfl_sync without itself in the mask (line 7: `y[i] = x[i];`)"
    nowhere = {"region": None, "bytes": 0, "element": 1, "ended": "touches memory that is not there"}
    assert message(problem("out_of_bounds", 0, **nowhere)) == f"{who} touches memory that is not there"


@pytest.mark.parametrize(
    "line, expected",
    [
        ("assert(n < 4);", "fails the assertion `n < 4` (line 3: `assert(n < 4);`)"),
        ("if (n) __trap();", "calls __trap (line 3: `if (n) __trap();`)"),
        (
            "__shared__ float a[8000], b[8000]; a[n] = b[n] = 1;",
            "needs more static shared memory than the 49152 bytes that a block has "
            "(line 3: `__shared__ float a[8000], b[8000]; a[n] = b[n] = 1;`)",
        ),
    ],
)
def test_what_the_runtime_says_of_the_end_of_a_launch(line, expected):
    source = f"#include <assert.h>\n__global__ void k(float* x, int n) {{\n    {line}\n    x[0] = n;\n}}\n"
    (found,) = Tracer(source, "k")[1, 1](torch.zeros(1), 4).problems
    assert found.message == f"thread (0,0,0) of block (0,0,0) {expected}" and found.kind == "trap"


# ---- hints that depend on what surrounds a line ---------------------------------------------------------------------

RACY = """\
__global__ void k(float* x, float* out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    BEFORE
    FIRST
    BETWEEN
    LAST
}
"""


def hint_of_a_race(before="", first="s[t] = x[i];", between="", last="out[i] = s[t + 1];", here=5, there=7, **more):
    source = RACY.replace("BEFORE", before).replace("FIRST", first).replace("BETWEEN", between).replace("LAST", last)
    place = {"block": [0, 0, 0], "thread": [3, 0, 0], "op": "store", **more}
    other = {"pc": at(there), "op": "load", "block": [0, 0, 0], "thread": [4, 0, 0], **more.pop("other", {})}
    (found,) = traced(shared("race", here, **place, other=other), source=source).problems
    return found.hint


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        ({}, "Put `__syncthreads();` between lines 5 and 7."),
        (
            {"before": "if (n > 3) {", "last": "out[i] = s[t + 1]; }"},
            "Put `__syncthreads();` between lines 5 and 7.",
        ),
        (
            {"before": "if (t < 16) {", "last": "out[i] = s[t + 1]; }"},
            "End the `if` of line 4 after line 5, put `__syncthreads();` there, and open it again for line 7: every",
        ),
        ({"first": "if (t < n) s[t] = x[i];"}, "Put `__syncthreads();` after the `if` of line 5, before line 7: every"),
        (
            {"last": "if (i < n) out[i] = s[t + 1];"},
            "Put `__syncthreads();` before the `if` of line 7, after line 5: ev",
        ),
        (
            {"before": "if (t < 9)", "between": "else"},
            "Put `__syncthreads();` after the whole `if` of line 4, and move line 7 behind it: every thread must reach",
        ),
        (
            {
                "before": 'if (t < 9) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(t)); if (t < 9)',
                "between": "else",
            },
            "The threads of lines 5 and 7 have parted, and do not meet at `__syncthreads();`: let those that come",
        ),
        (
            {"before": "if (i >= n) return;"},
            "Put `__syncthreads();` between lines 5 and 7, and let no thread return before it (line 4): guard single",
        ),
        (
            {"last": "if (t < 16) s[t] += s[t + 16];", "here": 7},
            "If all add to it, use `atomicAdd`; otherwise read into a variable, `__syncthreads();`, then write. Put "
            "`__syncthreads();` outside the `if` of line 7: every thread must reach it.",
        ),
    ],
)
def test_a_barrier_is_never_asked_for_where_some_threads_do_not_come(texts, hint):
    assert hint_of_a_race(**texts).startswith(hint)


def hint_between_blocks(index, here, there, line="y[INDEX] = 1;"):
    source = f"__global__ void k(float* y, int w) {{\n    {index}\n    {line}\n}}\n".replace("INDEX", "i")
    place = {"op": "store", "region": "y", "offset": 0, "block": here[0], "thread": here[1]}
    other = {"pc": at(3), "op": "store", "block": there[0], "thread": there[1]}
    (found,) = traced(problem("race", 3, **place, other=other), source=source).problems
    return found.hint


ORIGIN, X, Y = [0, 0, 0], [1, 0, 0], [0, 1, 0]


@pytest.mark.parametrize(
    ("index", "here", "there", "missing"),
    [
        ("int i = threadIdx.x;", (ORIGIN, ORIGIN), (X, ORIGIN), "blockIdx.x"),
        ("int t = threadIdx.x; int i = t + 1;", (ORIGIN, ORIGIN), (X, ORIGIN), "blockIdx.x"),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x;", (ORIGIN, ORIGIN), (Y, ORIGIN), "blockIdx.y"),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x;", (ORIGIN, ORIGIN), (ORIGIN, Y), "threadIdx.y"),
        ("int i = blockIdx.x + threadIdx.x;", (ORIGIN, ORIGIN), (X, ORIGIN), None),
        ("int i = 0;", (ORIGIN, ORIGIN), (X, ORIGIN), None),
        ("int i = place(threadIdx.x);", (ORIGIN, ORIGIN), (X, ORIGIN), None),
    ],
)
def test_an_index_that_leaves_out_what_the_threads_differ_in(index, here, there, missing):
    hint = hint_between_blocks(index, here, there)
    if missing is None:
        assert "does not depend" not in hint and "atomicAdd" in hint
    else:
        assert hint.startswith(f"The index of y does not depend on `{missing}`, in which the two threads differ: is it")


@pytest.mark.parametrize(
    ("before", "hint"),
    [
        ("", "Guard the line, as in `if (i < n)`: only indexes below 1024 are inside x."),
        (
            "if (i <= n)",
            "Only indexes below 1024 are inside x, but the `if` of line 2 lets this one through: look at it, and",
        ),
        (
            "if (i > n) return;",
            "Only indexes below 1024 are inside x, but the `if` of line 2 lets this one through: look at it, and",
        ),
        (
            "for (int i = 0; i <= n; i++)",
            "Only indexes below 1024 are inside x: look at where the loop of line 2 ends, and at how the index is "
            "computed. Or should this thread have returned before?",
        ),
    ],
)
def test_a_line_that_is_guarded_already(before, hint):
    source = f"__global__ void k(float* x, int n) {{\n    {before}\n    x[i] = 1;\n}}\n"
    (found,) = traced(problem("out_of_bounds", 3), source=source).problems
    assert found.hint.startswith(hint)


def test_an_index_that_is_far_too_large():
    (found,) = traced(problem("out_of_bounds", 2, offset=4 << 30), source="//\nx[i * n] = 1;").problems
    assert found.hint.endswith("only indexes below 1024 are inside x. Or does the index overflow an `int`?")


def test_the_rest_of_a_tensor_that_is_read_as_float4():
    """y has 102 floats, which a float4* divides into 25 elements and 8 bytes."""
    whole = {"region": "y", "region_bytes": 408, "element": 16, "block": None, "thread": None}
    (found,) = traced(problem("unwritten", 0, **whole, offset=400)).problems
    assert found.message == "The last 8 bytes of y are not written"
    assert found.hint == "y has 408 bytes, which is not a multiple of 16: write the rest element by element."
    (found,) = traced(problem("unwritten", 0, **whole, offset=384)).problems
    assert found.message == "y[24] was never written" and "each of the 25 elements" in found.hint


def test_what_a_line_depends_on_may_be_an_if_constexpr():
    source = """template <int n> __global__ void k(float* x) {
    if constexpr (n > 1) {
        if (threadIdx.x < n)
            x[threadIdx.x] = 1;
        x[0] = 2;
    } else x[1] = 3;
}"""
    found = {line: guard(source, line) for line in (4, 5, 6)}
    assert [(branch.word, branch.line) for branch in found.values()] == [("if", 3), ("if", 2), ("else", 6)]


def test_which_line_allocates_elements_where_bytes_are_meant():
    source = "cudaMalloc(&a, n * sizeof(float)); cudaMalloc(&b, n);\ncudaMalloc(&c, bytes); cudaMalloc(&d, 4 * n);\n"
    source = f"int main() {{\n{source}}}\n"
    assert (counts_elements(source, 2), counts_elements(source, 3)) == (True, False)
