"""Where there is a GPU, `device` is the GPU: tests of the engine alone need a process that sees none."""

import re
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


@pytest.fixture(scope="module", autouse=True)
def _unjudged(request):
    """Folders of kernels that a GPU has run: they are built without nvcc's verdict, except in tests of it."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    of_verdict = re.search("CompileError|CompileWarning|CourseError|verdict", request.path.read_text(encoding="utf-8"))
    if folder in ("asynchronous", "clusters", "ptx", "tensor", "trace", "warpgroups") and not of_verdict:
        request.getfixturevalue("unjudged")
