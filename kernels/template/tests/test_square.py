import pytest
import torch

import my_kernels
from my_kernels import _C

OPERATOR = torch.ops.my_kernels.square.default


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("size", [(0,), (1,), (17,), (65, 100, 70), (), (3, 0, 2)])
def test_square(device, size, dtype):
    x = torch.randn(size, dtype=dtype, device=device)
    out = my_kernels.square(x)
    assert out.device == x.device
    torch.testing.assert_close(out, (x.double() ** 2).to(dtype), rtol=0, atol=0)  # a product is rounded once


def test_more_elements_than_threads(device):
    x = torch.randn(2 * 128 * 4096 + 17, device=device)  # twice the largest grid, and some
    torch.testing.assert_close(my_kernels.square(x), x * x, rtol=0, atol=0)


def test_not_contiguous(device):
    x = torch.randn(65, 100, device=device)
    for part in (x.t(), x[:, ::2], x[1:, 3:], x[:1].expand(65, 100)):
        out = my_kernels.square(part)
        assert out.is_contiguous()
        torch.testing.assert_close(out, part * part, rtol=0, atol=0)


def test_wrong_type(device):
    with pytest.raises(TypeError, match="x must be float32, float64 or float16, but it is bool"):
        my_kernels.square(torch.ones(3, dtype=torch.bool, device=device))


def test_gradients(device):
    x = torch.randn(5, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(my_kernels.square, x)
    assert torch.autograd.gradgradcheck(my_kernels.square, x)


@pytest.mark.parametrize("grad", [False, True])
def test_operator_is_registered_well(device, grad):
    torch.library.opcheck(OPERATOR, (torch.randn(17, 3, device=device, requires_grad=grad),))
    if not grad:
        torch.library.opcheck(OPERATOR, (torch.randn(17, 3, device=device).t(),))


def test_compiles_in_one_graph(device):
    def function(x):
        return my_kernels.square(x.sin()).sum()

    x = torch.randn(65, 100, device=device, requires_grad=True)
    loss = torch.compile(function, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(loss, function(x))
    torch.testing.assert_close(torch.autograd.grad(loss, x), torch.autograd.grad(function(x), x))


def test_the_function_itself(kernel_device):
    x = torch.randn(1000, device=kernel_device, requires_grad=True)
    with pytest.raises(RuntimeError, match="records no gradients: call my_kernels.square"):
        _C.square(x)
    torch.testing.assert_close(_C.square(x.detach()), x.detach() ** 2)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _C.square(3)


def test_second_device(second_gpu):
    x = torch.randn(1000, device=second_gpu, requires_grad=True)
    out = my_kernels.square(x)
    assert out.device == second_gpu
    torch.testing.assert_close(out, x * x)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], 2 * x)
