"""What the benchmark times: every operation in kernels/ and its peers, their inputs, and the correct results.

The groups are collected here; reductions, scans and histograms are in reduce.py, those on whole rows in rows.py and
fused.py.
"""

from functools import cache

import torch

from bench import fused, reduce, rows
from bench.operation import (
    LARGE,
    Group,
    Operation,
    floats,
    kernel,
    levels,
    on_a_gpu,
    room,
    same,
    sides,
    total,
    tritons,
)
from utils.cuda.common.toolchain import device

__all__ = ["GROUPS", "Group", "Operation", "product"]

# ---- what is measured -----------------------------------------------------------------------------------------------


def bandwidth(side):
    """Copy, square, grayscale and transpose of square arrays: all of them only move data."""
    from torchvision.transforms.v2.functional import rgb_to_grayscale

    square, planes = floats((side, side)), levels(3, side, side)
    target = cache(lambda: torch.empty(side, side, device=device()))
    kinds = {  # inputs, the correct result, and bytes per element
        "copy": (square, same, 8),
        "square": (square, squares, 8),
        "grayscale": (planes, grey_levels, 4),
        "transpose": (square, flipped, 8),
    }
    for name, title, run, *others in (
        ("copy", "PyTorch, `out.copy_(x)`", lambda x: target().copy_(x)),
        ("copy", "4 bytes per thread", kernel("copy", "copy")),
        ("copy", "16 bytes per thread", kernel("copy", "copy_vector")),
        *tritons("copy"),
        ("square", "PyTorch, `torch.square(x)`", torch.square),
        ("square", "4 bytes per thread", kernel("square", "square")),
        *tritons("square"),
        ("grayscale", "torchvision", lambda x: rgb_to_grayscale(x)[0]),
        ("grayscale", "1 byte per thread", kernel("grayscale", "rgb_to_grayscale")),
        ("grayscale", "1 byte per thread, blocks of 16 x 16", kernel("grayscale", "rgb_to_grayscale_2d")),
        (
            "grayscale",
            "1 byte per thread, `(h, w, 3)`",
            kernel("grayscale", "rgb_to_grayscale_hwc"),
            levels(side, side, 3),
        ),
        ("grayscale", "16 bytes per thread", kernel("grayscale", "rgb_to_grayscale_vector")),
        *tritons("grayscale"),
        ("transpose", "PyTorch, `x.t().contiguous()`", lambda x: x.t().contiguous()),
        *(("transpose", way, kernel("transpose", f"transpose_{way}")) for way in TRANSPOSES),
        *tritons("transpose"),
    ):
        inputs, right, size = kinds[name]
        yield Operation(f"{name}: {title}", run, *(others or [inputs]), right, size * side * side, of=name)
    for h, w in ODD if on_a_gpu() else [(63, 65), (259, 17)]:
        yield from odd_transposes(h, w)


def odd_transposes(h, w):
    """Copies of h x w floats, and transposes."""
    target, inputs, size = cache(lambda: torch.empty(h, w, device=device())), floats((h, w)), f"{h:,} x {w:,}"
    for title, run in (
        ("PyTorch", lambda x: target().copy_(x)),
        ("16 bytes per thread", kernel("copy", "copy_vector")),
    ):
        yield Operation(f"copy, {size}: {title}", run, inputs, same, 8 * h * w, of="transpose")
    for title, run in (
        ("PyTorch", lambda x: x.t().contiguous()),
        ("fast", kernel("transpose", "transpose_fast")),
        *((title, run) for _, title, run in tritons("transpose")),
    ):
        yield Operation(f"transpose, {size}: {title}", run, inputs, flipped, 8 * h * w, of="transpose")


ODD = [(4095, 4097), (100_003, 257)]  # sizes that do not allow accesses of 16 bytes
TRANSPOSES = ("naive", "tiled", "padded", "swizzled", "rows", "wide", "large", "registers", "fast")
LADDER = [  # what each rung adds, its operation and function, and the width of its tiles where it takes one
    ("uncoalesced: a warp takes a column", "matmul", "matmul_uncoalesced"),
    ("coalesced: one element per thread", "matmul", "matmul"),
    ("tiles in shared memory, 16 wide", "matmul_tiled", "matmul_tiled"),
    ("tiles as wide as the launch requests, 16", "matmul_tiled", "matmul_dynamic", 16),
    ("tiles as wide as the compiler knows, 8", "matmul_tiled", "matmul_template", 8),
    ("tiles as wide as the compiler knows, 16", "matmul_tiled", "matmul_template", 16),
    ("tiles as wide as the compiler knows, 32", "matmul_tiled", "matmul_template", 32),
    ("8 elements of a column per thread", "matmul_registers", "matmul_column"),
    ("8 x 8 elements per thread", "matmul_registers", "matmul_square"),
    ("16 bytes per load", "matmul_registers", "matmul_vector"),
    ("no bank conflicts", "matmul_registers", "matmul_banks"),
    ("64 x 32 elements per warp", "matmul_registers", "matmul_warp"),
    ("the next tiles in flight meanwhile", "matmul_async", "matmul_async"),
    ("16 x 8 elements per thread", "matmul_async", "matmul_async_large"),
    ("a step ahead, and products in order", "matmul_fast", "matmul_fast"),
]


