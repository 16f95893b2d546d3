"""What all tests share: the devices that the package was built for and that this machine has."""

import pytest
import torch

import my_kernels

HAS_GPU = my_kernels.built_for == "cuda" and torch.cuda.is_available()


@pytest.fixture(params=["cpu", "cuda"] if HAS_GPU else ["cpu"])
def device(request):
    """Every test that asks for it runs on the CPU and, where there is a GPU and a build for it, once more on that."""
    return torch.device(request.param)


@pytest.fixture
def kernel_device():
    """The device that the kernels themselves run on: what `my_kernels._C` takes."""
    if my_kernels.built_for == "cuda" and not HAS_GPU:
        pytest.skip("built for a GPU, and there is none")
    return torch.device(my_kernels.built_for)


@pytest.fixture
def gpu():
    """The GPU; without one, the test is skipped."""
    if not HAS_GPU:
        pytest.skip("needs a GPU, and a build for it")
    return torch.device("cuda")


@pytest.fixture
def second_gpu(gpu):
    """The second GPU, while the first is the current one; without a second, the test is skipped."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    assert torch.cuda.current_device() == 0
    return torch.device("cuda:1")
