"""Records the timelines of lesson 91, with a GPU:  python -m bench.recorded.timeline

Two loops that copy batches to the GPU and multiply them: one waits for each batch, the other fills the queue. Writes
timeline.json: the GPU, the versions, the source of both loops, and for each the events of a Chrome trace that
torch.profiler recorded. Needs no network and a few seconds.
"""

import inspect
import json
import tempfile
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from utils.ground.system import write
from utils.lesson.profiling import short

TIMELINE = Path(__file__).with_suffix(".json")
ON_CPU = ("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver")
KINDS = (*ON_CPU, "kernel", "gpu_memcpy", "gpu_memset")
FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")


def waiting(batches, weights, mark):
    total = 0.0
    for batch in batches:
        with mark("batch"):
            x = batch.to("cuda")
            total += torch.relu(x @ weights).sum().item()
    return total


def queued(batches, weights, mark):
    total = torch.zeros((), device="cuda")
    for batch in batches:
        with mark("batch"):
            x = batch.to("cuda", non_blocking=True)
            total += torch.relu(x @ weights).sum()
    return total.item()


LOOPS = (waiting, queued)


def events_of(loop, batches, weights) -> list[dict]:
    """What torch.profiler records of a loop, after a run to warm up: operators, calls of CUDA, copies and kernels."""
    loop(batches, weights, record_function)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        loop(batches, weights, record_function)
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return kept(json.loads(path.read_text())["traceEvents"])


def kept(events) -> list[dict]:
    """The events that a timeline shows, from 0 on and in tenths of a microsecond, with short names; processes and
    threads are counted, streams keep their numbers."""
    events = [event for event in events if event.get("ph") == "X" and event.get("cat") in KINDS]
    first = min(event["ts"] for event in events)
    events = [{field: event[field] for field in FIELDS} for event in sorted(events, key=lambda event: event["ts"])]
    processes = list(dict.fromkeys(event["pid"] for event in events))
    threads = list(dict.fromkeys(event["tid"] for event in events if event["cat"] in ON_CPU))
    for event in events:
        event |= {"ts": round(event["ts"] - first, 1), "dur": round(event["dur"], 1), "name": short(event["name"])}
        event["pid"] = processes.index(event["pid"])
        event["tid"] = threads.index(event["tid"]) if event["cat"] in ON_CPU else event["tid"]
    return events


def record() -> dict:
    """Run both loops; what timeline.json holds."""
    torch.manual_seed(91)
    side, loops = 2048, {}
    batches = [torch.rand(side, side) for _ in range(4)]
    weights = torch.randn(side, side, device="cuda")
    given = {waiting: batches, queued: [batch.pin_memory() for batch in batches]}
    results = [loop(given[loop], weights, nullcontext) for loop in LOOPS]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1)
    for loop in LOOPS:
        loops[loop.__name__] = {"source": inspect.getsource(loop), "traceEvents": events_of(loop, given[loop], weights)}
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
    return found | {"bytes": batches[0].nbytes, "loops": loops}


if __name__ == "__main__":
    write(TIMELINE, json.dumps(record()) + "\n")
    print(f"wrote {TIMELINE.name}")