def matmul(side):
    """Products of square float32 matrices, from the naive kernel to the fastest, beside PyTorch's and Triton's."""
    yield product("PyTorch, `m @ n`", torch.matmul, side, side, side)
    for title, name, function, *tile in LADDER:
        yield product(f"{title}, `{function}`", kernel(name, function, *tile), side, side, side, name)
    for _, title, run in tritons("matmul", "Triton, `tl.dot`"):
        yield product(title, run, side, side, side)


def narrow(h, k=784, w=10):
    """A product with few columns, as of digits and weights: the time goes into reading m (h, k)."""
    yield Operation("reading m alone: PyTorch, `m.sum()`", torch.sum, floats((h, k)), total, 4 * h * k)
    if on_a_gpu() and room() > 6 * 4 * LARGE:
        yield Operation(f"reading {LARGE:,} floats: PyTorch, `x.sum()`", torch.sum, floats((LARGE,)), total, 4 * LARGE)
    yield product("PyTorch, `m @ n`", torch.matmul, h, k, w)
    for title, name, function in (
        ("coalesced: one element per thread", "matmul", "matmul"),
        ("made for large products", "matmul_fast", "matmul_fast"),
        ("a warp per row", "matmul_rows", "matmul_row"),
        ("4 rows per warp", "matmul_rows", "matmul_rows"),
        ("16 bytes per read", "matmul_rows", "matmul_rows_vector"),
        ("copies in flight", "matmul_narrow", "matmul_narrow"),
    ):
        yield product(f"{title}, `{function}`", kernel(name, function), h, k, w, name)


def product(name, run, h, k, w, of="") -> Operation:
    """An Operation that multiplies float32 m (h, k) and n (k, w)."""
    return Operation(name, run, floats((h, k), (k, w)), products, 4 * (h * k + k * w + h * w), 2 * h * k * w, of)


GROUPS = {
    "bandwidth": Group(
        bandwidth, lambda: sides([4096, 8192, 16384], 2048)[-1:], "{0} x {0}", "bytes", {"of the copy": ""}
    ),
    "matmul": Group(matmul, lambda: sides([4096, 8192], 256), "{0} x {0} @ {0} x {0}", "flops", {"of `@`": ""}),
    "narrow": Group(
        narrow, lambda: [50_000], "{0} x 784 @ 784 x 10", "bytes", {"of `m.sum()`": "", "of `@`": "PyTorch"}
    ),
    "reduce": Group(reduce.operations, reduce.sizes, "sum of {0}, others of a quarter", "bytes", {"of the copy": ""}),
    "histogram": Group(reduce.histograms, reduce.sizes_of_histograms, "{0} bytes", "bytes", {"of reading": ""}),
    "rows": Group(rows.operations, rows.sizes, "{0}", "bytes", {"of the copy": ""}),
    "fused": Group(fused.operations, fused.sizes, "{0} rows", "bytes", {"of the copy": ""}),
}


# ---- correct results ------------------------------------------------------------------------------------------------


def flipped(rows, x):
    return x[:, rows].t(), 0.0


def squares(rows, x):
    exact = x[rows].double().square()
    return exact, 1e-7 * exact  # half a unit in the last place of a float32 is 6e-8 of it


def grey_levels(rows, x):
    """Lesson 01's sum, for either layout, truncated to a whole level: up to 1 below the float64 value. torchvision and
    the kernels sum in float32, whose rounding errors come to less than 1e-4 of a level."""
    red, green, blue = (x[rows][..., i] if x.shape[-1] == 3 else x[i, rows] for i in range(3))
    exact = 0.2989 * red.double() + 0.5870 * green.double() + 0.1140 * blue.double()
    return exact - 0.5, 0.5 + 1e-4


def products(rows, m, n):
    """In float64. A float32 sum rounds up and down at random, so the error grows with the root of the sum of squares,
    and with the root of the number of steps. TF32, which keeps 10 bits of the 23, exceeds the bound."""
    bound = 1e-6 * (m.shape[1] + 1) ** 0.5 * (m[rows].square() @ n.square()).sqrt() + 1e-12
    return m[rows].double() @ n.double(), bound
