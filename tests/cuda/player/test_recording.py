"""A recording as JSON: read as a page reads it, every step has its lanes, elements, values and variables again."""

import json
import math
from dataclasses import replace

import pytest

from tests.cuda.player.recordings import by_hand
from utils.cuda.player.recording import Memory, Step, runs


def unpacked(items):
    """A list of items as a page reads it."""
    found = []
    for item in items:
        found += (
            [item[0] + k * item[1] if item[1] else item[0] for k in range(item[2])]
            if isinstance(item, list)
            else [item]
        )
    return found


def decoded(text):
    """The JSON of a recording with steps as dicts of lists, and reads filled in from what memory holds."""
    whole = json.loads(text)
    held = [unpacked(memory["values"]) for memory in whole["memories"]]
    first = [memory["window"][0] if memory["window"] else 0 for memory in whole["memories"]]
    steps = []
    for row in whole["steps"]:
        step = dict(zip(whole["step_fields"], row + [None] * (len(whole["step_fields"]) - len(row)), strict=True))
        step["kind"], mask = whole["kinds"][step["kind"]], step["lanes"]
        step["lanes"] = [lane for lane in range(32) if mask >> lane & 1]
        for name in ("elements", "values", "source_lanes"):
            step[name] = step[name] and unpacked(step[name])
        step["variables"] = {name: unpacked(items) for name, items in (step["variables"] or {}).items()}
        width, memory = step["width"] or 1, step["memory"]
        if memory is not None:
            places = [element + k - first[memory] for element in step["elements"] for k in range(width)]
            if step["values"] is None:
                step["values"] = [held[memory][place] for place in places]
            elif step["kind"] != "read":
                for place, value in zip(places, step["values"], strict=True):
                    held[memory][place] = value
        steps.append(step)
    return {**whole, "steps": steps}


def json_value(value):
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def test_a_page_gets_every_step_back():
    recording = by_hand()
    read = decoded(recording.to_json())
    assert [(s["block"], s["warp"], s["line"], s["kind"], s["lanes"]) for s in read["steps"]] == [
        (s.block, s.warp, s.line, s.kind, s.lanes) for s in recording.steps
    ]
    for step, original in zip(read["steps"], recording.steps, strict=True):
        assert step["elements"] == original.elements
        assert step["values"] == (original.values and [json_value(v) for v in original.values])
        assert step["variables"] == original.variables
        assert (step["sectors"], step["wavefronts"]) == (original.sectors, original.wavefronts)
    assert read["problems"][0]["steps"] == [3, 4] and read["problems"][0]["threads"] == [[0, 0], [0, 4]]
    assert read["memories"][2]["block"] == 0 and read["source"][4] == "    tile[i] = x[i] * x[i];"


def test_a_read_carries_only_what_memory_does_not_hold():
    recording = by_hand()
    values = json.loads(recording.to_json())["step_fields"].index("values")
    rows = json.loads(recording.to_json())["steps"]
    assert rows[1][values] is None and rows[4][values] is None and rows[3][values] is not None
    recording.steps[4] = replace(recording.steps[4], values=[7.0] * 5)  # as in a race: not what the steps say
    assert json.loads(recording.to_json())["steps"][4][values] == [[7, 0, 5]]


def test_a_window_of_a_large_tensor_knows_its_values():
    recording = by_hand()
    recording.memories = [Memory("x", "global", "int", 4, (1000,), [5, 6, 7], window=(500, 3))]
    recording.steps = [Step(0, 0, 5, "read", [0, 3], 0, [500, 502], values=[5, 7])]
    assert decoded(recording.to_json())["steps"][0]["values"] == [5, 7]
    assert len(json.loads(recording.to_json())["steps"][0]) < 9


def test_wide_accesses_have_several_values_per_lane():
    recording = by_hand()
    recording.steps = [
        Step(0, 0, 5, "write", [0, 1], 2, [0, 4], width=4, values=[1.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5]),
        Step(0, 0, 6, "read", [1], 2, [4], width=2, values=[5.0, 6.0]),
    ]
    write, read = decoded(recording.to_json())["steps"]
    assert write["width"] == 4 and write["values"] == [1, 2.5, 3, 4, 5, 6, 7, 8.5] and read["values"] == [5, 6]


@pytest.mark.parametrize(
    "items, packed",
    [
        ([], []),
        ([3], [3]),
        ([0, 1], [0, 1]),
        ([0, 1, 2, 9], [[0, 1, 3], 9]),
        ([7, 7, 7], [[7, 0, 3]]),
        ([0.1, 0.1, 0.1], [[0.1, 0, 3]]),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),  # not equally far apart as floating point
        ([5.0, 4.0, 3.0, 2.5], [[5, -1, 3], 2.5]),
        ([None, None, None, 1], [[None, 0, 3], 1]),
        ([-0.0, 0.0, -0.0], [-0.0, 0, -0.0]),
        ([float("nan"), float("-inf"), True], ["nan", "-inf", 1]),
        ([2**53 + 1, 2**53], [str(2**53 + 1), 2**53]),
        (["m + 4", "m + 4", "m + 4"], [["m + 4", 0, 3]]),
        (None, None),
    ],
)
def test_lists_are_packed_exactly(items, packed):
    assert json.dumps(runs(items)) == json.dumps(packed)
    if items:
        assert [json.dumps(v) for v in unpacked(runs(items))] == [json.dumps(v) for v in unpacked(packed)]
