"""What the tests of compile_kernel need: an empty cache, and the CPU engine."""

import pytest
import torch

from utils.cuda.common import toolchain


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache; only the engine's runtime is not built again."""
    runtime = toolchain.cache_folder() / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("CUDA_COURSE_CACHE", str(tmp_path))
    (tmp_path / "runtime").symlink_to(runtime)
    return tmp_path


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a program into a file of that name, `written(name, text)`: the same file for the same text, so that several
    tests compile it once."""
    files = {}

    def write(name, text):
        if (name, text) not in files:
            files[name, text] = tmp_path_factory.mktemp("written") / name
            files[name, text].write_text(text)
        return files[name, text]

    return write


@pytest.fixture
def on_cpu(monkeypatch):
    """No GPU, for the test and for the processes that it starts: kernels run on the CPU engine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
