import pytest
import torch

import my_kernels
from my_kernels import _C

SIZES = [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (17, 1, 17), (16, 16, 16), (65, 100, 70), (31, 37, 41)]
OPERATOR = torch.ops.my_kernels.matmul.default


def matrices(h, k, w, device, dtype=torch.float32, **options):
    return [torch.randn(size, dtype=dtype, device=device, **options) for size in ((h, k), (k, w))]


def assert_product(out, m, n):
    """As near to the product in float64 as k products, rounded one after another, may come."""
    exact, magnitude = m.double() @ n.double(), m.double().abs() @ n.double().abs()
    unit = torch.finfo(out.dtype).eps / 2
    bound = 2 * (m.shape[1] + 1) * unit * magnitude  # twice the usual bound: in float64, the reference is rounded too
    assert out.shape == exact.shape and out.dtype == m.dtype and out.device == m.device
    assert bool(((out.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_product(device, size, dtype):
    m, n = matrices(*size, device, dtype)
    assert_product(my_kernels.matmul(m, n), m, n)


def test_not_contiguous(device):
    m, n = torch.randn(100, 65, device=device).t(), torch.randn(70, 100, device=device).t()
    for x, y in [(m, n), (m.contiguous(), n), (m, n.contiguous()), (m[::2, 1:], n[1:, ::3])]:
        out = my_kernels.matmul(x, y)
        assert out.is_contiguous()
        assert_product(out, x, y)


def test_sizes_that_do_not_fit(device):
    m, n = torch.randn(65, 100, device=device), torch.randn(70, 100, device=device)
    with pytest.raises(ValueError, match=r"m has 100 columns \(size \[65, 100\]\), but n has 70 rows"):
        my_kernels.matmul(m, n)
    with pytest.raises(ValueError, match=r"2 dimensions, but their sizes are \[65, 100\] and \[100\]"):
        my_kernels.matmul(m, n[0])


def test_wrong_types(device):
    m, n = matrices(3, 4, 5, device)
    with pytest.raises(TypeError, match="m must be float32 or float64, but it is float16"):
        my_kernels.matmul(m.half(), n.half())
    with pytest.raises(TypeError, match="m is float32, but n is float64"):
        my_kernels.matmul(m, n.double())


def test_more_rows_than_a_grid_reaches(kernel_device):
    m, n = torch.zeros(65535 * 16 + 1, 1, device=kernel_device), torch.zeros(1, 1, device=kernel_device)
    with pytest.raises(ValueError, match="m has 1048561 rows, but a grid reaches 1048560"):
        my_kernels.matmul(m, n)


def test_gradients(device):
    inputs = matrices(3, 4, 2, device, torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(my_kernels.matmul, inputs)
    assert torch.autograd.gradgradcheck(my_kernels.matmul, inputs)


def test_gradient_of_one_of_the_two(device):
    m, n = matrices(65, 100, 70, device)
    n.requires_grad_()
    (gradient,) = torch.autograd.grad(my_kernels.matmul(m, n).sum(), n)
    torch.testing.assert_close(gradient, torch.autograd.grad((m @ n).sum(), n)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("grad", [False, True])
def test_operator_is_registered_well(device, grad):
    torch.library.opcheck(OPERATOR, matrices(17, 5, 3, device, requires_grad=grad))


def test_compiles_in_one_graph(device):
    def function(m, n):
        return my_kernels.matmul(m.tanh(), n).sum()

    inputs = matrices(65, 100, 70, device, requires_grad=True)
    loss = torch.compile(function, fullgraph=True, backend="aot_eager")(*inputs)
    torch.testing.assert_close(loss, function(*inputs))
    expected = torch.autograd.grad(function(*inputs), inputs)
    torch.testing.assert_close(torch.autograd.grad(loss, inputs), expected)


def test_the_function_itself(kernel_device):
    m, n = matrices(17, 5, 3, kernel_device)
    assert_product(_C.matmul(m, n), m, n)
    with pytest.raises(RuntimeError, match="records no gradients: call my_kernels.matmul"):
        _C.matmul(m.requires_grad_(), n)


def test_second_device(second_gpu):
    m, n = matrices(65, 100, 70, second_gpu, requires_grad=True)
    out = my_kernels.matmul(m, n)
    assert_product(out, m, n)
    expected = torch.autograd.grad((m @ n).sum(), (m, n))
    torch.testing.assert_close(torch.autograd.grad(out.sum(), (m, n)), expected, rtol=1e-4, atol=1e-4)
