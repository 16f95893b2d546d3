"""What the lanes of a warp bring to a product of tensor cores, and what they get, for a recording."""

import ctypes

import numpy as np
import torch

from utils.cuda.cpu.fragments import of_product, rows_of_matrices
from utils.cuda.cpu.trace.values import decoded

__all__ = ["Operands", "matrices"]

_MOST = 300  # products of which the values are kept
_KINDS = {"f16": "f2", "bf16": "bf16", "tf32": "f4", "f32": "f4", "f64": "f8", "s8": "i1", "u8": "u1", "s32": "i4"}
_NARROW_FLOATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


class Operands:
    """Collects the products of a recording, and the values of their matrices: a list that occurs again is kept once."""

    def __init__(self, made):
        self.made, self.lists = made, []
        self._numbers, self._fragments, self._count = {}, {}, 0

    def of(self, lanes, part):
        """The product's number, and the numbers of the lists of A's, B's, C's and D's values, by lane and element; None
        instead of the lists if no more are kept. `part` are the `Seen` of these lanes."""
        number = int(part[0]["memory"])
        if number not in self._fragments:
            name = ctypes.string_at(int(part[0]["function"])).decode()
            self._fragments[number] = of_product(tuple(map(int, self.made.products[number])), name)
        self._count += 1
        if self._count > _MOST or not part["has_value"].all():
            return number, None
        f, begins, numbers = self._fragments[number], part["value"][:, :8].copy().view("<u8")[:, 0], []
        for tile in (f.a, f.b, f.c, f.d):
            count = max(map(len, tile.held))
            size = count * tile.bits // 8
            raw = self.made.operands[begins[:, None].astype(np.int64) + np.arange(size)]
            own = dict(zip(lanes, _values(raw, tile.type, count), strict=True))
            missing = [None] * count
            numbers.append(self._listed([v for lane in range(32) if tile.held[lane] for v in own.get(lane, missing)]))
            begins = begins + (size + 7) // 8 * 8
        return number, numbers

    def _listed(self, values):
        key = tuple(map(str, values))  # NaN equals itself as text
        if key not in self._numbers:
            self._numbers[key] = len(self.lists)
            self.lists.append(values)
        return self._numbers[key]

    def products(self) -> list[dict]:
        """The products for a Recording, by their numbers."""
        return [_described(self._fragments.get(number)) for number in range(len(self.made.products))]


def _described(fragments):
    """A product as `Recording.products` has it."""
    if fragments is None:
        return {}
    tiles = [_tile(tile) for tile in (fragments.a, fragments.b, fragments.c, fragments.d)]
    return {"name": fragments.name, "shape": fragments.shape, "quads": fragments.quads, "tiles": tiles}


def matrices(steps) -> dict[str, dict]:
    """The tiles of ldmatrix and stmatrix that a Recording of these steps needs."""
    names = {step.matrices for step in steps if step.matrices}
    return {name: _tile(rows_of_matrices(name == "transposed")) for name in sorted(names)}


def _tile(tile):
    """Cells are numbered row by row, and each is listed by lane and element."""
    return {
        "name": tile.name,
        "type": tile.type,
        "bits": tile.bits,
        "rows": tile.rows,
        "columns": tile.columns,
        "together": tile.together,
        "lanes": [lane for lane in range(32) if tile.held[lane]],
        "cells": [row * tile.columns + column for own in tile.held for row, column in own],
    }


def _values(raw, kind, count) -> list[list]:
    """The values of each lane's `count` elements, from rows of bytes."""
    if kind in _KINDS:
        found = decoded(raw, _KINDS[kind], raw.shape[1] // count)
    elif kind in _NARROW_FLOATS:
        found = torch.from_numpy(raw.copy()).view(_NARROW_FLOATS[kind]).float().flatten().tolist()
    else:  # of less than a byte
        bits = raw.shape[1] * 8 // count
        whole = np.unpackbits(raw, axis=1, bitorder="little").reshape(-1, bits).astype(np.int64)
        found = whole @ (1 << np.arange(bits))
        if kind == "s4":
            found = np.where(found > 7, found - 16, found)
        found = found.tolist()
    return [found[at : at + count] for at in range(0, len(found), count)]
