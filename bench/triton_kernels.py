"""The operations of kernels/ in Triton, as peers: `python -m bench` times them on a GPU.

The functions take contiguous tensors on a GPU, each with fewer than 2^31 elements: offsets are 32-bit. The first call
with new sizes tries out which tiles are fastest.

What it uses is described in Triton's documentation: https://triton-lang.org/main/python-api/triton.language.html
"""

import torch
import triton
import triton.language as tl

BLOCKS = [(1024, 4), (2048, 4), (4096, 8), (8192, 8)]  # elements per program, and warps
SHARES = [(2048, 4), (4096, 8), (8192, 8), (16384, 16)]  # of a program that takes many
SIDES = [(32, 4), (64, 4), (64, 8), (128, 8)]
TILES = [(64, 64, 16, 4), (128, 64, 16, 4), (128, 128, 16, 8), (128, 128, 32, 8)]  # BH, BW, BK and warps


def tried(name, sizes):
    return [triton.Config({name: size}, num_warps=warps) for size, warps in sizes]


@triton.autotune(configs=tried("BLOCK", BLOCKS), key=["n"])
@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    """Each program copies BLOCK of n elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n  # guard
    tl.store(out + i, tl.load(x + i, mask=mask), mask=mask)


@triton.autotune(configs=tried("BLOCK", BLOCKS), key=["n"])
@triton.jit
def square_kernel(x, out, n, BLOCK: tl.constexpr):
    """Each program squares BLOCK of n elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n  # guard
    v = tl.load(x + i, mask=mask)
    tl.store(out + i, v * v, mask=mask)


@triton.autotune(configs=tried("BLOCK", BLOCKS), key=["n"])
@triton.jit
def grayscale_kernel(x, out, n, BLOCK: tl.constexpr):
    """Each program computes BLOCK of n pixels from uint8 planes n apart. The sum is truncated to whole levels."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n  # guard
    r, g, b = tl.load(x + i, mask=mask), tl.load(x + i + n, mask=mask), tl.load(x + i + 2 * n, mask=mask)
    tl.store(out + i, 0.2989 * r + 0.5870 * g + 0.1140 * b, mask=mask)


@triton.autotune(configs=tried("SIDE", SIDES), key=["h", "w"])
@triton.jit
def transpose_kernel(x, out, h, w, SIDE: tl.constexpr):
    """Each program transposes SIDE x SIDE elements of x (h, w)."""
    block, across = tl.program_id(0), tl.cdiv(w, SIDE)
    r = block // across * SIDE + tl.arange(0, SIDE)
    c = block % across * SIDE + tl.arange(0, SIDE)
    v = tl.load(x + r[:, None] * w + c[None, :], mask=(r[:, None] < h) & (c[None, :] < w))
    tl.store(out + c[:, None] * h + r[None, :], tl.trans(v), mask=(c[:, None] < w) & (r[None, :] < h))


@triton.autotune(
    configs=[triton.Config({"BH": bh, "BW": bw, "BK": bk}, num_warps=warps) for bh, bw, bk, warps in TILES],
    key=["h", "w", "k"],
)
@triton.jit
def matmul_kernel(m, n, out, h, w, k, BH: tl.constexpr, BW: tl.constexpr, BK: tl.constexpr):
    """Each program computes BH x BW elements of out (h, w) = m (h, k) @ n (k, w), in steps of BK along k."""
    down, across = tl.cdiv(h, BH), tl.cdiv(w, BW)
    block = tl.program_id(0)
    block_r, block_c = tl.swizzle2d(block // across, block % across, down, across, 8)  # 8 neighbours share columns of n
    r = block_r * BH + tl.arange(0, BH)[:, None]
    c = block_c * BW + tl.arange(0, BW)[None, :]

    sums = tl.zeros((BH, BW), dtype=tl.float32)
    for start in range(0, k, BK):
        down_k, across_k = start + tl.arange(0, BK)[:, None], start + tl.arange(0, BK)[None, :]
        a = tl.load(m + r * k + across_k, mask=(r < h) & (across_k < k), other=0.0)
        b = tl.load(n + down_k * w + c, mask=(down_k < k) & (c < w), other=0.0)
        sums = tl.dot(a, b, sums, input_precision="ieee")  # the default on tensor cores is TF32
    tl.store(out + r * w + c, sums, mask=(r < h) & (c < w))


@triton.autotune(configs=tried("BLOCK", SHARES), key=["n"])
@triton.jit
def sum_kernel(x, sums, n, BLOCK: tl.constexpr):
    """Each program adds every so many BLOCKs of n elements, and stores one sum."""
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = first + tl.arange(0, BLOCK)
        total += tl.load(x + i, mask=i < n, other=0.0)
    tl.store(sums + tl.program_id(0), tl.sum(total))


@triton.jit
def first_of(best, place):
    """The largest value, and the first of the places that hold it."""
    largest = tl.max(best)
    return largest, tl.min(tl.where(best == largest, place, 2147483647))


@triton.autotune(configs=tried("BLOCK", SHARES), key=["n"])
@triton.jit
def argmax_kernel(x, values, places, n, BLOCK: tl.constexpr):
    """Each program finds the first largest of every so many BLOCKs of n elements, none of them NaN."""
    best, place = tl.full((BLOCK,), float("-inf"), tl.float32), tl.full((BLOCK,), 2147483647, tl.int32)
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = first + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=float("-inf"))
        place = tl.where(v > best, i, place)
        best = tl.maximum(best, v)
    largest, where = first_of(best, place)
    tl.store(values + tl.program_id(0), largest)
    tl.store(places + tl.program_id(0), where)


@triton.jit
def argmax_last_kernel(values, places, out, n, BLOCK: tl.constexpr):
    """One program finds the first largest of n values, at most BLOCK."""
    i = tl.arange(0, BLOCK)
    best = tl.load(values + i, mask=i < n, other=float("-inf"))
    largest, where = first_of(best, tl.load(places + i, mask=i < n, other=2147483647))
    tl.store(out, where.to(tl.int64))


@triton.jit
def cumsum_kernel(x, before, out, n, BLOCK: tl.constexpr):
    """Each program scans BLOCK of n elements, beginning with the sum of all BLOCKs before, which `before` has."""
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    sums = tl.cumsum(tl.load(x + i, mask=i < n, other=0.0), 0)
    carry = tl.load(before + block - 1, mask=block > 0, other=0.0)
    tl.store(out + i, carry + sums, mask=i < n)


@triton.jit
def block_sums_kernel(x, sums, n, BLOCK: tl.constexpr):
    """Each program adds BLOCK of n elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0)))


