"""`tensor_map`: what a kernel needs to have the copy engine (TMA) move boxes of a tensor, checked before CUDA sees it.

CUDA's own cuTensorMapEncodeTiled answers a mistake with "invalid argument". Source of the limits: cuda.h of CUDA 13.2.
"""

from collections.abc import Sequence
from operator import index

import torch

__all__ = ["SWIZZLES", "TYPES", "TensorMap", "tensor_map"]

#: The element types by dtype, as CUDA numbers them (CUtensorMapDataType). Bytes and 16-bit integers are only moved, so
#: their sign does not matter.
TYPES = {
    **dict.fromkeys([torch.uint8, torch.int8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2], 0),
    **dict.fromkeys([torch.uint16, torch.int16], 1),
    torch.uint32: 2,
    torch.int32: 3,
    torch.uint64: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.bfloat16: 9,
}
#: The bytes within which 16-byte chunks change places, by name; 0 for none. Their order is CUDA's (CUtensorMapSwizzle).
SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_MOST_DIMENSIONS, _LONGEST_BOX, _UNIT = 5, 256, 16


class TensorMap:
    """A tensor and the boxes that a kernel moves of it: see `tensor_map`. It keeps the tensor alive.

    `sizes`, `strides` (in bytes, without that of the first dimension) and `box` have the fastest-varying dimension
    first, as in CUDA.
    """

    def __init__(self, tensor, sizes, strides, box, swizzle):
        self.tensor, self.sizes, self.strides, self.box, self.swizzle = tensor, sizes, strides, box, swizzle
        self._encoded = None, b""  # for whom and which address, and the bytes

    def __repr__(self):
        dtype = str(self.tensor.dtype).removeprefix("torch.")
        return f"<map of a {dtype} tensor {tuple(self.tensor.shape)}, box {self.box}, swizzle {self.swizzle}>"

    @property
    def shape(self) -> torch.Size:
        """That of the tensor."""
        return self.tensor.shape

    @property
    def type(self) -> int:
        """The element type, as CUDA numbers it."""
        return TYPES[self.tensor.dtype]

    @property
    def swizzle_number(self) -> int:
        """The swizzle, as CUDA numbers it."""
        return list(SWIZZLES).index(self.swizzle)

    def encoded(self, by, address=None) -> bytes:
        """The 128 bytes of CUDA's own map, which `by(self, address)` makes; `address` is the tensor's by default."""
        key = by, self.tensor.data_ptr() if address is None else address
        if self._encoded[0] != key:
            self._encoded = key, by(self, key[1])
        return self._encoded[1]

    def changed(self) -> str:
        """What has happened to the tensor since the map was made; empty if nothing has."""
        sizes = tuple(reversed(self.tensor.shape))
        if sizes != self.sizes or not self.tensor.is_contiguous():
            return f"was made for a tensor of shape {self.sizes[::-1]}, which now has shape {sizes[::-1]}"
        return "is of a tensor whose memory was released" if not self.tensor.untyped_storage().nbytes() else ""


