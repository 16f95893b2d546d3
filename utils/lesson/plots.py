"""The pictures of the course. Each function draws one figure and returns nothing, so it can end a notebook cell.

Each describes its picture; a cell that draws with matplotlib itself ends with `describe("what the picture shows")`.
"""

from operator import index

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.collections import LineCollection
from matplotlib.patches import Patch, Rectangle

from utils.ground.alt import describe
from utils.ground.colours import COLOURS, LINES, PALE
from utils.lesson.simulator import cdiv

__all__ = [
    "COLOURS",
    "LINES",
    "PALE",
    "describe",
    "plot_speed",
    "show_img",
    "show_matmul",
    "show_threads",
    "show_tiles",
]

TEXT = 12  # the smallest text, in points: still read when projected
MOST_CELLS = 400  # per side of show_threads: more would be drawn smaller than the pixels of a screen


def show_img(x, figsize: tuple[float, float] = (4, 3), alt: str | None = None, **kwargs) -> None:
    """Show a tensor (3, H, W), (1, H, W) or (H, W), from any device; `kwargs` go to matplotlib's `imshow`.

    `alt` says what the picture shows, for readers who cannot see it; without it, only its size is given.
    A single channel is shown in grey. uint8 runs from 0 (black) to 255, floats that are all within 0..1 from 0 to 1,
    other floats from their smallest to their largest value. Raises ValueError for another shape or an empty picture.
    """
    x = torch.as_tensor(x).detach().cpu()
    if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[0] not in (1, 3)):
        hint = " A flat row of 784 pixels becomes a picture by x.reshape(28, 28)." if x.ndim == 1 else ""
        raise ValueError(f"show_img takes (3, H, W), (1, H, W) or (H, W), but the shape is {tuple(x.shape)}.{hint}")
    if x.numel() == 0:
        raise ValueError(f"there is nothing to show: the shape is {tuple(x.shape)}")
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()  # matplotlib takes neither
    if x.ndim == 3:
        x = x[0] if x.shape[0] == 1 else x.permute(1, 2, 0)
    if x.ndim == 2:
        kwargs.setdefault("cmap", "gray")
        if x.dtype == torch.uint8:
            limits = (0, 255)
        else:
            limits = (0, 1) if x.is_floating_point() and x.min() >= 0 and x.max() <= 1 else (None, None)
        if "norm" not in kwargs:
            kwargs.setdefault("vmin", limits[0])
            kwargs.setdefault("vmax", limits[1])
    _, ax = plt.subplots(figsize=figsize)
    ax.axis("off")
    scales = ax.bbox.width / x.shape[1], ax.bbox.height / x.shape[0]
    if (max if kwargs.get("aspect") == "auto" else min)(scales) >= 1:
        kwargs.setdefault("interpolation", "nearest")  # an enlarged element has one colour
    ax.imshow(x.numpy(), **kwargs)
    kind = "grey picture" if x.ndim == 2 else "colour picture"
    describe(alt or f"a {kind} of {_count(x.shape[0], 'row')} and {_count(x.shape[1], 'column')} of pixels")


def show_threads(height: int, width: int, threads, of: str = "pixel") -> None:
    """Draw which thread of which block owns which pixel of a picture of `height` x `width` pixels.

    `of` is the word for a pixel, "element" for a matrix.
    `threads` is a number, for the flat numbering i = r * width + c, or a pair (x, y) for two-dimensional blocks.
    A colour is a block, the number in a cell is the thread (x,y for a pair), a thick line is the edge of the
    picture, and hatched cells are threads without a pixel. Numbers are left out where they would not fit.
    Raises ValueError or TypeError for sizes below 1, for blocks that are not one- or two-dimensional, and for more
    than 400 cells per side.
    """
    height, width = _at_least_1(height, "height"), _at_least_1(width, "width")
    if not isinstance(of, str):
        raise TypeError(f"threads is a number or a pair (x, y): write ({threads!r}, {of!r}) for two-dimensional blocks")
    if isinstance(threads, (tuple, list)):
        if len(threads) != 2:
            raise ValueError(f"threads is a number or a pair (x, y), but it is {threads!r}")
        x, y = (_at_least_1(size, "threads") for size in threads)
        _threads_2d(height, width, x, y, of)
    else:
        _threads_1d(height, width, _at_least_1(threads, "threads"), of)


