"""bench/recorded/equal.py: the recorded launches are those of today, and a GPU computed what the engine computes.

tests/verdicts compares the engine's results of today.
"""

import torch

from bench.recorded import equal

RECORDED = equal.read()
COMPARED = {key: entry for key, entry in RECORDED.items() if "skipped" not in entry}
OTHER = {  # launches whose results differ by more than rounding, and why
    "nsight/append_positive": "its atomics come in any order",
    "verdicts/functions/missing_return/1": "the function returns no value: both warn",
    "verdicts/language/case_range/32": "nvcc takes only the first value of the range: the engine warns",
}


def test_every_launch_is_recorded_as_it_is():
    assert {case.key: case.hash for case in equal.CASES} == {key: entry["text"] for key, entry in RECORDED.items()}


def test_what_the_engine_accepts_runs_on_a_gpu_with_equal_results():
    assert not [entry for entry in RECORDED.values() if "on the GPU" in entry.get("skipped", "")]
    assert len(COMPARED) > 350
    assert sum(entry["equal"] for entry in COMPARED.values()) > 0.9 * len(COMPARED)
    others = {key for key, entry in COMPARED.items() if entry["difference"] > 1e-5}
    assert others == set(OTHER)


def test_sums_show_a_difference():
    x = torch.rand(1000)
    y = x.clone()
    assert equal.close(equal.sums([x, y]), equal.sums([x, y + 1e-7]))
    y[17] += 1
    assert not equal.close(equal.sums([x, x]), equal.sums([x, y]))
    x[3] = float("nan")
    assert not equal.close(equal.sums([y]), equal.sums([x]))
