"""Tiles that come by cp.async, one at a time."""

import torch

from tests.corpus.cases.case import case_in, together
from tests.launches import empty, floats, integers

_INT8 = torch.int8

case = case_in("copies")

CASES = together(
    case(
        "uninitialized_rows_not_awaited",
        "centre_rows",
        2,
        128,
        lambda: [floats(8, 128), empty(8, 128)],
        outputs=[1],
    ),
    case(
        "uninitialized_not_committed",
        "largest_of_rows",
        2,
        64,
        lambda: [floats(16, 32), empty(16)],
        outputs=[1],
    ),
    case(
        "uninitialized_scale_in_second_group",
        "dequantize",
        2,
        128,
        lambda: [integers(64, 64, below=100, dtype=_INT8), floats(64), empty(64, 64)],
        outputs=[2],
    ),
    case(
        "race_no_barrier_after_wait",
        "transpose",
        (3, 3),
        (16, 16),
        lambda: [floats(48, 48), empty(48, 48), 48],
        outputs=[1],
    ),
    case(
        "race_scales_before_barrier",
        "quantize",
        2,
        128,
        lambda: [floats(8, 64), empty(8, 64, dtype=_INT8), empty(8)],
        outputs=[1, 2],
    ),
    case(
        "misaligned_copy_of_odd_rows",
        "sums_of_columns",
        1,
        32,
        lambda: [floats(20, 18, dtype=torch.float16), empty(16), 20, 18],
        shared_bytes=20 * 64,
        outputs=[1],
        who=lambda b, t: (36 * (t[0] // 2) + 16 * (t[0] % 2)) % 16 != 0,
    ),
    case(
        "out_of_bounds_copy_without_guard",
        "rows_times_vector",
        2,
        64,
        lambda: [floats(50, 32), floats(32, seed=1), empty(50), 50],
        outputs=[2],
        who=lambda b, t: b[0] == 1,
    ),
    case(
        "out_of_bounds_zeros_counted_as_float",
        "sum_of_tiles",
        4,
        32,
        lambda: [floats(1000 - 4, dtype=torch.float16), empty(4), 1000 - 4],
        outputs=[1],
        who=lambda b, t: (b[0], t[0]) == (3, 28),
    ),
    case(
        "uninitialized_part_of_a_row",
        "halve_rows",
        3,
        32,
        lambda: [floats(3, 192), empty(3, 192)],
        outputs=[1],
    ),
    case(
        "asynchronous_copy_of_next_row",
        "sum_of_rows",
        1,
        32,
        lambda: [floats(5, 128), empty(128), 5],
        outputs=[1],
    ),
    case(
        "asynchronous_copy_of_one_that_leaves",
        "clamp_rows",
        2,
        64,
        lambda: [floats(400), empty(400), 400],
        outputs=[1],
        who=lambda b, t: 64 * b[0] + t[0] >= 100,
    ),
)
