"""Fragments: which lane of a warp holds which element of the matrices that a tensor core multiplies.

The engine's own tables answer (include/cuda_on_cpu/ptx/fragments.h), so what is drawn is what runs.
"""

import ctypes
import functools
import re
from dataclasses import dataclass

from utils.cuda.cpu.module import module

__all__ = ["Fragments", "Tile", "fragments", "of_product", "rows_of_matrices"]

#: In the order of fragments.h: Type.
TYPES = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s4", "u4", "b1", "s32", "e4m3", "e5m2")
_SUMS = {"f64": "f64", **dict.fromkeys(("s8", "u8", "s4", "u4", "b1"), "s32")}  # otherwise f32
_FIELDS = ("m", "n", "k", "d", "a", "b", "c", "quads", "a_columns", "b_rows")
_MOST = 32 * 128  # elements that the lanes hold of a matrix: A of m16n8k256 has so many


@dataclass(frozen=True)
class Tile:
    """One matrix of a product, and who holds it: `held[lane][e]` is (row, column) of element `e` of a lane's fragment.

    `name` is A, B, C or D. An element has `bits` bits, so a register of 32 bits holds 32 / bits of them; one of 64 bits
    takes two registers in a GPU, and one operand of PTX.
    """

    name: str
    type: str
    bits: int
    rows: int
    columns: int
    held: tuple[tuple[tuple[int, int], ...], ...]

    @functools.cached_property
    def holders(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(lane, element of its fragment) by (row, column)."""
        return {place: (lane, e) for lane, own in enumerate(self.held) for e, place in enumerate(own)}

    @functools.cached_property
    def together(self) -> tuple[int, int]:
        """How many rows and columns hold the same lane's next elements everywhere, at most what fits in a register or
        is a pair: (1, 2) for half in A, (2, 1) in B. One of the two is 1."""
        most = max(2, 32 // self.bits)
        for count in (most, most // 2, most // 4, 2):
            for down, across in ((0, 1), (1, 0)):
                if count > 1 and self._are_neighbours(count, down, across):
                    return (1 + down * (count - 1), 1 + across * (count - 1))
        return 1, 1

    def _are_neighbours(self, count, down, across):
        return all(
            len(own) % count == 0
            and own[e] == (own[e - e % count][0] + down * (e % count), own[e - e % count][1] + across * (e % count))
            for own in self.held
            if own
            for e in range(len(own))
        )

    @functools.cached_property
    def groups(self) -> list[tuple[int, int, int, int]]:
        """The elements that are `together`: (row, column, lane, first element)."""
        size = max(self.together)
        return [(*own[e], lane, e) for lane, own in enumerate(self.held) for e in range(0, len(own), size)]


@dataclass(frozen=True)
class Fragments:
    """The matrices of `d = a * b + c` and who holds them, for one instruction.

    `a` is m x k, `b` is k x n, `c` and `d` are m x n. `quads`: mma.m8n8k4 of half is four products; these are the
    matrices of the first one, which lanes 0 to 3 and 16 to 19 hold.
    """

    name: str  # of the instruction: mma.sync, wmma::mma_sync
    a: Tile
    b: Tile
    c: Tile
    d: Tile
    quads: bool = False

    @property
    def shape(self) -> str:
        """As PTX writes it: m16n8k16."""
        return f"m{self.a.rows}n{self.b.columns}k{self.a.columns}"


def fragments(instruction: str) -> Fragments:
    """Which lane holds which element: `fragments("mma.m16n8k16.bf16").a.held[5]`.

    `instruction` is `mma` or `wmma`, a shape, and the type of A and B as PTX names it, or PTX's whole name
    (`mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`). Sums are f32 unless the name says otherwise, f64 for f64,
    and s32 for whole numbers. wmma's layout is not specified: this is what nvcc uses for sm_80 and later.
    Raises ValueError for what is no such instruction.
    """
    words = instruction.strip().split(".")
    shape = re.search(r"\bm(\d+)n(\d+)k(\d+)\b", instruction)
    types = [word for word in words if word in TYPES]
    if words[0] not in ("mma", "wmma") or not shape or len(types) not in (1, 4):
        raise ValueError(
            f"{instruction!r} names no product of tensor cores: write mma or wmma, a shape and a type, as in "
            f"'mma.m16n8k16.bf16'. The types are {', '.join(TYPES)}"
        )
    if len(types) == 1:
        total = _SUMS.get(types[0], "f32")
        types = [total, types[0], types[0], total]
    d, a, b, c = map(TYPES.index, types)
    m, n, k = map(int, shape.groups())
    quads = words[0] == "mma" and (m, n, k) == (8, 8, 4) and types[1] == "f16"
    layouts = [word for word in words if word in ("row", "col")]
    columns = [quads and layouts[:1] == ["col"], quads and layouts[1:2] == ["row"]]
    numbers = (m, n, k, d, a, b, c, quads, *columns)
    if max(m, n, k) > 256 or not _library().cuda_on_cpu_is_product(_asked(numbers), words[0] == "wmma"):
        raise ValueError(f"{instruction!r}: {words[0]} has no such shape and types on sm_75 to sm_90")
    return of_product(numbers, "wmma::mma_sync" if words[0] == "wmma" else "mma.sync")


@functools.lru_cache(maxsize=64)
def of_product(numbers, name) -> Fragments:
    """The fragments of a product as the runtime describes it: the numbers in trace/tiles.cpp."""
    m, n, k, d, a, b, c, quads, *_ = numbers
    sides = {"a": (m, k, a), "b": (k, n, b), "c": (m, n, c), "d": (m, n, d)}
    asked = _asked(numbers)
    tiles = {side: _tile(asked, side, *of) for side, of in sides.items()}
    return Fragments(name, **tiles, quads=bool(quads))


def rows_of_matrices(transposed=False) -> Tile:
    """An 8 x 8 matrix of 16-bit elements as ldmatrix and stmatrix move it: a pair for each lane. `transposed`: with
    `.trans`."""
    half = TYPES.index("f16")
    tile = _tile(_asked((8, 8, 8, half, half, half, half, 0, 0, 0)), "a", 8, 8, half)
    held = tuple(tuple((c, r) if transposed else (r, c) for r, c in own) for own in tile.held)
    return Tile("matrix", "b16", 16, 8, 8, held)


class _Asked(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in _FIELDS]


def _asked(numbers):
    return ctypes.byref(_Asked(*map(int, numbers)))


def _tile(asked, name, rows, columns, type_) -> Tile:
    library, found = _library(), (ctypes.c_uint32 * 4 * _MOST)()
    count = library.cuda_on_cpu_held(asked, ctypes.c_char(name.encode()), found, ctypes.c_size_t(_MOST))
    held = [{} for _ in range(32)]
    for lane, e, row, column in found[:count]:
        held[lane][e] = row, column
    own = tuple(tuple(places[e] for e in range(len(places))) for places in held)
    return Tile(name.upper(), TYPES[type_], library.cuda_on_cpu_bits_of(type_), rows, columns, own)


@functools.cache
def _library():
    """The engine's runtime: every kernel's library is linked with it."""
    library = module("__global__ void none() {}", "none").library
    library.cuda_on_cpu_is_product.restype = ctypes.c_bool
    library.cuda_on_cpu_held.restype = ctypes.c_size_t
    return library
