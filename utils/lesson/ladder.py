"""The ladder of lessons 11 and 12: what a product's kernel reads beside its FMAs, how fast it runs, and the picture.

Lesson 11 writes out the first functions and explains them; lesson 12 imports them.
"""

from math import nan

import matplotlib.pyplot as plt
import torch

from utils.cuda.common.toolchain import device
from utils.ground.alt import describe
from utils.ground.colours import COLOURS, PALE
from utils.lesson.plots import TEXT
from utils.lesson.timing import measure

__all__ = ["assert_right", "costs", "product", "share_of_peak", "show_ladder", "tflops"]

SIZES = [(1, 1, 1), (17, 5, 31), (65, 100, 70), (130, 33, 257)]  # (h, k, w)


def product(kernel, grid, m, n) -> torch.Tensor:
    """What a kernel computes as m @ n. `grid(h, w)` is its blocks and threads for a result of that size."""
    (h, k), w = m.shape, n.shape[1]
    out = torch.full((h, w), nan, device=m.device)
    kernel[grid(h, w)](m, n, out, h, w, k)
    return out


def assert_right(kernel, grid) -> None:
    """Compare a kernel on awkward sizes with a product in float64."""
    for h, k, w in SIZES:
        m, n = torch.randn(h, k), torch.randn(k, w)
        out = product(kernel, grid, m.to(device()), n.to(device())).cpu()
        torch.testing.assert_close(out, m.double() @ n.double(), rtol=1e-5, atol=1e-4, check_dtype=False)


def costs(trace, h, w, k) -> tuple[float, float]:
    """The reads and the passes per FMA of a traced product, all counted in warps, as the source has them.

    Reads are requests of any kind. An asynchronous copy is one instruction with two rows in the trace: one read, and
    its passes are those of what it stores.
    """
    table, fmas = trace.requests, h * w * k / 32
    copies, stores = table["source"].str.contains("memcpy_async"), table["op"] == "store"
    shared, outside = table[table["space"] == "shared"], table[(table["space"] == "global") & ~copies]
    passes = shared["wavefronts"].sum() + max(outside["requests"].sum(), outside["sectors"].sum() / 4)
    return table["requests"][~(copies & stores)].sum() / fmas, passes / fmas


def share_of_peak(reads, passes) -> float:
    """What is left of an SM's float32 peak if an FMA comes with so many reads and passes: an estimate, for an SM whose
    four schedulers issue one instruction per cycle each and whose shared memory serves one pass per cycle."""
    return 1 / max(1 + reads, 4 * passes)


def tflops(kernel, grid, m, n, out) -> float:
    """How fast a kernel computes out = m @ n, in TFLOP/s: 2 h w k operations."""
    (h, k), w = m.shape, n.shape[1]
    return 2 * h * w * k / measure(kernel[grid(h, w)], m, n, out, h, w, k).seconds / 1e12


def show_ladder(speeds, estimates, peak) -> None:
    """Draw the rungs as bars. `speeds` maps a GPU's name to its TFLOP/s by rung; `estimates`, by rung, and `peak`, both
    in TFLOP/s too, belong to an H200."""
    names = list(dict.fromkeys([*estimates, *(name for of in speeds.values() for name in of)]))
    thick = 0.5 / len(speeds)
    fig, ax = plt.subplots(figsize=(11, 0.65 * len(names) + 1.6))
    bars = [estimates.get(name, nan) for name in names]
    ax.barh(names, bars, 0.8, color=PALE, edgecolor="black", label="estimate, NVIDIA H200")
    for number, (gpu, of) in enumerate(speeds.items()):
        places = [i + (number - (len(speeds) - 1) / 2) * thick for i in range(len(names))]
        bars = [of.get(name, nan) for name in names]
        ax.barh(places, bars, thick, color=COLOURS[number], edgecolor="black", label=f"measured, {gpu}")
    ax.axvline(peak, color="black", linestyle="--", label=f"float32 peak of an H200's CUDA cores, {peak:.1f}")
    ax.invert_yaxis()
    ax.set_xlabel("TFLOP/s, 4096 x 4096 matrices", fontsize=TEXT + 1)
    ax.set_ylabel("kernel", fontsize=TEXT + 1)
    ax.tick_params(labelsize=TEXT + 1)
    ax.spines[["top", "right"]].set_visible(False)
    fig.legend(loc="outside upper left", ncols=2, fontsize=TEXT, frameon=False)
    fig.set_layout_engine("constrained")
    text = "; ".join(
        f"{gpu}: " + ", ".join(f"{name} {rate:.1f}" for name, rate in of.items()) for gpu, of in speeds.items()
    )
    describe(f"bars of TFLOP/s beside an estimate for each, below a peak of {peak:.1f}. {text}", fig)