def _threads_1d(height: int, width: int, threads: int, of: str) -> None:
    pixels = height * width
    blocks = cdiv(pixels, threads)
    launched = blocks * threads
    rows = cdiv(launched, width)
    _refuse_too_fine(rows, width)
    i = np.arange(rows * width).reshape(rows, width)
    block = np.where(i < launched, i // threads, -1)
    fig, ax, cell = _cells(block, block % len(COLOURS))

    outside = []  # what comes after the last pixel: full rows, then the start of one
    full, rest = divmod(launched - pixels, width)
    if full:
        outside.append((0, height, width, full))
    if rest:
        outside.append((0, height + full, rest, 1))
    _frame(ax, height, width, outside)
    numbered = _fits(str(threads - 1), cell)
    if numbered:
        for n in range(launched):
            _number(ax, n % width, n // width, n % threads, n >= pixels)

    legend = []
    for colour in range(min(blocks, len(COLOURS))):
        same = list(range(colour, blocks, len(COLOURS)))
        text = ", ".join(map(str, same)) if len(same) <= 3 else f"{same[0]}, {same[1]}, ..., {same[-1]}"
        legend.append(Patch(facecolor=COLOURS[colour], edgecolor="black", label=f"block {text}"))
    note = "the number in a cell is threadidx" if numbered else ""
    _finish(fig, ax, height, width, f"blocks={blocks}, threads={threads}", launched - pixels, note, legend, of)


def _threads_2d(height: int, width: int, x: int, y: int, of: str) -> None:
    across, down = cdiv(width, x), cdiv(height, y)
    _refuse_too_fine(down * y, across * x)
    r, c = np.mgrid[: down * y, : across * x]
    # a step right, down or along either diagonal always changes the colour
    fig, ax, cell = _cells(r // y * across + c // x, (c // x + 3 * (r // y)) % len(COLOURS))
    outside = []
    if across * x > width:
        outside.append((width, 0, across * x - width, down * y))
    if down * y > height:
        outside.append((0, height, width, down * y - height))
    _frame(ax, height, width, outside)

    numbered = _fits(f"{x - 1},{y - 1}", cell)
    if numbered:
        for r, c in np.ndindex(down * y, across * x):
            _number(ax, c, r, f"{c % x},{r % y}", r >= height or c >= width)
    for axis, number, size in ((ax.xaxis, across, x), (ax.yaxis, down, y)):
        step = cdiv(number, max(1, int(number * size * cell / 0.5)))  # half an inch for each number
        shown = range(0, number, step)
        axis.set_ticks([block * size + (size - 1) / 2 for block in shown], [str(block) for block in shown])
    ax.tick_params(labelsize=TEXT, length=0, labeltop=True, labelbottom=False)
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("blockidx.x", fontsize=TEXT)
    ax.set_ylabel("blockidx.y", fontsize=TEXT)
    grid = f"blocks=({across}, {down}), threads=({x}, {y})"
    note = "the numbers in a cell are threadidx.x,threadidx.y" if numbered else ""
    _finish(fig, ax, height, width, grid, across * x * down * y - height * width, note, [], of)


def show_matmul(h: int, k: int, w: int, row: int, col: int) -> None:
    """Draw what the output at (row, col) of m @ n reads: row `row` of m (h, k) and column `col` of n (k, w).

    Sides longer than 24 are drawn shortened. Raises ValueError or TypeError for sizes below 1 and for a position
    outside the output.
    """
    h, k, w = _at_least_1(h, "h"), _at_least_1(k, "k"), _at_least_1(w, "w")
    row, col = index(row), index(col)
    if not (0 <= row < h and 0 <= col < w):
        raise ValueError(f"the output has shape ({h}, {w}), so it has no element at row={row}, col={col}")

    tall, inner, wide = (min(side, 24) for side in (h, k, w))
    gap = 2.5
    cell = min(0.45, 9 / (inner + gap + wide), 7 / (inner + gap + tall))
    fig, ax = plt.subplots(figsize=(cell * (inner + gap + wide) + 1.2, cell * (inner + gap + tall) + 1.2))
    left, top = inner + gap, inner + gap  # corner of the output

    def matrix(x, y, columns, rows, drawn_columns, drawn_rows, chosen_row, chosen_column, colour, text, below):
        ax.add_patch(Rectangle((x, y), drawn_columns, drawn_rows, facecolor=PALE, edgecolor="none"))
        wide_cell, high_cell = drawn_columns / columns, drawn_rows / rows
        a, b = (0, drawn_columns) if chosen_column is None else (chosen_column * wide_cell, wide_cell)
        c, d = (0, drawn_rows) if chosen_row is None else (chosen_row * high_cell, high_cell)
        ax.add_patch(Rectangle((x + a, y + c), b, d, facecolor=colour, edgecolor="none", zorder=2))
        ax.add_patch(Rectangle((x + a, y + c), b, d, fill=False, edgecolor="black", linewidth=1.5, zorder=4))
        lines = []
        if columns == drawn_columns:
            lines += [[(x + i, y), (x + i, y + drawn_rows)] for i in range(1, columns)]
        if rows == drawn_rows:
            lines += [[(x, y + i), (x + drawn_columns, y + i)] for i in range(1, rows)]
        ax.add_collection(LineCollection(lines, colors="white", linewidths=1, zorder=3))
        ax.add_patch(Rectangle((x, y), drawn_columns, drawn_rows, fill=False, edgecolor="black", zorder=4))
        place = (x + drawn_columns / 2, y + drawn_rows + 0.2) if below else (x + drawn_columns / 2, y - 0.2)
        ax.text(*place, text, ha="center", va="top" if below else "bottom", fontsize=TEXT)

    matrix(0, top, k, h, inner, tall, row, None, COLOURS[0], f"m ({h}, {k})\nrow {row}", True)
    matrix(left, 0, w, k, wide, inner, None, col, COLOURS[1], f"n ({k}, {w})\ncolumn {col}", False)
    matrix(left, top, w, h, wide, tall, row, col, COLOURS[5], f"out ({h}, {w})\nout[{row}, {col}]", True)
    y, x = top + (row + 0.5) * tall / h, left + (col + 0.5) * wide / w
    arrow = {"arrowstyle": "->", "linewidth": 1.5, "shrinkA": 0, "shrinkB": 2}
    ax.annotate("", (left + col * wide / w, y), (inner, y), arrowprops=arrow, zorder=5)
    ax.annotate("", (x, top + row * tall / h), (x, inner), arrowprops=arrow, zorder=5)
    ax.set_xlim(-0.1, left + wide + 0.1)
    ax.set_ylim(top + tall + 0.1, -0.1)
    ax.set_aspect("equal")
    ax.axis("off")
    note = "\n(long sides are drawn shortened)" if max(h, k, w) > 24 else ""
    terms = "1 product" if k == 1 else f"the sum of {k:,} products"
    fig.suptitle(f"out[{row}, {col}] is {terms}{note}", fontsize=TEXT + 1)
    fig.tight_layout()
    describe(f"row {row} of m ({h}, {k}) and column {col} of n ({k}, {w}): out[{row}, {col}] is {terms}", fig)


def show_tiles(h: int, k: int, w: int, tile: int, block, step: int) -> None:
    """Draw which tiles of m (h, k) and n (k, w) a block of the tiled product loads in one step.

    `block` is the pair (blockidx.x, blockidx.y), its output a square of `tile` x `tile` elements; steps count from 0.
    The two tiles of the step are dark, all others that the block needs are light, and their parts outside the matrices
    are hatched. Raises ValueError or TypeError for sizes below 1, for a block that is not a pair, for a block or a step
    that does not exist, and for more than 24 tiles per side.
    """
    h, k, w, tile = (_at_least_1(size, name) for size, name in ((h, "h"), (k, "k"), (w, "w"), (tile, "tile")))
    if not isinstance(block, (tuple, list)) or len(block) != 2:
        raise ValueError(f"block is a pair (x, y), but it is {block!r}")
    column, row, step = index(block[0]), index(block[1]), index(step)
    down, steps, across = (cdiv(side, tile) for side in (h, k, w))
    if not (0 <= column < across and 0 <= row < down and 0 <= step < steps):
        grid = f"there are {across} x {down} blocks and {_count(steps, 'step')}"
        raise ValueError(f"{grid}, so no block=({column}, {row}) with step={step}")
    if max(down, steps, across) > 24:
        raise ValueError(f"{max(down, steps, across)} tiles are too fine to see, 24 per side is the most")

    gap = 1.4 * max(down, steps, across) / 8  # everything is drawn in tiles
    cell = min(0.75, 9.5 / (steps + gap + across), 7.5 / (steps + gap + down))
    fig, ax = plt.subplots(figsize=(cell * (steps + gap + across) + 0.6, cell * (steps + gap + down) + 1.3))
    left = top = steps + gap  # corner of the output

    def matrix(x, y, rows, columns, needed, chosen, colour, text, below):
        """A matrix at (x, y) with its grid of tiles; `needed` and `chosen` are (column, row, wide, high) in tiles."""
        wide, high = columns / tile, rows / tile
        ax.add_patch(Rectangle((x, y), wide, high, facecolor=PALE, edgecolor="none"))
        for (a, b, c, d), alpha in ((needed, 0.45), (chosen, 1)):
            ax.add_patch(Rectangle((x + a, y + b), c, d, facecolor=colour, edgecolor="none", alpha=alpha, zorder=2))
        a, b, c, d = needed
        outside = {"facecolor": "white", "hatch": "///", "edgecolor": "grey", "zorder": 3}
        for i, j, wider, higher in ((wide, b, a + c - wide, d), (a, high, c, b + d - high)):
            if wider > 0 and higher > 0:
                ax.add_patch(Rectangle((x + i, y + j), wider, higher, **outside))
        lines = [[(x + i, y), (x + i, y + high)] for i in range(1, cdiv(columns, tile))]
        lines += [[(x, y + i), (x + wide, y + i)] for i in range(1, cdiv(rows, tile))]
        ax.add_collection(LineCollection(lines, colors="white", linewidths=1.5, zorder=4))
        ax.add_patch(Rectangle((x, y), wide, high, fill=False, edgecolor="black", linewidth=1.5, zorder=5))
        a, b, c, d = chosen
        ax.add_patch(Rectangle((x + a, y + b), c, d, fill=False, edgecolor="black", linewidth=2.5, zorder=6))
        edge = y + max(high, needed[1] + needed[3]) + 0.1 if below else y - 0.1
        ax.text(x + wide / 2, edge, text, ha="center", va="top" if below else "bottom", fontsize=TEXT)

    own = (column, row, 1, 1)
    matrix(0, top, h, k, (0, row, steps, 1), (step, row, 1, 1), COLOURS[0], f"m ({h}, {k})", True)
    matrix(left, 0, k, w, (column, 0, 1, steps), (column, step, 1, 1), COLOURS[1], f"n ({k}, {w})", False)
    matrix(left, top, h, w, own, own, COLOURS[5], f"out ({h}, {w})", True)
    ax.set_xlim(-0.1, left + across + 0.1)
    ax.set_ylim(top + max(h / tile, row + 1) + 0.1, -0.1)
    ax.set_aspect("equal")
    ax.axis("off")
    title = f"block ({column}, {row}), step {step} of 0 to {steps - 1}: two tiles of {tile} x {tile}"
    fig.suptitle(title, fontsize=TEXT + 1)
    fig.tight_layout()
    describe(f"m ({h}, {k}), n ({k}, {w}) and out ({h}, {w}); {title}, the tiles of m and n in dark colours", fig)


def plot_speed(table: pd.DataFrame) -> None:
    """Draw a table from `speed_table`: bars of how many times faster than the first row, on a logarithmic scale.

    A bar to the right is faster than the first row, a bar to the left slower.
    Raises ValueError for a table without the column 'times faster' or with a value in it that is not above zero.
    """
    if "times faster" not in table:
        raise ValueError(f"plot_speed takes a table from speed_table, but the columns here are {list(table.columns)}")
    ratios = table["times faster"].astype(float).to_numpy()
    if not len(ratios) or not (np.isfinite(ratios) & (ratios > 0)).all():
        raise ValueError(f"plot_speed needs ratios above 0, but got {ratios.tolist()}")
    least, most = min(ratios.min(), 1.0), max(ratios.max(), 10.0)
    decades = np.log10(most / least)

    fig, ax = plt.subplots(figsize=(9, 1.2 + 0.5 * len(ratios)))
    ax.set_xscale("log")
    colours = [COLOURS[0] if ratio >= 1 else COLOURS[1] for ratio in ratios]
    ax.barh(range(len(ratios)), ratios - 1, left=1, color=colours, edgecolor="black", height=0.7)
    for y, (ratio, time) in enumerate(zip(ratios, table.get("time", [""] * len(ratios)), strict=True)):
        text = f"{ratio:,.0f}x" if ratio >= 99.5 else f"{ratio:.3g}x"
        text += f" ({time})" if time else ""
        place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": TEXT}
        ax.annotate(text, (max(ratio, 1), y), **place)
    ax.axvline(1, color="black", linewidth=1)
    ax.set_xlim(least * 10 ** (-0.02 * decades), most * 10 ** (0.45 * decades))  # room for the text on the right
    ax.set_yticks(range(len(ratios)), [str(name) for name in table.index], fontsize=TEXT)
    ax.invert_yaxis()

    first, last = int(np.ceil(np.log10(least))), int(np.floor(np.log10(most)))
    step = cdiv(last - first + 1, 6)
    shown = [power for power in range(first, last + 1) if power % step == 0]
    ax.set_xticks([10.0**power for power in shown], [f"{10.0**power:,.10g}" for power in shown], fontsize=TEXT)
    ax.set_xticks([], minor=True)
    ax.set_xlabel(f"times faster than '{table.index[0]}' (logarithmic)", fontsize=TEXT)
    ax.spines[["top", "right"]].set_visible(False)
    fig.tight_layout()
    bars = "; ".join(f"{name}: {ratio:.3g}" for name, ratio in zip(table.index, ratios, strict=True))
    describe(f"bars, times faster than '{table.index[0]}': {bars}", fig)


def _cells(block: np.ndarray, colour: np.ndarray):
    """A figure with a coloured cell for each thread and lines between blocks; also the side of a cell in inches."""
    rows, columns = block.shape
    cell = min(0.5, 9 / columns, 6.5 / rows)
    fig, ax = plt.subplots(figsize=(max(cell * columns, 2) + 1.5, max(cell * rows, 1) + 1.5))
    palette = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in COLOURS], dtype=np.uint8)
    picture = np.where((block < 0)[..., None], 255, palette[colour]).astype(np.uint8)
    ax.imshow(picture, interpolation="nearest")
    if cell >= 0.1:
        lines = [[(c - 0.5, -0.5), (c - 0.5, rows - 0.5)] for c in range(1, columns)]
        lines += [[(-0.5, r - 0.5), (columns - 0.5, r - 0.5)] for r in range(1, rows)]
        ax.add_collection(LineCollection(lines, colors="white", linewidths=0.8))
    if cell >= 0.03:
        lines = []
        for r, c in np.argwhere(block[:, 1:] != block[:, :-1]):
            lines.append([(c + 0.5, r - 0.5), (c + 0.5, r + 0.5)])
        for r, c in np.argwhere(block[1:] != block[:-1]):
            lines.append([(c - 0.5, r + 0.5), (c + 0.5, r + 0.5)])
        ax.add_collection(LineCollection(lines, colors="black", linewidths=min(1.5, cell * 8), capstyle="projecting"))
    ax.set_xticks([])
    ax.set_yticks([])
    return fig, ax, cell


def _frame(ax, height: int, width: int, outside: list[tuple[int, int, int, int]]) -> None:
    """Hatch the threads without a pixel, rectangles (column, row, columns, rows), and draw the picture's edge."""
    for c, r, columns, rows in outside:
        place = (c - 0.5, r - 0.5)
        ax.add_patch(
            Rectangle(place, columns, rows, facecolor=(1, 1, 1, 0.6), edgecolor="#888888", hatch="///", linewidth=0)
        )
    ax.add_patch(
        Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor="black", linewidth=3, clip_on=False, zorder=4)
    )


