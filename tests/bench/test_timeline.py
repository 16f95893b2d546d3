"""bench/recorded/timeline.py: what it keeps of a trace, and that the recorded loops are the ones in it."""

import inspect
import json

from bench.recorded import timeline


def event(cat, name, ts, dur, tid=123456, pid=99, **more):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, **more}


def test_what_is_kept_names_no_process_and_begins_at_zero():
    name = "void at::native::(anonymous namespace)::reduce_kernel<512, 1>(int)"
    events = [
        event("kernel", name, 107.26, 2.04, tid=7, pid=0, args={"stream": 7}),
        event("cpu_op", "aten::sum", 100.0, 5.0, args={"External id": 3}),
        event("overhead", "Activity Buffer Request", 50.0, 40.0),
        {"ph": "M", "name": "process_name", "pid": 99},
    ]
    assert timeline.kept(events) == [
        event("cpu_op", "aten::sum", 0.0, 5.0, tid=0, pid=0),
        event("kernel", "reduce_kernel", 7.3, 2.0, tid=7, pid=1),
    ]


def test_the_recorded_loops_are_those_of_the_program():
    recorded = json.loads(timeline.TIMELINE.read_text())
    assert list(recorded["loops"]) == [loop.__name__ for loop in timeline.LOOPS]
    for loop in timeline.LOOPS:
        found = recorded["loops"][loop.__name__]
        assert found["source"] == inspect.getsource(loop)
        names = [each["name"] for each in found["traceEvents"]]
        assert names.count("batch") == 4 and {each["cat"] for each in found["traceEvents"]} <= set(timeline.KINDS)
