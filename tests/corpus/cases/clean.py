"""Kernels without a bug that look like one."""

import torch

from tests.corpus.cases.case import case, zeros
from tests.launches import empty, floats, integers

CASES = [
    case(
        "clean_last_block",
        "grid_sum",
        5,
        128,
        lambda: [floats(1000), empty(5), zeros(1), empty(1), 1000],
        outputs=[1, 3],
    ),
    case("clean_warp_shuffles", "warp_sums", 2, 96, lambda: [floats(180), empty(6), 180], outputs=[1]),
    case(
        "clean_warp_slots",
        "reverse_each_warp",
        2,
        128,
        lambda: [integers(256, below=99), empty(256, dtype=torch.int32), 3],
        outputs=[1],
    ),
    case("clean_double_buffer", "diffuse", 2, 64, lambda: [floats(128), empty(128), 9], outputs=[1]),
    case(
        "clean_atomics_on_one_word",
        "statistics",
        3,
        64,
        lambda: [integers(180, below=1000), zeros(1), zeros(1), zeros(1), 180],
        outputs=[1, 2, 3],
    ),
    case(
        "clean_broadcast_reads",
        "normalise",
        3,
        64,
        lambda: [floats(180), floats(1, seed=1), empty(180), 180],
        outputs=[2],
    ),
    case(
        "clean_bytes_of_a_word",
        "threshold",
        3,
        50,
        lambda: [floats(145), empty(145, dtype=torch.uint8), 145],
        outputs=[1],
    ),
    case("clean_early_return", "square_roots", 3, 64, lambda: [floats(180), empty(180), 180], outputs=[1]),
    case(
        "clean_block_leaves_together",
        "reverse_some",
        6,
        64,
        lambda: [
            torch.tensor([64, 10, 0, 33], dtype=torch.int32),
            integers(4, 64, below=99),
            empty(4, 64, dtype=torch.int32),
            4,
        ],
        outputs=[2],
    ),
    case("clean_odd_block", "block_sum", 3, 100, lambda: [floats(290), empty(3), 290], shared_bytes=400, outputs=[1]),
    case(
        "clean_spin_lock",
        "largest",
        3,
        64,
        lambda: [floats(180), torch.full((1,), -1e30), zeros(1), zeros(1), 180],
        outputs=[1, 2, 3],
    ),
    case(
        "clean_grid_sync",
        "reverse_twice",
        3,
        64,
        lambda: [floats(500), empty(500), empty(500), 500],
        outputs=[1, 2],
    ),
    case("clean_async_copies", "sum_of_rows", 1, 64, lambda: [floats(7, 64), empty(64), 7], outputs=[1]),
    case(
        "clean_shared_memory_reused",
        "ranks",
        1,
        96,
        lambda: [integers(96, below=50), empty(96, dtype=torch.float64)],
        shared_bytes=96 * 8,
        outputs=[1],
    ),
    case(
        "clean_part_of_a_warp",
        "two_sums",
        2,
        32,
        lambda: [integers(64, below=99), empty(64, dtype=torch.int32)],
        outputs=[1],
    ),
    case("clean_vote_loop", "bubble", 2, 96, lambda: [integers(192, below=1000)]),
]
