"""Layer norm and RMS norm in Triton, as peers: `python -m bench` times them on a GPU.

The functions take contiguous tensors on a GPU, of float32, float16 or bfloat16; everything is added up in float32. The
first call with new sizes tries out which numbers of warps and which tiles are fastest.
"""

import torch
import triton
import triton.language as tl

EPS = 1e-5
WARPS = [triton.Config({}, num_warps=warps) for warps in (4, 8, 16, 32)]
TILES = [(16, 128, 4), (32, 128, 8), (64, 64, 8), (64, 128, 8)]  # rows, columns and warps
LONGEST = 8192  # columns whose sums a program of the backward keeps in its registers


@triton.autotune(configs=WARPS, key=["w", "BLOCK"])
@triton.jit
def norm_kernel(x, weight, bias, out, mean, rstd, w, eps, BLOCK: tl.constexpr, CENTERED: tl.constexpr):
    """Each program does a row, which it keeps in registers."""
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    mask = c < w  # guard
    v = tl.load(x + r * w + c, mask=mask, other=0.0).to(tl.float32)
    if CENTERED:
        m = tl.sum(v, 0) / w
        tl.store(mean + r, m)
        v = tl.where(mask, v - m, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, 0) / w + eps)
    tl.store(rstd + r, scale)
    v = v * scale * tl.load(weight + c, mask=mask).to(tl.float32)
    if CENTERED:
        v += tl.load(bias + c, mask=mask).to(tl.float32)
    tl.store(out + r * w + c, v, mask=mask)


@triton.autotune(configs=WARPS, key=["w", "BLOCK"])
@triton.jit
def backward_kernel(dy, x, weight, mean, rstd, dx, parts, h, w, BLOCK: tl.constexpr):
    """Each program does every nth row of dx, and adds up its rows' part of dweight and dbias in registers."""
    c = tl.arange(0, BLOCK)
    mask = c < w  # guard
    factors = tl.load(weight + c, mask=mask, other=0.0).to(tl.float32)
    dweight, dbias = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for r in range(tl.program_id(0), h, tl.num_programs(0)):
        row = r.to(tl.int64) * w
        d = tl.load(dy + row + c, mask=mask, other=0.0).to(tl.float32)
        scale = tl.load(rstd + r)
        y = (tl.load(x + row + c, mask=mask, other=0.0).to(tl.float32) - tl.load(mean + r)) * scale
        dweight += d * y
        dbias += d
        g = d * factors
        shift, slope = tl.sum(g, 0) / w, tl.sum(g * y, 0) / w
        tl.store(dx + row + c, (g - shift - y * slope) * scale, mask=mask)
    part = parts + tl.program_id(0) * 2 * w
    tl.store(part + c, dweight, mask=mask)
    tl.store(part + w + c, dbias, mask=mask)


@triton.autotune(configs=WARPS, key=["w"])
@triton.jit
def backward_rows_kernel(dy, x, weight, mean, rstd, dx, w, BLOCK: tl.constexpr):
    """Each program does a row of dx, which it reads twice, BLOCK elements at a time."""
    r = tl.program_id(0).to(tl.int64)
    m, scale = tl.load(mean + r), tl.load(rstd + r)
    gs, gys = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for first in range(0, w, BLOCK):
        c = first + tl.arange(0, BLOCK)
        mask = c < w  # guard
        d = tl.load(dy + r * w + c, mask=mask, other=0.0).to(tl.float32)
        g = d * tl.load(weight + c, mask=mask, other=0.0).to(tl.float32)
        gs += g
        gys += g * (tl.load(x + r * w + c, mask=mask, other=0.0).to(tl.float32) - m) * scale
    shift, slope = tl.sum(gs, 0) / w, tl.sum(gys, 0) / w
    for first in range(0, w, BLOCK):
        c = first + tl.arange(0, BLOCK)
        mask = c < w  # guard
        d = tl.load(dy + r * w + c, mask=mask, other=0.0).to(tl.float32)
        g = d * tl.load(weight + c, mask=mask, other=0.0).to(tl.float32)
        y = (tl.load(x + r * w + c, mask=mask, other=0.0).to(tl.float32) - m) * scale
        tl.store(dx + r * w + c, (g - shift - y * slope) * scale, mask=mask)


