"""Rows for ldmatrix and stmatrix."""

import torch

from tests.corpus.cases.case import case_in, together
from tests.launches import empty, floats


def _halves(*shape, seed=0):
    return floats(*shape, seed=seed, dtype=torch.float16)


def _unset(*shape):
    return empty(*shape, dtype=torch.float16)


case = case_in("matrices")

CASES = together(
    case(
        "misaligned_rows_with_odd_padding",
        "with_padding",
        1,
        32,
        lambda: [_halves(16, 128), _halves(128, 8, seed=1), empty(16, 8), 128],
        outputs=[2],
        who=lambda b, t: t[0] % 16 % 8 != 0,
    ),
    case(
        "out_of_bounds_rows_of_fourth_warp",
        "four_warps",
        1,
        128,
        lambda: [_halves(48, 16), _halves(16, 8, seed=1), empty(48, 8), 48],
        outputs=[2],
        who=lambda b, t: t[0] >= 96,
    ),
    case(
        "uninitialized_rows_beyond_the_matrix",
        "with_guard",
        2,
        32,
        lambda: [_halves(27, 16), _halves(16, 8, seed=1), empty(27, 8), 27],
        outputs=[2],
        who=lambda b, t: b[0] == 1 and t[0] % 16 >= 11,
    ),
    case(
        "race_tile_filled_by_other_warps",
        "filled_together",
        1,
        64,
        lambda: [_halves(16, 32), _halves(32, 16, seed=1), empty(16, 16)],
        outputs=[2],
    ),
    case(
        "race_warp_tiles_overlap",
        "overlapping_tiles",
        1,
        128,
        lambda: [_halves(64, 16), _halves(16, 8, seed=1), _unset(64, 8)],
        outputs=[2],
    ),
    case(
        "misaligned_stmatrix_pitch",
        "to_rows_of_20",
        1,
        32,
        lambda: [_halves(16, 16), _halves(16, 16, seed=1), _unset(16, 16)],
        outputs=[2],
        who=lambda b, t: t[0] % 2 == 1,
    ),
    case(
        "race_read_while_stmatrix_writes",
        "copied_out",
        1,
        64,
        lambda: [_halves(32, 16), _halves(16, 8, seed=1), _unset(32, 8)],
        outputs=[2],
    ),
    case(
        "uninitialized_swizzle_of_eight_pieces",
        "swizzled",
        1,
        32,
        lambda: [_halves(16, 32), _halves(32, 8, seed=1), empty(16, 8)],
        outputs=[2],
        who=lambda b, t: t[0] % 8 >= 4,
    ),
    case(
        "out_of_bounds_last_step_along_k",
        "one_step_more",
        1,
        32,
        lambda: [_halves(16, 48), _halves(48, 8, seed=1), empty(16, 8)],
        outputs=[2],
    ),
)
