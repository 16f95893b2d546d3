"""Layer norm and RMS norm against float64: awkward sizes, misaligned views, every dtype, poisoned outputs."""

import pytest
import torch
from torch.nn.functional import layer_norm, rms_norm

import kernels
from utils import load_cuda

EPS = 1e-5
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Around a warp, a pack of 16 bytes, a row of 1024 in a warp's registers, 256 threads and 1024 threads; primes.
WIDTHS = [0, 1, 3, 4, 7, 8, 17, 32, 100, 257, 1000, 1024, 1028, 1031, 1032, 4100, 8192, 8209]
RUNGS = ["three_passes", "welford", "warps", "registers", "shared"]


@pytest.fixture
def module(backend):
    """`load` for the backend at hand; what load remembers is the other backend's."""
    built = {}
    return lambda name: built.setdefault(name, kernels.load.__wrapped__(name))


def places(*tensors):
    """The tensors, and the same values one element behind the places where a tensor begins as a rule."""
    yield tensors
    yield [x if x is None else torch.cat([x.view(-1)[:1], x.view(-1)])[1:].view(x.shape) for x in tensors]


def made(h, w, dtype, device, mean=3.0):
    x, dy = torch.randn(h, w).mul(2).add(mean), torch.randn(h, w)
    return [v.to(dtype).to(device) for v in (x, torch.randn(w), torch.randn(w), dy)]


def assert_close(out, exact, size, dtype):
    """`size`: how large the numbers are that are added up to the result, in which each is rounded a few times."""
    off, exact = (out.cpu().double() - exact).abs(), exact.double()
    bound = 2e-6 * size + torch.finfo(dtype).eps * exact.abs() + 1e-7
    assert (off <= bound).all(), (off - bound).max()


def reference(x, weight, bias, centered=True):
    """out, mean, rstd in float64, and the size of the numbers of which out is made."""
    x, weight, bias = (None if v is None else v.cpu().double() for v in (x, weight, bias))
    mean = x.mean(-1, keepdim=True) * centered
    rstd = ((x - mean).square().mean(-1, keepdim=True) + EPS).rsqrt()
    norm = layer_norm if centered else lambda x, shape, weight, bias, eps: rms_norm(x, shape, weight, eps)
    out = norm(x, x.shape[-1:], weight, bias, EPS)
    size = (x.abs() + mean.abs()) * rstd * (1 if weight is None else weight.abs())
    return out, mean.squeeze(-1), rstd.squeeze(-1), size + (0 if bias is None else bias.abs())


