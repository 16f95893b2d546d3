"""cumsum against float64: awkward sizes, views that begin anywhere, NaN and infinities, and blocks in any order."""

import pytest
import torch

from kernels import functions, load, source
from tests.launches import empty, floats
from utils.cuda.kernel import Tracer

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [0, 1, 2, 17, 31, 32, 33, 1023, 1024, 1025, 4097, 16_385, 32_767, 32_768, 32_769, 100_003]
STEPS = [function for function in functions("scan") if function != "cumsum"]


@pytest.fixture
def scan(backend):
    return load.__wrapped__("scan")


def views(n, dtype, device):
    """Random values, beginning at a multiple of 16 bytes and one, three and seven elements behind one."""
    for start in (0, 1, 3, 7):
        yield torch.randn(n + start).to(device, dtype)[start:]


def assert_cumsum(out, x):
    exact = x.cpu().double().cumsum(0)
    assert (out.dtype, out.shape, out.device) == (x.dtype, x.shape, x.device)
    # The slowest step adds up 32 elements at a time: so many roundings follow each other, each by up to 2^-24 of a sum,
    # up or down at random. The result is rounded once more.
    largest = torch.cat([exact, torch.ones(1)]).abs().max()
    bound = 2**-24 * largest * (8 + (len(x) / 32) ** 0.5) + torch.finfo(x.dtype).eps * exact.abs()
    assert ((out.cpu().double() - exact).abs() <= bound).all(), len(x)


@pytest.mark.parametrize("function", STEPS)
def test_each_step_of_the_cumsum(scan, backend, poison, function):
    for n in SIZES:
        for x in views(n, torch.float32, backend):
            poison(n, torch.float32, backend)
            assert_cumsum(getattr(scan, function)(x), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cumsum(scan, backend, poison, dtype):
    for n in [*SIZES, 300_001]:
        for x in views(n, dtype, backend):
            poison(n, dtype, backend)
            assert_cumsum(scan.cumsum(x), x)


def test_counts_are_exact(scan, backend):
    ones = torch.ones(300_003, device=backend)
    for function in ("cumsum_block", "cumsum_three", "cumsum_look_back", "cumsum"):
        assert torch.equal(getattr(scan, function)(ones).cpu(), torch.arange(1.0, 300_004))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_special_values_reach_only_what_follows(scan, backend, value):
    for n in (1, 40, 5000):
        x = torch.randn(n).to(backend)
        x[n // 2] = value
        right = x.cpu().cumsum(0)
        for function in functions("scan"):
            torch.testing.assert_close(
                getattr(scan, function)(x).cpu(), right, rtol=1e-3, atol=1e-3, equal_nan=True, msg=function
            )


@pytest.mark.parametrize(("kernel", "shared"), [("cumsum_kernel", 0), ("cumsum_ahead_kernel", 6 * 32768)])
@pytest.mark.parametrize("order", ["forward", "reversed", 3])
def test_blocks_may_begin_in_any_order(kernel, shared, order):
    """A tile goes to the block that asks next, whatever its number: no block waits for one that has not begun."""
    n = 2 * 32768 + 5
    x, tile, words, out = floats(n), torch.zeros(1, dtype=torch.int32), torch.zeros(9, dtype=torch.int64), empty(n)
    run = Tracer(source("scan"), f"{kernel}<float>")[3, 1024, shared]
    trace = run(x, tile, words, out, n, outputs=[out], order=order)
    assert trace.problems == []
    assert_cumsum(trace.args[3], x)


BAD = {
    "integers": (torch.ones(3, dtype=torch.int64), TypeError, "x must be float32.*, but it is int64"),
    "a matrix": (torch.ones(2, 3), ValueError, r"x must have 1 dimensions, but it has 2: its shape is \[2, 3\]"),
    "every second": (torch.ones(6), ValueError, r"x must be contiguous, .*\.contiguous\(\)"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("function", functions("scan"))
def test_bad_input_is_refused(scan, backend, function, case):
    x, error, message = BAD[case]
    x = x.to(backend)
    with pytest.raises(error, match=message):
        getattr(scan, function)(x[::2] if case == "every second" else x)


@pytest.mark.parametrize("function", functions("scan"))
def test_tensor_on_the_wrong_device_is_refused(scan, backend, function):
    elsewhere = "meta" if backend.type == "cpu" else "cpu"
    with pytest.raises(RuntimeError, match=f"x must be a CUDA tensor, but it is on {elsewhere}"):
        getattr(scan, function)(torch.ones(3, device=elsewhere))


@pytest.mark.parametrize("function", STEPS)
def test_the_steps_take_float32(scan, backend, function):
    with pytest.raises(TypeError, match="x must be float32, but it is bfloat16"):
        getattr(scan, function)(torch.ones(3, dtype=torch.bfloat16, device=backend))
