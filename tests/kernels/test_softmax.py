"""softmax and its gradient against float64 and against torch: awkward sizes, views that begin anywhere, infinities."""

import pytest
import torch

from kernels import functions, load

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Around a warp's and a block's share of a row, the room in shared memory, and what no room is left for.
SIZES = [
    (0, 5),
    (5, 0),
    (5, 1),
    (1, 3),
    (7, 17),
    (3, 31),
    (40, 64),
    (9, 1001),
    (6, 1024),
    (5, 1025),
    (3, 2049),
    (2, 5000),
]
LONG = [(2, 16385), (2, 32768), (2, 32775), (1, 130_001)]
LONGEST = {
    "softmax_warp": 1024,
    "softmax_block": 32768,
    "softmax_shared": 12288,  # on any GPU
}


@pytest.fixture
def softmax(backend):
    return load.__wrapped__("softmax")


def views(h, w, dtype, device, scale=1.0):
    """Random values, beginning at a multiple of 16 bytes and one, three and seven elements behind one."""
    for start in (0, 1, 3, 7):
        yield (scale * torch.randn(h * w + start)).to(device, dtype)[start:].view(h, w)


def assert_shares(out, x, serial=1):
    exact = torch.softmax(x.cpu().double(), 1)
    assert (out.dtype, out.shape, out.device) == (x.dtype, x.shape, x.device)
    info = torch.finfo(x.dtype)
    # exp of an element that is d below the largest is off by up to 2 + 1.2 d units of 2^-23; sums of `serial` elements
    # one after the other add as many roundings. The smallest float16 are further apart.
    distance = x.cpu().double().amax(1, keepdim=True) - x.cpu().double() if x.numel() else 0.0
    bound = exact * (2.0**-23 * (8 + 1.2 * distance + serial / 2) + info.eps / 2) + info.smallest_normal * info.eps
    assert ((out.cpu().double() - exact).abs() <= bound).all(), (x.shape, (out.cpu().double() - exact).abs().max())


