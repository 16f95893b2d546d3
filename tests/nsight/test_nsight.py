"""The engine's counts are Nsight Compute's: every launch of tests/nsight/cases against the counters of a GPU."""

import json

import pytest

from bench.recorded.nsight import COMPARED, DIFFERENCES, PAGE, RECORDING, engine_counts, fingerprint, page
from tests.nsight.cases import LAUNCHES

if not RECORDING.exists():
    pytest.skip("no counters yet: run `python -m bench.recorded.nsight` on a GPU", allow_module_level=True)

RECORDED = json.loads(RECORDING.read_text())["launches"]
DIFFER = json.loads(DIFFERENCES.read_text()) if DIFFERENCES.exists() else {}


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)
def test_counts_are_those_of_nsight_compute(launch):
    assert launch.name in RECORDED, "a new launch: run `python -m bench.recorded.nsight` on a GPU"
    recorded = RECORDED[launch.name]
    assert fingerprint(launch) == recorded["fingerprint"], "it changed: run `python -m bench.recorded.nsight` on a GPU"
    engine, trace = engine_counts(launch)
    assert not trace.problems, trace.problems
    measured = recorded["counters"]
    differing = {name: (measured[name], engine[name]) for name in COMPARED if measured[name] != engine[name]}
    listed = DIFFER.get(launch.name, {}).get("counts", [])
    # No more than is listed, and no less: an entry whose difference is gone has to go as well.
    assert sorted(differing) == sorted(listed), f"(Nsight Compute, engine): {differing}, sass: {recorded['sass']}"


def test_the_recording_is_of_these_launches():
    names = [launch.name for launch in LAUNCHES]
    assert len(set(names)) == len(names)
    assert sorted(RECORDED) == sorted(names)
    assert len(RECORDED) >= 30


def test_every_difference_says_which_counts_and_why():
    for name, difference in DIFFER.items():
        assert name in RECORDED, f"{name} is no launch"
        assert difference.keys() == {"counts", "reason"} and difference["counts"], name
        assert set(difference["counts"]) <= set(COMPARED), name
        assert any(instruction.split(".")[0] in difference["reason"] for instruction in RECORDED[name]["sass"]), (
            f"{name}: the reason names no instruction of the machine code, {RECORDED[name]['sass']}"
        )


def test_one_launch_in_ten_at_most_differs_in_global_memory():
    differing = [name for name, entry in DIFFER.items() if any(count.startswith("global") for count in entry["counts"])]
    assert 10 * len(differing) <= len(RECORDED), differing


def test_the_page_is_what_the_script_writes():
    assert PAGE.read_text() == page(), "run `python -m bench.recorded.nsight --page`"
