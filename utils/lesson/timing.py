"""How long something takes, on the CPU and on the GPU, and how much faster it is than something else.

`measure` takes a function and its arguments; `measure_fresh` times short kernels, as the benchmark does.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from utils.cuda.common.toolchain import device
from utils.ground.errors import CourseError

TARGET = 0.5  # seconds that all samples together should take
LONG = 1.0  # seconds from which one run is enough
MOST_SAMPLES = 200

# Of `measure_fresh` on a GPU:
SAMPLES, BUDGET = 30, 2.0  # that many samples, or as many as fit into so many seconds
LAUNCHES, REPLAYED = 4, 20  # a sample is the mean of 4 launches from Python, or of 20 in a CUDA graph
ALONE = 10e-3  # seconds from which one launch is a sample
SHORT = 200e-6  # seconds: what takes less is launched by a CUDA graph, as the time of a launch from Python would show


class GraphError(CourseError):
    """A CUDA graph cannot launch what is to be measured."""


@dataclass(frozen=True)
class Timing:
    """What `measure` found: every sample in seconds, in the order they were taken; `graph`: a CUDA graph launched."""

    samples: tuple[float, ...]
    device: str = "cpu"
    graph: bool = False

    def __post_init__(self):
        if not self.samples:
            raise ValueError("a Timing needs at least one sample, but got none")
        object.__setattr__(self, "samples", tuple(float(sample) for sample in self.samples))

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """First and third quartile: half of the samples are between them."""
        if len(self.samples) == 1:
            return self.samples[0], self.samples[0]
        first, _, third = statistics.quantiles(self.samples, n=4, method="inclusive")
        return first, third

    @property
    def seconds(self) -> float:
        """The one number to quote. On a CPU other programs can only add time, so the best; on a GPU the median."""
        return self.median if self.device == "cuda" else self.best

    def __str__(self) -> str:
        scale, unit = _unit(self.seconds)
        if len(self.samples) == 1:
            return f"{_digits(self.seconds * scale)} {unit} (one run)"
        kind = "median" if self.device == "cuda" else "best"
        low, high = (_digits(second * scale) for second in self.spread)
        return f"{_digits(self.seconds * scale)} {unit} ({kind} of {len(self.samples)}, quartiles {low} and {high})"

    __repr__ = __str__  # so that the last line of a notebook cell reads well


def measure(f: Callable, *args: Any, repeat: int | None = None, **kwargs: Any) -> Timing:
    """Time `f(*args, **kwargs)`: one run to warm up, then `repeat` runs, each of them one sample.

    Without `repeat` it takes about 0.5 s in all and at most 200 samples. A run of over 1 s on the CPU is not
    repeated: the first one is then the only sample.

    When `f` takes or returns a CUDA tensor, each sample is the time between two `torch.cuda.Event`s on that tensor's
    device, and the only wait for the GPU comes after the last sample. Otherwise it is the time by `time.perf_counter`;
    if CUDA is in use nevertheless, every sample waits for the GPU.

    A launch from Python takes time of its own, however short the kernel is. Times near that of squaring one element
    say how fast Python launches, not how fast the kernel is: `measure_fresh` times short kernels.

    Raises TypeError when `f` cannot be called and ValueError when `repeat` is below 1; what `f` raises passes through.
    """
    if not callable(f):
        raise TypeError(
            f"measure takes a function and its arguments, but got {f!r}: write measure(f, x), not measure(f(x))"
        )
    if repeat is not None and (not isinstance(repeat, int) or repeat < 1):
        raise ValueError(f"repeat must be a whole number of at least 1, but it is {repeat!r}")

    first, result = _by_clock(f, args, kwargs)
    device = _cuda_device((args, kwargs, result))
    del result
    if device is not None:
        with torch.cuda.device(device):
            if repeat is None:  # the first run may have loaded libraries: the second one shows the length
                second, _ = _by_clock(f, args, kwargs)
                repeat = max(1, min(MOST_SAMPLES, int(TARGET / second)))
            return Timing(_by_events(f, args, kwargs, repeat), "cuda")
    if repeat is not None:
        return Timing(tuple(_by_clock(f, args, kwargs)[0] for _ in range(repeat)))
    if first > LONG:
        return Timing((first,))
    samples = []
    while not samples or (sum(samples) + min(samples) < TARGET and len(samples) < MOST_SAMPLES):
        samples.append(_by_clock(f, args, kwargs)[0])
    return Timing(tuple(samples))


def measure_fresh(f: Callable, inputs: Callable) -> Timing:
    """Time `f(*inputs())`, where each launch takes other inputs than the one before, and finds none in a GPU's cache.

    `inputs` returns a new tuple of tensors at each call. On a GPU a sample is the mean of several launches, and what
    takes less than 200 µs is launched by a CUDA graph: the time of a launch from Python would show in the result.
    Raises GraphError where no graph can launch `f`.
    """
    return measure_by_turns(f, input_sets(inputs))


def input_sets(inputs: Callable) -> list[tuple]:
    """Different results of `inputs()`: at least two, and together four times as large as the GPU's L2 cache."""
    sets = [inputs(), inputs()]
    if device().type == "cuda":
        size = sum(x.nbytes for x in sets[0])
        l2 = torch.cuda.get_device_properties(device()).L2_cache_size
        sets += [inputs() for _ in range(math.ceil(4 * l2 / size) - 2)]
    return sets


