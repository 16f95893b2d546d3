"""The pictures of a trace: what is drawn, what is said about it, and that it can be read from the last row."""

import io
import re

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Polygon, Rectangle
from matplotlib.text import Text

from tests.cuda.cpu.trace.reports import LANES, SOURCE, problem, shared, site, traced
from tests.figures import clean  # noqa: F401  runs by itself
from utils.cuda.cpu.trace.pictures import GREEN, RED
from utils.cuda.kernel import Tracer


@pytest.fixture(autouse=True)
def nothing_left_open(clean):  # noqa: F811
    yield
    assert plt.get_fignums() == []


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


def test_nothing_to_draw():
    trace = traced()
    assert "no access to global or shared memory" in words(trace.plot())
    with pytest.raises(ValueError, match="line 7 has no access .*: no line of this kernel has one"):
        trace.plot(line=7)


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


def test_verdicts_have_colours():
    def colour(offsets, space="global"):
        figure = traced(sites=[site(7, space, "load", 4, offsets)]).plot()
        return next(text.get_color() for text in figure.axes[0].texts if text.get_fontweight() == "bold")

    assert colour([4 * lane for lane in LANES]) == colour([4 * lane for lane in LANES], "shared") == GREEN
    assert colour([4 * lane + 4 for lane in LANES]) == "black"  # 5 sectors instead of 4: hardly worth a thought
    assert colour([8 * lane for lane in LANES]) == colour([8 * lane for lane in LANES], "shared") == RED