def tensor_map(x, box, swizzle="none") -> TensorMap:
    """The map of a contiguous tensor of 1 to 5 dimensions, for a kernel's `const __grid_constant__ CUtensorMap`
    parameter.

    `box` is the size of the boxes that the kernel's `cp.async.bulk.tensor` instructions move, in elements, with the
    fastest-varying dimension first: `(64, 32)` is 32 rows of 64 columns. Where a box leaves the tensor, loads give
    zeros and stores write nothing. A box's first coordinate must be a multiple of 16 bytes, and a box that is stored
    must not begin before the tensor. `swizzle` ('none', '32B', '64B', '128B') is how rows of that many bytes are stored
    in shared memory: 16-byte chunks change places, so that reading a column has no bank conflicts.

    The kernel sees the values that the tensor has when it runs. Raises TypeError or ValueError, with the values, for
    what CUDA would refuse.
    """
    __tracebackhide__ = True
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"tensor_map takes a tensor, but got {type(x).__name__} {x!r:.60}")
    _check_tensor(x)
    sizes = tuple(reversed(x.shape))
    box = _checked_box(box, sizes)
    width = x.element_size()
    strides, bytes_ = [], width
    for size in sizes[:-1]:
        bytes_ *= size
        strides.append(bytes_)
    if strides and strides[0] % _UNIT:
        raise ValueError(
            f"a row of the tensor has {sizes[0]} elements of {width} bytes, {strides[0]} bytes, but each row must "
            f"begin at a multiple of {_UNIT} bytes: pad the rows to a multiple of {_UNIT // width} elements"
        )
    if x.data_ptr() % _UNIT:
        raise ValueError(
            f"the tensor begins {x.data_ptr() % _UNIT} bytes after a multiple of {_UNIT}, where a map's tensor must "
            "begin: is it a slice such as t[1:]? Pass a `.clone()` of it"
        )
    if sizes[0] > 2**32 or any(stride >= 2**40 for stride in strides):
        raise ValueError(f"shape {tuple(x.shape)} is too large for a tensor map: strides are less than 2^40 bytes")
    if box[0] * width % _UNIT:
        raise ValueError(
            f"box[0] is {box[0]} elements of {width} bytes, {box[0] * width} bytes, but a box's rows must have a "
            f"multiple of {_UNIT} bytes: take a multiple of {_UNIT // width} elements"
        )
    _check_swizzle(swizzle, box[0], width)
    return TensorMap(x, sizes, tuple(strides), box, swizzle)


def _check_tensor(x):
    __tracebackhide__ = True
    if x.dtype not in TYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
        raise TypeError(f"a tensor map cannot have elements of {x.dtype}: it can have {names}")
    if not 1 <= x.dim() <= _MOST_DIMENSIONS:
        raise ValueError(f"a tensor map has 1 to 5 dimensions, but the tensor has {x.dim()}: shape {tuple(x.shape)}")
    if x.layout != torch.strided:
        raise ValueError(f"the tensor has layout {x.layout}: .to_dense() makes a copy that has a map")
    if not x.is_contiguous():
        raise ValueError(
            f"the tensor is not contiguous (shape {tuple(x.shape)}, strides {x.stride()}): .contiguous() makes a "
            "contiguous copy"
        )
    if x.numel() == 0:
        raise ValueError(f"the tensor has no elements (shape {tuple(x.shape)}), so it has no map")
    if x.is_conj() or x.is_neg():
        raise ValueError("the tensor is a view that torch conjugates or negates when read: .resolve_neg() makes a copy")


def _checked_box(box, sizes):
    __tracebackhide__ = True
    try:
        box = tuple(map(index, box if isinstance(box, Sequence) else (box,)))
    except TypeError:
        raise TypeError(f"box takes whole numbers, one for each dimension, but got {box!r:.60}") from None
    if len(box) != len(sizes):
        shape = tuple(reversed(sizes))
        raise ValueError(
            f"box {box} has {len(box)} sizes, but the tensor has {len(sizes)} dimensions (shape {shape}): give one for "
            "each, the fastest-varying (the last of the shape) first"
        )
    for place, size in enumerate(box):
        if not 1 <= size <= _LONGEST_BOX:
            raise ValueError(f"box[{place}] is {size}, but a side of a box has 1 to {_LONGEST_BOX} elements")
    return box


def _check_swizzle(swizzle, elements, width):
    __tracebackhide__ = True
    if swizzle not in SWIZZLES:
        raise ValueError(f"swizzle is {', '.join(map(repr, SWIZZLES))}, but got {swizzle!r:.60}")
    span = SWIZZLES[swizzle]
    if span and elements * width > span:
        raise ValueError(
            f"box[0] is {elements} elements of {width} bytes, {elements * width} bytes, but with swizzle {swizzle!r} a "
            f"box's rows have at most {span} bytes: take {span // width} elements, and several boxes for more"
        )
