"""What a line and a table of the benchmark are, and what their modules make them of: inputs, our kernels, peers."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import torch

import kernels
from utils.cuda.common.toolchain import device

__all__ = ["LARGE", "Group", "Operation", "compiled", "floats", "kernel", "levels", "on_a_gpu", "room", "same"]
__all__ += ["sides", "total", "tritons"]

LARGE = 2**28  # floats in an array large enough to be read at full memory speed


class Operation(NamedTuple):
    """One line of a table."""

    name: str
    run: Callable  # takes the inputs
    inputs: Callable  # returns fresh random inputs, a tuple
    right: Callable | tuple  # of a slice and the inputs: the correct values of these rows, and how far the result may
    # be off; a tuple of such functions if it returns a tuple of tensors
    bytes: int  # read and written, at least
    flops: int = 0
    of: str = ""  # the operation in kernels/ that this is about; empty for a peer of all of them


class Group(NamedTuple):
    """One table."""

    operations: Callable  # yields the operations for a size; the others are compared with the first
    sizes: Callable  # returns the sizes that are measured on this device
    heading: str  # with {0} for the size
    counts: str  # 'bytes' or 'flops': what the rate counts
    against: dict  # the comparing columns: name, and how the row that all are divided by begins ("": the first row)


def on_a_gpu() -> bool:
    return device().type == "cuda"


def floats(*shapes, dtype=torch.float32):
    """Returns fresh random inputs when called; they are made in float32, and may be rounded to another dtype."""
    return lambda: tuple(torch.randn(shape, device=device()).to(dtype) for shape in shapes)


def levels(*shape):
    return lambda: (torch.randint(0, 256, shape, dtype=torch.uint8, device=device()),)


def kernel(name, function, *more):
    """A call of a function in kernels/, which is built at the first call; `more` follows the inputs."""
    built = cache(lambda: getattr(kernels.load(name), function))
    return lambda *inputs: built()(*inputs, *more)


def tritons(name, title="Triton") -> list[tuple]:
    """An operation's line for Triton, from one of bench/triton_*.py; none without a GPU or Triton."""
    if not on_a_gpu() or not find_spec("triton"):
        return []
    from bench import triton_kernels, triton_norms, triton_rows

    modules = (triton_kernels, triton_norms, triton_rows)
    return [(name, title, next(getattr(module, name) for module in modules if hasattr(module, name)))]


def compiled(name, title, function) -> list[tuple]:
    """An operation's line for what torch.compile makes of a function, for the shapes at hand; none without a GPU.
    It is compiled at the first call. What was compiled before is forgotten, as torch.compile would soon refuse more."""
    made = cache(lambda: torch._dynamo.reset() or torch.compile(function, dynamic=False))
    return [(name, title, lambda *inputs: made()(*inputs))] if on_a_gpu() else []


def room() -> int:
    """Bytes of the GPU's memory."""
    return torch.cuda.get_device_properties(device()).total_memory


def sides(wanted, on_a_cpu) -> list[int]:
    """The sides of squares that the GPU has room for: 64 bytes per element suffice for everything. If there is too
    little room for any, the smallest is tried."""
    if not on_a_gpu():
        return [on_a_cpu]
    return [side for side in wanted if 64 * side * side < room()] or wanted[:1]


def same(rows, x):
    """The correct result of a copy."""
    return x[rows], 0.0


def total(rows, x):
    """In float64. x is random around 0, so the sum is small, and a single missing element shows. In a float32 sum by
    parts, up to 256 roundings follow each other, each by up to 2^-24: added up at random they reach 16 times 2^-24 of
    the norm of x. Four times as much is allowed."""
    return x.sum(dtype=torch.float64)[None][rows], 4 * 16 * 2.0**-24 * x.norm()
