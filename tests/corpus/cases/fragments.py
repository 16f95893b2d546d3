"""Fragments of mma.sync and wmma, and the sums that come of them."""

import torch

from tests.corpus.cases.case import case_in, together, zeros
from tests.launches import empty, floats, integers


def _bf16(*shape, seed=0):
    return floats(*shape, seed=seed, dtype=torch.bfloat16)


def _halves(*shape, seed=0):
    return floats(*shape, seed=seed, dtype=torch.float16)


def _with_tiles_of_zeros():
    """A tile in which one row is not zero."""
    a = torch.zeros(16, 48, dtype=torch.float16)
    a[:, :16] = _halves(16, 16)
    a[5, 16:32] = 1
    return a


case = case_in("fragments")

CASES = together(
    case(
        "uninitialized_sums_of_second_half",
        "two_accumulators",
        1,
        32,
        lambda: [_bf16(16, 32), _bf16(16, 32, seed=1), empty(16, 16), 32],
        outputs=[2],
    ),
    case(
        "uninitialized_rows_left_out",
        "rows_left_out",
        1,
        32,
        lambda: [_bf16(11, 16), _bf16(8, 16, seed=1), empty(11, 8), 11],
        outputs=[2],
        who=lambda b, t: t[0] // 4 >= 3,
    ),
    case(
        "uninitialized_wmma_sums",
        "without_fill",
        1,
        32,
        lambda: [_halves(16, 32), _halves(32, 16, seed=1), empty(16, 16), 32],
        outputs=[2],
    ),
    case(
        "divergent_barrier_lanes_left_before_mma",
        "early_return",
        2,
        32,
        lambda: [_bf16(13, 16), _bf16(8, 16, seed=1), empty(13, 8), 13],
        outputs=[2],
        who=lambda b, t: b[0] == 1 and t[0] < 20,
    ),
    case(
        "divergent_barrier_lanes_skip_a_tile",
        "sparse_tiles",
        1,
        32,
        lambda: [_with_tiles_of_zeros(), _halves(48, 16, seed=1), empty(16, 16), 48],
        outputs=[2],
    ),
    case(
        "misaligned_tile_at_odd_columns",
        "sliding_tiles",
        1,
        32,
        lambda: [_halves(16, 48), _halves(16, 16, seed=1), empty(3, 16, 16)],
        outputs=[2],
    ),
    case(
        "misaligned_stride_of_wmma",
        "narrow_matrix",
        1,
        32,
        lambda: [_halves(16, 20), _halves(16, 16, seed=1), empty(16, 16), 20],
        outputs=[2],
    ),
    case(
        "out_of_bounds_edge_tile",
        "edge_tiles",
        (3, 3),
        32,
        lambda: [_halves(48, 16), _halves(16, 48, seed=1), empty(40, 40), 40],
        outputs=[2],
        who=lambda b, t: b[1] == 2,
    ),
    case(
        "race_store_of_neighbour_warp",
        "tiles_side_by_side",
        1,
        64,
        lambda: [_halves(16, 16), _halves(32, 16, seed=1), empty(16, 32)],
        outputs=[2],
    ),
    case(
        "race_sums_of_two_warps",
        "shared_sums",
        1,
        64,
        lambda: [_halves(16, 64), _halves(64, 16, seed=1), empty(16, 16), 64],
        outputs=[2],
    ),
    case(
        "race_split_k_without_atomics",
        "split_k",
        3,
        32,
        lambda: [_bf16(16, 96), _bf16(8, 96, seed=1), zeros(16, 8, dtype=torch.float32), 96],
    ),
    case(
        "out_of_bounds_int8_beyond_k",
        "int8_rows",
        1,
        32,
        lambda: [
            integers(16, 48, below=100, dtype=torch.int8),
            integers(8, 48, below=100, dtype=torch.int8),
            empty(16, 8, dtype=torch.int32),
            48,
        ],
        outputs=[2],
    ),
)
