"""What the benchmark times of operations that need all elements for a result: sum, argmax, cumsum, histograms."""

from functools import cache

import torch

from bench.operation import Operation, compiled, floats, kernel, on_a_gpu, room, same, total, tritons
from utils.cuda.common.toolchain import device

__all__ = ["histograms", "operations", "sizes", "sizes_of_histograms"]

SLOW = 2**20  # elements at most for the steps of the scan that run on a single SM


def sizes() -> list[int]:
    """How many float32 are added: 20 bytes for each suffice for everything."""
    if not on_a_gpu():
        return [2**16]
    return [n for n in (2**28, 2**30) if 20 * n < room()][-1:] or [2**28]


def operations(n):
    """The sum of n elements; argmax and cumsum of a quarter as many, and a copy of these, which all are divided by."""
    quarter = floats((n // 4,))
    target = cache(lambda: torch.empty(n // 4, device=device()))
    yield Operation("copy: PyTorch, `out.copy_(x)`", lambda x: target().copy_(x), quarter, same, 2 * n)
    for name, title, run in (
        ("sum", "PyTorch, `x.sum()`", torch.sum),
        *compiled("sum", "torch.compile", torch.sum),
        *((name, f"{words}, `{name}`", kernel("reduce", name)) for name, words in SUMS.items()),
        *tritons("sum"),
    ):
        yield Operation(f"{name.split('_')[0]}: {title}", run, floats((n,)), total, 4 * n, of="reduce")
    for name, title, run in (
        ("argmax", "PyTorch, `x.argmax()`", torch.argmax),
        *compiled("argmax", "torch.compile", torch.argmax),
        ("argmax", "one launch, a last block", kernel("reduce", "argmax")),
        *tritons("argmax"),
    ):
        yield Operation(f"{name}: {title}", run, quarter, first_largest, n, of="reduce")
    for name, title, run in (
        ("cumsum", "PyTorch, `x.cumsum(0)`", along_one),
        *compiled("cumsum", "torch.compile", along_one),
        ("cumsum", "three launches", kernel("scan", "cumsum_three")),
        ("cumsum", "one launch, decoupled look-back", kernel("scan", "cumsum_look_back")),
        ("cumsum", "one launch, tiles ahead by bulk copies, `cumsum`", kernel("scan", "cumsum")),
        *tritons("cumsum", "Triton, three launches"),
    ):
        yield Operation(f"{name}: {title}", in_rows(run), integers(n // 4), summed_so_far, 2 * n, of="scan")
    few = min(SLOW, n // 4)
    for name, title in ("cumsum_warp", "one warp"), ("cumsum_block", "one block"):
        run = in_rows(kernel("scan", name))
        yield Operation(f"cumsum of {few:,}: {title}", run, integers(few), summed_so_far, 8 * few, of="scan")


SUMS = {
    "sum_divergent": "a tree per block, lanes diverge",
    "sum_conflicts": "full warps, bank conflicts",
    "sum_halves": "halves, no conflicts",
    "sum_eight": "8 elements per thread first",
    "sum_shuffles": "shuffles",
    "sum_wide": "16 bytes per load, 4 in flight",
    "sum_atomic": "one launch, atomics",
    "sum": "one launch, a last block",
}


def along_one(x):
    return x.cumsum(0)


def in_rows(run):
    """The operation with its result in as many rows as are compared at once, so that few references are needed."""
    return lambda x: run(x).view(-1, max(1, len(x) // 2048))


def integers(n):
    """Returns whole numbers as float32 when called: their sums stay below 2^24, and so float32 holds them exactly, in
    whatever order they are added."""
    return lambda: (torch.randint(-64, 65, (n,), device=device()).float(),)


# ---- histograms -----------------------------------------------------------------------------------------------------


def sizes_of_histograms() -> list[int]:
    """How many bytes are counted."""
    return [2**28 if on_a_gpu() else 2**16]


def histograms(n):
    """Reading n bytes, which all are divided by; 256 bins of n bytes that are uniform, skewed or all equal."""
    yield Operation("reading: `sum` of float32", kernel("reduce", "sum"), floats((n // 4,)), total, n)
    for kind, inputs in BYTES.items():
        made = inputs(n)
        for title, run in (
            ("PyTorch, `x.bincount(minlength=256)`", lambda x: x.bincount(minlength=256)),
            *((f"{words}, `{name}`", kernel("histogram", name, 256)) for name, words in COUNTS.items()),
            *((title, run) for _, title, run in tritons("histogram", "Triton, `tl.histogram`")),
        ):
            yield Operation(f"{kind}: {title}", run, made, counts, n, of="histogram")
    made = BYTES["uniform"](n // 4)
    run = lambda x: x.histc(256, 0, 256)  # noqa: E731, of float32: this is what torch.histc takes
    yield Operation("uniform float32: PyTorch, `x.histc(256, 0, 256)`", run, lambda: (made()[0].float(),), counts, n)
    for title, run in (
        ("PyTorch, `x.bincount(minlength=65_536)`", lambda x: x.bincount(minlength=2**16)),
        ("atomics of a warp's votes, `histogram`", kernel("histogram", "histogram", 2**16)),
    ):
        yield Operation(f"65,536 bins, int32: {title}", run, many(n // 4), many_counts, n, of="histogram")


def made_of(floats_of):
    """Inputs of n bytes: `floats_of` makes their values from random numbers between 0 and 1."""
    return lambda n: lambda: (floats_of(torch.rand(n, device=device())).mul(256).to(torch.uint8),)


BYTES = {
    "uniform": made_of(lambda v: v),
    "skewed": made_of(lambda v: v**8),  # half of them are 0
    "all equal": made_of(lambda v: v[:1].expand_as(v).clone()),
}
COUNTS = {
    "histogram_global": "atomics on global memory",
    "histogram_shared": "a copy per block",
    "histogram_warps": "a copy per warp",
    "histogram_votes": "votes",
    "histogram_lanes": "a copy per lane",
    "histogram": "16 bytes per load",
}


def many(n):
    return lambda: (torch.randint(0, 2**16, (n,), dtype=torch.int32, device=device()),)


# ---- correct results ------------------------------------------------------------------------------------------------


def first_largest(rows, x):
    """Found without an argmax: the first place of those that hold the largest value."""
    return (x == x.max()).nonzero()[0][rows], 0.0


def summed_so_far(rows, x):
    return x.cumsum(0, dtype=torch.float64).view(-1, max(1, len(x) // 2048))[rows], 0.0


def counts(rows, x):
    """Counted bin by bin."""
    return torch.stack([(x == b).sum() for b in range(256)])[rows], 0.0


def many_counts(rows, x):
    """The distances between the places where the bins begin in the sorted elements."""
    begins = torch.searchsorted(x.sort().values, torch.arange(2**16 + 1, dtype=x.dtype, device=x.device))
    return begins.diff()[rows], 0.0
