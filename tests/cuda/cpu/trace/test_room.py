"""The memory of a trace: announced where it is much, refused where there is too little, and little under ulimit -v."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils import compile_kernel
from utils.cuda.cpu.trace import room

ROOT = Path(room.__file__).parents[4]
SOURCE = """
__global__ void k(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = 1;
    __syncthreads();
    if (i < n) y[i] = x[i] + s[255 - threadIdx.x];
}
__global__ void slow(float* y) { for (int i = 0; i < 1000000000; i++) y[i % 64] += i; }
"""


def traced(n, **options):
    x, y = torch.ones(n), torch.empty(n)
    return compile_kernel(SOURCE, "k").trace[(n + 255) // 256, 256](x, y, n, outputs=[y], **options)


def has(monkeypatch, free, limit="of the machine's"):
    monkeypatch.setattr(room, "available", lambda: (int(free), limit))


def test_a_small_trace_says_nothing(capsys):
    assert traced(1000).ok
    assert capsys.readouterr().out == ""


def test_much_memory_is_announced(monkeypatch, capsys):
    has(monkeypatch, 5e6)
    assert traced(20_000).ok
    said = capsys.readouterr().out
    assert said == (
        "A trace of k needs 0.3 MB to 2.7 MB, depending on how much the kernel touches; 5.0 MB are available.\n"
    )


def test_too_much_is_refused_with_both_numbers_and_a_size_to_try(monkeypatch):
    has(monkeypatch, 200e3)
    with pytest.raises(MemoryError, match=r"needs 0.3 MB of memory, but only 0.2 MB are available") as raised:
        traced(20_000)
    assert isinstance(raised.value, room.TooLarge)
    fits = float(re.search(r"a case with at most ([\d.]+) MB", str(raised.value))[1])
    assert traced(int(fits * 1e6 / 8)).ok, "the size that it suggests"
    has(monkeypatch, 2e6, "ulimit -v")
    with pytest.raises(room.TooLarge, match="needs 2.7 MB of memory, .* \\(ulimit -v\\)"):
        traced(20_000)


def test_a_trace_ends_before_it_takes_the_last_memory(monkeypatch):
    free = iter([1e6, 1e6, 1e6, 1e6])
    monkeypatch.setattr(room, "available", lambda: (next(free, 1e3), "of the machine's"))
    y = torch.zeros(100_000)
    with pytest.raises(room.TooLarge, match="the trace of slow was ended"):
        compile_kernel(SOURCE, "slow").trace[1, 1](y, max_steps=10**12)
    monkeypatch.undo()
    assert traced(1000).ok, "and the next one works"


def test_what_is_available(monkeypatch, tmp_path):
    free, limit = room.available()
    assert 0 < free and limit
    for names, taken in (
        (("memory.max", "memory.current"), 300),
        (("memory.limit_in_bytes", "memory.usage_in_bytes"), 0),
    ):
        place = tmp_path / names[0]
        folder = place if names[0] == "memory.max" else place / "memory"
        folder.mkdir(parents=True)
        (folder / names[0]).write_text("1000\n")
        (folder / names[1]).write_text(f"{taken}\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 100\n")
        assert room._cgroup(place) == 1000 - taken + 100
    (tmp_path / "memory.max" / "memory.max").write_text("max\n")
    assert room._cgroup(tmp_path / "memory.max") is None
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (10 if kind == resource.RLIMIT_AS else -1, -1))
    assert room.available() == (0, "ulimit -v")


LIMITED = f"""
import resource, sys, torch
sys.path.insert(0, {str(ROOT)!r})
from tests.cuda.cpu.trace.test_room import SOURCE, traced
from utils import compile_kernel
torch.cuda.is_available()  # a torch that was built for GPUs has NVIDIA's driver reserve much address space
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[1]), resource.RLIM_INFINITY))
first = traced(70_000)
assert first.ok and first.args[1].eq(2).all(), first
y = torch.zeros(64)
outside = compile_kernel(SOURCE, "k").trace[1, 256](torch.ones(256), y, 256)
assert "y[64]" in outside.problems[0].message, outside.problems
try:
    traced(50_000_000)
except MemoryError as error:
    print(error)
"""


@pytest.mark.parametrize("gigabytes", [0.9, 4])
def test_traces_work_under_a_limit_of_address_space(gigabytes):
    traced(10)  # built
    compile_kernel(SOURCE, "k")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LIMITED, str(int(gigabytes * 1e9))]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "ulimit -v" in done.stdout
