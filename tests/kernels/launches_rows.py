"""A launch of every kernel that works on whole rows, or adds a bias to them, and what it must write."""

import torch
import torch.nn.functional as F

from tests.launches import empty, floats, integers
from utils.lesson.simulator import cdiv

__all__ = ["ROW_LAUNCHES"]

DTYPES = {"float": torch.float32, "__half": torch.float16, "__nv_bfloat16": torch.bfloat16}
SIZES = [(1, 1, 0), (3, 17, 1), (5, 100, 0), (2, 1001, 3)]  # h, w, and how far behind a multiple of 16 bytes x begins
IGNORED = -100


def matrix(h, w, start, dtype, seed=0):
    return floats(h * w + start, dtype=dtype, seed=seed)[start:].view(h, w)


def close(out, exact):
    torch.testing.assert_close(out.double(), exact, rtol=2 * torch.finfo(out.dtype).eps + 1e-5, atol=1e-6)


# ---- softmax --------------------------------------------------------------------------------------------------------


def by_warps(dtype, threads=128, rows=4, ahead=()):
    def launch(h, w, start):
        return cdiv(h, rows), threads, 0, matrix(h, w, start, dtype), empty(h, w, dtype=dtype), h, w, *ahead

    return launch


def by_blocks(dtype, threads, shared=False, ahead=()):
    """A block of `threads` threads, with shared memory for a row, or with how many rows ahead it prefetches one."""

    def launch(h, w, start):
        size = w * dtype.itemsize // 16 * 16 + 512 if shared else 0
        return h, threads, size, matrix(h, w, start, dtype), empty(h, w, dtype=dtype), w, *ahead

    return launch


def shares(out, x):
    close(out, torch.softmax(x.double(), 1))


def gradient_by_warps(dtype):
    def launch(h, w, start):
        y = torch.softmax(matrix(h, w, start, torch.float32), 1).to(dtype)
        return cdiv(h, 4), 128, 0, matrix(h, w, 0, dtype, 1), y, empty(h, w, dtype=dtype), h, w

    return launch


def gradient_by_blocks(dtype):
    def launch(h, w, _):
        y = torch.softmax(matrix(h, w, 0, torch.float32), 1).to(dtype)
        return h, 64, 0, matrix(h, w, 0, dtype, 1), y, empty(h, w, dtype=dtype), w

    return launch


def gradient(out, dy, y):
    dy, y = dy.double(), y.double()
    close(out, y * (dy - (dy * y).sum(1, keepdim=True)))


# ---- cross-entropy --------------------------------------------------------------------------------------------------


def targets(h, w):
    target = integers(h, below=w, dtype=torch.int64)
    target[1::3] = IGNORED
    return target


def losses(dtype):
    def launch(h, w, start):
        return h, 64, 0, matrix(h, w, start, dtype), targets(h, w), empty(h), empty(h), w, IGNORED

    return launch


def sums_and_losses(logsumexp, logits, target, losses):
    close(logsumexp, torch.logsumexp(logits.double(), 1))
    close(losses, F.cross_entropy(logits.double(), target, reduction="none"))


def mean(h, *_):
    return 1, 1024, 0, floats(h), targets(h, 5), empty(1), empty(1), h, IGNORED


def mean_and_count(count, losses, target, mean):
    assert count == (target != IGNORED).sum()
    close(mean, losses.double().sum()[None] / count)


def slopes(dtype):
    def launch(h, w, start):
        logits, target = matrix(h, w, start, dtype), targets(h, w)
        sums, count = torch.logsumexp(logits.float(), 1), (target != IGNORED).sum()[None].float()
        out = empty(h, w, dtype=dtype)
        return h, 64, 0, torch.full((1,), 2.5), logits, target, sums, count, out, w, IGNORED

    return launch


def slopes_of_the_loss(out, grad, logits, target, *_):
    exact = logits.double().requires_grad_()
    F.cross_entropy(exact, target).backward(grad[0].double())
    close(out, exact.grad)


# ---- bias and GELU --------------------------------------------------------------------------------------------------


def gelu_naive(h, w, _):
    return cdiv(h * w, 256), 256, 0, floats(h, w), floats(w, seed=1), empty(h, w), h * w, w