def measure_by_turns(f: Callable, sets: list[tuple], verify: Callable | None = None) -> Timing:
    """Time `f(*inputs)` as `measure_fresh` does, with the inputs of `sets` in turn.

    Where a CUDA graph launched, `verify(replay)` is called at the end: `replay()` launches the graph once more, and
    returns the inputs and the result of its last launch. Raises GraphError, and whatever `verify` raises.
    """
    turns = itertools.cycle(sets)

    def run(launches=1):
        for _ in range(launches):
            inputs = next(turns)
            out = f(*inputs)
        return inputs, out

    launches, repeat, replay = 1, 5, None
    if device().type == "cuda":
        once = measure(run, repeat=len(sets)).seconds
        at_once = REPLAYED if once < SHORT else LAUNCHES
        launches = 1 if once > ALONE else -(-at_once // len(sets)) * len(sets)
        repeat = max(5, min(SAMPLES, int(BUDGET / (launches * once))))
        replay = captured(lambda: run(launches)) if once < SHORT else None
    timing = measure(replay or (lambda: run(launches)), repeat=repeat)
    if replay and verify:
        verify(replay)
    samples = tuple(seconds / launches for seconds in timing.samples)
    return Timing(samples, device().type, graph=replay is not None)


def captured(run: Callable) -> Callable:
    """A function that replays the launches of `run()` as a CUDA graph, without Python, and returns what `run` did. Its
    tensors stay in the same memory, and each replay writes them again. Raises GraphError where capturing fails."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            last = run()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # PyTorch's generator and allocator are not to be used after this
        raise GraphError(f"no CUDA graph can launch it: {str(error).splitlines()[0]}") from None
    return lambda: graph.replay() or last  # from its tensors `measure` sees that the time is a GPU's


def speed_table(timings: dict) -> pd.DataFrame:
    """A table of times, a row for each name, and how many times faster each is than the first row.

    `timings` maps a name to a `Timing` or to seconds. Columns: 'time' (text with its unit) and 'times faster' (a
    number, to three digits). The exact seconds, by name, are in `table.attrs['seconds']`.

    Raises ValueError for an empty dictionary and for a time that is not above zero.
    """
    if not timings:
        raise ValueError("speed_table needs at least one time, but got an empty dictionary")
    seconds = {
        str(name): timing.seconds if isinstance(timing, Timing) else float(timing) for name, timing in timings.items()
    }
    for name, value in seconds.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"the time of {name!r} must be a number of seconds above 0, but it is {value}")
    first = next(iter(seconds.values()))
    table = pd.DataFrame(
        {
            "time": [format_seconds(value) for value in seconds.values()],
            "times faster": [_three_digits(first / value) for value in seconds.values()],
        },
        index=list(seconds),
        dtype=object,  # so that each number is shown with its own digits
    )
    table.attrs["seconds"] = seconds
    return table


def format_seconds(seconds: float) -> str:
    """Seconds as text with three digits and a fitting unit: '1.21 ms'."""
    scale, unit = _unit(seconds)
    return f"{_digits(seconds * scale)} {unit}"


def _unit(seconds: float) -> tuple[float, str]:
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 0.9995:  # from here on it is 1.00 in three digits
            return scale, unit
    return 1e9, "ns"


def _three_digits(value: float) -> float:
    """A number rounded to three digits; a whole number from 100 on."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded >= 100 else rounded


def _digits(value: float) -> str:
    """Three digits: 1.21, 12.1, 121, 1,210."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _by_clock(f: Callable, args: tuple, kwargs: dict) -> tuple[float, Any]:
    _wait_for_gpu()
    start = time.perf_counter()
    result = f(*args, **kwargs)
    _wait_for_gpu()
    return time.perf_counter() - start, result


def _by_events(f: Callable, args: tuple, kwargs: dict, repeat: int) -> tuple[float, ...]:
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(repeat)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(repeat)]
    for start, end in zip(starts, ends, strict=True):
        start.record()
        f(*args, **kwargs)
        end.record()
    torch.cuda.synchronize()
    pairs = zip(starts, ends, strict=True)
    return tuple(start.elapsed_time(end) / 1e3 for start, end in pairs)  # milliseconds to seconds


def _wait_for_gpu() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _cuda_device(value: Any) -> torch.device | None:
    """The device of the first CUDA tensor in nested tuples, lists and dictionaries, or None."""
    if isinstance(value, torch.Tensor):
        return value.device if value.is_cuda else None
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return None
    return next((device for device in map(_cuda_device, value) if device is not None), None)
