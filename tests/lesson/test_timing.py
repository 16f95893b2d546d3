"""Samples are real and kept, the number of runs follows the rules, and the text and the tables say what they should."""

import random
import subprocess
import sys
import time

import pytest
import torch

from tests.clock import slowdown
from utils.lesson import timing
from utils.lesson.timing import Timing, measure, speed_table


def test_every_sample_is_kept_and_the_warm_up_is_not_one():
    calls = []

    def f(a, b=0):
        calls.append((a, b))
        time.sleep(0.05 if len(calls) == 1 else 0.002)

    found = measure(f, 3, b=4, repeat=7)
    assert calls == [(3, 4)] * 8
    assert len(found.samples) == 7
    assert found.device == "cpu"
    assert all(0.002 <= sample < 0.045 for sample in sorted(found.samples)[:4])
    assert found.seconds == found.best == min(found.samples)


@pytest.mark.alone
def test_the_number_of_runs_follows_their_length(monkeypatch):
    monkeypatch.setattr(timing, "TARGET", 0.1)
    monkeypatch.setattr(timing, "LONG", 0.2)
    start = time.perf_counter()
    middle = measure(time.sleep, 0.01)
    assert 3 <= len(middle.samples) <= 11
    assert time.perf_counter() - start < slowdown()
    assert len(measure(time.sleep, 0.15).samples) == 1  # one warm-up, one sample
    calls = []
    long = measure(lambda: (calls.append(1), time.sleep(0.25)))
    assert len(calls) == 1 and len(long.samples) == 1 and long.seconds >= 0.25
    assert len(measure(int).samples) == timing.MOST_SAMPLES


def test_numbers_of_a_timing():
    samples = [random.uniform(1e-3, 2e-3) for _ in range(21)]
    cpu, gpu = Timing(tuple(samples)), Timing(tuple(samples), "cuda")
    expected = torch.tensor(samples, dtype=torch.float64)
    first, median, third = expected.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)).tolist()
    assert cpu.samples == tuple(samples)
    assert cpu.spread == pytest.approx((first, third))
    assert cpu.median == pytest.approx(median)
    assert cpu.seconds == min(samples)
    assert gpu.seconds == pytest.approx(median)


@pytest.mark.parametrize(
    "samples, device, text",
    [
        ((1.21e-3,) * 20, "cuda", "1.21 ms (median of 20, quartiles 1.21 and 1.21)"),
        ((0.001, 0.002, 0.003), "cuda", "2.00 ms (median of 3, quartiles 1.50 and 2.50)"),
        ((0.001, 0.002, 0.003), "cpu", "1.00 ms (best of 3, quartiles 1.50 and 2.50)"),
        ((6.534,), "cpu", "6.53 s (one run)"),
        ((12.34e-6,), "cpu", "12.3 µs (one run)"),
        ((999.96e-6,), "cpu", "1.00 ms (one run)"),
        ((3e-9,), "cpu", "3.00 ns (one run)"),
        ((1234.0,), "cpu", "1,234 s (one run)"),
    ],
)
def test_text(samples, device, text):
    assert str(Timing(samples, device)) == text
    assert repr(Timing(samples, device)) == text


def test_bad_input():
    with pytest.raises(TypeError, match=r"tensor.*measure\(f, x\), not measure\(f\(x\)\)"):
        measure(torch.ones(1))
    for repeat in (0, -2, 1.5):
        with pytest.raises(ValueError, match=f"repeat .* {repeat}"):
            measure(int, repeat=repeat)
    with pytest.raises(ZeroDivisionError):
        measure(lambda: 1 / 0)
    with pytest.raises(ValueError, match="at least one sample"):
        Timing(())
    with pytest.raises(ValueError, match="empty"):
        speed_table({})
    for seconds in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="'kernel' must be a number of seconds above 0"):
            speed_table({"loop": 1.0, "kernel": seconds})


def test_speed_table():
    table = speed_table({"loop": Timing((3.0, 2.0)), "CUDA": Timing((1e-3, 2e-3, 9e-3), "cuda"), "slow": 5.0})
    assert list(table.index) == ["loop", "CUDA", "slow"]
    assert list(table.columns) == ["time", "times faster"]
    assert list(table["time"]) == ["2.00 s", "2.00 ms", "5.00 s"]
    assert list(table["times faster"]) == [1, 1000, 0.4]
    assert table.attrs["seconds"] == {"loop": 2.0, "CUDA": 2e-3, "slow": 5.0}


def test_importing_leaves_cuda_alone():
    code = "import utils.lesson.timing, torch; assert not torch.cuda.is_initialized()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_cuda_tensors_are_found_in_what_goes_in_and_comes_out():
    assert timing._cuda_device(({"a": [torch.ones(1), 3]}, "text", None)) is None
    meta = torch.ones(1, device="meta")
    assert timing._cuda_device(((), {}, meta)) is None


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
def test_events_see_the_work_of_the_gpu():
    a = torch.rand(4096, 4096, device="cuda")
    found = measure(torch.matmul, a, a, repeat=11)
    assert found.device == "cuda" and len(found.samples) == 11
    # the same work by the clock, waiting for the GPU
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        a @ a
    torch.cuda.synchronize()
    assert found.seconds == pytest.approx((time.perf_counter() - start) / 10, rel=0.5)
    assert 2 <= len(measure(torch.matmul, a, a).samples) <= timing.MOST_SAMPLES


@needs_gpu
def test_work_hidden_in_a_closure_is_waited_for():
    a, out = torch.rand(4096, 4096, device="cuda"), torch.empty(4096, 4096, device="cuda")
    seen = measure(torch.matmul, a, a, repeat=5).seconds

    def hidden():
        torch.matmul(a, a, out=out)

    assert measure(hidden, repeat=5).seconds > 0.7 * seen
    copied = measure(lambda: (a @ a).cpu(), repeat=3)
    assert copied.device == "cpu" and copied.seconds > seen
