"""Accesses outside a tensor, a shared array or a struct."""

import torch

from tests.corpus.cases.case import case, zeros
from tests.launches import bytes_, empty, floats, integers


def flat(threads):
    """For a 1-D launch: a check of i = block * threads + thread from a check of block and thread."""
    return lambda good: lambda block, thread: good(block[0] * threads + thread[0])


def from_zero_to_one(n):
    """Values in [0, 1], the last of them 1."""
    x = floats(n).abs().remainder(1)
    x[-1] = 1.0
    return x


CASES = [
    case(
        "out_of_bounds_guard_le",
        "twice",
        4,
        256,
        lambda: [floats(1000), empty(1000), 1000],
        outputs=[1],
        who=flat(256)(lambda i: i == 1000),
    ),
    case(
        "out_of_bounds_no_guard",
        "ramp",
        4,
        64,
        lambda: [empty(200), 200],
        outputs=[0],
        who=flat(64)(lambda i: i >= 200),
    ),
    case(
        "out_of_bounds_swapped_indices",
        "invert",
        (3, 2),
        (16, 16),
        lambda: [bytes_(20, 45), empty(20, 45, dtype=torch.uint8), 20, 45],
        outputs=[1],
        who=lambda b, t: (b[0] * 16 + t[0]) * 45 + b[1] * 16 + t[1] >= 20 * 45,
    ),
    case(
        "out_of_bounds_row_stride",
        "add_row",
        (2, 3),
        (16, 16),
        lambda: [floats(40, 24), floats(24, seed=1), 40, 24],
        who=lambda b, t: (b[1] * 16 + t[1]) * 40 + b[0] * 16 + t[0] >= 40 * 24,
    ),
    case(
        "out_of_bounds_negative_stencil",
        "difference",
        3,
        100,
        lambda: [floats(300), empty(300), 300],
        outputs=[1],
        who=flat(100)(lambda i: i == 0),
    ),
    case(
        "out_of_bounds_halo_forgotten",
        "mean3",
        3,
        64,
        lambda: [floats(150), empty(150), 150],
        outputs=[1],
        who=lambda b, t: t[0] >= 62,
    ),
    case(
        "out_of_bounds_inner_dimension",
        "roll",
        1,
        (16, 16),
        lambda: [floats(16, 16), empty(16, 16)],
        outputs=[1],
        who=lambda b, t: t[0] == 15,
    ),
    case("out_of_bounds_constant_index", "blur", 2, 64, lambda: [floats(100), empty(100), 100], outputs=[1]),
    case(
        "out_of_bounds_dynamic_shared",
        "reverse_each_block",
        2,
        96,
        lambda: [integers(192, below=1000), empty(192, dtype=torch.int32)],
        shared_bytes=96 * 4,
        outputs=[1],
        who=lambda b, t: t[0] == 0,
    ),
    case(
        "out_of_bounds_dynamic_too_short",
        "moments",
        3,
        64,
        lambda: [floats(192), empty(3), empty(3)],
        shared_bytes=64 * 4,
        mended_shared_bytes=2 * 64 * 4,
        outputs=[1, 2],
    ),
    case(
        "out_of_bounds_half_pair",
        "halve",
        1,
        128,
        lambda: [floats(201, dtype=torch.float16), empty(201, dtype=torch.float16), 201],
        outputs=[1],
        who=lambda b, t: t[0] == 100,
    ),
    case(
        "out_of_bounds_struct_neighbour",
        "pull",
        2,
        64,
        lambda: [floats(100, 3), empty(100), 100],
        outputs=[1],
        who=flat(64)(lambda i: i == 99),
    ),
    case(
        "out_of_bounds_scan_negative",
        "running_sums",
        2,
        128,
        lambda: [integers(256, below=10), empty(256, dtype=torch.int32)],
        outputs=[1],
        who=lambda b, t: t[0] < 64,
    ),
    case(
        "out_of_bounds_scan_one_behind",
        "row_starts",
        2,
        64,
        lambda: [integers(100, below=10).cumsum(0).int(), empty(100, dtype=torch.int32), 100],
        outputs=[1],
        who=flat(64)(lambda i: i == 99),
    ),
    case(
        "out_of_bounds_index_overflow",
        "fill",
        157,
        256,
        lambda: [empty(40000), 40000, 0.5],
        outputs=[0],
        who=flat(256)(lambda i: i >= 32768),
    ),
    case(
        "out_of_bounds_rgb_planes",
        "grayscale",
        5,
        64,
        lambda: [bytes_(3, 16, 20), empty(16, 20, dtype=torch.uint8), 320],
        outputs=[1],
    ),
    case(
        "out_of_bounds_volume_depth",
        "scale_volume",
        (2, 2, 2),
        (8, 4, 4),
        lambda: [floats(5, 6, 10), 5, 6, 10],
        who=lambda b, t: b[2] == 1 and t[2] >= 1,
    ),
    case(
        "out_of_bounds_histogram_bin",
        "histogram",
        3,
        128,
        lambda: [from_zero_to_one(300), zeros(10), 300],
        who=flat(128)(lambda i: i == 299),
    ),
    case(
        "out_of_bounds_matmul_tile",
        "matmul<16>",
        (2, 2),
        (16, 16),
        lambda: [floats(20, 25), floats(25, 18, seed=1), empty(20, 18), 20, 18, 25],
        outputs=[2],
    ),
    case(
        "out_of_bounds_warp_slots",
        "block_sum",
        2,
        256,
        lambda: [floats(500), empty(2), 500],
        outputs=[1],
        who=lambda b, t: t[0] in (0, 128, 160, 192, 224),
    ),
]
