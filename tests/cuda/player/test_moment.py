"""What a recording has done after so many steps, and how it is said."""

import math

import pytest

from tests.cuda.player.recordings import by_hand
from utils.cuda.player.moment import elements, lanes_text, moment, name_of, sentence, telling_position
from utils.cuda.player.recording import Memory


def test_memory_threads_and_variables_follow_from_the_steps():
    recording = by_hand()
    start, written, end = moment(recording, 0), moment(recording, 4), moment(recording, 8)
    assert start.step is None and start.held[2] == [None] * 64 and not start.exited and not start.variables
    assert written.held[2][:6] == [0.25, 4.0, 0.01, 16.0, math.inf, None] and math.isnan(written.held[1][0])
    assert written.exited == {(0, thread) for thread in range(5, 32)} and written.variables[0, 3] == {"i": 3}
    assert end.held[1] == [math.inf, 16.0, 0.01, 4.0, 0.25] and len(end.exited) == 64
    assert recording.memories[2].values == [None] * 64


def test_a_barrier_holds_lanes_until_they_pass_and_variables_end():
    recording = by_hand()
    passed = recording.steps[6]
    recording.steps[3].kind, recording.steps[3].barrier, recording.steps[3].memory = "barrier", "line 5", None
    passed.kind, passed.variables = "passed", {"i": [None] * 5}
    assert moment(recording, 4).waits == {(0, lane): "line 5" for lane in range(5)}
    assert moment(recording, 7).waits == {} and moment(recording, 7).variables[0, 0] == {}


def test_a_wide_access_has_several_elements_per_lane():
    step = by_hand().steps[1]
    step.lanes, step.elements, step.width, step.values = [0, 3], [0, None], 2, [1.0, 2.0, 3.0, 4.0]
    assert elements(step) == [(0, 0, 1.0), (0, 1, 2.0)]


def test_the_telling_step_is_the_first_problems_last_otherwise_an_access_midway():
    recording = by_hand()
    assert telling_position(recording) == 5
    recording.problems.clear()
    assert telling_position(recording) == 4
    recording.steps.clear()
    assert telling_position(recording) == 0


def test_sentences():
    recording = by_hand()
    assert sentence(recording, 0).startswith("Before the first step")
    assert sentence(recording, 1) == "Step 1 of 8, block (0,0,0), warp 0, line 4: lanes 5-31 exit."
    assert sentence(recording, 4).endswith("line 5: lanes 0-4 write tile[0] to tile[4].")
    recording.steps[3].outside = [(4, "4 bytes past the end of tile")]
    assert sentence(recording, 4).endswith("tile[4], lane 4: 4 bytes past the end of tile.")


@pytest.mark.parametrize("lanes, text", [([3], "lane 3"), ([0, 1, 2, 8, 30, 31], "lanes 0-2, 8, 30-31")])
def test_lanes(lanes, text):
    assert lanes_text(lanes) == text


@pytest.mark.parametrize("shape, element, name", [((), 0, "m"), ((9,), 5, "m[5]"), ((3, 4, 5), 33, "m[1][2][3]")])
def test_names_of_elements(shape, element, name):
    assert name_of(Memory("m", "global", "float", 4, shape, []), element) == name
