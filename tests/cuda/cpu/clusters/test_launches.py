"""Launches of clusters by the host's functions, and which of them are refused."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from utils import compile_kernel
from utils.cuda.common.diagnostics import CompileError
from utils.cuda.cpu.profile import behaving_like

HERE = Path(__file__).parent


def neighbours(blocks, size, add=0):
    """What `look` of launches.cu writes."""
    return " ".join(str(size * 100 + (block % size + 1) % size + add) for block in range(blocks))


EXPECTED = f"""\
attribute: cudaSuccess {neighbours(8, 4, 1000)}
with pointers: cudaSuccess {neighbours(8, 4, 2000)}
of the kernel: cudaSuccess {neighbours(8, 2, 1000)}
of the kernel, by function: cudaSuccess {neighbours(8, 2, 3000)}
the same size twice: cudaSuccess {neighbours(8, 2)}
of a template: cudaSuccess {neighbours(8, 4)}
of a template, by function: cudaSuccess {neighbours(8, 8)}
by an older function: cudaSuccess {neighbours(8, 2, 2000)}
by a pointer: cudaSuccess {neighbours(8, 2, 1000)}
by a pointer and function: cudaSuccess {neighbours(8, 2, 3000)}
by a pointer, no multiple: cudaErrorInvalidValue
for several blocks: cudaSuccess 3 3 3 3
one block: cudaSuccess {neighbours(8, 1)}
with a barrier of the grid: cudaSuccess 128 128 0 0 0 0 0 0 128 128 128 128 128 128 128 128
no multiple: cudaErrorInvalidValue
another size than the kernel's: cudaErrorInvalidValue
more than its bounds: cudaErrorInvalidValue
eight: cudaSuccess {neighbours(16, 8)}
sixteen: cudaErrorInvalidValue
allowed: cudaSuccess
sixteen, allowed: cudaSuccess {neighbours(32, 16)}
empty: cudaErrorInvalidValue
occupancy: cudaSuccess
largest: cudaSuccess
1 8 1 2
"""


def test_launches_by_the_hosts_functions():
    command = [sys.executable, "-m", "utils.cuda.run", str(HERE / "launches.cu")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[3])
    assert (done.stdout, done.returncode) == (EXPECTED, 0), done.stderr


SOURCE = r"""
#include <cooperative_groups.h>
#define CLUSTER(n) __cluster_dims__(n, 1, 1)
__global__ void CLUSTER(4) sizes(int* out) {
    auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = cluster.num_blocks();
}
"""


def test_a_size_that_a_macro_gives_and_grids_that_do_not_fit():
    out = torch.zeros(8, dtype=torch.int32)
    kernel = compile_kernel(SOURCE, "sizes")
    kernel[8, 32](out)
    assert out.tolist() == [4] * 8
    with pytest.raises(RuntimeError, match=r"\(6, 1, 1\) blocks is not a multiple of its clusters of \(4, 1, 1\)"):
        kernel[6, 32](out)


def test_an_older_gpu_has_no_clusters():
    out = torch.zeros(8, dtype=torch.int32)
    kernel = compile_kernel(SOURCE, "sizes")
    with behaving_like("A100"):
        needed = "need compute capability 9.0, that of an H100 or H200, and this GPU's is 8.0"
        with pytest.raises(RuntimeError, match=needed):
            kernel[8, 32](out)
        with pytest.raises(CompileError, match="cluster"):
            compile_kernel(SOURCE, "sizes")
