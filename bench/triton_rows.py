"""Operations on whole rows in Triton, as peers: `python -m bench` times them on a GPU.

As in triton_kernels.py, they take contiguous tensors on a GPU. An offset is 64-bit where rows are counted. The first
call with new sizes tries out which launch is the fastest.
"""

import torch
import triton
import triton.language as tl

WARPS = [triton.Config({}, num_warps=warps) for warps in (1, 2, 4, 8, 16, 32)]
REGISTERS = 64  # elements of a row per thread at most: more take minutes to compile, and do not fit
CHUNKS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((2048, 4), (4096, 8), (8192, 16))]
BLOCKS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((1024, 4), (2048, 4), (4096, 8))]


def few_enough(configs, _, BLOCK, **__):  # noqa: N803, as the kernels call it
    """The launches whose threads have few enough elements of a row of BLOCK."""
    return [config for config in configs if BLOCK <= 32 * config.num_warps * REGISTERS]


PRUNED = {"early_config_prune": few_enough}


@triton.autotune(configs=WARPS, key=["w"], prune_configs_by=PRUNED)
@triton.jit
def softmax_kernel(x, out, w, BLOCK: tl.constexpr):
    """Each program holds a row, of at most BLOCK elements."""
    r, c = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    v = tl.load(x + r * w + c, mask=c < w, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + r * w + c, e / tl.sum(e, 0), mask=c < w)


@triton.autotune(configs=WARPS, key=["w"], prune_configs_by=PRUNED)
@triton.jit
def softmax_backward_kernel(dy, y, dx, w, BLOCK: tl.constexpr):
    """Each program holds a row of both inputs, of at most BLOCK elements."""
    r, c = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    grads = tl.load(dy + r * w + c, mask=c < w, other=0.0).to(tl.float32)
    shares = tl.load(y + r * w + c, mask=c < w, other=0.0).to(tl.float32)
    tl.store(dx + r * w + c, shares * (grads - tl.sum(grads * shares, 0)), mask=c < w)


@triton.autotune(configs=CHUNKS, key=["w"])
@triton.jit
def cross_entropy_kernel(logits, target, losses, logsumexp, w, BLOCK: tl.constexpr):
    """Each program reads a row, BLOCK elements at a time."""
    r = tl.program_id(0).to(tl.int64)
    largest, total = -float("inf"), 0.0
    for first in range(0, w, BLOCK):
        c = first + tl.arange(0, BLOCK)
        v = tl.load(logits + r * w + c, mask=c < w, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(v, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(v - larger), 0)
        largest = larger
    log_sum = largest + tl.log(total)
    wanted = tl.load(logits + r * w + tl.load(target + r)).to(tl.float32)
    tl.store(logsumexp + r, log_sum)
    tl.store(losses + r, log_sum - wanted)


@triton.autotune(configs=CHUNKS, key=["w"])
@triton.jit
def cross_entropy_backward_kernel(logits, target, logsumexp, dlogits, w, scale, BLOCK: tl.constexpr):
    """Each program reads and writes a row, BLOCK elements at a time."""
    r = tl.program_id(0).to(tl.int64)
    log_sum, wanted = tl.load(logsumexp + r), tl.load(target + r)
    for first in range(0, w, BLOCK):
        c = first + tl.arange(0, BLOCK)
        v = tl.load(logits + r * w + c, mask=c < w, other=0.0).to(tl.float32)
        tl.store(dlogits + r * w + c, (tl.exp(v - log_sum) - tl.where(c == wanted, 1.0, 0.0)) * scale, mask=c < w)


@triton.autotune(configs=BLOCKS, key=["n"])
@triton.jit
def bias_gelu_kernel(x, bias, out, n, w, BLOCK: tl.constexpr):
    """Each program computes BLOCK of n elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n).to(tl.float32) + tl.load(bias + i % w, mask=i < n).to(tl.float32)
    tl.store(out + i, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=i < n)


def softmax(x):
    """(h, w) -> the softmax of each row"""
    (h, w), out = x.shape, torch.empty_like(x)
    softmax_kernel[(h,)](x, out, w, BLOCK=triton.next_power_of_2(w))
    return out


def softmax_backward(dy, y):
    """The gradient of softmax's result y and y itself, both (h, w) -> the gradient of its input"""
    (h, w), dx = y.shape, torch.empty_like(y)
    softmax_backward_kernel[(h,)](dy, y, dx, w, BLOCK=triton.next_power_of_2(w))
    return dx


def cross_entropy(logits, target):
    """logits (h, w), target (h) -> the mean loss, 0-d, and each row's log-sum-exp (h)"""
    h, w = logits.shape
    losses, logsumexp = torch.empty(2, h, device=logits.device)
    cross_entropy_kernel[(h,)](logits, target, losses, logsumexp, w)
    return losses.mean(), logsumexp


def cross_entropy_gradient(logits, target):
    """The gradient of the mean loss in logits, from both kernels"""
    (h, w), dlogits = logits.shape, torch.empty_like(logits)
    _, logsumexp = cross_entropy(logits, target)
    cross_entropy_backward_kernel[(h,)](logits, target, logsumexp, dlogits, w, 1 / h)
    return dlogits


def bias_gelu(x, bias):
    """x (h, w), bias (w) -> gelu(x + bias)"""
    n, out = x.numel(), torch.empty_like(x)
    bias_gelu_kernel[lambda tile: (triton.cdiv(n, tile["BLOCK"]),)](x, bias, out, n, x.shape[1])
    return out
