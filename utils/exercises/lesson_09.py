"""Lesson 09: padding for other reads, wavefronts of wide reads, a swizzle for 8 bytes, rows mirrored by units."""

from functools import partial
from operator import index

import torch

from utils.exercises.exercise import Function, Kernel, Question, given, once, poison
from utils.exercises.verdicts import shown
from utils.lesson.simulator import cdiv

_LANES = range(32)


def _wavefronts(length, columns):
    """Of a warp that reads a rectangle of `columns` columns from a tile with rows of `length` words."""
    banks = [set() for _ in range(32)]
    for lane in _LANES:
        word = length * (lane // columns) + lane % columns
        banks[word % 32].add(word)
    return max(map(len, banks))


def _wrong_length(row_length):
    for columns in (1, 2, 4, 8, 16, 32):
        found = given(row_length(columns))
        try:
            length = index(found)
        except TypeError:
            kind = type(found).__name__
            return f"for columns = {columns} it returns {shown(found)}, of type {kind}, but a length is an int"
        if length < 32:
            return f"for columns = {columns} it returns {length}, but a row has at least 32 words"
        if (needed := _wavefronts(length, columns)) > 1:
            return f"with columns = {columns} and rows of {length} words, the read takes {needed} wavefronts"
        if any(_wavefronts(shorter, columns) == 1 for shorter in range(32, length)):
            return f"for columns = {columns}, rows shorter than {length} words take one wavefront, too"
    return ""


def _units(units):
    wavefronts = 0
    for first in range(0, 32, 8):
        places = [unit % 8 for unit in units[first : first + 8]]
        wavefronts += max(map(places.count, places))
    return wavefronts


def _several(count):
    """32 different units of a tile of `count`, by chance."""
    return lambda: {"units": torch.randperm(count)[:32].tolist()}


def _without_tile_or_padded(source):
    from utils.cuda.kernel import compiled_for_gpu

    kernel = partial(compiled_for_gpu, source, "transpose_double")
    if not any(each.opcode.startswith("LDS") for each in kernel().sass):
        return "in the machine code it reads nothing from a tile in shared memory, and so one side still jumps"
    taken = kernel(gpu="H200").resources(16 * 16).shared_bytes
    return f"its tile takes {taken:,} bytes of shared memory, without padding it takes 2,048" if taken > 2048 else ""


def _doubles(h, w):
    out = poison(w, h, dtype=torch.float64)
    return {"x": torch.randn(h, w, dtype=torch.float64), "out": out, "h": h, "w": w}


def _rows(h, w):
    return {"x": torch.randn(h, w), "out": poison(h, w), "h": h, "w": w}


EXERCISES = [
    Question("09-padding", _wrong_length, takes=("columns",)),
    Function(
        "09-units",
        cases=[
            {"units": list(_LANES)},
            {"units": [8 * lane for lane in _LANES]},
            {"units": [16 * (lane % 4) + lane // 4 for lane in _LANES]},
            {"units": [33 * (lane // 8) + 2 * (lane % 8) for lane in _LANES]},
            _several(64),
            _several(1024),
        ],
        expected=_units,
    ),
    Kernel(
        "09-swizzle",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (33, 5), (40, 70), (64, 48))],
        arguments=_doubles,
        outputs=("out",),
        launch=lambda h, w: ((cdiv(w, 16), cdiv(h, 16)), (16, 16)),
        expected=lambda x, out, h, w: x.t(),
        cuda="transpose_double",
        traffic=lambda h, w: {"bank_conflicts": 0, "sectors": 2 * h * w // 4},
        why_slow=_without_tile_or_padded,
    ),
    Kernel(
        "09-mirror",
        sizes=[{"h": h, "w": w} for h, w in ((1, 4), (3, 12), (33, 100), (16, 128))],
        arguments=_rows,
        outputs=("out",),
        launch=lambda h, w: (cdiv(h * w // 4, 256), 256),
        expected=lambda x, out, h, w: x.flip(1),
        cuda="mirror",
        # A quarter of the requests that 4 bytes per lane take, and as many sectors.
        traffic=lambda h, w: {"requests": 2 * h * w // 4 // 32, "sectors": once(torch.empty(2 * h * w))["sectors"]},
    ),
]
