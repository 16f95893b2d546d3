"""Launches with tensors that have no guard: with NumPy's memory, or made before there was one."""

import numpy
import pytest
import torch

from tests.cuda.cpu.limits import run_python
from utils import compile_kernel

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
__global__ void add(float* x, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += y[i];
}
__global__ void clear(char* x, size_t n) { if (threadIdx.x == 0) memset(x, 0, n); }
"""


def without_guard(n):
    return torch.from_numpy(numpy.arange(n, dtype=numpy.float32))


@pytest.mark.parametrize("n", [1, 17, 1000, 4099])
def test_a_step_outside_one_is_an_exception_and_harms_nothing(n):
    add, x, y = compile_kernel(SOURCE, "add"), without_guard(n), without_guard(n)
    add[-(-n // 256), 256](x, y, n)
    assert torch.equal(x, 2 * y)
    with pytest.raises(RuntimeError, match="an illegal memory access was encountered"):
        add[64, 256](x, torch.zeros(64 * 256), 64 * 256)
    assert torch.equal(x, 2 * y)
    with pytest.raises(RuntimeError, match="thread .* of clear writes .* past the end of a tensor"):
        compile_kernel(SOURCE, "clear")[1, 32](x.view(torch.int8), 1 << 40)


def test_tensors_that_overlap_share_one_copy():
    add, x = compile_kernel(SOURCE, "add"), without_guard(1000)
    add[1, 1024](x, x, 1000)
    assert torch.equal(x, 2 * torch.arange(1000.0))
    x = without_guard(8)
    add[1, 1](x[1:], x[:-1], 7)  # thread 0 alone
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    add[1, 32](x[4:], x[:4], 4)
    assert x.tolist() == [0, 1, 2, 3, 4, 6, 8, 10]


def test_memory_that_may_only_be_read(tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.ones(1000, dtype=numpy.float32))
    array = numpy.load(tmp_path / "x.npy", mmap_mode="r")
    with pytest.warns(UserWarning, match="not writable"):
        torch.from_numpy(numpy.frombuffer(b"1234", dtype=numpy.float32))  # torch warns once only
    x, add = torch.from_numpy(array), compile_kernel(SOURCE, "add")
    out = torch.zeros(1000)
    add[4, 256](out, x, 1000)
    assert (out == 1).all()
    with pytest.raises(RuntimeError, match="tensor of 4,000 bytes whose memory may only be read"):
        add[4, 256](x, out, 1000)
    assert (array == 1).all()


SCRIPT = f"""
import torch
x = torch.zeros(1000)
from utils import compile_kernel
add = compile_kernel({SOURCE!r}, "add")
for _ in range(20):
    try:
        add[8, 256](x, torch.ones(2048), 2048)
    except RuntimeError as error:
        assert "past the end of a tensor of 4000 bytes" in str(error)
    else:
        raise AssertionError("no exception")
others = [torch.zeros(n) for n in range(1000)]
print("intact", x.sum().item())
"""


def test_tensors_made_before_the_first_kernel():
    compile_kernel(SOURCE, "add")  # the guard is there
    assert "intact" in run_python(SCRIPT)


def test_a_trace_of_a_fill_much_larger_than_its_tensor_takes_little_memory():
    (found,) = compile_kernel(SOURCE, "clear").trace[1, 32](torch.zeros(64, dtype=torch.int8), 1 << 40).problems
    assert found.kind == "out_of_bounds"
    assert found.message.startswith("thread (0,0,0) of block (0,0,0) writes x[0] to x[1099511627775], but x has 64")
