"""Where the tests of the benchmark run: on the CPU engine with tiny sizes, or on a GPU that is only believed in."""

import pytest
import torch

import kernels
import utils.cuda.compile
import utils.cuda.kernel
from bench import operations, tables
from tests.bench.setting import ASKING, GPU, TINY, on_a_gpu
from utils.lesson import figures


@pytest.fixture
def on_the_engine(monkeypatch, tmp_path, unjudged):
    """The CPU engine even where there is a GPU, tiny sizes, and a folder of the test's own for what is written.

    The kernels are built as in tests/kernels, without nvcc's verdict.
    """
    for module in (*ASKING, utils.cuda.compile, utils.cuda.kernel):
        monkeypatch.setattr(module, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(kernels, "load", kernels.load.__wrapped__)  # it remembers modules of the other device
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "bench" / "recorded")
    (tmp_path / "bench" / "recorded").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "README.md").write_text("no tables here\n")
    for name, size in TINY.items():
        monkeypatch.setitem(operations.GROUPS, name, operations.GROUPS[name]._replace(sizes=lambda size=size: [size]))


@pytest.fixture
def fake_gpu(monkeypatch, on_the_engine):
    """A GPU that is only believed in, with a name and versions."""
    on_a_gpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: GPU["device"])
    monkeypatch.setattr(figures, "versions", lambda: {"torch": "9.9", "cuda": "99.0"})
