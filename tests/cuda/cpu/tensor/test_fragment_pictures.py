"""Pictures of tensor cores: who holds which element, what ldmatrix moves, and where a swizzle puts the bytes."""

import re
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tests.figures import clean  # noqa: F401  runs by itself
from utils.cuda.cpu.trace.pictures import RED
from utils.cuda.fragments import fragments, plot_fragments
from utils.cuda.kernel import Tracer

BENCH = (Path(__file__).parents[4] / "bench" / "tensor_cores.cu").read_text()
SWIZZLE, PLAIN = "(piece ^ row % 8) * 8", "piece * 8"


@pytest.fixture(autouse=True)
def nothing_left_open(clean):  # noqa: F811
    yield
    assert plt.get_fignums() == []


def line_of(text, source=BENCH):
    return source[: source.index(text)].count("\n") + 1


@pytest.fixture(scope="module")
def trace(unjudged):
    """A trace of a product with and without a swizzle, or by wmma."""
    found = {}

    def traced(which="swizzled"):
        if which not in found:
            source = BENCH.replace(SWIZZLE, PLAIN) if which == "plain" else BENCH
            n, depth = 64, 32
            a, b = torch.randn(n, depth).bfloat16(), torch.randn(depth, n).bfloat16()
            name = "matmul_wmma" if which == "wmma" else "matmul_mma"
            found[which] = Tracer(source, name)[1, 128](a, b, torch.zeros(n, n), n, depth)
        return found[which]

    return traced


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def assert_legible(figure):
    renderer = FigureCanvasAgg(figure).get_renderer()
    for ax in figure.axes:
        boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in ax.texts]
        assert all(text.get_fontsize() >= 11 for text in ax.texts)
        for i, (text, box) in enumerate(boxes):
            assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height, text
            for other_text, other in boxes[:i]:
                apart = (box.x0 >= other.x1 - 2, box.x1 <= other.x0 + 2, box.y0 >= other.y1 - 5, box.y1 <= other.y0 + 5)
                assert any(apart), (text, other_text)


@pytest.mark.parametrize(
    "instruction, groups",
    [
        ("mma.m16n8k16.bf16", 4 + 2 + 2),
        ("mma.m16n8k8.tf32", 4 + 2 + 2),
        ("mma.m16n8k32.s8", 4 + 2 + 2),
        ("mma.m8n8k4.f64", 1 + 1 + 1),
        ("mma.m16n8k256.b1", 4 + 2 + 2),
        ("wmma.m16n16k16.f16", 4 + 4 + 4),
        ("wmma.m8n32k16.f16", 2 + 8 + 4),
        ("wmma.m32n8k16.bf16", 8 + 2 + 4),
    ],
)
def test_every_lane_is_in_every_tile(instruction, groups):
    figure = plot_fragments(instruction)
    (ax,) = figure.axes
    count = Counter(word for word in words(ax) if re.fullmatch(r"T\d+", word))
    assert count == {f"T{lane}": groups for lane in range(32)}
    found = fragments(instruction)
    for name, tile in (("A", found.a), ("B", found.b), ("C and D", found.d)):
        assert f"{name}: {tile.rows} × {tile.columns} {tile.type}" in words(ax)
    assert f"lane 1 holds A {' '.join(f'[{r}][{c}]' for r, c in found.a.held[1][:16])}" in figure.get_label()
    assert_legible(figure)


def test_accumulators_of_two_types_are_two_tiles():
    (ax,) = plot_fragments("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32").axes
    assert {"C: 16 × 8 f32", "D: 16 × 8 f16"} <= set(words(ax))
    (ax,) = plot_fragments("mma.m8n8k4.f16").axes
    assert {word for word in words(ax) if re.fullmatch(r"T\d+", word)} == {
        f"T{lane}" for lane in range(32) if lane % 16 < 4
    }
    assert any("first of four products" in word for word in words(ax))


@pytest.mark.parametrize("which, text", [("swizzled", "multiply_add(sums[i][j]"), ("wmma", "mma_sync(sums")])
def test_the_line_of_a_product_shows_its_fragments(trace, which, text):
    line = line_of(text)
    figure = trace(which).plot(line)
    (ax,) = figure.axes
    assert f"line {line}   " in words(ax)[0] and "A: 16 × 16 bf16" in words(ax)
    assert "what warp 0 of block (0,0,0) holds" in figure.texts[0].get_text()
    assert f"line {line}" in figure.get_label() and "lane 0 holds A [0][0] [0][1] [8][0]" in figure.get_label()
    notes = [text.get_text() for text in trace(which).plot().texts]
    assert f"Tensor cores multiply in line {line}. plot(line={line}) draws who holds which element." in notes
    with pytest.raises(ValueError, match=f"line 1 has no access .*{line}"):
        trace(which).plot(1)


