import pytest
import torch

import my_kernels
from my_kernels import _C

SIZES = [(0,), (1,), (17,), (65, 100, 70), (), (3, 0, 2)]
DTYPES = [torch.float32, torch.float64, torch.float16]
OPERATOR = torch.ops.my_kernels.vector_add.default


def pair(size, device, dtype=torch.float32, **options):
    return [torch.randn(size, dtype=dtype, device=device, **options) for _ in range(2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_sum(device, size, dtype):
    a, b = pair(size, device, dtype)
    out = my_kernels.vector_add(a, b)
    assert out.device == a.device
    torch.testing.assert_close(out, (a.double() + b.double()).to(dtype), rtol=0, atol=0)  # a sum is rounded once


def test_more_elements_than_threads(device):
    a, b = pair(2 * 128 * 4096 + 17, device)  # twice the largest grid, and some
    torch.testing.assert_close(my_kernels.vector_add(a, b), a + b, rtol=0, atol=0)


def test_not_contiguous(device):
    a, b = torch.randn(65, 100, device=device), torch.randn(100, 65, device=device).t()
    for x, y in [(a, b), (b, a), (b, b), (a[:, ::2], b[:, 1::2]), (a[:1].expand(65, 100), b)]:
        out = my_kernels.vector_add(x, y)
        assert out.is_contiguous()
        torch.testing.assert_close(out, x + y, rtol=0, atol=0)


def test_different_sizes(device):
    a, b = torch.randn(3, device=device), torch.randn(4, device=device)
    with pytest.raises(ValueError, match=r"same size, but a has \[3\] and b has \[4\]"):
        my_kernels.vector_add(a, b)


def test_wrong_types(device):
    a = torch.randn(3, device=device)
    with pytest.raises(TypeError, match="a must be float32, float64 or float16, but it is int64"):
        my_kernels.vector_add(torch.arange(3, device=device), a)
    with pytest.raises(TypeError, match="a is float32, but b is float64: both must be of one type"):
        my_kernels.vector_add(a, a.double())


def test_gradients(device):
    inputs = pair((5, 3), device, torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(my_kernels.vector_add, inputs)
    assert torch.autograd.gradgradcheck(my_kernels.vector_add, inputs)


@pytest.mark.parametrize("grad", [False, True])
def test_operator_is_registered_well(device, grad):
    torch.library.opcheck(OPERATOR, pair((17, 3), device, requires_grad=grad))
    if not grad:
        torch.library.opcheck(OPERATOR, [x.t() for x in pair((17, 3), device)])


def test_compiles_in_one_graph(device):
    def function(a, b):
        return my_kernels.vector_add(a.relu(), b).sum()

    inputs = pair((65, 100), device, requires_grad=True)
    loss = torch.compile(function, fullgraph=True, backend="aot_eager")(*inputs)
    torch.testing.assert_close(loss, function(*inputs))
    expected = torch.autograd.grad(function(*inputs), inputs)
    torch.testing.assert_close(torch.autograd.grad(loss, inputs), expected)


# ---- the function itself, bound with pybind11 -----------------------------------------------------------------------


def test_out_is_resized(kernel_device):
    a, b = pair((65, 100), kernel_device)
    out = torch.empty(0, device=kernel_device)
    assert _C.vector_add(a, b, out).data_ptr() == out.data_ptr()
    torch.testing.assert_close(out, a + b, rtol=0, atol=0)


def test_nothing_beside_out_is_written(kernel_device):
    a, b = pair(1000, kernel_device)
    whole = torch.full((1002,), torch.nan, device=kernel_device)
    _C.vector_add(a, b, whole[1:-1])
    torch.testing.assert_close(whole[1:-1], a + b, rtol=0, atol=0)
    assert whole[[0, -1]].isnan().all()


def test_out_may_be_an_input(kernel_device):
    a, b = pair(1000, kernel_device)
    expected = a + b
    _C.vector_add(a, b, out=a)
    torch.testing.assert_close(a, expected, rtol=0, atol=0)


def test_a_backward_pass_refuses_numbers_that_were_overwritten(kernel_device):
    a, b = pair(3, kernel_device)
    out, w = torch.ones(3, device=kernel_device), torch.ones(3, device=kernel_device, requires_grad=True)
    product = (w * out).sum()  # its gradient needs `out` as it is now
    _C.vector_add(a, b, out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_bad_out(kernel_device):
    a, b = pair((6, 5), kernel_device)
    with pytest.raises(ValueError, match=r"out must be contiguous, but its strides are \[1, 6\]"):
        _C.vector_add(a, b, torch.empty(5, 6, device=kernel_device).t())
    with pytest.raises(TypeError, match="a is float32, but out is float64"):
        _C.vector_add(a, b, torch.empty(0, dtype=torch.float64, device=kernel_device))
    x = torch.randn(1001, device=kernel_device)
    with pytest.raises(RuntimeError, match="memory"):
        _C.vector_add(x[:-1], x[:-1], x[1:])


def test_a_gradient_is_refused_rather_than_lost(kernel_device):
    a, b = pair(3, kernel_device, requires_grad=True)
    with pytest.raises(RuntimeError, match="records no gradients: call my_kernels.vector_add"):
        _C.vector_add(a, b)
    with torch.no_grad():
        torch.testing.assert_close(_C.vector_add(a, b), a + b)


# ---- what only a GPU has --------------------------------------------------------------------------------------------


def test_current_stream(gpu):
    a, b = torch.zeros(2**20, device=gpu), torch.ones(2**20, device=gpu)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # on another stream, the kernel would not wait for a to be filled
        a.fill_(2)
        out = my_kernels.vector_add(a, b)
    stream.synchronize()
    assert bool((out == 3).all())


def test_second_device(second_gpu):
    a, b = pair(1000, second_gpu)
    torch.testing.assert_close(my_kernels.vector_add(a, b), a + b)
    with pytest.raises(RuntimeError, match="a is on cuda:1, but b is on cuda:0"):
        my_kernels.vector_add(a, b.to("cuda:0"))


def test_devices_are_not_mixed(gpu):
    a, b = pair(3, gpu)
    with pytest.raises(RuntimeError, match="a is on cuda:0, but b is on cpu"):
        my_kernels.vector_add(a, b.cpu())
    with pytest.raises(RuntimeError, match="x must be on a cuda device, but it is on cpu"):
        _C.square(a.cpu())


def test_more_than_2_to_the_31_elements(gpu):
    n = 2**31 + 17
    if torch.cuda.mem_get_info()[0] < 3.5 * n * 2:
        pytest.skip("needs 15 GB of GPU memory")
    a = torch.zeros(n, dtype=torch.float16, device=gpu)
    a[-17:] = 3
    out = my_kernels.vector_add(a, a)
    assert out[-17:].tolist() == [6] * 17 and not bool(out[:-17].any())