@pytest.mark.parametrize(
    "function", [name for name in functions("softmax") if name not in ("softmax", "softmax_backward")]
)
def test_each_step_of_softmax(softmax, backend, poison, function):
    for h, w in [*SIZES, (2, 12288)]:
        if w <= LONGEST.get(function, w):
            for x in views(h, w, torch.float32, backend, 3.0):
                poison(h * w, torch.float32, backend)
                assert_shares(getattr(softmax, function)(x), x, w if function == "softmax_naive" else w // 256 + 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(softmax, backend, poison, dtype):
    for h, w in [*SIZES, *LONG]:
        for x in views(h, w, dtype, backend, 3.0):
            poison(h * w, dtype, backend)
            assert_shares(softmax.softmax(x), x, w // 512 + 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_backward(softmax, backend, poison, dtype):
    for h, w in [*SIZES, *LONG]:
        y = torch.softmax(3 * torch.randn(h, w), 1).to(backend, dtype)
        for dy in views(h, w, dtype, backend):
            poison(h * w, dtype, backend)
            dx = softmax.softmax_backward(dy, y)
            grads, shares = dy.cpu().double(), y.cpu().double()
            exact = shares * (grads - (grads * shares).sum(1, keepdim=True))
            sizes = shares * (grads.abs() + (grads * shares).abs().sum(1, keepdim=True))
            info = torch.finfo(dtype)
            bound = 2.0**-21 * sizes + info.eps / 2 * exact.abs() + info.smallest_normal * info.eps
            assert (dx.dtype, dx.shape, dx.device) == (dtype, y.shape, y.device)
            assert ((dx.cpu().double() - exact).abs() <= bound).all(), (h, w)
    y = torch.cat([torch.zeros(1), y.cpu().float().view(-1)]).to(backend, dtype)[1:].view(y.shape)
    assert torch.equal(softmax.softmax_backward(dy, y), dx), "y begins anywhere"


def test_it_is_the_gradient_that_autograd_finds(softmax, backend):
    x, dy = torch.randn(5, 100, dtype=torch.float64, requires_grad=True), torch.randn(5, 100)
    y = torch.softmax(x, 1)
    y.backward(dy.double())
    dx = softmax.softmax_backward(dy.to(backend), y.detach().float().to(backend))
    torch.testing.assert_close(dx.cpu().double(), x.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("function", [name for name in functions("softmax") if name != "softmax_backward"])
def test_infinities_and_large_values_are_as_in_torch(softmax, backend, function):
    inf, nan, most = float("inf"), float("nan"), torch.finfo(torch.float32).max
    rows = [[inf, 1, 2], [-inf] * 3, [-inf, 1, nan], [-inf, 0, -inf], [nan] * 3, [inf, inf, -inf], [1000, 999, -1000]]
    rows += [[most, -most, most], [-most] * 3, [0.0, -0.0, -200.0], [-inf, -most, -most], [most, -inf, 0.0]]
    rows += [[3e38, 2e38, -3e38], [-3e38, -3e38, -inf], [1e9, 1e9 - 64, -1e9], [-1e9, -1e9 - 64, -inf]]
    for places in ([0, 1, 2], [2, 0, 1] * 200):  # the second one gives each warp, and more threads, a part
        x = torch.tensor(rows).to(backend)[:, places]
        out, expected = getattr(softmax, function)(x), torch.softmax(x.double(), 1).float()
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-30, equal_nan=True)


@pytest.mark.parametrize("function", [name for name in functions("softmax") if name != "softmax_backward"])
def test_an_offset_changes_no_share(softmax, backend, function):
    for offset in (1e4, -1e4, 1e6):
        x = (offset + 3 * torch.randn(3, 1001)).to(backend)
        assert_shares(getattr(softmax, function)(x), x, 1001 if function == "softmax_naive" else 4)


def test_a_softmax_is_the_same_each_time(softmax, backend):
    x = torch.randn(3, 5000).to(backend)
    assert torch.equal(softmax.softmax(x), softmax.softmax(x))


BAD = {
    "integers": ("softmax", [torch.ones(2, 3, dtype=torch.int32)], TypeError, "x must be float32, float16 or bfloat16"),
    "float64": ("softmax", [torch.ones(2, 3).double()], TypeError, "but it is float64"),
    "half, in a step": ("softmax_online", [torch.ones(2, 3).half()], TypeError, "x must be float32, but it is float16"),
    "a vector": ("softmax", [torch.ones(3)], ValueError, "x must have 2 dimensions, but it has 1"),
    "columns": ("softmax", [torch.ones(4, 3).t()], ValueError, r"contiguous, .*\.contiguous\(\)"),
    "1025 columns": ("softmax_warp", [torch.ones(2, 1025)], ValueError, "1024 columns here, but it has 1025"),
    "32,769 columns": ("softmax_block", [torch.ones(2, 32769)], ValueError, "32768 columns here, but it has 32769"),
    "no room": ("softmax_shared", [torch.ones(1, 10**6)], ValueError, "no room for so many in shared memory"),
    "other dtypes": ("softmax_backward", [torch.ones(2, 3), torch.ones(2, 3).half()], TypeError, "dy must be float16"),
    "other shapes": (
        "softmax_backward",
        [torch.ones(2, 3), torch.ones(3, 2)],
        ValueError,
        r"shape of y, \[3, 2\], but",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_values(softmax, backend, case):
    function, args, error, message = BAD[case]
    with pytest.raises(error, match=message):
        getattr(softmax, function)(*(x.to(backend) for x in args))


def test_a_tensor_elsewhere_is_refused(softmax, backend):
    elsewhere = "meta" if backend.type == "cpu" else "cpu"
    with pytest.raises(RuntimeError, match=f"x must be a CUDA tensor, but it is on {elsewhere}"):
        softmax.softmax(torch.ones(2, 3, device=elsewhere))
