"""Wide accesses at addresses that are not a multiple of their width."""

import torch

from tests.corpus.cases.case import case
from tests.launches import bytes_, empty, floats


def view(n):
    """n floats that begin 4 bytes behind a multiple of 16."""
    return floats(n + 1)[1:]


CASES = [
    case("misaligned_view", "sum4", 1, 64, lambda: [view(256), empty(64), 256], outputs=[1]),
    case(
        "misaligned_rows",
        "negate",
        1,
        (4, 8),
        lambda: [floats(6, 10), 6, 10],
        who=lambda b, t: t[1] % 2 == 1,
    ),
    case(
        "misaligned_shared_arrays",
        "weigh",
        1,
        33,
        lambda: [bytes_(33), floats(33, dtype=torch.float64), empty(33, dtype=torch.float64)],
        shared_bytes=40 + 33 * 8,
        outputs=[2],
    ),
    case(
        "misaligned_records",
        "numbers",
        1,
        64,
        lambda: [bytes_(250), empty(50, dtype=torch.int32), 50],
        outputs=[1],
        who=lambda b, t: (5 * t[0] + 1) % 4 != 0,
    ),
]
