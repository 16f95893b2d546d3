"""Where there is a GPU, `device` is the GPU: tests of the engine alone need a process that sees none."""

from pathlib import Path

import pytest
import torch


def pytest_collection_modifyitems(items):
    """Skip them there. Tests with the fixture `backend` run on both."""
    if torch.cuda.is_available():
        skip = pytest.mark.skip(reason="about the CPU engine: run it with CUDA_VISIBLE_DEVICES=")
        for item in items:
            if Path(__file__).parent in item.path.parents and "backend" not in item.fixturenames:
                item.add_marker(skip)
