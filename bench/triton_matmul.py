"""A float32 matrix product in Triton, as a peer of kernels/matmul_ladder.cu: `utils.bench` times it on a GPU.

What it uses is described in Triton's documentation: https://triton-lang.org/main/python-api/triton.language.html
"""

import torch
import triton
import triton.language as tl

TILES = [(64, 64, 16, 4), (128, 64, 16, 4), (128, 128, 16, 8), (128, 128, 32, 8)]  # BH, BW, BK and warps


@triton.autotune(
    configs=[triton.Config({"BH": bh, "BW": bw, "BK": bk}, num_warps=warps) for bh, bw, bk, warps in TILES],
    key=["h", "w", "k"],
)
@triton.jit
def product_kernel(m, n, out, h, w, k, BH: tl.constexpr, BW: tl.constexpr, BK: tl.constexpr):
    """A program computes BH x BW elements of out (h, w) = m (h, k) @ n (k, w), in steps of BK along k."""
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


def matmul(m, n):
    """float32 m (h, k) @ n (k, w), contiguous and on a GPU, each of fewer than 2^31 elements: offsets are 32-bit."""
    (h, k), w = m.shape, n.shape[1]
    out = torch.empty(h, w, device=m.device)
    grid = lambda tile: (triton.cdiv(h, tile["BH"]) * triton.cdiv(w, tile["BW"]),)  # noqa: E731, as Triton writes it
    product_kernel[grid](m, n, out, h, w, k, enable_fp_fusion=True)  # products and sums in one instruction, as nvcc's
    return out
