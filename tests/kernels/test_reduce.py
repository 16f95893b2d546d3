"""sum and argmax against float64 and against torch: awkward sizes, views that begin anywhere, NaN and infinities."""

import pytest
import torch

from kernels import functions, load

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [0, 1, 2, 3, 4, 17, 255, 256, 257, 1031, 2049, 4099, 100_003]
STEPS = [function for function in functions("reduce") if function not in ("sum", "argmax")]


@pytest.fixture
def reduce(backend):
    return load.__wrapped__("reduce")


def views(n, dtype, device):
    """Random values, beginning at a multiple of 16 bytes and one, three and seven elements behind one."""
    for start in (0, 1, 3, 7):
        yield torch.randn(n + start).to(device, dtype)[start:]


def assert_sum(out, x):
    exact = x.cpu().double().sum()
    assert (out.dtype, out.shape, out.device) == (x.dtype, (), x.device)
    # Float32 sums of random numbers are off by some 2^-24 of their size at each step; the result is rounded once more.
    bound = 1e-6 * x.cpu().double().norm() + 1e-12 + torch.finfo(x.dtype).eps * exact.abs()
    assert (out.cpu().double() - exact).abs() <= bound, (out, exact, len(x))


@pytest.mark.parametrize("function", STEPS)
def test_each_step_of_the_sum(reduce, backend, poison, function):
    for n in [*SIZES, 70_000]:
        for x in views(n, torch.float32, backend):
            poison(1, torch.float32, backend)
            assert_sum(getattr(reduce, function)(x), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum(reduce, backend, poison, dtype):
    for n in SIZES:
        for x in views(n, dtype, backend):
            poison(1, dtype, backend)
            assert_sum(reduce.sum(x), x)


def test_sum_of_more_than_one_round_per_block(reduce, backend):
    """With more elements than all blocks read in one round, each block takes several pieces."""
    sms = 132 if backend.type == "cpu" else torch.cuda.get_device_properties(backend).multi_processor_count
    n = 2 * 8 * sms * 4096 + 4099
    x = torch.randint(-3, 4, (n,), dtype=torch.float32).to(backend)  # sums of small integers are exact
    x[n - 1] = 7
    assert reduce.sum(x) == x.cpu().double().sum()
    assert reduce.argmax(x) == n - 1


def test_sum_of_any_shape(reduce, backend):
    for shape in [(), (1, 1), (65, 100, 70), (3, 0, 2)]:
        x = torch.randn(shape).to(backend)
        torch.testing.assert_close(reduce.sum(x).cpu().double(), x.cpu().double().sum(), rtol=1e-5, atol=1e-3)


def test_sum_is_the_same_each_time(reduce, backend):
    x = torch.randn(300_007).to(backend)
    first = reduce.sum(x)
    assert all(torch.equal(reduce.sum(x), first) for _ in range(20))


def test_half_sums_are_added_up_in_float32(reduce, backend):
    """Added up in float16, these ones would end at 2048, and in bfloat16 at 256."""
    for dtype in (torch.float16, torch.bfloat16):
        assert reduce.sum(torch.ones(30_000, dtype=dtype, device=backend)) == torch.tensor(30_000.0).to(dtype)
    assert reduce.sum(torch.full((2,), 60_000.0, dtype=torch.float16, device=backend)) == float("inf")


@pytest.mark.parametrize("dtype", DTYPES)
def test_argmax(reduce, backend, poison, dtype):
    for n in SIZES[1:]:
        for x in views(n, dtype, backend):
            poison(1, torch.int64, backend)
            place = reduce.argmax(x)
            assert (place.dtype, place.shape, place.device) == (torch.int64, (), x.device)
            assert place == x.cpu().argmax(), n  # float16 and bfloat16 have many ties: the first one is right


@pytest.mark.parametrize("n", [1, 5, 300, 20_011])
def test_argmax_of_special_values(reduce, backend, n):
    inf, nan = float("inf"), float("nan")
    assert reduce.argmax(torch.full((n,), -inf, device=backend)) == 0
    assert reduce.argmax(torch.full((n,), nan, device=backend)) == 0
    assert reduce.argmax(torch.zeros(n, device=backend).neg()) == 0
    assert reduce.argmax(torch.arange(n, dtype=torch.float32, device=backend)) == n - 1
    assert reduce.argmax(torch.arange(n, 0, -1, dtype=torch.float32, device=backend)) == 0
    for _ in range(5):
        first, second = sorted(torch.randint(n, (2,)).tolist())
        for low, high in ((0.0, 1.0), (-inf, -1e38), (1.0, inf), (inf, nan), (-inf, nan)):
            x = torch.full((n,), low, device=backend)
            x[second] = x[first] = high
            assert reduce.argmax(x) == first, (low, high, first, second)
        zeros = torch.full((n,), -1.0, device=backend)
        zeros[first], zeros[second] = -0.0, 0.0  # equal
        assert reduce.argmax(zeros) == first


def test_argmax_of_a_matrix_counts_through_its_rows(reduce, backend):
    x = torch.randn(65, 37).to(backend)
    assert reduce.argmax(x) == x.cpu().argmax()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_sum_of_special_values(reduce, backend, value):
    for n in (1, 17, 5000):
        x = torch.randn(n).to(backend)
        x[n // 2] = value
        for function in ("sum", "sum_wide", "sum_halves"):
            torch.testing.assert_close(getattr(reduce, function)(x).cpu(), torch.tensor(value), equal_nan=True)
    assert reduce.sum(torch.tensor([float("inf"), 1.0, -float("inf")], device=backend)).isnan()


BAD = {
    "integers": (
        torch.ones(3, dtype=torch.int64),
        TypeError,
        "x must be float32, float16 or bfloat16, but it is int64",
    ),
    "double": (torch.ones(3).double(), TypeError, "x must be .*, but it is float64"),
    "columns": (torch.ones(2, 3).t(), ValueError, r"x must be contiguous, .*\.contiguous\(\)"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("function", ["sum", "argmax"])
def test_bad_input_is_refused(reduce, backend, function, case):
    x, error, message = BAD[case]
    with pytest.raises(error, match=message):
        getattr(reduce, function)(x.to(backend))


def test_what_has_no_largest_element_is_refused(reduce, backend):
    with pytest.raises(ValueError, match=r"x has no largest element: its shape is \[3, 0\]"):
        reduce.argmax(torch.ones(3, 0, device=backend))


@pytest.mark.parametrize("function", functions("reduce"))
def test_tensor_on_the_wrong_device_is_refused(reduce, backend, function):
    elsewhere = "meta" if backend.type == "cpu" else "cpu"
    with pytest.raises(RuntimeError, match=f"x must be a CUDA tensor, but it is on {elsewhere}"):
        getattr(reduce, function)(torch.ones(3, device=elsewhere))


@pytest.mark.parametrize("function", STEPS)
def test_the_steps_take_float32(reduce, backend, function):
    with pytest.raises(TypeError, match="x must be float32, but it is float16"):
        getattr(reduce, function)(torch.ones(3, dtype=torch.float16, device=backend))