def _number(ax, c: int, r: int, text, outside: bool) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "boxstyle": "round,pad=0.1"} if outside else None  # over hatching
    ax.text(c, r, text, ha="center", va="center", fontsize=TEXT, bbox=box)


def _finish(fig, ax, height: int, width: int, grid: str, idle: int, note: str, legend: list, of: str) -> None:
    for spine in ax.spines.values():
        spine.set_visible(False)
    title = f"{_count(height, 'row')} and {_count(width, 'column')} of {of}s, {grid}\n"
    article = f"an {of}" if of[0] in "aeiou" else f"a {of}"
    where = "hatched, after the last pixel" if legend else "hatched"
    title += f"{_count(idle, 'thread')} without {article} ({where})" if idle else f"every thread has {article}"
    ax.set_title(f"{title}\n{note}" if note else title, fontsize=TEXT)
    describe(f"which thread of which block owns which {of}: {title}".replace("\n", ", "), fig)
    if legend:
        ax.legend(handles=legend, fontsize=TEXT, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    fig.tight_layout()


def _refuse_too_fine(rows: int, columns: int) -> None:
    if max(rows, columns) > MOST_CELLS:
        raise ValueError(
            f"{rows} x {columns} threads are too fine to see, {MOST_CELLS} per side is the most: "
            "draw a smaller picture, the pattern is the same"
        )


def _fits(text: str, cell: float) -> bool:
    """Whether text fits a cell, in inches: a character is about 0.62 of the font size wide, a point is 1/72 inch."""
    return len(text) * 0.62 * TEXT / 72 < 0.95 * cell and 1.2 * TEXT / 72 < cell


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _at_least_1(value, name: str) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, but it is {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} must be at least 1, but it is {number}")
    return number