@triton.autotune(
    configs=[triton.Config({"BH": bh, "BW": bw}, num_warps=warps) for bh, bw, warps in TILES], key=["h", "w"]
)
@triton.jit
def backward_columns_kernel(dy, x, mean, rstd, parts, h, w, rows, BH: tl.constexpr, BW: tl.constexpr):
    """Each program adds up BW columns of `rows` rows for dweight and dbias."""
    c = tl.program_id(0) * BW + tl.arange(0, BW)[None, :]
    first = tl.program_id(1) * rows
    dweight, dbias = tl.zeros((BH, BW), tl.float32), tl.zeros((BH, BW), tl.float32)
    for k in range(0, rows, BH):
        r = first + k + tl.arange(0, BH)[:, None]
        inside = (r < h) & (r < first + rows)
        mask = inside & (c < w)  # guard
        at = r.to(tl.int64) * w + c
        d = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        dweight += d * (v - tl.load(mean + r, mask=inside, other=0.0)) * tl.load(rstd + r, mask=inside, other=0.0)
        dbias += d
    part = parts + tl.program_id(1) * 2 * w
    c = tl.program_id(0) * BW + tl.arange(0, BW)
    tl.store(part + c, tl.sum(dweight, 0), mask=c < w)
    tl.store(part + w + c, tl.sum(dbias, 0), mask=c < w)


@triton.autotune(
    configs=[triton.Config({"BH": bh, "BW": bw}, num_warps=warps) for bh, bw, warps in TILES], key=["groups", "w"]
)
@triton.jit
def sums_kernel(parts, dweight, dbias, groups, w, BH: tl.constexpr, BW: tl.constexpr):
    """Each program adds up BW columns of the parts (groups, 2 * w)."""
    c = tl.program_id(0) * BW + tl.arange(0, BW)
    sums = tl.zeros((BH, BW), tl.float32)
    for k in range(0, groups, BH):
        r = k + tl.arange(0, BH)[:, None]
        sums += tl.load(parts + r * 2 * w + c[None, :], mask=(r < groups) & (c[None, :] < 2 * w), other=0.0)
    total = tl.sum(sums, 0)
    tl.store(dweight + c, total, mask=c < w)
    tl.store(dbias + c - w, total, mask=(c >= w) & (c < 2 * w))


def normed(x, weight, bias):
    """The norm of the rows of x (h, w): RMS norm without a bias."""
    (h, w), out = x.shape, torch.empty_like(x)
    mean, rstd = torch.empty(2, h, device=x.device)
    block = triton.next_power_of_2(w)
    norm_kernel[(h,)](x, weight, bias, out, mean, rstd, w, EPS, BLOCK=block, CENTERED=bias is not None)
    return out


def layer_norm(x, weight, bias):
    """(h, w), (w), (w) -> (h, w)"""
    return normed(x, weight, bias)


def rms_norm(x, weight):
    """(h, w), (w) -> (h, w)"""
    return normed(x, weight, None)


def layer_norm_backward(dy, x, weight, mean, rstd):
    """(h, w), (h, w), (w), (h), (h) -> the gradients of x, weight and bias"""
    (h, w), dx = x.shape, torch.empty_like(x)
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count
    groups = min(h, sms * max(1, min(8, LONGEST // w)))
    groups = groups if w <= LONGEST else triton.cdiv(h, 256)
    parts = torch.empty(groups, 2, w, device=x.device)
    if w <= LONGEST:
        backward_kernel[(groups,)](dy, x, weight, mean, rstd, dx, parts, h, w, BLOCK=triton.next_power_of_2(w))
    else:
        backward_rows_kernel[(h,)](dy, x, weight, mean, rstd, dx, w, BLOCK=4096)
        tiles = lambda tile: (triton.cdiv(w, tile["BW"]), groups)  # noqa: E731, as Triton writes it
        backward_columns_kernel[tiles](dy, x, mean, rstd, parts, h, w, 256)
    dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
    sums_kernel[lambda tile: (triton.cdiv(2 * w, tile["BW"]),)](parts, dweight, dbias, groups, w)
    return dx, dweight, dbias
