"""How the benchmark times: whose result it refuses, which launches a graph replays, and what limits a device."""

import contextlib
import subprocess
from types import SimpleNamespace

import pytest
import torch

from bench import measuring, operations
from tests.bench.setting import numbered, on_a_gpu
from utils.lesson import timing
from utils.lesson.timing import Timing

pytestmark = pytest.mark.usefixtures("on_the_engine")


def test_the_roof_is_that_of_the_device(monkeypatch):
    gpu = SimpleNamespace(major=9, minor=0, multi_processor_count=10, clock_rate=2_000_000, uuid="1-2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    monkeypatch.setattr(measuring, "row", lambda operation: {"bytes": 8e9, "seconds": 0.002, "name": operation.name})
    words = "10 SMs x 128 lanes x 2 x 2,000 MHz, the highest clock by torch"
    assert measuring.roof() == {"peak": 5.12e12, "peak_is": words, "copied": 4e12}
    gpu.clock_rate, no_smi = 0, lambda *_, **__: SimpleNamespace(stdout="[N/A]\n")
    monkeypatch.setattr(subprocess, "run", no_smi)
    assert measuring.roof() == {"unknown": "neither torch nor nvidia-smi reports the highest clock"}
    gpu.minor = 9
    assert measuring.roof() == {"unknown": "the bench has no number of lanes for compute capability 9.9"}


def test_where_torch_has_no_clock_nvidia_smi_is_asked(monkeypatch):
    asked = []

    def answer(command, **_):
        asked.append(command)
        return SimpleNamespace(stdout="1980\n")

    monkeypatch.setattr(subprocess, "run", answer)
    assert measuring.max_clock(SimpleNamespace(uuid="1-2")) == (1.98e9, "nvidia-smi") and "--id=GPU-1-2" in asked[0]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="[N/A]\n"))
    assert measuring.max_clock(SimpleNamespace(uuid="1-2")) == (0.0, "")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("operation not permitted\nwhen stream is capturing"),
            "@: no CUDA graph can launch it: operation",
        ),
        (torch.OutOfMemoryError("tried to allocate"), "@ needs more memory than the GPU has free"),
    ],
)
def test_what_cannot_be_captured_is_refused(monkeypatch, error, words):
    on_a_gpu(monkeypatch, L2_cache_size=1)

    @contextlib.contextmanager
    def capture(_):
        yield
        raise error

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    operation = operations.product("@", torch.matmul, 5, 5, 5)
    operation = operation._replace(inputs=lambda: (torch.rand(5, 5), torch.rand(5, 5)))
    with pytest.raises(measuring.Refused, match=words):
        measuring.row(operation)


def test_products_are_measured_in_full_float32_and_the_setting_comes_back(monkeypatch):
    seen = []

    def state():
        return torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()

    before = state()
    try:
        torch.set_float32_matmul_precision("medium")
        looking = operations.product("`@`", lambda m, n: seen.append(state()) or m @ n, 5, 5, 5)
        alone = operations.GROUPS["matmul"]._replace(operations=lambda _: [looking])
        monkeypatch.setitem(operations.GROUPS, "matmul", alone)
        measuring.measured("matmul", 5)
        assert set(seen) == {(False, "highest")} and state() == (True, "medium")
    finally:
        torch.set_float32_matmul_precision(before[1])


def test_small_inputs_are_many_so_that_the_cache_cannot_hold_them(monkeypatch):
    operation = operations.product("`@`", torch.matmul, 10, 10, 10)._replace(
        inputs=lambda: (torch.zeros(100), torch.zeros(100))  # 800 bytes
    )
    for cache, sets in ((1, 2), (400, 2), (401, 3), (2000, 10)):
        on_a_gpu(monkeypatch, L2_cache_size=cache)
        assert len(timing.input_sets(operation.inputs)) == sets


def test_launches_take_the_inputs_by_turns(monkeypatch):
    on_a_gpu(monkeypatch)
    operation, sets, used = numbered(3)
    graphs = []
    monkeypatch.setattr(timing, "captured", lambda launches: graphs.append(launches) or launches)
    found = measuring.timed(operation, sets)
    assert used == [i % 3 for i in range(len(used))] and found.graph and len(graphs) == 1
    assert len(used) == 1 + 3 + 21 * (1 + timing.SAMPLES + 2)  # at least 20, and as many of each; two are compared
    assert len(found.samples) == timing.SAMPLES and found.device == "cuda"
    used.clear()
    monkeypatch.setattr(timing, "SHORT", 0)
    found = measuring.timed(operation, sets)
    assert len(used) == 1 + 3 + 6 * (1 + timing.SAMPLES) and not found.graph and len(graphs) == 1


def test_long_operations_are_launched_less_often(monkeypatch):
    on_a_gpu(monkeypatch)
    for name in ("ALONE", "SHORT", "BUDGET"):
        monkeypatch.setattr(timing, name, 0)
    operation, sets, used = numbered(2)
    found = measuring.timed(operation, sets)
    assert len(found.samples) == 5 and len(used) == 3 + 6


def test_the_engine_takes_inputs_by_turns_too_and_its_figure_is_the_median(monkeypatch):
    operation, sets, used = numbered(2)
    found = measuring.timed(operation, sets)
    assert used == [0, 1, 0, 1, 0, 1] and len(found.samples) == 5 and not found.graph
    assert len(timing.input_sets(operation.inputs)) == 2
    monkeypatch.setattr(measuring, "timed", lambda *_: Timing((1.0, 9.0, 5.0)))
    assert measuring.row(operation)["seconds"] == 5


@pytest.mark.parametrize("wrong", ["stale", "another", "spoils"])
def test_what_a_graph_replays_is_compared(monkeypatch, wrong):
    """A graph writes its result to the same memory. Here it writes nothing, another result, or into its inputs."""
    on_a_gpu(monkeypatch)
    operation, sets, _ = numbered(3)

    def captured(run):
        ((m, n), kept), out = run()

        def replay():
            if wrong == "another":
                out.copy_(m @ n + 1)
            elif wrong == "spoils":
                out.copy_(kept[0] @ kept[1])
                m.fill_(7)
            return ((m, n), kept), out

        return replay

    monkeypatch.setattr(timing, "captured", captured)
    with pytest.raises(measuring.WrongResult, match="changes its inputs" if wrong == "spoils" else "wrong by up to"):
        measuring.timed(operation, sets)
