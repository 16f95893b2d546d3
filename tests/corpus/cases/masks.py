"""Masks that do not match the lanes that come."""

import torch

from tests.corpus.cases.case import case_in, together, zeros
from tests.launches import empty, floats, integers

case = case_in("masks")

CASES = together(
    case(
        "divergent_barrier_match_without_the_tail",
        "histogram",
        3,
        64,
        lambda: [integers(150, below=9), zeros(9), 150],
        who=lambda b, t: b[0] == 2 and t[0] < 22,
    ),
    case(
        "divergent_barrier_vote_after_break",
        "square_roots",
        2,
        64,
        lambda: [floats(100).abs() * 50, empty(100), 100],
        outputs=[1],
    ),
    case(
        "divergent_barrier_redux_of_half_a_warp",
        "sums_of_sixteen",
        3,
        32,
        lambda: [integers(48, below=99), empty(3, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] < 16,
    ),
    case(
        "undefined_shuffle_in_the_last_warp",
        "sums_of_warps",
        1,
        64,
        lambda: [floats(40), empty(2), 40],
        outputs=[1],
        who=lambda b, t: 32 <= t[0] < 40,
    ),
    case(
        "divergent_barrier_mask_of_another_group",
        "largest_of_eight",
        2,
        64,
        lambda: [floats(128), empty(16)],
        outputs=[1],
        who=lambda b, t: t[0] % 32 >= 8,
    ),
    case(
        "undefined_shuffle_from_a_lane_that_left",
        "minus_first",
        2,
        64,
        lambda: [floats(128), zeros(128, dtype=torch.float32), 128],
        who=lambda b, t: t[0] % 32 != 0,
    ),
    case(
        "race_flags_of_warps_without_ballot",
        "rows_with_negative",
        2,
        64,
        lambda: [floats(4, 70), empty(4, dtype=torch.int32), 70],
        outputs=[1],
    ),
)
