"""Lesson 07: threads that share memory and wait for each other."""

import torch

from utils.exercises.exercise import Kernel, poison, runs
from utils.lesson.simulator import blk_kernel2d_shared, cdiv

_SUM_THREADS, _THREADS = 16, 128  # in a block


def _block_sums(x, out, n):
    padded = torch.zeros(out.numel() * _SUM_THREADS)
    padded[:n] = x
    return padded.view(-1, _SUM_THREADS).sum(dim=1)


def _neighbours(x, out, n):
    padded = torch.nn.functional.pad(x, (1, 1))
    return padded[:-2] + padded[1:-1] + padded[2:]


def _traffic_of_sums(n):
    """A block is half a warp: one load and one store."""
    firsts = range(0, n, _SUM_THREADS)
    loads = [(first, min(_SUM_THREADS, n - first)) for first in firsts]
    return runs([*loads, *((block, 1) for block in range(len(firsts)))])


def _warps(n):
    return [(first, min(32, n - first)) for first in range(0, n, 32)]


def _traffic_of_neighbours(n):
    """A load and a store of each warp, and the two neighbours of each block."""
    edges = [(place, 1) for first in range(_THREADS, n, _THREADS) for place in (first - 1, first)]
    return runs([*_warps(n), *_warps(n), *edges])


def _window_sums(x, out, n, radius):
    padded = torch.nn.functional.pad(x, (radius, radius))
    return padded.unfold(0, 2 * radius + 1, 1).sum(dim=1)


def _traffic_of_windows(n, radius):
    """A block loads its elements and `radius` on either side, 32 neighbours per request; a warp stores once."""
    loads = []
    for block in range(0, n, _THREADS):
        for first in range(block - radius, block + _THREADS + radius, 32):
            end = min(first + 32, block + _THREADS + radius, n)
            loads.append((max(first, 0), end - max(first, 0)))
    return runs([*loads, *_warps(n)])


def _traffic_of_rectangles(h, k, w):
    """A row of a tile is a request: h rows of m, 8 numbers at a time, for each column of blocks; k rows of n for each
    row of blocks; and h rows of the result."""
    columns = [(c, min(32, w - c)) for c in range(0, w, 32)]
    of_m = [(r * k + start, min(8, k - start)) for _ in columns for r in range(h) for start in range(0, k, 8)]
    of_n = [(i * w + c, count) for _ in range(0, h, 8) for i in range(k) for c, count in columns]
    of_out = [(r * w + c, count) for r in range(h) for c, count in columns]
    return runs([*of_m, *of_n, *of_out])


def factors(h, k, w):
    """The arguments of a kernel that multiplies m (h, k) and n (k, w)."""
    return {"m": torch.rand(h, k), "n": torch.rand(k, w), "out": poison(h, w), "h": h, "w": w, "k": k}


EXERCISES = [
    Kernel(
        "07-sum",
        sizes=[{"n": n} for n in (1, 16, 17, 31, 70)],
        arguments=lambda n: {"x": torch.rand(n), "out": poison(cdiv(n, _SUM_THREADS)), "n": n},
        outputs=("out",),
        launch=lambda n: ((cdiv(n, _SUM_THREADS), 1), (_SUM_THREADS, 1), _SUM_THREADS),
        expected=_block_sums,
        run=blk_kernel2d_shared,
        traffic=_traffic_of_sums,
    ),
    Kernel(
        "07-neighbours",
        sizes=[{"n": n} for n in (1, 2, 127, 128, 129, 300, 500)],
        arguments=lambda n: {"x": torch.randn(n), "out": poison(n), "n": n},
        outputs=("out",),
        launch=lambda n: (cdiv(n, _THREADS), _THREADS),
        expected=_neighbours,
        cuda="neighbours",
        traffic=_traffic_of_neighbours,
    ),
    Kernel(
        "07-window",
        sizes=[{"n": n, "radius": r} for n, r in ((1, 0), (1, 3), (128, 1), (129, 2), (100, 150), (1000, 40))],
        arguments=lambda n, radius: {"x": torch.randn(n), "out": poison(n), "n": n, "radius": radius},
        outputs=("out",),
        launch=lambda n, radius: (cdiv(n, _THREADS), _THREADS, (_THREADS + 2 * radius) * 4),
        expected=_window_sums,
        cuda="window",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_traffic_of_windows,
    ),
    Kernel(
        "07-rectangle",
        sizes=[{"h": h, "k": k, "w": w} for h, k, w in ((1, 1, 1), (8, 8, 32), (9, 17, 33), (65, 100, 70))],
        arguments=factors,
        outputs=("out",),
        launch=lambda h, k, w: ((cdiv(w, 32), cdiv(h, 8)), (32, 8)),
        expected=lambda m, n, out, h, w, k: m @ n,
        cuda="matmul_rectangle",
        close={"rtol": 1e-4, "atol": 1e-4},
        traffic=_traffic_of_rectangles,
    ),
]
