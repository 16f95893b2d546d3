"""The steps of lesson 12: edited sources, and the times of a narrow product."""

from types import SimpleNamespace

import pytest
import torch

import kernels
from utils.lesson import steps


def test_each_text_is_replaced_where_it_is_found_once():
    assert steps.edited("a b c", {"a": "x", "c": ""}) == "x b "
    for text in ("b", "a a"):
        with pytest.raises(ValueError, match="'a' should be in the source once, but is there"):
            steps.edited(text, {"a": "x"})


def test_the_four_changes_come_back_one_by_one():
    source = kernels.source("matmul_fast")
    found = steps.gaps_filled(source)
    assert list(found) == [
        "none of the four",
        "a step ahead",
        "copies spread",
        "there and back",
        "+= 0.0f: matmul_fast",
    ]
    assert len(set(found.values())) == 5 and list(found.values())[-1] == source


@pytest.fixture
def small_gpu(monkeypatch):
    """A GPU with 100 bytes of shared memory, whose kernels are named after what they compute."""
    work = {"product": lambda m, n, out: out.copy_(m @ n), "nothing": lambda m, n, out: out.zero_()}
    built = []

    def compile_kernel(text, name):
        built.append(text)
        return {launch: lambda m, n, out, h, w, k: work[name](m, n, out) for launch in ((1, 32), (1, 32, 64))}

    def measure_fresh(f, tensors):
        f(*tensors())
        return SimpleNamespace(seconds=1)

    monkeypatch.setattr(steps, "compile_kernel", compile_kernel)
    monkeypatch.setattr(steps, "measure_fresh", measure_fresh)
    monkeypatch.setattr(steps, "device", lambda: torch.device("cpu"))
    gpu = SimpleNamespace(shared_memory_per_block_optin=100)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    return built


def test_steps_that_fit_are_measured(small_gpu):
    there = {"first": ("a", "product", (1, 32)), "second": ("b", "product", (1, 32, 64))}
    too_large = {"third": ("c", "product", (1, 32, 128))}
    found = steps.measure_steps(there | too_large, (4, 3, 2))
    assert list(found) == ["reading m: m.sum()", "@", "first", "second"] and small_gpu == ["a", "b"]


def test_a_wrong_step_is_not_measured(small_gpu):
    with pytest.raises(AssertionError):
        steps.measure_steps({"first": ("a", "nothing", (1, 32))}, (4, 3, 2))
