"""compile_kernel accepts and rejects what plain nvcc does."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from bench.recorded import equal, verdicts
from tests.verdicts import SNIPPETS
from utils import CompileError, compile_kernel
from utils.cuda.common import toolchain

RECORDED = verdicts.read()

pytestmark = pytest.mark.alone  # it uses all cores by itself


@pytest.fixture(scope="session")
def said():
    """What the engine says of each snippet, by its key: a CompileError, or None if it accepts it."""
    if not toolchain.nvcc_candidates():
        pytest.skip("there is no nvcc")

    def of(snippet):
        try:
            compile_kernel(snippet.text, "k")
        except CompileError as error:
            return error

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(os.cpu_count()) as pool:
        patch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
        return dict(zip((s.key for s in SNIPPETS), pool.map(of, SNIPPETS), strict=True))


def test_every_snippet_is_recorded_as_it_is():
    assert {s.key: s.hash for s in SNIPPETS} == {key: entry["text"] for key, entry in RECORDED.items()}
    rejected = sum(not entry["accepted"] for entry in RECORDED.values())
    assert len(RECORDED) >= 200 and 0.4 < rejected / len(RECORDED) < 0.75


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.key)
def test_the_engine_agrees_with_nvcc(said, snippet):
    error, expected = said[snippet.key], RECORDED[snippet.key]
    assert (error is None) == expected["accepted"], error or f"nvcc says: {expected['error']}"
    if error is not None:
        assert error.errors, f"no line of the source is named: {error}"


def test_what_is_accepted_computes_what_a_gpu_computed(said, monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    recorded = {key: entry for key, entry in equal.read().items() if entry.get("difference", 1) < 1e-4}
    cases = [case for case in equal.CASES if case.key.startswith("verdicts/") and case.key in recorded]
    assert len(cases) > 120
    found = equal.on_this_machine(cases)
    assert not [key for key, made in found.items() if not equal.close(equal.sums(made), recorded[key]["sums"])]
