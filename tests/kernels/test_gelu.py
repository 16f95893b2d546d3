"""bias_gelu and its gradient against float64 and torch: awkward sizes, views that begin anywhere, tails, infinities."""

import pytest
import torch
import torch.nn.functional as F

from kernels import load

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [(0, 5), (5, 0), (1, 1), (17, 1), (3, 17), (40, 64), (33, 1001), (9, 2056), (300, 24), (5, 4096)]


@pytest.fixture
def module(backend):
    return load.__wrapped__("gelu")


def views(h, w, dtype, device, scale=2.0):
    """Random values, beginning at a multiple of 16 bytes and one and three elements behind one."""
    for start in (0, 1, 3):
        yield (scale * torch.randn(h * w + start)).to(device, dtype)[start:].view(h, w)


def assert_gelu(out, x, bias):
    exact = F.gelu(v := x.cpu().double() + bias.cpu().double())
    assert (out.dtype, out.shape, out.device) == (x.dtype, x.shape, x.device)
    # Phi is off by up to 0.75e-7, half of erf; its rounding, and those of the sum and the product, add 2^-24 each.
    info = torch.finfo(x.dtype)
    bound = 4e-7 * v.abs() + info.eps / 2 * exact.abs() + info.smallest_normal * info.eps
    assert ((out.cpu().double() - exact).abs() <= bound).all(), x.shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_gelu(module, backend, poison, dtype):
    for h, w in SIZES:
        bias = torch.randn(w).to(backend, dtype)
        for x in views(h, w, dtype, backend):
            poison(h * w, dtype, backend)
            assert_gelu(module.bias_gelu(x, bias), x, bias)
            if dtype == torch.float32:
                poison(h * w, dtype, backend)
                assert_gelu(module.bias_gelu_naive(x, bias), x, bias)
        behind = torch.cat([bias[:0].new_zeros(1), bias])[1:]  # one element behind a multiple of 16 bytes
        assert_gelu(module.bias_gelu(x, behind), x, behind)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_gelu_backward(module, backend, poison, dtype):
    for h, w in SIZES:
        bias, dy = torch.randn(w).to(backend, dtype), torch.randn(h, w).to(backend, dtype)
        for x in views(h, w, dtype, backend):
            exact_x, exact_bias = x.cpu().double().requires_grad_(), bias.cpu().double().requires_grad_()
            F.gelu(exact_x + exact_bias).backward(dy.cpu().double())
            poison(h * w, dtype, backend)
            dx, dbias = module.bias_gelu_backward(dy, x, bias)
            assert (dx.dtype, dx.shape, dx.device) == (dtype, x.shape, x.device)
            assert (dbias.dtype, dbias.shape, dbias.device) == (dtype, bias.shape, x.device)
            info = torch.finfo(dtype)
            # The slope: Phi and v times the density, each off by some 1e-7 of at most 1.13.
            bound = 6e-7 * dy.cpu().double().abs() + info.eps / 2 * exact_x.grad.abs() + info.smallest_normal * info.eps
            assert ((dx.cpu().double() - exact_x.grad).abs() <= bound).all(), (h, w)
            bound = 1e-6 * dy.cpu().double().abs().sum(0) + info.eps / 2 * exact_bias.grad.abs()
            assert ((dbias.cpu().double() - exact_bias.grad).abs() <= bound + info.smallest_normal).all(), (h, w)
            again = module.bias_gelu_backward(dy, x, bias)
            assert torch.equal(again[0], dx) and torch.equal(again[1], dbias), "the order of the sums is fixed"


def test_the_tail_keeps_its_digits(module, backend):
    """1 + erf(v) is made of two numbers that cancel each other, so that bias_gelu_naive has few digits left."""
    x, bias = torch.linspace(-6, -3, 1000)[None].to(backend), torch.zeros(1000, device=backend)
    exact = F.gelu(x.double())
    fast, naive = (
        (out.double() / exact - 1).abs().max() for out in (module.bias_gelu(x, bias), module.bias_gelu_naive(x, bias))
    )
    assert fast < 0.02 < 0.5 < naive


def test_infinities(module, backend):
    """Those of the definition: 0 for -inf is a product of infinity and 0, so it is NaN, as on a GPU in torch."""
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[inf, -inf, nan, 0.0, 100.0, -100.0, 1e30, -1e30]]).to(backend)
    expected = torch.tensor([[inf, nan, nan, 0.0, 100.0, 0.0, 1e30, 0.0]]).to(backend)
    torch.testing.assert_close(module.bias_gelu(x, torch.zeros(8, device=backend)), expected, equal_nan=True)
    torch.testing.assert_close(
        module.bias_gelu(x[:, :7], torch.zeros(7, device=backend)), expected[:, :7], equal_nan=True
    )


BAD = {
    "float64": (
        "bias_gelu",
        [torch.ones(2, 3).double(), torch.ones(3)],
        TypeError,
        "float16 or bfloat16, but it is float64",
    ),
    "two dtypes": (
        "bias_gelu",
        [torch.ones(2, 3), torch.ones(3).half()],
        TypeError,
        "bias must be float32, but it is float16",
    ),
    "a bias for each row": (
        "bias_gelu",
        [torch.ones(2, 3), torch.ones(2)],
        ValueError,
        "x has 3 columns, but bias has 2",
    ),
    "a vector": ("bias_gelu", [torch.ones(3), torch.ones(3)], ValueError, "x must have 2 dimensions, but it has 1"),
    "half": ("bias_gelu_naive", [torch.ones(2, 3).half(), torch.ones(3).half()], TypeError, "x must be float32"),
    "columns": ("bias_gelu", [torch.ones(3, 2).t(), torch.ones(3)], ValueError, r"\.contiguous\(\)"),
    "other shapes": (
        "bias_gelu_backward",
        [torch.ones(3, 3), torch.ones(2, 3), torch.ones(3)],
        ValueError,
        r"dy must have the shape of x, \[2, 3\], but it has \[3, 3\]",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_values(module, backend, case):
    function, args, error, message = BAD[case]
    with pytest.raises(error, match=message):
        getattr(module, function)(*(x.to(backend) for x in args))
