"""Loops that never end."""

import torch

from tests.corpus.cases.case import case, zeros
from tests.launches import empty, floats

CASES = [
    case("runaway_counter", "partial_sums", 1, 32, lambda: [floats(100), empty(32), 100], outputs=[1]),
    case(
        "runaway_bisection",
        "places",
        1,
        64,
        lambda: [torch.linspace(-8, 8, 33), 33, floats(50), zeros(50), 50],
        outputs=[3],
        who=lambda b, t: t[0] < 50,
    ),
    case(
        "runaway_unsigned_down",
        "powers",
        1,
        32,
        lambda: [empty(20, dtype=torch.int32), 20],
        outputs=[0],
        who=lambda b, t: t[0] == 0,
    ),
    case("runaway_zero_stride", "halve", 1, 32, lambda: [floats(100), 100]),
]