def pieces(ax):
    """The lane and the text of each cell that a lane wants, by its place: (row, column) on the page."""
    found, at = {}, [text for text in ax.texts if re.fullmatch(r"T\d+( p\d)?", text.get_text())]
    places = [text for text in ax.texts if re.fullmatch(r"(\[\d+\])+", text.get_text())]
    for lane in at:
        x, y = lane.get_position()
        (own,) = [other.get_text() for other in places if abs(other.get_position()[1] - y) < 0.01
                  and 0 < other.get_position()[0] - x < 4]  # fmt: skip
        found[lane.get_text()] = (int(x // 4), own)
    return found


def test_a_swizzle_can_be_seen(trace):
    line = line_of("load_4_transposed(of_b[j],")
    memory, rows = trace().plot(line).axes
    assert "no bank conflict, 4 passes" in words(memory) and "lanes 8–15: 1 pass" in words(memory)
    # A lane reads 8 columns of row lane % 16, and a tile's row of 64 elements is one line of the banks.
    expected = {f"T{lane}": ((lane // 16) ^ lane % 8, f"[{lane % 16}][{lane // 16 * 8}]") for lane in range(32)}
    assert pieces(memory) == expected
    assert "ldmatrix.trans, 4 matrices of tile_b:  " in words(rows)
    assert {f"T{lane} →" for lane in range(32)} <= set(words(rows))
    assert_legible(trace().plot(line))


def test_without_a_swizzle_the_rows_meet_in_the_same_banks(trace):
    line = line_of("load_4_transposed(of_b[j],")
    figure = trace("plain").plot(line)
    memory, _ = figure.axes
    assert "8-way bank conflict, 32 passes instead of 4" in words(memory) and "lanes 0–7: 8 passes" in words(memory)
    name = lambda lane: f"T{lane} p{lane % 8 + 1}" if lane % 8 else f"T{lane}"  # noqa: E731
    expected = {name(lane): (lane // 16, f"[{lane % 16}][{lane // 16 * 8}]") for lane in range(32)}
    assert pieces(memory) == expected
    (verdict,) = [text for text in memory.texts if text.get_text().startswith("8-way")]
    assert verdict.get_color() == RED and "8-way bank conflict" in figure.get_label()
    assert_legible(figure)


def test_a_copy_shows_where_its_bytes_come_from(trace):
    figure = trace().plot(line_of("copy_16(&tile_b"))
    stores = [ax for ax in figure.axes if "shared store of tile_b:  " in words(ax)]
    assert len(stores) == 1
    expected = {f"T{lane}": (lane % 8 ^ lane // 8, f"[{lane // 8}][{lane % 8 * 8}]") for lane in range(32)}
    assert pieces(stores[0]) == expected
    assert any("the first element of b that was copied there" in word for word in words(stores[0]))


STORED = r"""
__global__ void stored(unsigned int* out) {
    __shared__ __align__(16) unsigned short s[16][24];
    for (int i = threadIdx.x; i < 16 * 24; i += 32) s[i / 24][i % 24] = i;
    __syncwarp();
    unsigned int d[2], at = (unsigned int)__cvta_generic_to_shared(&s[threadIdx.x % 16][threadIdx.x / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(at));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" :: "r"(at), "r"(d[0]), "r"(d[1]));
    out[threadIdx.x] = d[0] + d[1];
}
"""


def test_an_array_that_no_copy_fills_shows_its_own_elements(unjudged):
    trace = Tracer(STORED, "stored")[1, 32](torch.zeros(32, dtype=torch.int32))
    memory, rows = trace.plot(line_of("ldmatrix", STORED)).axes
    assert {lane: text for lane, (_, text) in pieces(memory).items()} == {
        f"T{lane}": f"[{lane}][0]" for lane in range(16)
    }
    assert "no bank conflict, 2 passes" in words(memory)
    assert "ldmatrix, 2 matrices of s:  " in words(rows)
    memory, rows = trace.plot(line_of("stmatrix", STORED)).axes
    assert "shared store of s:  " in words(memory) and "stmatrix, 2 matrices of s:  " in words(rows)