def assert_normed(found, x, weight, bias):
    out, mean, rstd, size = reference(x, weight, bias)
    assert (found[0].dtype, found[0].shape, found[0].device) == (x.dtype, x.shape, x.device)
    for statistic in found[1:]:
        assert (statistic.dtype, statistic.shape, statistic.device) == (torch.float32, x.shape[:-1], x.device)
    assert_close(found[0], out, size, x.dtype)
    if x.shape[-1]:
        assert_close(found[1], mean, x.abs().float().cpu().mean(-1), torch.float32)
        assert_close(found[2], rstd, rstd, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(module, backend, poison, dtype):
    for w in WIDTHS:
        x, weight, bias, _ = made(5, w, dtype, backend)
        for values in places(x, weight, bias):
            poison(5 * w, dtype, backend)
            assert_normed(module("layernorm").layer_norm(*values, EPS), *values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(module, backend, poison, dtype):
    for w in WIDTHS:
        x, weight, _, _ = made(5, w, dtype, backend)
        for values in places(x, weight):
            poison(5 * w, dtype, backend)
            out, rstd = module("layernorm").rms_norm(*values, EPS)
            exact, _, scale, size = reference(*values, None, centered=False)
            assert (out.dtype, out.shape) == (dtype, x.shape)
            assert_close(out, exact, size, dtype)
            if w:
                assert_close(rstd, scale, scale, torch.float32)


@pytest.mark.parametrize("rung", RUNGS)
def test_rungs(module, backend, poison, rung):
    for w in [w for w in WIDTHS if rung != "warps" or w <= 1024]:
        x, weight, bias, _ = made(3, w, torch.float32, backend)
        for values in places(x, weight, bias):
            poison(3 * w, torch.float32, backend)
            assert_normed(getattr(module("layernorm"), f"layer_norm_{rung}")(*values, EPS), *values)


@pytest.mark.parametrize("shape", [(0, 5), (5,), (0,), (2, 3, 68), (1031, 12), (2, 0, 4), (3, 0)])
def test_any_shape_with_and_without_weight_and_bias(module, backend, shape):
    x, weight, bias = (torch.randn(s).to(backend) for s in (shape, shape[-1:], shape[-1:]))
    for values in ((x, weight, bias), (x, weight, None), (x, None, bias), (x, None, None)):
        assert_normed(module("layernorm").layer_norm(*values, EPS), *values)
        out, rstd = module("layernorm").rms_norm(*values[:2], EPS)
        assert rstd.shape == shape[:-1]
        torch.testing.assert_close(out, rms_norm(x, shape[-1:], values[1], EPS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("w", [8200, 32_768, 32_772, 70_001, 140_008])
def test_long_rows(module, backend, w):
    """With 8 packs per thread in registers, up to the longest; and rows too long for them, and for shared memory."""
    for dtype in DTYPES:
        x, weight, bias, _ = made(2, w, dtype, backend)
        for values in places(x, weight, bias):
            assert_normed(module("layernorm").layer_norm(*values, EPS), *values)
            out, _ = module("layernorm").rms_norm(*values[:2], EPS)
            exact, _, _, size = reference(*values[:2], None, centered=False)
            assert_close(out, exact, size, dtype)


def test_a_large_mean_cancels_nothing(module, backend):
    """The mean of x^2, less the square of the mean, would have no correct digit here."""
    for w in (64, 1024, 1031, 4096, 70_000):
        x = torch.randn(3, w).add(4096).to(backend)
        for name in ("layer_norm", *(f"layer_norm_{rung}" for rung in ("three_passes", "welford"))):
            _, mean, rstd = getattr(module("layernorm"), name)(x, None, None, EPS)
            exact = x.cpu().double()
            assert (mean.cpu() - exact.mean(1)).abs().max() <= 4096 * 1e-6, name
            expected = (exact.var(1, correction=0) + EPS).rsqrt()
            assert ((rstd.cpu() - expected) / expected).abs().max() <= 1e-3, (name, w)


def test_the_square_of_the_mean_may_overflow(module, backend):
    """Warps without elements have the mean 0, far from the row's; they count for nothing."""
    for w in (64, 2048, 8200):
        for found in module("layernorm").layer_norm(torch.full((2, w), 1e20).to(backend), None, None, EPS):
            assert found.isfinite().all(), w


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_rows_that_are_not_finite(module, backend, bad):
    """As in torch: layer norm makes the whole row NaN. Other rows do not notice."""
    for w in (8, 1024, 4096, 1031, 70_001):
        x = torch.randn(3, w).to(backend)
        x[1, w // 2] = bad
        out = module("layernorm").layer_norm(x, None, None, EPS)[0]
        assert out[1].isnan().all() and out[::2].isfinite().all()
        out = module("layernorm").rms_norm(x, None, EPS)[0].cpu()
        torch.testing.assert_close(out, rms_norm(x.cpu(), (w,), None, EPS), equal_nan=True, rtol=1e-4, atol=1e-5)


BAD = {
    "float64": ([torch.ones(2, 4).double(), None, None], TypeError, "x must be float32, float16 or bfloat16, but"),
    "integers": ([torch.ones(2, 4, dtype=torch.int32), None, None], TypeError, "x must be .*, but it is int32"),
    "a number": ([torch.tensor(1.0), None, None], ValueError, "x must have 1 dimension or more, but it has 0"),
    "columns": ([torch.ones(4, 2).t(), None, None], ValueError, "x must be contiguous"),
    "a short weight": ([torch.ones(2, 4), torch.ones(3), None], ValueError, "weight has 3 .*x has rows of 4"),
    "a long bias": ([torch.ones(2, 4), None, torch.ones(5)], ValueError, "bias has 5 elements, but x has rows of 4"),
    "another weight": ([torch.ones(2, 4), torch.ones(4).half(), None], TypeError, "weight must be float32, but"),
    "a matrix as weight": ([torch.ones(2, 4), torch.ones(1, 4), None], ValueError, "weight must have 1 dimensions"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_values(module, backend, case):
    args, error, message = BAD[case]
    args = [a if a is None else a.to(backend) for a in args]
    with pytest.raises(error, match=message):
        module("layernorm").layer_norm(*args, EPS)
    if args[2] is None:
        with pytest.raises(error, match=message):
            module("layernorm").rms_norm(*args[:2], EPS)


def test_tensors_elsewhere_are_refused(module, backend):
    elsewhere = "meta" if backend.type == "cpu" else "cpu"
    with pytest.raises(RuntimeError, match=f"x must be a CUDA tensor, but it is on {elsewhere}"):
        module("layernorm").layer_norm(torch.ones(2, 4, device=elsewhere), None, None, EPS)
    with pytest.raises(RuntimeError, match=f"weight must be a CUDA tensor, but it is on {elsewhere}"):
        module("layernorm").rms_norm(torch.ones(2, 4, device=backend), torch.ones(4, device=elsewhere), EPS)


@pytest.mark.parametrize(("rung", "w"), [("warps", 1025), ("registers", 32_769), ("shared", 2**20)])
def test_a_rung_refuses_rows_that_it_cannot_take(module, backend, rung, w):
    with pytest.raises(ValueError, match=f"x has rows of {w} elements, which are too long here: layer_norm takes any"):
        getattr(module("layernorm"), f"layer_norm_{rung}")(torch.ones(2, w, device=backend), None, None, EPS)


# ---- gradients ------------------------------------------------------------------------------------------------------


def gradients(dy, x, weight, mean, rstd):
    """dx, dweight and dbias in float64, and the size of the numbers of which each is made."""
    dy, x, weight, mean, rstd = (None if v is None else v.cpu().double() for v in (dy, x, weight, mean, rstd))
    centered, rstd = mean is not None, rstd[..., None]
    mean, weight = mean[..., None] if centered else torch.zeros(()), 1.0 if weight is None else weight
    y, g = (x - mean) * rstd, dy * weight
    slope = (g * y).mean(-1, keepdim=True)
    dx = rstd * (g - g.mean(-1, keepdim=True) * centered - y * slope)
    size = rstd * (g.abs() + g.abs().mean(-1, keepdim=True) + (g * y).abs().mean(-1, keepdim=True) * (1 + y.abs()))
    size = size * (1 + mean.abs() * rstd)  # x - mean loses digits
    larger = dy.abs() * (x.abs() + mean.abs()) * rstd
    sums = [v.reshape(-1, x.shape[-1] or 1).sum(0)[: x.shape[-1]] for v in (dy * y, larger, dy, dy.abs())]
    return [(dx, size), (sums[0], sums[1]), (sums[2], sums[3])]


def assert_gradients(found, dy, x, weight, mean, rstd):
    for out, (exact, size) in zip(found, gradients(dy, x, weight, mean, rstd), strict=False):
        assert (out.dtype, out.shape, out.device) == (x.dtype, exact.shape, x.device)
        assert_close(out, exact, size, x.dtype)


def saved(x):
    """What the forward pass saves: mean and rstd of layer norm, and rstd of RMS norm."""
    exact = x.cpu().double()
    mean = exact.mean(-1)
    squares = (exact - mean[..., None]).square().mean(-1), exact.square().mean(-1)
    return [v.float().to(x.device) for v in (mean, *((square + EPS).rsqrt() for square in squares))]


@pytest.mark.parametrize("dtype", DTYPES)
def test_backward(module, backend, poison, dtype):
    for h, w in [*((3, w) for w in (3, 8, 17, 32, 100, 1000, 1031, 1032, 4100)), (100, 17), (70, 64), (20, 1024)]:
        x, weight, _, dy = made(h, w, dtype, backend, mean=1.0)
        for values in places(dy, x, weight):
            mean, rstd, rms = saved(values[1])
            poison(h * w, dtype, backend)
            found = module("layernorm_backward").layer_norm_backward(*values, mean, rstd)
            assert len(found) == 3
            assert_gradients(found, *values, mean, rstd)
            found = module("layernorm_backward").rms_norm_backward(*values, rms)
            assert len(found) == 2
            assert_gradients(found, *values, None, rms)


def test_backward_by_two_kernels(module, backend, poison):
    for h, w in [*((3, w) for w in (3, 8, 17, 100, 1031, 4100)), (300, 57), (1031, 4)]:
        x, weight, _, dy = made(h, w, torch.float32, backend, mean=1.0)
        for values in places(dy, x, weight):
            mean, rstd, _ = saved(values[1])
            poison(h * w, torch.float32, backend)
            found = module("layernorm_backward").layer_norm_backward_two_kernels(*values, mean, rstd)
            assert_gradients(found, *values, mean, rstd)


@pytest.mark.parametrize(("h", "w"), [(40, 4104), (5, 8192), (5, 8200), (3, 32_776)])
def test_backward_of_long_rows(module, backend, h, w):
    """Rows that the blocks of a cluster share, which wait for each other. On the engine, 40 are several per cluster."""
    for dtype in DTYPES:
        x, weight, _, dy = made(h, w, dtype, backend, mean=1.0)
        mean, rstd, rms = saved(x)
        found = module("layernorm_backward").layer_norm_backward(dy, x, weight, mean, rstd)
        assert_gradients(found, dy, x, weight, mean, rstd)
        found = module("layernorm_backward").rms_norm_backward(dy, x, weight, rms)
        assert_gradients(found, dy, x, weight, None, rms)


def test_long_rows_are_divided_among_clusters(backend):
    """Otherwise two kernels would compute the same, only slower."""
    if backend.type == "cuda" and torch.cuda.get_device_capability(backend) < (9, 0):
        pytest.skip("needs a GPU with clusters")
    text = kernels.source("layernorm_backward")
    text = text[: text.index("static void launch(Plan plan")]
    text += """
size_t slabs_of_floats(const float* x, int w) { return planned(norm_backward_kernel<float>, x, x, x, 3, w).slabs; }
#endif
"""
    host = """
#include <torch/extension.h>
size_t slabs_of_floats(const float* x, int w);
int64_t slabs(const at::Tensor& x, int64_t w) { return slabs_of_floats(x.const_data_ptr<float>(), w); }
"""
    x, slabs = torch.empty(4, device=backend), load_cuda(text, host, ["slabs"]).slabs
    expected = {4: 1, 4096: 1, 4100: 2, 32_768: 8, 65_536: 8, 65_540: 0, 4097: 0}
    assert {w: slabs(x, w) for w in expected} == expected


@pytest.mark.parametrize("shape", [(0, 5), (5,), (0,), (2, 3, 68), (2, 0, 4), (3, 0)])
def test_backward_of_any_shape_with_and_without_weight(module, backend, shape):
    dy, x, weight = (torch.randn(s).to(backend) for s in (shape, shape, shape[-1:]))
    for factors in (weight, None):
        mean, rstd, rms = saved(x)
        for name in ("layer_norm_backward", "layer_norm_backward_two_kernels"):
            found = getattr(module("layernorm_backward"), name)(dy, x, factors, mean, rstd)
            assert_gradients(found, dy, x, factors, mean, rstd)
        assert_gradients(module("layernorm_backward").rms_norm_backward(dy, x, factors, rms), dy, x, factors, None, rms)


def test_backward_agrees_with_autograd(module, backend):
    x, weight, bias, dy = (v.requires_grad_() for v in made(33, 100, torch.float32, backend, mean=1.0))
    out = layer_norm(x, (100,), weight, bias, EPS)
    expected = torch.autograd.grad(out, (x, weight, bias), dy)
    _, mean, rstd = module("layernorm").layer_norm(x.detach(), weight.detach(), bias.detach(), EPS)
    found = module("layernorm_backward").layer_norm_backward(dy.detach(), x.detach(), weight.detach(), mean, rstd)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_backward_gives_the_same_bits_each_time(module, backend):
    x, weight, _, dy = made(300, 256, torch.float32, backend)
    mean, rstd, _ = saved(x)
    for name in ("layer_norm_backward", "layer_norm_backward_two_kernels"):
        first, again = (getattr(module("layernorm_backward"), name)(dy, x, weight, mean, rstd) for _ in range(2))
        assert all(map(torch.equal, first, again)), name


BAD_GRADIENTS = {
    "another dy": ([torch.ones(2, 5), torch.ones(2, 4)], ValueError, r"dy has the shape \[2, 5\], but x has .*4\]"),
    "half dy": ([torch.ones(2, 4).half(), torch.ones(2, 4)], TypeError, "dy must be float32, but it is float16"),
    "means of columns": ([torch.ones(4, 2), torch.ones(4, 2)], ValueError, r"mean has the shape \[2\], but x has"),
    "long x": ([torch.ones(2, 4), torch.ones(2, 4).long()], TypeError, "x must be float32, float16 or bfloat16, but"),
}


@pytest.mark.parametrize("case", BAD_GRADIENTS)
def test_bad_gradients_are_refused_with_their_values(module, backend, case):
    args, error, message = BAD_GRADIENTS[case]
    dy, x = (a.to(backend) for a in args)
    with pytest.raises(error, match=message):
        module("layernorm_backward").layer_norm_backward(dy, x, None, *torch.ones(2, 2, device=backend))
    with pytest.raises(error, match=message.replace("mean", "rstd")):
        module("layernorm_backward").rms_norm_backward(dy, x, None, torch.ones(2, device=backend))
