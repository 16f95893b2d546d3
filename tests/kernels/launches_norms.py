"""Launches of the kernels of layer norm and RMS norm, for launches.py."""

import torch

from tests.launches import empty, floats
from utils.lesson.simulator import cdiv

EPS = 1e-5


def rows(dtype, threads, shared=False):
    """A launch for h rows of w elements, the first of which begins `start` elements behind a multiple of 16 bytes. Two
    blocks do all of them."""

    def launch(h, w, start):
        x, weight, bias = (floats(*s, seed=k, dtype=dtype) for k, s in enumerate(((h * w + start,), (w,), (w,))))
        out = empty(h, w, dtype=dtype)
        x = x[start:].view(h, w)
        return 2, threads, shared * (256 + w * dtype.itemsize), x, weight, bias, out, empty(h), empty(h), h, w, EPS

    return launch


def row_per_block(dtype, threads):
    """The same for kernels whose blocks have one row each, and prefetch the next but one."""

    def launch(h, w, start):
        _, _, shared, *tensors, _, _, _ = rows(dtype, threads)(h, w, start)
        return h, threads, shared, *tensors, w, EPS, 2

    return launch


def normed(rstd, x, weight, bias, out, mean):
    exact = torch.nn.functional.layer_norm(x.double(), x.shape[1:], weight.double(), bias.double(), EPS)
    assert ((out.double() - exact).abs() <= 1e-5 + torch.finfo(x.dtype).eps * exact.abs()).all()
    assert (mean - x.double().mean(1)).abs().max() <= 1e-6
    assert (rstd * (x.double().var(1, correction=0) + EPS).sqrt() - 1).abs().max() <= 1e-5


def saved(h, w, start, dtype):
    """dy, x, weight, and the mean and rstd of x's rows; dy and x begin `start` elements behind a multiple of 16."""
    dy, x = (floats(h * w + start, seed=k, dtype=dtype)[start:].view(h, w) for k in range(2))
    exact = x.double()
    rstd = (exact.var(1, correction=0) + EPS).rsqrt().float()
    return dy, x, floats(w, seed=2, dtype=dtype), exact.mean(1).float(), rstd


def gradients(dtype, columns=16):
    """A launch of norm_backward_kernel with two blocks; a thread has 16 columns."""

    def launch(h, w, _):
        threads = cdiv(w, 32 * columns) * 32
        shared = 2 * 128 * 8 + 2 * 2 * columns * dtype.itemsize * threads  # boards, and two rows of x and dy
        return 2, threads, shared, *saved(h, w, 0, dtype), empty(h, w, dtype=dtype), empty(2, 2, w), h, w

    return launch


def gradient_rows(dtype):
    return lambda h, w, start: (2, 96, 0, *saved(h, w, start, dtype), empty(h, w, dtype=dtype), h, w)


def gradient_columns(dtype):
    """A launch of blocks that add up 9 rows each."""

    def launch(h, w, start):
        dy, x, _, mean, rstd = saved(h, w, start, dtype)
        return (cdiv(w, 32), cdiv(h, 9)), (32, 8), 0, dy, x, mean, rstd, empty(cdiv(h, 9), 2, w), h, w, 9

    return launch


def column_sums(dtype):
    def launch(groups, w, _):
        sums = [empty(w, dtype=dtype) for _ in range(2)]
        return cdiv(2 * w, 32), (32, 32), 0, floats(groups, 2 * w), *sums, groups, w, 2 * w

    return launch


def right_dx(dx, dy, x, weight, mean, rstd):
    d, y = dy.double(), (x.double() - mean[:, None]) * rstd[:, None]
    g = d * weight.double()
    exact = rstd[:, None] * (g - g.mean(1, keepdim=True) - y * (g * y).mean(1, keepdim=True))
    assert (
        (dx.double() - exact).abs() <= 2e-5 * (1 + exact.abs().max()) + torch.finfo(dx.dtype).eps * exact.abs()
    ).all()


def right_parts(parts, dy, x, mean, rstd):
    d, y = dy.double(), (x.double() - mean[:, None]) * rstd[:, None]
    for part, exact in zip(parts.double().sum(0), ((d * y).sum(0), d.sum(0)), strict=True):
        assert ((part - exact).abs() <= 1e-5 * (1 + len(x))).all()


def right_gradients(parts, dy, x, weight, mean, rstd, dx):
    right_dx(dx, dy, x, weight, mean, rstd)
    right_parts(parts, dy, x, mean, rstd)


def right_sums(dbias, parts, dweight):
    exact = parts.double().sum(0).view(2, -1)
    for out, right in zip((dweight, dbias), exact, strict=True):
        assert ((out.double() - right).abs() <= 1e-5 + torch.finfo(out.dtype).eps * right.abs()).all()


ALIGNED = [(1, 8, 0), (5, 64, 0), (3, 1000, 0), (3, 1024, 0)]
ANY = [(1, 1, 0), (3, 17, 1), (5, 100, 0), (3, 1031, 3)]
TYPES = {"float": torch.float32, "__half": torch.float16, "__nv_bfloat16": torch.bfloat16}
NORM_LAUNCHES = {
    "layer_norm_three_passes_kernel": (rows(torch.float32, 256), ANY, normed),
    "layer_norm_welford_kernel": (rows(torch.float32, 256), ANY, normed),
}
for name, dtype in TYPES.items():
    NORM_LAUNCHES |= {
        f"norm_warps_kernel<{name}>": (row_per_block(dtype, 32), ALIGNED, normed),
        f"norm_registers_kernel<{name}, 4>": (row_per_block(dtype, 128), [*ALIGNED, (3, 2048, 0)], normed),
        f"norm_registers_kernel<{name}, 8>": (row_per_block(dtype, 96), [*ALIGNED, (3, 2048, 0)], normed),
        f"norm_shared_kernel<{name}>": (rows(dtype, 96, shared=True), ANY, normed),
        f"norm_long_kernel<{name}>": (rows(dtype, 96), ANY, normed),
        f"norm_backward_rows_kernel<{name}>": (gradient_rows(dtype), ANY[1:], right_dx),
        f"norm_backward_columns_kernel<{name}>": (gradient_columns(dtype), ANY[1:], right_parts),
        f"norm_backward_kernel<{name}>": (gradients(dtype), ALIGNED, right_gradients),
        f"column_sums_kernel<{name}>": (column_sums(dtype), [(1, 1, 0), (5, 17, 0), (70, 33, 0)], right_sums),
    }
