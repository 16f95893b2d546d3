"""cuda::barrier, cuda::pipeline and memcpy_async."""

import torch

from tests.corpus.cases.case import case_in, together
from tests.launches import empty, floats

case = case_in("phases")

CASES = together(
    case(
        "divergent_barrier_count_of_whole_block",
        "reverse_halves",
        2,
        128,
        lambda: [floats(256), empty(256)],
        outputs=[1],
    ),
    case(
        "race_count_of_one_warp",
        "smooth",
        1,
        64,
        lambda: [floats(64), empty(64), 5],
        outputs=[1],
    ),
    case(
        "divergent_barrier_leaves_without_drop",
        "longest_lists",
        1,
        32,
        lambda: [torch.arange(32, dtype=torch.int32) % 7, floats(32, 6).abs(), empty(32), 6],
        outputs=[2],
    ),
    case(
        "race_arrives_and_does_not_wait",
        "rotate",
        2,
        96,
        lambda: [floats(192), empty(192), 40],
        outputs=[1],
    ),
    case(
        "uninitialized_sync_in_place_of_wait",
        "reversed_tiles",
        2,
        64,
        lambda: [floats(512), empty(512)],
        outputs=[1],
    ),
    case(
        "uninitialized_copy_by_one_warp",
        "scaled",
        2,
        128,
        lambda: [floats(1024), floats(512, seed=1), empty(1024)],
        outputs=[2],
    ),
    case(
        "race_next_copy_while_others_read",
        "sums_of_neighbours",
        1,
        128,
        lambda: [floats(5, 128), empty(128), 5],
        outputs=[1],
    ),
    case(
        "uninitialized_last_batch_not_awaited",
        "two_batches",
        2,
        128,
        lambda: [floats(256), floats(256, seed=1), empty(256)],
        outputs=[2],
    ),
    case(
        "uninitialized_producer_commit_forgotten",
        "own_pipeline",
        1,
        64,
        lambda: [floats(5, 256), empty(64), 5],
        outputs=[1],
    ),
    case(
        "divergent_barrier_consumer_release_forgotten",
        "shared_pipeline",
        1,
        128,
        lambda: [floats(5, 128), empty(128), 5],
        outputs=[1],
    ),
    case(
        "divergent_barrier_waits_before_commit",
        "one_stage",
        2,
        128,
        lambda: [floats(256), empty(256)],
        outputs=[1],
    ),
    case(
        "race_stage_released_before_it_is_read",
        "producer_and_consumers",
        1,
        96,
        lambda: [floats(6, 64), empty(64), 6],
        outputs=[1],
    ),
    case(
        "uninitialized_other_stage",
        "ahead_of_its_copy",
        1,
        64,
        lambda: [floats(5, 64), empty(64), 5],
        outputs=[1],
    ),
)
