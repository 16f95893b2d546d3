"""The table of requests, and a trace as it is printed and shown in a notebook."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.cuda.cpu.trace.reports import LANES, SOURCE, problem, site, traced
from utils.cuda.cpu.trace.records import read
from utils.cuda.cpu.trace.trace import Trace
from utils.cuda.kernel import Tracer

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


SHIFTS = r"""
#include <cuda/std/array>
struct P { int s; };
template <int N> __device__ int after() { return 1 << N; }
__global__ void shifts(const int* x, unsigned* y, const P* p) {
    int i = threadIdx.x;
    struct Bits { unsigned of; __device__ unsigned operator<<(int n) const { return of << n; } };
    unsigned m = Bits{1} << x[i];
    m >>= p[i].s;
    m += 8u << *(x + i + 32);
    m += 8u >> x[i + 64];
    m += 1u << x[i + 96] % 5 + 1;
    m <<= __ldg(x + i + 128);
    constexpr int n = 2, four = 1 << n;
    cuda::std::array<cuda::std::array<int, four>, 1 << 2> made = {};
    auto more = [] { return 1 << n; };
    y[i] = m + (more() << after<2>()) + made[0][0] + (i << 1 < 4);
}
"""


def test_what_is_shifted_by_is_loaded_once(on_cpu):
    """g++ checks how far a shift goes, and for that would load it again."""
    x, y = torch.ones(160, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    trace = Tracer(SHIFTS, "shifts")[1, 32](x, y, x)
    assert trace.requests.requests.tolist() == [1] * 7 and trace.ok
    assert trace.args[1].tolist() == [2 * (1 + 16 + 4 + 4) + 64 + (i < 2) for i in range(32)]


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


def test_positions_that_are_odd():
    nobody = {"block": [3, 0, 0], "thread": [0, 0, 0]}
    trace = traced(problem("out_of_bounds", 0, pc="0x0"), problem("race", 0, other=nobody, op=None, pc=None), source="")
    assert [p.line for p in trace.problems] == [None, None]
    behind = traced(problem("out_of_bounds", 700), sites=[site(700, "global", "load", 4, [0])])
    assert behind.problems[0].message.endswith("(line 700)") and behind.problems[0].source == ""
    assert behind.requests.source.tolist() == [""]
    assert "line 700" in repr(behind) and "line 700" in behind._repr_html_()


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


def test_the_words_need_no_matplotlib():
    code = "import sys, utils.cuda.cpu.trace.trace; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("text", ["x[i] * 2.0f", "x[i] + x[i + 32] * 1.0f", "(i % 2 ? x[i] : x[i + 32]) * 2.0f"])
def test_a_conversion_out_of_range_reads_once(text):
    begin = "__global__ void k(const unsigned char* x, unsigned char* out) {\n    int i = threadIdx.x;\n"
    source = f"{begin}    out[i] = {text};\n}}"
    values = [torch.full((64,), value).byte() for value in (20, 200)]
    within, outside = (Tracer(source, "k")[1, 32](x, torch.zeros(32).byte()).requests for x in values)
    assert within.equals(outside)
