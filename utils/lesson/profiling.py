"""What profilers report, as pictures and tables: a trace's timeline, the roofline, a trace's counts by ncu's names.

Importing it also quiets PyTorch's profiler, whose library would otherwise print messages of its own into the cell.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch

from utils.ground.alt import describe
from utils.ground.colours import COLOURS, LINES, PALE
from utils.lesson.plots import TEXT

__all__ = ["counted", "show_roofline", "show_trace"]

# libkineto, which records for torch.profiler, reads this when it is first used. 6 is above its highest level.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

_ON_CPU = ("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver")
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


# ---- the timeline of a trace ----------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """An event of a trace: its row, its lane in there, name, begin and length in microseconds, and whether it is a
    mark that somebody set (`record_function`, or the profiler's own for a step)."""

    row: str
    lane: int
    name: str
    begin: float
    length: float
    mark: bool


def show_trace(trace) -> None:
    """Draw a Chrome trace of `torch.profiler`, the file or what is in it: a row for each thread and each stream.

    A bar is an operator, from left to right in milliseconds; what an operator calls is in the lanes under it. The
    eight names that take the most time have a colour (with a GPU, at least three of them from its streams), grey marks
    were set by the program, and a bar that is wide enough carries its name.
    Raises ValueError for a file without such events.
    """
    bars = bars_of(trace)
    rows = list(dict.fromkeys(bar.row for bar in bars))
    lanes = {row: 1 + max(bar.lane for bar in bars if bar.row == row) for row in rows}
    colours = _colours(bars)
    width, high = 13.7, 0.36 * (sum(lanes.values()) + 0.6 * len(rows))
    fig, ax = plt.subplots(figsize=(width, high + 2.2), layout="constrained")
    end = max(bar.begin + bar.length for bar in bars) / 1e3
    inch = end / (0.86 * width)  # milliseconds of an inch, for the labels

    top, ticks = 0.0, []
    for row in rows:
        ticks.append((top + lanes[row] / 2, row))
        for lane in range(lanes[row]):
            there = [bar for bar in bars if (bar.row, bar.lane) == (row, lane)]
            spans = [(bar.begin / 1e3, bar.length / 1e3) for bar in there]
            faces = [colours.get(bar.name, "#EEEEEE" if bar.mark else "white") for bar in there]
            edge = {"edgecolor": "#555555", "linewidth": 0.6}
            ax.broken_barh(spans, (top + lane + 0.05, 0.9), facecolors=faces, **edge)
            for bar, (begin, length) in zip(there, spans, strict=True):
                if len(bar.name) * 0.62 * TEXT / 72 * inch < 0.95 * length:
                    middle = (begin + length / 2, top + lane + 0.5)
                    ax.text(*middle, bar.name, ha="center", va="center", fontsize=TEXT, clip_on=True)
        top += lanes[row] + 0.6
    ax.set_xlim(0, end)
    ax.set_ylim(top - 0.6, 0)
    ax.set_yticks([place for place, _ in ticks], [name for _, name in ticks], fontsize=TEXT)
    ax.tick_params(axis="x", labelsize=TEXT)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("milliseconds", fontsize=TEXT)
    ax.spines[["top", "right", "left"]].set_visible(False)
    legend = [Patch(facecolor=colour, edgecolor="#555555", label=_label(name)) for name, colour in colours.items()]
    labels = [len(patch.get_label()) for patch in legend]
    columns = 4 if sum(max(labels[at : at + 2]) for at in range(0, len(labels), 2)) <= 100 else 3
    place = {"loc": "outside upper left", "fontsize": TEXT, "frameon": False, "ncols": columns}
    fig.legend(handles=legend, title="most time, with what they call:", title_fontsize=TEXT, alignment="left", **place)
    describe(f"timeline of {', '.join(rows)}, {end:.3g} ms; most time: {', '.join(colours)}", fig)


def bars_of(trace) -> list[Bar]:
    """The events of a Chrome trace as bars, in the order of their rows; begins count from the first event."""
    name = "the trace" if isinstance(trace, dict) else Path(trace).name
    events = [
        event
        for event in (trace if isinstance(trace, dict) else json.loads(Path(trace).read_text()))["traceEvents"]
        if event.get("ph") == "X" and event.get("cat") in _ON_CPU + _ON_GPU and event.get("dur", 0) > 0
    ]
    if not events:
        raise ValueError(f"{name} holds no operators: was a step recorded?")
    first = min(event["ts"] for event in events)
    events.sort(key=lambda event: (event["cat"] in _ON_GPU, event["ts"], -event["dur"]))
    threads, ends, bars = {}, {}, []
    for event in events:
        if event["cat"] in _ON_GPU:
            row = f"stream {event['tid']}"
        else:
            row = threads.setdefault((event["pid"], event["tid"]), f"thread {len(threads) + 1}")
        lane = _lane(ends.setdefault(row, []), event["ts"], event["dur"])
        mark = event["cat"] == "user_annotation"
        bars.append(Bar(row, lane, short(event["name"]), event["ts"] - first, event["dur"], mark))
    return bars


def _label(name) -> str:
    """A name for the legend, where three columns have room for 34 characters each: a longer one without its middle."""
    return name if len(name) <= 34 else f"{name[:14]}...{name[-17:]}"


def short(name) -> str:
    """A kernel's name without its type, namespaces, template arguments and parameters; other names as they are."""
    if not re.search(r"\w[<(]", name):
        return name
    plain, depth = "", 0
    for letter in name.replace("(anonymous namespace)::", ""):
        depth += letter in "<("
        if not depth:
            plain += letter
        depth -= letter in ">)"
    return re.split(r"::|\s", plain.strip())[-1] or name


def _lane(ends, begin, length) -> int:
    """Take the first lane that is free at `begin`: what another bar calls comes under it."""
    lane = next((i for i, end in enumerate(ends) if end <= begin), len(ends))
    ends[lane : lane + 1] = [begin + length]
    return lane


def _colours(bars) -> dict:
    """A colour for each of the names that take the most time, at least three of them from streams where there is one;
    marks have none."""
    on_cpu, on_gpu = Counter(), Counter()
    for bar in bars:
        if not bar.mark:
            (on_gpu if bar.row.startswith("stream") else on_cpu)[bar.name] += bar.length
    kernels = on_gpu.most_common(max(3, len(COLOURS) - len(on_cpu)))
    most = on_cpu.most_common(len(COLOURS) - len(kernels)) + kernels
    return dict(zip((name for name, _ in most), COLOURS, strict=False))


# ---- the roofline ---------------------------------------------------------------------------------------------------


def show_roofline(peak, bandwidth, kernels, title="roof") -> None:
    """Draw the roof of a machine and kernels under it, on logarithmic scales.

    `peak` is in FLOP/s, `bandwidth` in bytes/s. `kernels` maps a name to (intensity, rate): the intensity in FLOP per
    byte, and the rate in FLOP/s as measured, or None. A full dot is what was measured; an open dot is the most that
    the roof allows. For a pair of intensities, from the bytes that were asked for and from the least bytes, the dot
    is at the larger one, and a line leads to it from the smaller one.
    Raises ValueError for values that are not above zero.

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
    architectures", Communications of the ACM 52 (4), 2009.
    """
    points = _points(peak, bandwidth, kernels)
    ridge = peak / bandwidth
    left = min([ridge, *(low for _, low, _, _ in points)]) / 3
    right = max([ridge, *(high for _, _, high, _ in points)]) * 3
    fig, ax = plt.subplots(figsize=(13, 6), layout="constrained")
    across = np.geomspace(left, right, 200)
    ax.loglog(across, np.minimum(peak, bandwidth * across), color="black", linewidth=2.5)
    ax.axvline(ridge, color="#555555", linewidth=1, linestyle=":")
    heights = []
    for number, (name, low, high, rate) in enumerate(points, 1):
        colour, line = COLOURS[(number - 1) % len(COLOURS)], LINES[(number - 1) % len(LINES)]
        at = min(peak, bandwidth * high) if rate is None else rate
        heights.append(at)
        if low < high:
            ax.plot([low, high], [at, at], color=line, linewidth=5, zorder=2)
        text = f"{number}  {name}: {_rate(at)}" + (" at most" if rate is None else "")
        face, edge = ("white", line) if rate is None else (colour, "black")
        dot = {"markersize": 19, "markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": 2}
        ax.plot(high, at, "o", label=text, zorder=3, **dot)
        ax.text(high, at, str(number), ha="center", va="center", fontsize=TEXT, zorder=4)

    lowest = min([peak, *heights]) / 6
    ax.set_xlim(left, right)
    ax.set_ylim(lowest, peak * 3)
    ax.set_xlabel("intensity, FLOP per byte", fontsize=TEXT + 2)
    ax.set_ylabel("FLOP/s", fontsize=TEXT + 2)
    ax.tick_params(labelsize=TEXT + 1)
    sides = {"right": "memory is the limit  ", "left": "  arithmetic is the limit"}
    for side, text in sides.items():
        ax.text(ridge, lowest * 1.5, text, ha=side, va="bottom", fontsize=TEXT + 1)
    ax.grid(color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    roof = f"{_rate(peak)}, {bandwidth / 1e9:,.4g} GB/s, ridge at {ridge:.3g} FLOP per byte"
    ax.set_title(f"{title}: {roof}", fontsize=TEXT + 2)
    if points:
        fig.legend(loc="outside right upper", fontsize=TEXT, frameon=False, labelspacing=1.1)
    shown = "; ".join(f"{name}: {_rate(rate)}" for name, (*_, rate) in zip(kernels, points, strict=True) if rate)
    describe(f"roofline of {title}: {roof}. {shown}", fig)


def _points(peak, bandwidth, kernels) -> list:
    """(name, low, high, rate) of each kernel, all of them looked at."""
    points = []
    for name, (intensity, rate) in kernels.items():
        low, high = sorted(intensity) if isinstance(intensity, (tuple, list)) else (intensity, intensity)
        points.append((name, low, high, rate))
    values = [peak, bandwidth, *(v for _, *rest in points for v in rest if v is not None)]
    if not all(np.isfinite(v) and v > 0 for v in values):
        raise ValueError(f"a roofline is drawn from numbers above 0, but got {values}")
    return points


def _rate(value) -> str:
    """FLOP/s with three digits and the unit that suits."""
    scale, unit = next((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (0, "")) if value >= s)
    return f"{value / (scale or 1):.3g} {unit}FLOP/s"


# ---- counts ---------------------------------------------------------------------------------------------------------


def counted(trace) -> dict:
    """The totals of a `kernel.trace` under the names of `figures.nsight_counters`: requests and sectors of global
    memory, wavefronts of shared memory, each for loads and stores."""
    table, totals = trace.requests, {}
    for space, columns in {"global": ("requests", "sectors"), "shared": ("wavefronts",)}.items():
        for op in ("load", "store"):
            rows = table[(table["space"] == space) & (table["op"] == op)]
            for column in columns:
                totals[f"{space}_{op}_{column}"] = int(rows[column].fillna(0).sum())
    return totals
