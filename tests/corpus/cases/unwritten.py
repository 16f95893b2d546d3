"""Outputs that no thread writes."""

import torch

from tests.corpus.cases.case import case
from tests.launches import empty, floats

CASES = [
    case("unwritten_vector_tail", "twice", 1, 64, lambda: [floats(103), empty(103), 103], outputs=[1]),
    case("unwritten_capped_grid", "cosine", 2, 64, lambda: [floats(300), empty(300), 300], outputs=[1]),
    case("unwritten_rounded_down", "clamp_positive<float>", 2, 32, lambda: [floats(200), empty(200), 200], outputs=[1]),
    case("unwritten_border", "mean3x3", (2, 2), (16, 16), lambda: [floats(20, 30), empty(20, 30), 20, 30], outputs=[1]),
    case(
        "unwritten_block_row",
        "row_numbers",
        (2, 3),
        (8, 8),
        lambda: [empty(20, 12, dtype=torch.int32), 20, 12],
        outputs=[0],
    ),
]
