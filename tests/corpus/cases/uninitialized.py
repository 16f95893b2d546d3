"""Shared memory that is read before a thread has written it."""

import torch

from tests.corpus.cases.case import case, zeros
from tests.launches import bytes_, empty, floats

CASES = [
    case(
        "uninitialized_accumulator",
        "count_positive",
        3,
        64,
        lambda: [floats(180), empty(3, dtype=torch.int32), 180],
        outputs=[1],
    ),
    case(
        "uninitialized_last_rows",
        "matmul<8>",
        (3, 2),
        (8, 8),
        lambda: [floats(13, 20), floats(20, 17, seed=1), empty(13, 17), 13, 17, 20],
        outputs=[2],
    ),
    case(
        "uninitialized_halo",
        "mean3",
        3,
        64,
        lambda: [floats(192), empty(192), 192],
        outputs=[1],
        who=lambda b, t: (b[0], t[0]) in ((0, 0), (2, 63)),
    ),
    case("uninitialized_read_before_fill", "sum_of_rows", 1, 32, lambda: [floats(6, 32), empty(32), 6], outputs=[1]),
    case("uninitialized_async_copy", "reverse", 2, 64, lambda: [floats(128), empty(128)], outputs=[1]),
    case(
        "uninitialized_warp_slots",
        "block_sum",
        2,
        128,
        lambda: [floats(250), empty(2), 250],
        outputs=[1],
        who=lambda b, t: 4 <= t[0] < 32,
    ),
    case("uninitialized_bins_half_cleared", "histogram", 2, 128, lambda: [bytes_(2000), zeros(256), 2000]),
    case(
        "uninitialized_struct_member",
        "largest",
        2,
        64,
        lambda: [floats(128), empty(2), empty(2, dtype=torch.int32)],
        shared_bytes=64 * 8,
        outputs=[1, 2],
    ),
]
