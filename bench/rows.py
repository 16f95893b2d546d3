"""What the benchmark times of operations that need a whole row of a matrix before they write any of it."""

import math
from functools import cache

import torch

from bench.norms import norms
from bench.operation import Operation, compiled, floats, kernel, on_a_gpu, room, same, tritons
from utils.cuda.common.toolchain import device

__all__ = ["copies", "operations", "sizes"]

SHAPES = [(8192, 8192), (4096, 32768), (131072, 1024)]
DTYPES = (torch.float32, torch.bfloat16)


def sizes() -> list[tuple[int, int]]:
    """The shapes (h, w) that the GPU has room for: 64 bytes per element suffice for everything."""
    if not on_a_gpu():
        return [(64, 1024)]
    return [(h, w) for h, w in SHAPES if 64 * h * w < room()] or SHAPES[:1]


def operations(shape):
    """Each operation in float32 and in bfloat16, below a copy of the same bytes."""
    for dtype in DTYPES:
        yield copies(shape, dtype)
        yield from softmaxes(shape, dtype)
        yield from norms(shape, dtype)


def named(dtype) -> str:
    """'float32'"""
    return str(dtype).removeprefix("torch.")


def copies(shape, dtype) -> Operation:
    """A copy by PyTorch, into memory that exists."""
    target, moved = (
        cache(lambda: torch.empty(shape, dtype=dtype, device=device())),
        2 * dtype.itemsize * math.prod(shape),
    )
    title = f"copy: PyTorch, `out.copy_(x)`, {named(dtype)}"
    return Operation(title, lambda x: target().copy_(x), floats(shape, dtype=dtype), same, moved)


RUNGS = {  # of softmax: what each does, and the longest row that it takes
    "softmax_naive": ("a thread per row",),
    "softmax_three_passes": ("three passes",),
    "softmax_online": ("two passes, online",),
    "softmax_wide": ("two passes, 16 bytes per load",),
    "softmax_shared": ("rows in shared memory", 32768),
    "softmax_warp": ("rows in the registers of a warp", 1024),
    "softmax_block": ("rows in the registers of a block", 32768),
}


def softmaxes(shape, dtype):
    """Softmax of each row, which reads x and writes the result, and its gradient, which reads two arrays."""
    size = dtype.itemsize * math.prod(shape)
    rungs = [(name, words) for name, (words, *most) in RUNGS.items() if shape[1] <= min(most, default=shape[1])]
    for title, run in (
        ("PyTorch", by_rows),
        *((title, run) for _, title, run in compiled("softmax", "torch.compile", by_rows)),
        *((f"{words}, `{name}`", kernel("softmax", name)) for name, words in rungs if dtype is torch.float32),
        ("whichever fits, `softmax`", kernel("softmax", "softmax")),
        *((title, run) for _, title, run in tritons("softmax")),
    ):
        name, inputs = f"softmax: {title}, {named(dtype)}", floats(shape, dtype=dtype)
        serial = shape[1] if "softmax_naive" in title else shape[1] // 256 + 1
        yield Operation(name, run, inputs, shares(dtype, serial), 2 * size, of="softmax")
    for title, run in (
        ("PyTorch", gradient_by_rows),
        *((title, run) for _, title, run in compiled("softmax", "torch.compile", gradient_as_written)),
        ("`softmax_backward`", kernel("softmax", "softmax_backward")),
        *((title, run) for _, title, run in tritons("softmax_backward")),
    ):
        name = f"softmax's gradient: {title}, {named(dtype)}"
        yield Operation(name, run, with_shares(shape, dtype), gradients(dtype), 3 * size, of="softmax")


def by_rows(x):
    return torch.softmax(x, 1)


def gradient_by_rows(dy, y):
    return torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype)


def gradient_as_written(dy, y):
    grads, shares = dy.float(), y.float()
    return (shares * (grads - (grads * shares).sum(1, keepdim=True))).to(y.dtype)


def with_shares(shape, dtype):
    """Returns a random gradient and a softmax when called."""
    return lambda: (*floats(shape, dtype=dtype)(), by_rows(*floats(shape, dtype=dtype)()))


# ---- correct results ------------------------------------------------------------------------------------------------


def shares(dtype, serial=1):
    """In float64. In float32, exp of an element that is d below the largest is off by up to 2 + 1.2 d units of 2^-23
    with __expf (CUDA C++ Programming Guide, "Mathematical Functions"), with d below 12 here; the product adds less
    than as much again, and a sum of `serial` elements, one after the other, up to 2^-24 each. The result is rounded
    once more, to its dtype."""

    def right(rows, x):
        exact = torch.softmax(x[rows].double(), 1)
        return exact, (2 * 17 * 2.0**-23 + serial * 2.0**-24 + torch.finfo(dtype).eps / 2) * exact

    return right


def gradients(dtype):
    """In float64. The sum over a row is made in float32, of parts: its error is far below 2^-20 of the sum of the
    magnitudes. PyTorch first rounds each product of gradient and share to the dtype."""

    def right(rows, dy, y):
        grads, shares = dy[rows].double(), y[rows].double()
        exact = shares * (grads - (grads * shares).sum(1, keepdim=True))
        sizes = grads.abs() + (grads * shares).abs().sum(1, keepdim=True)
        unit = torch.finfo(dtype).eps / 2
        return exact, (2.0**-20 + unit) * shares * sizes + unit * exact.abs()

    return right
