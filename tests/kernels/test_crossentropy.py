"""cross_entropy and its gradient against float64 and torch: rows that begin anywhere, ignored ones, infinities."""

import pytest
import torch
import torch.nn.functional as F

from kernels import load

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [(5, 1), (1, 3), (7, 17), (40, 64), (33, 1001), (3, 4099), (2, 50_257)]
IGNORED = -100
HUGE = [[3e38, -3e38, 2e38], [-3e38, float("-inf"), float("-inf")], [1e9, 1e9 - 64, -1e9], [-1e9, -1e9 - 64, -3e38]]


@pytest.fixture
def module(backend):
    return load.__wrapped__("crossentropy")


def cases(h, w, dtype, device):
    """Random logits, beginning at a multiple of 16 bytes and one and seven elements behind one, with targets of which
    some are ignored, some are in the first and in the last column."""
    for start in (0, 1, 7):
        logits = (3 * torch.randn(h * w + start)).to(device, dtype)[start:].view(h, w)
        target = torch.randint(0, w, (h,))
        target[1::4], target[2::4], target[3::4] = IGNORED, 0, w - 1
        yield logits, target.to(device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy_and_its_gradient(module, backend, poison, dtype):
    for h, w in SIZES:
        for logits, target in cases(h, w, dtype, backend):
            exact = logits.cpu().double().requires_grad_()
            expected = F.cross_entropy(exact, target.cpu())
            expected.backward(torch.tensor(2.5, dtype=torch.float64))
            poison(h, torch.float32, backend)
            loss, logsumexp, count = module.cross_entropy(logits, target, IGNORED)
            assert all(x.dtype == torch.float32 and x.device == logits.device for x in (loss, logsumexp, count))
            assert count == (target != IGNORED).sum() and loss.shape == ()
            torch.testing.assert_close(loss.cpu().double(), expected.detach(), rtol=1e-6, atol=1e-6)
            sums = torch.logsumexp(exact.detach(), 1)
            torch.testing.assert_close(logsumexp.cpu().double(), sums, rtol=1e-6, atol=1e-6)
            poison(h * w, dtype, backend)
            grad = torch.tensor(2.5, device=backend)
            out = module.cross_entropy_backward(grad, logits, target, logsumexp, count, IGNORED)
            assert (out.dtype, out.shape, out.device) == (dtype, logits.shape, logits.device)
            info = torch.finfo(dtype)  # exp is off by some units; 1 - share loses what the two have in common
            bound = 2.5 / count.item() * 3e-6 * torch.softmax(exact.detach(), 1)
            bound += (2.0**-22 + info.eps / 2) * exact.grad.abs()
            assert ((out.cpu().double() - exact.grad).abs() <= bound + info.smallest_normal * info.eps).all(), (h, w)


def test_rows_and_losses_that_are_no_numbers_are_as_in_torch(module, backend):
    inf, nan = float("inf"), float("nan")
    for row in ([inf, 1.0, 2.0], [-inf, -inf, -inf], [nan, 1.0, 2.0], [-inf, 1.0, 2.0], [1e4, -1e4, 0.0], *HUGE):
        for t in range(3):
            logits, target = torch.tensor([row]).to(backend), torch.tensor([t]).to(backend)
            exact = logits.double().requires_grad_()
            expected = F.cross_entropy(exact, target)
            expected.backward()
            loss, logsumexp, count = module.cross_entropy(logits, target, IGNORED)
            torch.testing.assert_close(loss, expected.detach().float(), equal_nan=True)
            out = module.cross_entropy_backward(torch.ones_like(loss), logits, target, logsumexp, count, IGNORED)
            if expected.isfinite():  # an infinite loss has a slope for torch, which stores probabilities
                torch.testing.assert_close(out, exact.grad.float(), equal_nan=True)


def test_an_offset_costs_the_loss_no_digit(module, backend):
    """Only logsumexp, and with it the gradient, are rounded where the offset is."""
    for offset in (1e4, -1e4, 3e38):
        logits, target = offset + 3 * torch.randn(7, 1001), torch.randint(0, 1001, (7,))
        exact = logits.double().requires_grad_()
        expected = F.cross_entropy(exact, target)
        expected.backward()
        x, t = logits.to(backend), target.to(backend)
        loss, logsumexp, count = module.cross_entropy(x, t, IGNORED)
        torch.testing.assert_close(loss.cpu().double(), expected.detach(), rtol=1e-6, atol=0)
        if abs(offset) > 1e4:
            continue
        sums = torch.logsumexp(exact.detach(), 1)
        torch.testing.assert_close(logsumexp.cpu().double(), sums, rtol=2**-24, atol=1e-5)
        out = module.cross_entropy_backward(torch.ones_like(loss), x, t, logsumexp, count, IGNORED)
        torch.testing.assert_close(out.cpu().double(), exact.grad, rtol=2**-10, atol=1e-4)


def test_ignored_rows_count_nothing_whatever_they_hold(module, backend):
    logits = torch.randn(3, 1001)
    logits[1] = float("nan")
    target = torch.tensor([5, 7, 1000])
    for ignored in (7, IGNORED):
        target[1] = ignored
        x, t = logits.to(backend), target.to(backend)
        loss, logsumexp, count = module.cross_entropy(x, t, ignored)
        torch.testing.assert_close(loss.cpu(), F.cross_entropy(logits, target, ignore_index=ignored))
        out = module.cross_entropy_backward(torch.ones_like(loss), x, t, logsumexp, count, ignored)
        assert count == 2 and (out[1] == 0).all() and out.isfinite().all()


def test_a_target_that_is_no_column_makes_the_loss_nan(module, backend):
    logits = torch.randn(3, 5).to(backend)
    for wrong in (5, -1, 2**40):
        loss, _, count = module.cross_entropy(logits, torch.tensor([0, wrong, 4]).to(backend), IGNORED)
        assert loss.isnan() and count == 3


def test_without_rows_the_mean_is_nan_as_in_torch(module, backend):
    for target in (torch.zeros(0), torch.full((3,), IGNORED)):
        logits, target = torch.randn(len(target), 5).to(backend), target.long().to(backend)
        loss, logsumexp, count = module.cross_entropy(logits, target, IGNORED)
        assert loss.isnan() and count == 0 and len(logsumexp) == len(target)
        assert F.cross_entropy(logits, target).isnan()
        out = module.cross_entropy_backward(torch.ones_like(loss), logits, target, logsumexp, count, IGNORED)
        assert out.shape == logits.shape and (out == 0).all()


def test_the_mean_of_many_rows(module, backend):
    """More rows than the threads of the block that adds their losses."""
    logits, target = torch.randn(5001, 7).to(backend), torch.randint(0, 7, (5001,)).to(backend)
    loss, _, count = module.cross_entropy(logits, target, IGNORED)
    assert count == 5001
    torch.testing.assert_close(loss.double(), F.cross_entropy(logits.double(), target), rtol=1e-6, atol=0)


def good(h=3, w=5):
    return [torch.randn(h, w), torch.zeros(h, dtype=torch.int64), IGNORED]


BAD = {
    "integers": ([torch.ones(3, 5, dtype=torch.int64), *good()[1:]], TypeError, "logits must be float32, float16 or"),
    "three dimensions": ([torch.ones(3, 5, 2), *good()[1:]], ValueError, "logits must have 2 dimensions, but it has 3"),
    "int32 targets": ([good()[0], torch.zeros(3).int(), IGNORED], TypeError, "target must be int64, but it is int32"),
    "probabilities": ([good()[0], torch.ones(3, 5), IGNORED], TypeError, "target must be int64, but it is float32"),
    "fewer targets": ([good()[0], torch.zeros(2).long(), IGNORED], ValueError, "3 rows, but target has 2 elements"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_its_values(module, backend, case):
    args, error, message = BAD[case]
    with pytest.raises(error, match=message):
        module.cross_entropy(*(x.to(backend) if torch.is_tensor(x) else x for x in args))


def test_the_backward_refuses_what_cross_entropy_did_not_return(module, backend):
    logits, target, _ = (x.to(backend) if torch.is_tensor(x) else x for x in good())
    loss, logsumexp, count = module.cross_entropy(logits, target, IGNORED)
    for args, message in (
        ((loss, logits, target, logsumexp[:2], count), "3 rows, but logsumexp has 2 elements"),
        ((loss[None], logits, target, logsumexp, count), "grad must have 0 dimensions, but it has 1"),
        ((loss, logits, target, logsumexp, count[None]), "count must have 0 dimensions"),
    ):
        with pytest.raises(ValueError, match=message):
            module.cross_entropy_backward(*args, IGNORED)
