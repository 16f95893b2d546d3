"""Threads that wait at a barrier which others never reach."""

import torch

from tests.corpus.cases.case import case, zeros
from tests.launches import empty, floats, integers

CASES = [
    case(
        "divergent_barrier_in_branch",
        "repeat_half",
        2,
        128,
        lambda: [floats(128), zeros(256, dtype=torch.float32)],
        shared_bytes=64 * 4,
    ),
    case("divergent_barrier_early_return", "smooth", 3, 128, lambda: [floats(300), empty(300), 300], outputs=[1]),
    case(
        "divergent_barrier_if_else",
        "exchange",
        1,
        64,
        lambda: [integers(64, below=99), empty(64, dtype=torch.int32)],
        outputs=[1],
    ),
    case("divergent_barrier_loop_counts", "total", 1, 32, lambda: [floats(40), empty(32), 40], outputs=[1]),
    case(
        "divergent_barrier_shuffle_mask",
        "half_warp_sum",
        2,
        32,
        lambda: [integers(64, below=99), empty(2, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] < 16,
    ),
    case("divergent_barrier_group_part", "first_tile_fills", 2, 64, lambda: [empty(64)], outputs=[0]),
    case(
        "divergent_barrier_syncwarp",
        "even_lanes",
        1,
        32,
        lambda: [integers(32, below=99), empty(16, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] % 2 == 0,
    ),
    case(
        "divergent_barrier_grid_sync",
        "two_steps",
        2,
        64,
        lambda: [floats(100), empty(100), empty(100), 100],
        outputs=[1, 2],
    ),
    case("divergent_barrier_break", "settle", 2, 64, lambda: [8 * floats(128).abs(), zeros(128)], outputs=[1]),
]