@triton.autotune(configs=tried("BLOCK", SHARES), key=["n"], reset_to_zero=["out"])
@triton.jit
def histogram_kernel(x, out, n, BLOCK: tl.constexpr):
    """Each program counts the bytes in every so many BLOCKs of n, and adds its counts to out, which is 0 before."""
    counts = tl.zeros((256,), dtype=tl.int32)
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = first + tl.arange(0, BLOCK)
        counts += tl.histogram(tl.load(x + i, mask=i < n, other=0).to(tl.int32), 256, mask=i < n)
    tl.atomic_add(out + tl.arange(0, 256), counts.to(tl.int64))


def each(kernel, x, out):
    """Returns `out`, whose elements a kernel computes BLOCK at a time."""
    n = out.numel()
    kernel[lambda tile: (triton.cdiv(n, tile["BLOCK"]),)](x, out, n)
    return out


def copy(x):
    """The same values in new memory."""
    return each(copy_kernel, x, torch.empty_like(x))


def square(x):
    """float32 of any shape -> every element squared."""
    return each(square_kernel, x, torch.empty_like(x))


def grayscale(x):
    """uint8 (3, h, w) -> uint8 (h, w)"""
    return each(grayscale_kernel, x, torch.empty(x.shape[1:], dtype=x.dtype, device=x.device))


def transpose(x):
    """float32 (h, w) -> (w, h)"""
    (h, w), out = x.shape, torch.empty(x.shape[::-1], device=x.device)
    transpose_kernel[lambda tile: (triton.cdiv(h, tile["SIDE"]) * triton.cdiv(w, tile["SIDE"]),)](x, out, h, w)
    return out


def programs(x):
    """As many programs as keep the GPU busy."""
    return 8 * torch.cuda.get_device_properties(x.device).multi_processor_count


def sum(x):
    """float32 of any shape -> 0-d: two launches of the same kernel"""
    sums, out = torch.empty(programs(x), device=x.device), torch.empty((), device=x.device)
    sum_kernel[(len(sums),)](x, sums, x.numel())
    sum_kernel[(1,)](sums, out, len(sums))
    return out


def argmax(x):
    """float32 of any shape without NaN -> int64, 0-d"""
    values = torch.empty(programs(x), device=x.device)
    places, out = torch.empty_like(values, dtype=torch.int32), torch.empty((), dtype=torch.int64, device=x.device)
    argmax_kernel[(len(values),)](x, values, places, x.numel())
    argmax_last_kernel[(1,)](values, places, out, len(values), BLOCK=triton.next_power_of_2(len(values)))
    return out


def cumsum(x):
    """float32 (n), at most 2^28 -> the sums so far: three launches, which read x twice"""
    n, block, out = x.numel(), 8192, torch.empty_like(x)
    sums = torch.empty(triton.cdiv(n, block), device=x.device)
    so_far = torch.empty_like(sums)
    block_sums_kernel[(len(sums),)](x, sums, n, BLOCK=block, num_warps=8)
    cumsum_kernel[(1,)](sums, sums, so_far, len(sums), BLOCK=triton.next_power_of_2(len(sums)), num_warps=32)
    cumsum_kernel[(len(sums),)](x, so_far, out, n, BLOCK=block, num_warps=8)
    return out


def histogram(x):
    """uint8 of any shape -> int64 (256), how often each value is there"""
    out = torch.zeros(256, dtype=torch.int64, device=x.device)
    histogram_kernel[(programs(x),)](x, out, x.numel())
    return out


def matmul(m, n):
    """float32 m (h, k) @ n (k, w) -> (h, w)"""
    (h, k), w = m.shape, n.shape[1]
    out = torch.empty(h, w, device=m.device)
    grid = lambda tile: (triton.cdiv(h, tile["BH"]) * triton.cdiv(w, tile["BW"]),)  # noqa: E731, as Triton writes it
    matmul_kernel[grid](m, n, out, h, w, k, enable_fp_fusion=True)  # products and sums in one instruction, as with nvcc
    return out
