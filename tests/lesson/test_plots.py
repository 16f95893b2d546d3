"""The figures are drawn, hold the right numbers, and refuse what they cannot show."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.patches import Rectangle

from tests.figures import clean, drawn  # noqa: F401  clean runs by itself
from utils.lesson import plots
from utils.lesson.plots import plot_speed, show_img, show_matmul, show_threads, show_tiles
from utils.lesson.timing import Timing, speed_table


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def smallest_text(ax):
    found = [text for text in plt.gcf().findobj(matplotlib.text.Text) if text.get_text() and text.get_visible()]
    return min(text.get_fontsize() for text in found)


def hatched(ax):
    patches = [patch for patch in ax.patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    return [(*np.add(patch.get_xy(), 0.5), patch.get_width(), patch.get_height()) for patch in patches]


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 5, 7), (5, 7), (1, 1), (3, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.int64, torch.bool])
def test_show_img_shows_the_values(shape, dtype):
    x = (torch.rand(shape) * (1 if dtype.is_floating_point else 256)).to(dtype)
    if dtype == torch.bool and len(shape) == 3:
        x = x[0]
    elif dtype == torch.int64 and shape[0] == 3:
        x = x.clamp(0, 255)
    assert show_img(x) is None
    (image,) = drawn().images
    expected = x.permute(1, 2, 0) if x.ndim == 3 and x.shape[0] == 3 else x.reshape(x.shape[-2:])
    np.testing.assert_allclose(np.asarray(image.get_array(), dtype=float), expected.double().numpy(), atol=1e-3)


def test_show_img_scale_and_arguments():
    dark = torch.full((4, 4), 10, dtype=torch.uint8)
    show_img(dark, figsize=(2, 5))
    ax = drawn()
    assert ax.images[0].get_clim() == (0, 255) and ax.images[0].get_cmap().name == "gray"
    assert tuple(plt.gcf().get_size_inches()) == (2, 5) and not ax.axison
    plt.close()
    show_img(torch.rand(4, 4, requires_grad=True) / 2)
    assert drawn().images[0].get_clim() == (0, 1)
    plt.close()
    show_img(torch.tensor([[-3.0, 5.0]]))
    assert drawn().images[0].get_clim() == (-3, 5)
    plt.close()
    show_img(dark, cmap="viridis", vmin=5, vmax=20)
    assert drawn().images[0].get_clim() == (5, 20) and drawn().images[0].get_cmap().name == "viridis"


@pytest.mark.parametrize(
    "shape, words", [((784,), "reshape"), ((4, 5, 7), "(4, 5, 7)"), ((1, 3, 5, 7), "(1, 3, 5, 7)")]
)
def test_show_img_refuses(shape, words):
    with pytest.raises(ValueError) as caught:
        show_img(torch.zeros(shape))
    assert words in str(caught.value)
    assert not plt.get_fignums()


def test_show_img_refuses_nothing():
    with pytest.raises(ValueError, match=r"nothing to show.*\(3, 0, 5\)"):
        show_img(torch.zeros(3, 0, 5))


@pytest.mark.parametrize("height, width, threads", [(5, 7, 8), (5, 7, 5), (1, 1, 3), (3, 2, 10), (6, 10, 4)])
def test_flat_threads(height, width, threads):
    assert show_threads(height, width, threads) is None
    ax = drawn()
    blocks = -(-height * width // threads)
    launched = blocks * threads
    cells = {(round(text.get_position()[0]), round(text.get_position()[1])): text.get_text() for text in ax.texts}
    assert len(cells) == len(ax.texts) == launched
    picture = ax.images[0].get_array()
    for i in range(launched):
        r, c = divmod(i, width)
        assert cells[c, r] == str(i % threads)
        colour = matplotlib.colors.to_rgb(plots.COLOURS[i // threads % len(plots.COLOURS)])
        np.testing.assert_allclose(picture[r, c] / 255, colour, atol=0.01)
    assert sum(w * h for _, _, w, h in hatched(ax)) == launched - height * width
    assert all(y >= height for _, y, _, _ in hatched(ax))
    without = launched - height * width
    assert (f"{without} thread" if without else "every thread has a pixel") in ax.get_title()
    assert f"blocks={blocks}, threads={threads}" in ax.get_title()
    assert len(ax.get_legend().get_texts()) == min(blocks, 8)
    assert smallest_text(ax) >= 12


@pytest.mark.parametrize("height, width, x, y", [(9, 13, 4, 4), (3, 2, 8, 8), (4, 6, 3, 2), (5, 3, 1, 4)])
def test_threads_in_two_dimensions(height, width, x, y):
    assert show_threads(height, width, (x, y)) is None
    ax = drawn()
    across, down = -(-width // x), -(-height // y)
    cells = {(round(text.get_position()[0]), round(text.get_position()[1])): text.get_text() for text in ax.texts}
    assert cells == {(c, r): f"{c % x},{r % y}" for r in range(down * y) for c in range(across * x)}
    picture = ax.images[0].get_array()
    for r in range(down * y):
        for c in range(across * x):
            assert (picture[r, c] == picture[r // y * y, c // x * x]).all()
            here = (r, c)
            for there in ((r + 1, c), (r, c + 1), (r + 1, c + 1), (r + 1, c - 1)):
                if there[0] < down * y and 0 <= there[1] < across * x:
                    same_block = (here[0] // y, here[1] // x) == (there[0] // y, there[1] // x)
                    assert (picture[here] == picture[there]).all() == same_block
    outside = np.zeros((down * y, across * x), dtype=int)
    for c, r, wide, high in hatched(ax):
        outside[int(r) : int(r + high), int(c) : int(c + wide)] += 1
    expected = np.ones_like(outside)
    expected[:height, :width] = 0
    np.testing.assert_array_equal(outside, expected)
    assert f"blocks=({across}, {down}), threads=({x}, {y})" in ax.get_title()
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(i) for i in range(across)]
    assert smallest_text(ax) >= 12


@pytest.mark.parametrize("threads", [256, (16, 16)])
def test_a_whole_picture_has_no_numbers_in_cells(threads):
    show_threads(150, 225, threads)
    ax = drawn()
    assert not texts(ax)
    assert ("42 threads" if threads == 256 else "4,650 threads") in ax.get_title()
    wide, high = plt.gcf().get_size_inches()
    assert wide <= 12 and high <= 9


@pytest.mark.parametrize(
    "width, title",
    [
        (
            10,
            "5 rows and 10 columns of elements, blocks=(3, 2), threads=(4, 4)\n46 threads without an element (hatched)",
        ),
        (1, "5 rows and 1 column of elements, blocks=(1, 2), threads=(4, 4)\n27 threads without an element (hatched)"),
    ],
)
def test_show_threads_calls_a_pixel_what_it_is(width, title):
    show_threads(5, width, (4, 4), of="element")
    assert drawn().get_title().startswith(title)


def test_show_threads_without_idle_threads():
    show_threads(4, 8, 8, of="element")
    assert "every thread has an element" in drawn().get_title()


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ((0, 5, 8), ValueError, "height must be at least 1, but it is 0"),
        ((5, -1, 8), ValueError, "width must be at least 1, but it is -1"),
        ((5, 5, 0), ValueError, "threads must be at least 1, but it is 0"),
        ((5, 5, (4, 0)), ValueError, "threads must be at least 1, but it is 0"),
        ((5, 5, (4, 4, 4)), ValueError, "(4, 4, 4)"),
        ((5, 5, 2.5), TypeError, "threads must be a whole number, but it is 2.5"),
        ((1066, 1600, 256), ValueError, "too fine"),
    ],
)
def test_show_threads_refuses(arguments, kind, words):
    with pytest.raises(kind) as caught:
        show_threads(*arguments)
    assert words in str(caught.value)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "h, k, w, row, col", [(5, 7, 6, 2, 3), (1, 1, 1, 0, 0), (5, 784, 10, 4, 9), (300, 2, 30, 299, 0)]
)
def test_matmul(h, k, w, row, col):
    assert show_matmul(h, k, w, row, col) is None
    ax = drawn()
    written = " ".join(texts(ax)).replace("\n", " ")
    for words in (f"m ({h}, {k}) row {row}", f"n ({k}, {w}) column {col}", f"out ({h}, {w}) out[{row}, {col}]"):
        assert words in written
    title = plt.gcf().get_suptitle()
    assert f"{k:,} product" in title
    assert ("shortened" in title) == (max(h, k, w) > 24)
    m, n, out = (
        next(patch for patch in ax.patches if patch.get_facecolor() == matplotlib.colors.to_rgba(plots.COLOURS[i]))
        for i in (0, 1, 5)
    )
    # the output cell is in the row of m and in the column of n
    assert (out.get_y(), out.get_height()) == pytest.approx((m.get_y(), m.get_height()))
    assert (out.get_x(), out.get_width()) == pytest.approx((n.get_x(), n.get_width()))
    assert m.get_width() == pytest.approx(n.get_height()) == pytest.approx(min(k, 24))
    assert out.get_height() == pytest.approx(min(h, 24) / h)
    assert smallest_text(ax) >= 12


@pytest.mark.parametrize("position", [(5, 0), (0, 6), (-1, 0), (0, -1)])
def test_matmul_refuses(position):
    with pytest.raises(ValueError) as caught:
        show_matmul(5, 7, 6, *position)
    assert "(5, 6)" in str(caught.value) and f"row={position[0]}, col={position[1]}" in str(caught.value)
    with pytest.raises(ValueError, match="k must be at least 1, but it is 0"):
        show_matmul(5, 0, 6, 0, 0)


@pytest.mark.parametrize(
    "h, k, w, tile, block, step",
    [(65, 100, 70, 16, (4, 1), 2), (13, 22, 9, 4, (2, 3), 5), (1, 1, 1, 8, (0, 0), 0), (32, 64, 16, 16, (0, 1), 3)],
)
def test_tiles(h, k, w, tile, block, step):
    assert show_tiles(h, k, w, tile, block, step) is None
    ax = drawn()
    assert {f"m ({h}, {k})", f"n ({k}, {w})", f"out ({h}, {w})"} <= set(texts(ax))
    title = plt.gcf().get_suptitle()
    assert f"block {block}, step {step} of 0 to {-(-k // tile) - 1}" in title and f"{tile} x {tile}" in title

    def boxes(colour, alpha):
        found = [p for p in ax.patches if p.get_facecolor() == matplotlib.colors.to_rgba(colour, alpha)]
        return [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in found]

    (m,), (n,), (out,) = (boxes(plots.COLOURS[i], 1)[-1:] for i in (0, 1, 5))
    (m_all,), (n_all,) = (boxes(plots.COLOURS[i], 0.45) for i in (0, 1))
    # the tile of m is in the rows of the output's, the tile of n in its columns, both at the same step
    assert (m[1], n[0]) == (out[1], out[0]) and m[2:] == n[2:] == out[2:] == (1, 1)
    assert m[0] == m_all[0] + step and n[1] == n_all[1] + step
    assert m_all[2] == n_all[3] == -(-k // tile)
    area = sum(p.get_width() * p.get_height() for p in ax.patches if p.get_hatch())
    inside = [min(1, size / tile - at) for size, at in ((h, block[1]), (w, block[0]))]
    needed = (k / tile) * sum(inside) + inside[0] * inside[1]
    twice = (m_all[2] - k / tile) * sum(1 - part for part in inside) + (1 - inside[0]) * (1 - inside[1])
    assert area == pytest.approx(2 * m_all[2] + 1 - needed + twice)  # a corner is hatched from both sides
    assert smallest_text(ax) >= 12


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ((65, 100, 70, 16, (5, 0), 0), ValueError, "5 x 5 blocks and 7 steps, so no block=(5, 0) with step=0"),
        ((65, 100, 70, 16, (0, 0), 7), ValueError, "with step=7"),
        ((65, 100, 70, 16, (0, -1), 0), ValueError, "block=(0, -1)"),
        ((65, 100, 70, 0, (0, 0), 0), ValueError, "tile must be at least 1, but it is 0"),
        ((65, 100, 70, 16, 3, 0), ValueError, "block is a pair (x, y), but it is 3"),
        ((65, 100, 70, 2, (0, 0), 0), ValueError, "50 tiles are too fine"),
        ((65, 100, 70, 1.5, (0, 0), 0), TypeError, "tile must be a whole number, but it is 1.5"),
    ],
)
def test_tiles_refuse(arguments, kind, words):
    with pytest.raises(kind) as caught:
        show_tiles(*arguments)
    assert words in str(caught.value)
    assert not plt.get_fignums()


@pytest.mark.parametrize("seconds", [[1.0], [1.0, 1.0], [1.0, 1.1, 1e-5], [2.0, 9000.0], [1e-3, 1e-12]])
def test_speed_bars(seconds):
    names = [f"version {i}" for i in range(len(seconds))]
    table = speed_table(dict(zip(names, seconds, strict=True)))
    assert plot_speed(table) is None
    ax = drawn()
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    begin, end = ax.get_xlim()
    for bar, ratio in zip(ax.patches, table["times faster"], strict=True):
        assert sorted([bar.get_x(), bar.get_x() + bar.get_width()]) == pytest.approx(sorted([1, ratio]))
        assert begin < ratio < end
    for text, time in zip(texts(ax), table["time"], strict=True):
        assert time in text
    assert ax.yaxis_inverted()  # the first row on top
    assert smallest_text(ax) >= 12
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if begin <= label.get_position()[0] <= end]
    assert all(left.x1 < right.x0 for left, right in zip(boxes, boxes[1:], strict=False))
    right = plt.gcf().bbox.x1
    assert all(text.get_window_extent().x1 <= right for text in ax.texts)


def test_speed_bars_say_how_much():
    plot_speed(speed_table({"loop": 1.2, "CUDA": Timing((1.2e-5,) * 3, "cuda"), "slow": 2.4, "near": 0.8}))
    assert texts(drawn()) == ["1x (1.20 s)", "100,000x (12.0 µs)", "0.5x (2.40 s)", "1.5x (800 ms)"]


def test_speed_bars_refuse():
    with pytest.raises(ValueError, match=r"columns here are \['a'\]"):
        plot_speed(pd.DataFrame({"a": [1]}))
    with pytest.raises(ValueError, match="above 0"):
        plot_speed(pd.DataFrame({"times faster": [1.0, 0.0]}))
    assert not plt.get_fignums()
