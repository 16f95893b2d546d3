"""Several tiles under way at a time, by groups of cp.async."""

import torch

from tests.corpus.cases.case import case_in, together
from tests.launches import empty, floats


def _halves(*shape, seed=0):
    return floats(*shape, seed=seed, dtype=torch.float16)


case = case_in("stages")

CASES = together(
    case(
        "uninitialized_wait_one_group_too_lax",
        "three_stages",
        1,
        128,
        lambda: [_halves(32, 96), _halves(96, 16, seed=1), empty(32, 16), 96],
        outputs=[2],
    ),
    case(
        "uninitialized_last_tile_not_awaited",
        "two_stages",
        1,
        32,
        lambda: [_halves(16, 80), _halves(80, 8, seed=1), empty(16, 8), 80],
        outputs=[2],
    ),
    case(
        "race_stage_refilled_while_read",
        "refilled",
        1,
        128,
        lambda: [_halves(16, 80), _halves(80, 32, seed=1), empty(16, 32), 80],
        outputs=[2],
    ),
    case(
        "race_one_stage_too_few",
        "running_sums",
        1,
        64,
        lambda: [floats(6, 256), empty(64), 6],
        outputs=[1],
    ),
    case(
        "uninitialized_wrong_parity",
        "squares",
        1,
        32,
        lambda: [floats(5, 128), empty(5, 128), 5],
        outputs=[1],
    ),
    case(
        "race_barrier_before_wait",
        "differences",
        1,
        64,
        lambda: [floats(4, 256), empty(4, 256), 4],
        outputs=[1],
    ),
    case(
        "out_of_bounds_prefetch_past_the_end",
        "total_of_tiles",
        1,
        32,
        lambda: [floats(6, 128), empty(1), 6],
    ),
    case(
        "uninitialized_prologue_too_short",
        "products",
        1,
        32,
        lambda: [floats(6, 128), floats(6, 128, seed=1), empty(6, 128), 6],
        outputs=[2],
    ),
)