def gelu_wide(dtype):
    def launch(h, w, _):
        blocks = cdiv(w * dtype.itemsize // 16, 128) * cdiv(h, 8)
        return blocks, 128, 0, floats(h, w, dtype=dtype), floats(w, dtype=dtype, seed=1), empty(h, w, dtype=dtype), h, w

    return launch


def gelu_any(dtype):
    def launch(h, w, start):
        x, bias = matrix(h, w, start, dtype), floats(w, dtype=dtype, seed=1)
        return cdiv(h * w * dtype.itemsize, 16 * 1024), 256, 0, x, bias, empty(h, w, dtype=dtype), h * w, w

    return launch


def gelu_values(out, x, bias):
    close(out, F.gelu(x.double() + bias.double()))


def gelu_slopes(dtype, columns, count=2):
    """Blocks of `columns` columns each, which share the rows by `count`."""

    def launch(h, w, _):
        dy, x, bias = (floats(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate([(h, w), (h, w), (w,)]))
        return (cdiv(w, columns), count), 256, 0, dy, x, bias, empty(h, w, dtype=dtype), empty(count, w), h, w

    return launch


def gelu_slopes_and_sums(parts, dy, x, bias, dx):
    exact = x.double().requires_grad_()
    F.gelu(exact + bias.double()).backward(dy.double())
    close(dx, exact.grad)
    torch.testing.assert_close(parts.double().sum(0), exact.grad.sum(0), rtol=1e-5, atol=1e-5)


def added_parts(dtype):
    return lambda count, w, _: (cdiv(w, 64), 64, 0, floats(count, w), empty(w, dtype=dtype), w, count)


def sum_of_parts(out, parts):
    torch.testing.assert_close(out.double(), parts.double().sum(0), rtol=2 * torch.finfo(out.dtype).eps, atol=1e-5)


LONG = (1, 9001, 1)  # several rounds of a block
ROW_LAUNCHES = {
    "softmax_naive_kernel": (by_warps(torch.float32, 128, 128), SIZES, shares),
    "softmax_three_passes_kernel": (by_blocks(torch.float32, 256), SIZES, shares),
    "softmax_online_kernel": (by_blocks(torch.float32, 256), SIZES, shares),
    "mean_of_losses_kernel": (mean, [(1, 0, 0), (17, 0, 0), (1500, 0, 0)], mean_and_count),
    "bias_gelu_naive_kernel": (gelu_naive, SIZES, gelu_values),
}
for name, dtype in DTYPES.items():
    elements = 16 // dtype.itemsize  # of a pack
    whole = [(1, elements, 0), (11, 3 * elements, 0), (3, 260 * elements, 0)]  # rows of whole packs
    ROW_LAUNCHES |= {
        f"softmax_wide_kernel<{name}>": (by_blocks(dtype, 512), [*SIZES, LONG], shares),
        f"softmax_shared_kernel<{name}>": (by_blocks(dtype, 1024, shared=True), [*SIZES, LONG], shares),
        f"softmax_warp_kernel<{name}>": (by_warps(dtype, ahead=[2]), SIZES, shares),
        f"softmax_block_kernel<{name}>": (by_blocks(dtype, 64, ahead=[2]), SIZES, shares),
        f"softmax_backward_warp_kernel<{name}>": (
            gradient_by_warps(dtype),
            [(1, 1, 0), (5, 100, 0), (6, 333, 0)],
            gradient,
        ),
        f"softmax_backward_block_kernel<{name}, false>": (
            gradient_by_blocks(dtype),
            [(1, 1, 0), (3, 1001, 0)],
            gradient,
        ),
        f"softmax_backward_block_kernel<{name}, true>": (
            gradient_by_blocks(dtype),
            [(1, 1, 0), (3, 3001, 0)],
            gradient,
        ),
        f"cross_entropy_kernel<{name}>": (losses(dtype), [*SIZES, LONG], sums_and_losses),
        f"cross_entropy_backward_kernel<{name}>": (slopes(dtype), [*SIZES, LONG], slopes_of_the_loss),
        f"bias_gelu_kernel<{name}>": (gelu_wide(dtype), whole, gelu_values),
        f"bias_gelu_any_kernel<{name}>": (gelu_any(dtype), [*SIZES, (7, 1303, 1)], gelu_values),
        f"bias_gelu_backward_kernel<{name}, {elements}>": (
            gelu_slopes(dtype, 32 * elements),
            whole,
            gelu_slopes_and_sums,
        ),
        f"bias_gelu_backward_kernel<{name}, 1>": (gelu_slopes(dtype, 32), SIZES, gelu_slopes_and_sums),
        f"sum_of_parts_kernel<{name}>": (added_parts(dtype), [(1, 1, 0), (5, 100, 0)], sum_of_parts),
    }
