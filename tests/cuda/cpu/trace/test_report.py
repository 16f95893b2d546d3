"""What a trace tells a learner: every kind's sentence, the table, the pictures, and that nothing odd breaks them."""

import io
import json
import pickle
import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon, Rectangle
from matplotlib.text import Text

from tests.figures import clean  # noqa: F401  runs by itself
from utils.cuda.cpu.trace.pictures import GREEN, RED
from utils.cuda.cpu.trace.problems import KernelProblem, Problem
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.trace import Trace
from utils.cuda.kernel import Tracer

SOURCE = """\
__global__ void kernel(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = x[i];
    while (s[0] == 0) i++;
    s[threadIdx.x] += s[threadIdx.x + 1];
}
"""


@pytest.fixture(autouse=True)
def nothing_left_open(clean):  # noqa: F811
    yield
    assert plt.get_fignums() == []


def at(line, n=0):
    """A code position of `line`, as the runtime writes it."""
    return hex(100 * line + n)


def lines(positions):
    """The line of each position from `at`; those below 100 have none."""
    assert len(set(positions)) == len(positions) and all(type(position) is int for position in positions)
    return [position // 100 or None for position in positions]


def traced(*problems, sites=(), source=SOURCE, kernel="kernel", **report):
    total = sum(problem.get("count", 1) for problem in problems)
    report = {"sites": sites, "problems": problems, "total": total, "threads": 1024, "shared": [], **report}
    return Trace(kernel, source, read(json.loads(json.dumps(report)), source, lines))


def problem(kind, line, **fields):
    """A record such as the runtime makes; a float tensor x of 1024 elements unless told otherwise."""
    common = {"pc": at(line), "op": "load", "bytes": 4, "block": [3, 0, 0], "thread": [31, 0, 0], "space": "global"}
    region = {"region": "x", "region_bytes": 4096, "element": 4, "offset": 4096, "count": 1}
    return {"kind": kind, **common, **region, **fields}


def shared(kind, line, **fields):
    """The same of a shared array s of 256 floats."""
    return problem(kind, line, **{"space": "shared", "region": "s", "region_bytes": 1024, "offset": 12, **fields})


def message(*problems, **report):
    (found,) = traced(*problems, **report).problems
    return found.message


def site(line, space, op, size, offsets, region="x", element=4, base=0, requests=1, n=0, block=(0, 0, 0), **counts):
    """A site whose example is these lanes' offsets (None: the lane is not active), counted by a model of a warp."""
    lanes = [[lane, offset] for lane, offset in enumerate(offsets) if offset is not None]
    sectors = {(base + offset + byte) // 32 for _, offset in lanes for byte in range(size)}
    words = {(base + offset + byte) // 4 for _, offset in lanes for byte in range(size)}
    wavefronts = max(np.bincount([word % 32 for word in words]))
    counts = {"sectors": len(sectors) * requests, "wavefronts": int(wavefronts) * requests, **counts}
    counts.setdefault("bank_conflicts", counts["wavefronts"] - requests)
    example = {"block": list(block), "warp": 0, "region": region, "element": element, "lanes": lanes}
    example["base_alignment"] = base
    start = {"pc": at(line, n), "space": space, "op": op, "bytes": size, "accesses": len(lanes) * requests}
    return {**start, "requests": requests, **counts, "example": example}


LANES = range(32)


# ---- sentences


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
    assert " reads element 1024 of argument 2, but argument 2 has " in message(
        problem("out_of_bounds", 7, region="argument 2")
    )
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
        ("// __syncthreads();", "Put `__syncthreads();` between lines 2 and 4; in a loop, also one at its end."),
        ("__syncthreads();", "There is a barrier between lines 2 and 4. In a loop, put another at its end: one"),
    ],
)
def test_a_barrier_that_stands_between_is_no_cure(barrier, hint):
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
    assert "__syncthreads" not in found.hint and "atomicAdd" in found.hint


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


# ---- the list


def test_a_problem_holds_its_place():
    (found,) = traced(problem("out_of_bounds", 7, count=24)).problems
    assert (found.kind, found.line, found.source) == ("out_of_bounds", 7, "y[i] = x[i];")
    assert (found.block, found.thread, found.count) == ((3, 0, 0), (31, 0, 0), 24)
    assert (found.other_block, found.other_thread, found.other_line) == (None, None, None)
    assert "if (i < n)" in found.hint and found.hint not in found.message
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


# ---- the table

COLUMNS = ["line", "source", "space", "op", "bytes", "requests", "sectors", "sectors_per_request", "wavefronts"]
COLUMNS += ["bank_conflicts"]


def test_requests():
    sites = [  # in the order they were first met, which within a line is that of the source
        site(9, "shared", "store", 4, [128 * lane for lane in LANES], requests=2, n=1),
        site(7, "global", "load", 1, list(LANES), n=8),
        site(7, "global", "load", 4, [32 * lane for lane in LANES], n=5, requests=2),
        site(7, "global", "store", 4, [4 * lane for lane in LANES], n=2, requests=10),
        site(7, "global", "load", 4, [4 * lane for lane in LANES], n=9, requests=6, region="y"),  # summed with x
        site(0, "global", "atomic", 4, [0] * 32, n=5, requests=3),
        site(5, "constant", "load", 4, [0] * 32, wavefronts=7, sectors=9),
        site(0, "global", "atomic", 4, [0] * 32, n=4),
    ]
    table = traced(sites=sites).requests
    assert list(table.columns) == COLUMNS and list(table.index) == list(range(7))
    text = SOURCE.splitlines()
    expected = [
        (5, text[4].strip(), "constant", "load", 4, 1, 0, 0.0, 0, 0),
        (7, "y[i] = x[i];", "global", "load", 1, 1, 1, 1.0, 0, 0),
        (7, "y[i] = x[i];", "global", "load", 4, 8, 88, 11.0, 0, 0),
        (7, "y[i] = x[i];", "global", "store", 4, 10, 40, 4.0, 0, 0),
        (9, text[8].strip(), "shared", "store", 4, 2, 0, 0.0, 64, 62),
        (0, "", "global", "atomic", 4, 3, 3, 1.0, 0, 0),
        (0, "", "global", "atomic", 4, 1, 1, 1.0, 0, 0),
    ]
    assert [tuple(row) for row in table.itertuples(index=False)] == expected
    whole = ["line", "bytes", "requests", "sectors", "wavefronts", "bank_conflicts"]
    assert all(table[name].dtype == np.int64 for name in whole)
    assert table.sectors_per_request.dtype == np.float64


@pytest.mark.parametrize("report", [{}, {"sites": [], "problems": [], "total": 0, "threads": 0, "shared": []}])
def test_an_empty_report(report):
    def never(positions):
        raise AssertionError("there is no position to ask for")

    trace = Trace("kernel", "", read(report, "", never), args=("anything",))
    assert trace.ok and trace.problems == [] and trace.args == ("anything",)
    assert list(trace.requests.columns) == COLUMNS and len(trace.requests) == 0
    assert trace.requests.requests.dtype == np.int64
    assert repr(trace) == "kernel: no problems"
    assert trace._repr_html_() == "<p><b>kernel: no problems</b></p>"
    assert "no access to global or shared memory" in words(trace.plot())
    with pytest.raises(ValueError, match="line 7 has no access .*: no line of this kernel has one"):
        trace.plot(line=7)


def test_positions_that_are_odd():
    nobody = {"block": [3, 0, 0], "thread": [0, 0, 0]}
    trace = traced(problem("out_of_bounds", 0, pc="0x0"), problem("race", 0, other=nobody, op=None, pc=None), source="")
    assert [p.line for p in trace.problems] == [None, None]
    behind = traced(problem("out_of_bounds", 700), sites=[site(700, "global", "load", 4, [0])])
    assert behind.problems[0].message.endswith("(line 700)") and behind.problems[0].source == ""
    assert behind.requests.source.tolist() == [""]
    assert "line 700" in repr(behind) and "line 700" in behind._repr_html_()


# ---- how it is shown


def test_repr():
    trace = traced(problem("out_of_bounds", 7), sites=[site(7, "global", "load", 4, [4 * lane for lane in LANES])])
    shown = repr(trace).splitlines()
    assert shown[0] == "kernel: 1 problem in 1,024 threads"
    assert shown[1] == f"1. {trace.problems[0].message}"
    assert shown[2] == f"    hint: {trace.problems[0].hint}"
    assert shown[4].split() == COLUMNS
    assert shown[5].split() == "7 y[i] = x[i]; global load 4 1 4 4 - -".split()
    assert repr(traced()) == "kernel: no problems in 1,024 threads"


def test_many_problems_and_rows_stay_short():
    source = "\n".join(f"x[{n}] = 0; {'/' * 500}" for n in range(1, 201))
    problems = [problem("out_of_bounds", n, count=2) for n in range(1, 41)]
    sites = [site(n, "global", "store", 4, [0]) for n in range(1, 201)]
    trace = traced(*problems, sites=sites, source=source, total=1000)
    assert len(trace.problems) == 40 and len(trace.requests) == 200
    for shown in (repr(trace), trace._repr_html_()):
        assert "... and 35 more problems in .problems" in shown
        assert "The run went wrong 920 more times after these" in shown
        assert "... and 180 more rows in .requests" in shown
        assert len(shown) < 25_000
    assert max(map(len, repr(trace).splitlines())) < 250
    assert max(len(p.message) for p in trace.problems) < 200


def test_html_is_escaped():
    source = 'a<b>("$x$" & 1); // <script>alert(1)</script>\n' * 3
    trace = traced(problem("out_of_bounds", 2), sites=[site(2, "global", "load", 4, [0])], source=source)
    shown = trace._repr_html_()
    assert "<script>" not in shown and "a<b>" not in shown
    assert "<code>a&lt;b&gt;(" in shown and "<b>--&gt;    2 | a&lt;b&gt;(" in shown
    assert shown.count("<div") == shown.count("</div>") and shown.count("<td") == shown.count("</td>") == 10


# ---- the pictures


def words(figure):
    figure.savefig(io.BytesIO(), format="png")
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def panel_words(ax):
    return [text.get_text() for text in ax.texts]


def fills(ax, kind=Rectangle):
    return [to_hex(patch.get_facecolor()).upper() for patch in ax.patches if isinstance(patch, kind)]


@pytest.mark.parametrize(
    "offsets, size, base, expected",
    [
        ([4 * lane for lane in LANES], 4, 0, "4 sectors for 1 request, the best there is"),
        ([4 * lane for lane in LANES], 4, 4, "5 sectors for 1 request, 1.25 times the least"),
        ([32 * lane for lane in LANES], 4, 0, "32 sectors for 1 request, 8 times the least"),
        ([0] * 32, 4, 0, "1 sector for 1 request, the best there is"),
        ([16 * lane for lane in LANES], 16, 0, "16 sectors for 1 request, the best there is"),
        ([128 * lane for lane in LANES], 16, 8, "32 sectors for 1 request, 2 times the least"),
        ([128 * lane + 8 for lane in LANES], 16, 16, "64 sectors for 1 request, 4 times the least"),
        (list(LANES), 1, 0, "1 sector for 1 request, the best there is"),
        ([None] * 31 + [4], 4, 0, "1 sector for 1 request, the best there is"),
        ([4 * lane - 8 for lane in LANES], 4, 0, "5 sectors for 1 request, 1.25 times the least"),
    ],
)
def test_sectors_are_judged(offsets, size, base, expected):
    figure = traced(sites=[site(7, "global", "load", size, offsets, base=base)]).plot()
    found = words(figure)
    assert expected in found and "line 7   y[i] = x[i];" in found and "global load of x:  " in found
    (ax,) = figure.axes
    assert len(fills(ax, Polygon)) >= sum(offset is not None for offset in offsets)


def test_sectors_name_their_elements():
    figure = traced(sites=[site(7, "global", "load", 4, [4 * lane for lane in LANES])]).plot()
    assert {"x[0–7]", "x[8–15]", "x[16–23]", "x[24–31]"} <= set(words(figure))
    scattered = traced(sites=[site(7, "global", "load", 4, [4 * 100_003 * lane for lane in LANES])]).plot()
    found = [text for text in words(scattered) if text.isdigit() and int(text) > 31]
    assert found and all(int(text) % 100_003 == 0 for text in found)
    assert len({int(b) - int(a) for a, b in zip(found, found[1:], strict=False)}) == 1


@pytest.mark.parametrize(
    "offsets, size, expected",
    [
        ([4 * lane for lane in LANES], 4, "no bank conflict, 1 pass"),
        ([128 * lane for lane in LANES], 4, "32-way bank conflict, 32 passes instead of 1"),
        ([8 * lane for lane in LANES], 4, "2-way bank conflict, 2 passes instead of 1"),
        ([132 * lane for lane in LANES], 4, "no bank conflict, 1 pass"),
        ([0] * 32, 4, "no bank conflict, 1 pass, lanes share a word"),
        ([64 * (lane // 16) for lane in LANES], 4, "no bank conflict, 1 pass, lanes share a word"),
        (list(LANES), 1, "no bank conflict, 1 pass, lanes share a word"),
        ([8 * lane for lane in LANES], 8, "no bank conflict, 2 passes"),
        ([16 * lane for lane in LANES], 16, "no bank conflict, 4 passes"),
        ([128 * lane for lane in LANES], 16, "8-way bank conflict, 32 passes instead of 4"),
        ([8 * lane if lane < 16 else None for lane in LANES], 8, "no bank conflict, 1 pass"),
    ],
)
def test_banks_are_judged(offsets, size, expected):
    figure = traced(sites=[site(9, "shared", "store", size, offsets, region="s")]).plot()
    found = words(figure)
    assert expected in found and "shared store of s:  " in found
    colours = any(text.startswith("lanes 0") for text in found)
    assert colours == ("32 passes" in expected)  # too low for numbers: a legend of colours instead


COPIES = r"""
#include <cuda_pipeline.h>
template <int BYTES>
__global__ void copy(const float* x, float* out, int from, int to) {
    __shared__ __align__(16) float s[1024];
    __pipeline_memcpy_async(s + to * threadIdx.x, x + from * threadIdx.x, BYTES);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[threadIdx.x] = s[to * threadIdx.x];
}
"""


@pytest.mark.parametrize(
    "size, start, to, label, verdict",
    [
        (4, 1, 1, "go to", "no bank conflict, 1 pass"),
        (4, 64, 1, "come from", "32 passes instead of 1: lanes come from the same banks"),
        (4, 0, 1, "come from", "32 passes instead of 1: lanes come from the same banks"),
        (4, 1, 8, "go to", "8 passes instead of 1: lanes go to the same banks"),
        (4, 16, 8, "come from", "16 passes instead of 1: lanes come from the same banks"),
        (8, 2, 2, "go to", "no bank conflict, 2 passes"),
        (8, 4, 2, "come from", "4 passes instead of 2: lanes come from the same banks"),
        (16, 4, 4, "banks", "an asynchronous copy past the cache: no pass is counted"),
    ],
)
def test_an_asynchronous_copy_is_drawn_at_the_end_where_lanes_meet(size, start, to, label, verdict):
    trace = Tracer(COPIES, f"copy<{size}>")[1, 32](torch.randn(2048), torch.empty(32), start, to)
    line = COPIES[: COPIES.index("__pipeline_memcpy")].count("\n") + 1
    stores = trace.requests[(trace.requests.line == line) & (trace.requests.op == "store")]
    found = words(trace.plot(line))
    assert label in found and verdict in found
    passes = int(next(iter(re.findall(r"(\d+) pass", verdict)), 0))
    assert stores.wavefronts.tolist() == [passes] and stores.bank_conflicts.tolist() == [max(0, passes - size // 4)]


def test_sectors_of_a_copy_past_the_cache_are_those_that_it_fills():
    loads = traced(sites=[site(9, "global", "load", 16, [16 * lane for lane in LANES])])
    assert "16 sectors for 1 request, the best there is" in words(loads.plot())
    copy = site(9, "global", "load", 16, [16 * lane for lane in LANES])
    copy["example"]["cost_of_copy"] = 20
    assert "20 sectors for 1 request, 1.25 times the least" in words(traced(sites=[copy]).plot())


def test_a_long_title_fits():
    for name in ("square", "matmul_pipelined_kernel<128, 256, 8, 16, 8, 3, true, and more of this kind, 1, 2, 3>"):
        figure = traced(sites=[site(7, "global", "load", 4, [0])], kernel=name).plot()
        (title,) = figure.texts[:1]
        assert name in title.get_text() and title.get_window_extent().x1 <= figure.bbox.x1


def test_lanes_that_share_a_word_share_a_cell():
    figure = traced(sites=[site(9, "shared", "load", 4, [64 * (lane // 16) for lane in LANES])]).plot()
    assert {"0-\n15", "16-\n31"} <= set(words(figure))
    figure = traced(sites=[site(9, "shared", "load", 4, [4 * (lane % 16) for lane in LANES])]).plot()
    assert {"0\n16", "15\n31"} <= set(words(figure))
    figure = traced(sites=[site(9, "shared", "load", 4, [4 * (lane % 4) for lane in LANES])]).plot()
    assert words(figure).count("8×") == 4


def test_what_lies_outside_is_red():
    offsets = [4 * (1000 + lane) for lane in LANES]
    loads = site(7, "global", "load", 4, offsets)
    (ax,) = traced(sites=[loads]).plot().axes
    assert RED not in fills(ax)
    figure = traced(problem("out_of_bounds", 7), sites=[loads]).plot()
    (ax,) = figure.axes
    assert fills(ax, Polygon).count(RED) == 8
    assert "4 sectors for 1 request, 8 lanes outside x" in words(figure)
    # the runtime stops a thread at its access outside, so as a rule the example is without it
    offsets[24:] = [None] * 8
    loads, block = site(7, "global", "load", 4, offsets, block=(3, 0, 0)), {"block": [3, 0, 0]}
    stopped = problem("out_of_bounds", 7, **block, thread=[24, 0, 0], count=8)
    figure = traced(stopped, sites=[loads]).plot()
    assert "4 sectors for 1 request, lane 24 outside x" in words(figure)
    assert fills(figure.axes[0], Polygon).count(RED) == 1
    for elsewhere in ({"thread": [56, 0, 0]}, {"thread": [24, 1, 0]}, {"block": [2, 0, 0]}, {"op": "store"}):
        (ax,) = traced({**stopped, **elsewhere}, sites=[loads]).plot().axes
        assert fills(ax, Polygon).count(RED) == 0
    stores = site(9, "shared", "store", 4, [4 * (lane + 225) for lane in LANES], region="s")
    (ax,) = traced(shared("out_of_bounds", 9, offset=1024), sites=[stores]).plot().axes
    assert fills(ax).count(RED) == 1


def test_at_most_six_panels_the_costliest():
    sites = [site(n, "global", "load", 4, [4 * lane for lane in LANES], requests=n) for n in range(1, 10)]
    trace = traced(sites=sites)
    figure = trace.plot()
    assert len(figure.axes) == 6
    shown = [panel_words(ax)[0].split()[1] for ax in figure.axes]
    assert shown == ["4", "5", "6", "7", "8", "9"]
    assert "Not drawn, less costly: line 1, 2, 3. plot(line=1) draws that line." in words(figure)
    assert len(trace.plot(line=2).axes) == 1
    with pytest.raises(ValueError, match="line 12 has no access .*: the lines with an access are 1, 2, 3, 4, 5, "):
        trace.plot(line=12)


def test_the_panel_shows_the_worst_of_an_unrolled_line():
    good = site(7, "global", "load", 4, [4 * lane for lane in LANES], requests=1000)
    bad = site(7, "global", "load", 4, [64 * lane for lane in LANES], n=1, block=(1, 0, 0))
    figure = traced(sites=[good, bad]).plot()
    assert len(figure.axes) == 1 and "32 sectors for 1 request, 8 times the least" in words(figure)
    assert "kernel: what warp 0 of block (1,0,0) touches" in words(figure)


def test_each_array_of_a_line_has_its_panel():
    rows = site(9, "shared", "load", 4, [64 * (lane // 16) for lane in LANES], region="ms", n=1)
    columns = site(9, "shared", "load", 4, [4 * (lane % 16) for lane in LANES], region="ns", n=2)
    trace = traced(sites=[rows, columns])
    assert len(trace.requests) == 1 and trace.requests.requests[0] == 2
    figure = trace.plot()
    assert [text for text in words(figure) if " of " in text and "load" in text] == [
        "shared load of ms:  ",
        "shared load of ns:  ",
    ]


def test_what_cannot_be_drawn_is_left_out():
    without = site(7, "global", "load", 4, [0])
    without["example"] = None
    constant = site(5, "constant", "load", 4, [0] * 32)
    no_region = site(9, "global", "load", 4, [140_000_000_000_004], region=None, element=0)
    figure = traced(sites=[without, constant, no_region]).plot()
    assert len(figure.axes) == 1 and "global load:  " in words(figure)


def test_pictures_can_be_read_from_the_last_row():
    sites = [
        site(5, "global", "load", 4, [4 * lane for lane in LANES]),
        site(7, "global", "store", 16, [4000 * lane for lane in LANES], element=4),
        site(8, "shared", "load", 4, [128 * lane for lane in LANES], region="tile"),
        site(9, "shared", "load", 16, [16 * lane for lane in LANES], region="tile"),
    ]
    source = SOURCE + "$" * 300
    figure = traced(sites=sites, source=source).plot()
    words(figure)
    renderer = FigureCanvasAgg(figure).get_renderer()
    for text in figure.findobj(Text):
        if text.get_text():
            assert text.get_fontsize() >= 14
            box = text.get_window_extent(renderer)
            assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0 and box.y1 <= figure.bbox.height, text
    for ax in figure.axes:  # no two texts of a panel lie on each other
        boxes = [text.get_window_extent(renderer) for text in ax.texts]
        for i, box in enumerate(boxes):
            for other in boxes[:i]:
                apart = (box.x0 >= other.x1 - 1, box.x1 <= other.x0 + 1, box.y0 >= other.y1 - 3, box.y1 <= other.y0 + 3)
                assert any(apart)


def test_a_dollar_sign_is_no_formula():
    figure = traced(sites=[site(1, "global", "load", 4, [0])], source='x[0] = "$\\frac$"[i];').plot()
    assert 'line 1   x[0] = "$\\frac$"[i];' in words(figure)


def test_the_words_need_no_matplotlib():
    code = "import sys, utils.cuda.cpu.trace.trace; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_verdicts_have_colours():
    def colour(offsets, space="global"):
        figure = traced(sites=[site(7, space, "load", 4, offsets)]).plot()
        return next(text.get_color() for text in figure.axes[0].texts if text.get_fontweight() == "bold")

    assert colour([4 * lane for lane in LANES]) == colour([4 * lane for lane in LANES], "shared") == GREEN
    assert colour([4 * lane + 4 for lane in LANES]) == "black"  # 5 sectors instead of 4: hardly worth a thought
    assert colour([8 * lane for lane in LANES]) == colour([8 * lane for lane in LANES], "shared") == RED
