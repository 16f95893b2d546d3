"""Histograms against torch.bincount: awkward sizes, views that begin anywhere, values outside the bins, any input."""

import pytest
import torch

from kernels import functions, load
from tests.kernels.launches import LAUNCHES
from tests.kernels.test_kernels import counted

SIZES = [0, 1, 2, 15, 16, 17, 31, 255, 1031, 4099, 70_001]
INPUTS = {  # n bytes
    "uniform": lambda n: torch.randint(0, 256, (n,), dtype=torch.uint8),
    "skewed": lambda n: (torch.rand(n) ** 8 * 256).to(torch.uint8),
    "equal": lambda n: torch.full((n,), 255, dtype=torch.uint8),
    "runs": lambda n: (torch.arange(n) // 37).to(torch.uint8),
}


@pytest.fixture
def histogram(backend):
    return load.__wrapped__("histogram")


def assert_counts(out, x, bins):
    inside = x.cpu()[(x.cpu() >= 0) & (x.cpu().long() < bins)].flatten()
    assert (out.dtype, out.shape, out.device) == (torch.int64, (bins,), x.device)
    assert torch.equal(out.cpu(), inside.bincount(minlength=bins)), (x.shape, x.dtype, bins)


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("function", functions("histogram"))
def test_bytes(histogram, backend, poison, function, kind):
    for n in SIZES:
        for start in (0, 1, 7, 15):
            x = INPUTS[kind](n + start).to(backend)[start:]
            for bins in (256, 100):
                poison(bins, torch.int64, backend)
                assert_counts(getattr(histogram, function)(x, bins), x, bins)


@pytest.mark.parametrize("function", functions("histogram"))
@pytest.mark.parametrize("bins", [0, 1, 255, 257, 1000])
def test_bytes_in_any_number_of_bins(histogram, backend, function, bins):
    x = torch.randint(0, 256, (5003,), dtype=torch.uint8).to(backend)
    assert_counts(getattr(histogram, function)(x, bins), x, bins)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("bins", [1, 7, 384, 385, 1000, 5000, 12_288, 12_289, 300_000])
def test_integers(histogram, backend, poison, dtype, bins):
    """From as many copies as a warp has lanes, to one, and to none; some elements are outside the bins."""
    for n in (0, 1, 5, 1031, 20_011):
        for start in (0, 1, 3):
            x = torch.randint(-bins // 9 - 1, bins + bins // 9 + 2, (n + start,), dtype=dtype).to(backend)[start:]
            poison(bins, torch.int64, backend)
            assert_counts(histogram.histogram(x, bins), x, bins)
            assert_counts(histogram.histogram(torch.full_like(x, bins - 1), bins), torch.full_like(x, bins - 1), bins)


@pytest.mark.parametrize("bins", [10, 100_000])
def test_what_is_far_outside_is_not_counted(histogram, backend, bins):
    for dtype in (torch.int32, torch.int64):
        ends = torch.iinfo(dtype)
        x = torch.tensor([ends.min, -1, 0, bins - 1, bins, ends.max], dtype=dtype).repeat(50).to(backend)
        out = histogram.histogram(x, bins)
        assert (out[0], out[bins - 1], out.sum()) == (50, 50, 100)
    x = torch.tensor([2**32, 2**32 + 1, -(2**32), 2**40 + 5], device=backend)  # their low halves are inside
    assert histogram.histogram(x, bins).sum() == 0


def test_more_than_one_round_per_block(histogram, backend):
    sms = 132 if backend.type == "cpu" else torch.cuda.get_device_properties(backend).multi_processor_count
    x = torch.zeros(2 * 2 * sms * 64 * 1024 + 4099, dtype=torch.uint8, device=backend)
    x[-1], x[12_345] = 7, 9
    out = histogram.histogram(x, 256)
    assert (out[7], out[9], out[0], out.sum()) == (1, 1, len(x) - 2, len(x))


def test_any_shape(histogram, backend):
    for shape in [(), (3, 5, 7), (2, 0)]:
        x = torch.randint(0, 4, shape, dtype=torch.int32).to(backend)
        assert_counts(histogram.histogram(x, 4), x, 4)


BAD = {
    "float": (torch.ones(3), 4, TypeError, "x must be uint8, int32 or int64, but it is float32"),
    "int16": (torch.ones(3, dtype=torch.int16), 4, TypeError, "x must be .*, but it is int16"),
    "columns": (torch.ones(2, 3, dtype=torch.uint8).t(), 4, ValueError, r"x must be contiguous, .*\.contiguous\(\)"),
    "negative": (torch.ones(3, dtype=torch.uint8), -1, ValueError, "bins must not be negative, but it is -1"),
    "negative of int32": (torch.ones(3, dtype=torch.int32), -1, ValueError, "bins must not be negative"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(histogram, backend, case):
    x, bins, error, message = BAD[case]
    with pytest.raises(error, match=message):
        histogram.histogram(x.to(backend), bins)


@pytest.mark.parametrize("function", functions("histogram"))
def test_tensor_on_the_wrong_device_is_refused(histogram, backend, function):
    elsewhere = "meta" if backend.type == "cpu" else "cpu"
    with pytest.raises(RuntimeError, match=f"x must be a CUDA tensor, but it is on {elsewhere}"):
        getattr(histogram, function)(torch.ones(3, dtype=torch.uint8, device=elsewhere), 4)


@pytest.mark.parametrize("function", [name for name in functions("histogram") if name != "histogram"])
def test_the_steps_take_bytes(histogram, backend, function):
    with pytest.raises(TypeError, match="x must be uint8, but it is int32"):
        getattr(histogram, function)(torch.ones(3, dtype=torch.int32, device=backend), 4)


def test_lanes_with_copies_of_their_own_never_conflict():
    """Whatever the bytes are, the only accesses of shared memory that wait for others are none."""
    for kernel in ("histogram_lanes_kernel", "histogram_kernel<unsigned char>"):
        assert counted(kernel, 5003, 0, 0).bank_conflicts["shared"].sum() == 0
    assert counted("histogram_warps_kernel", 5003, 0, 0).bank_conflicts["shared"].sum() > 0


def test_every_kernel_is_launched_with_elements_outside_its_bins():
    launch = LAUNCHES["histogram_kernel<int>"][0]
    *_, x, out, n, bins, copies = launch(5003, 0, 0)
    assert x.min() < 0 and x.max() >= bins and (n, bins * copies) == (len(x), len(out) * copies)
