"""Shared by all tests: which backends this machine has, and poison for memory that a kernel is about to write."""

import pytest
import torch

import utils.compile
import utils.kernel

BACKENDS = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")),
]


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    """Run the test once for the CPU engine and, where there is a GPU, once more for that: the torch device to use."""
    device = torch.device(request.param)
    for module in (utils.compile, utils.kernel):
        monkeypatch.setattr(module, "device", lambda: device)
    return device


@pytest.fixture(scope="session")
def poison():
    """Leave values that no kernel writes by chance where the allocator will place the next tensor of that size."""

    def leave(numel, dtype, device):
        value = float("nan") if dtype.is_floating_point else 0xA5
        del_me = [torch.full((numel,), value, dtype=dtype, device=device) for _ in range(3)]
        del del_me

    return leave
