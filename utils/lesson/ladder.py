"""The ladder of lessons 11 and 12: what a product's kernel reads beside its FMAs, how fast it runs, and the pictures.

Lesson 11 writes out `costs` and `share_of_peak` and explains them; lesson 12 imports them.
"""

import difflib
from math import nan

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from utils.cuda.common.toolchain import device
from utils.ground.alt import describe
from utils.ground.colours import COLOURS, PALE
from utils.ground.progress import progress
from utils.lesson.figures import nsight_counters
from utils.lesson.plots import TEXT
from utils.lesson.timing import measure

__all__ = ["assert_right", "changes", "costs", "hardware_passes", "kernel_of", "measure_formats", "measure_rungs"]
__all__ += ["product", "share_of_peak", "show_ladder", "show_owners", "tflops"]

SIZES = [(1, 1, 1), (17, 5, 31), (65, 100, 70), (130, 33, 257)]  # (h, k, w)

#: The launch of tests/nsight for each rung of lesson 11, and the side of its result: side x 64 times 64 x side.
COUNTED = {"uncoalesced": ("rung_uncoalesced", 128), "naive": ("matmul", 64), "tile": ("matmul_tiled_32", 64)}
COUNTED |= {"column": ("rung_column", 128), "square": ("rung_square", 128), "16-byte reads": ("rung_vector", 128)}
COUNTED |= {"no conflicts": ("rung_banks", 128), "warp tiles": ("rung_warp", 128)}


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


def measure_rungs(rungs, side=4096) -> dict[str, float]:
    """TFLOP/s of each rung, a kernel and its grid, and of PyTorch's @ without TF32, on square matrices. Raises
    AssertionError where a result is wrong."""
    torch.backends.cuda.matmul.allow_tf32 = False
    m, n = (torch.randn(side, side, device=device()) for _ in range(2))
    out, exact, found = torch.empty_like(m), m.double() @ n.double(), {}
    for name, (kernel, grid) in progress(list(rungs.items()), "measuring"):
        out.fill_(nan)
        found[name] = tflops(kernel, grid, m, n, out)
        torch.testing.assert_close(out, exact, rtol=1e-4, atol=1e-2, check_dtype=False)
    return found | {"@": 2 * side**3 / measure(torch.matmul, m, n).seconds / 1e12}


def measure_formats(side=8192) -> dict[str, float]:
    """TFLOP/s of PyTorch's @ in float32, and on tensor cores in TF32 and bfloat16."""
    x, y = (torch.randn(side, side, device=device()) for _ in range(2))
    speeds = {}
    for name, tf32, of in [("float32", False, x), ("TF32", True, x), ("bfloat16", False, x.bfloat16())]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        speeds[name] = 2 * side**3 / measure(torch.matmul, of, y.to(of.dtype)).seconds / 1e12
    torch.backends.cuda.matmul.allow_tf32 = False
    return speeds


def hardware_passes(rung) -> float:
    """Passes per FMA of a warp that Nsight Compute counted on an H200 for a rung of lesson 11."""
    launch, side = COUNTED[rung]
    of = nsight_counters()["launches"][launch]
    shared = of["shared_load_wavefronts"] + of["shared_store_wavefronts"]
    requests = of["global_load_requests"] + of["global_store_requests"]
    sectors = of["global_load_sectors"] + of["global_store_sectors"]
    return (shared + max(requests, sectors / 4)) / (side * side * 64 / 32)


def kernel_of(text, name) -> str:
    """The source of one kernel template among others in a text."""
    at = text.index(f" {name}(")
    return text[text.rindex("template <", 0, at) : text.index("\n}\n", at) + 2]


def changes(text, old, new) -> None:
    """Print the lines in which two kernels of a text differ, below their signatures."""
    lines = [kernel_of(text, name).split(" {\n", 1)[1].splitlines() for name in (old, new)]
    found = list(difflib.unified_diff(*lines, n=0, lineterm=""))[2:]
    print(*[line for line in found if not line.startswith("@@")], sep="\n")


def show_owners(layouts) -> None:
    """Draw which elements of a block's tile of 128 columns threads 0 and 1 and warp 0 compute. A layout is a title and
    two functions of a lane: its rows and its columns."""
    fig, axes = plt.subplots(1, len(layouts), figsize=(13, 4.3), layout="constrained", squeeze=False)
    colours = {"thread 0": "black", "thread 1": COLOURS[1], "the rest of warp 0": COLOURS[0], "other warps": PALE}
    for ax, (name, rows, columns) in zip(axes[0], layouts, strict=True):
        owner = np.full((128, 128), 3)
        for lane in range(32):
            owner[np.ix_(rows(lane), columns(lane))] = min(lane, 2)
        ax.imshow(owner[:64], cmap=ListedColormap(list(colours.values())), vmin=0, vmax=3)
        ax.set_title(name, fontsize=TEXT + 1)
        ax.set_xlabel("column of the block's tile", fontsize=TEXT + 1)
        ax.set_ylabel("row of the block's tile", fontsize=TEXT + 1)
        ax.set(xticks=(0, 32, 64, 96, 127), yticks=(0, 16, 32, 48, 63))
    names = [Patch(facecolor=colours[name], edgecolor="black", label=name) for name in colours]
    fig.legend(handles=names, loc="outside lower center", ncols=4, fontsize=TEXT + 1, frameon=False)
    described = " and ".join(name for name, _, _ in layouts)
    describe(f"Which elements of a tile threads 0 and 1 and warp 0 compute: {described}.", fig)


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
