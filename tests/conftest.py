"""Shared by all tests: which backends this machine has, poison for memory that a kernel is about to write, and tables
that are shown when all tests are done."""

import gc
import signal

import pytest
import torch

import utils.cuda.compile
import utils.cuda.kernel
from utils.cuda import verdict

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so a shell starts what shall run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt kernels


def pytest_collection_finish():
    gc.freeze()  # what has been imported and collected stays: an eighth of a trace's time went into looking at it again
    gc.set_threshold(10_000, 20, 20)  # the tests keep much, too


BACKENDS = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")),
]


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    """Run the test once for the CPU engine and, where there is a GPU, once more for that: the torch device to use."""
    device = torch.device(request.param)
    for module in (utils.cuda.compile, utils.cuda.kernel):
        monkeypatch.setattr(module, "device", lambda: device)
    return device


@pytest.fixture(scope="module")
def unjudged():
    """Build without nvcc's verdict, which takes as long as the build: for kernels that nvcc judges in another test, or
    that a GPU has run for a recording."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict.Judge, "beside", lambda judge, build, place, say: build())
        patch.setattr(verdict, "_fingerprint", lambda *_: "unjudged")  # in the cache, they are other builds
        yield


@pytest.fixture(scope="session")
def poison():
    """Leave values that no kernel writes by chance where the allocator will place the next tensor of that size."""

    def leave(numel, dtype, device):
        value = float("nan") if dtype.is_floating_point else 0xA5
        del_me = [torch.full((numel,), value, dtype=dtype, device=device) for _ in range(3)]
        del del_me

    return leave


_SUMMARY = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def summary(pytestconfig):
    """What to show when all tests are done: lists of lines, by their title."""
    return pytestconfig.stash.setdefault(_SUMMARY, {})


def pytest_terminal_summary(terminalreporter, config):
    for title, lines in config.stash.get(_SUMMARY, {}).items():
        terminalreporter.section(title)
        terminalreporter.line("\n".join(lines))
