"""Other answers to the exercises of lesson 16: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "16-order": [
        ("right, but slow", "c, r = cuda.grid(2)", "r, c = cuda.grid(2)"),  # lanes below each other
        ("out of bounds", "r < h and c < w", "r < h"),
        ("out of bounds", "r < h and c < w", "r <= h and c < w"),
        ("unwritten", "c < w:", "c < w - 1:"),
        ("raced", "c, r = cuda.grid(2)", "c, r = cuda.threadIdx.x, cuda.threadIdx.y"),  # as if there were one block
        ("wrong", "s[r]", "s[c]"),
        ("crashed", "c, r = cuda.grid(2)", "c, r = cuda.grid(2)\n    step = cuda.gridDim.x"),
        ("not yet", "c, r = cuda.grid(2)", "c, r = ___"),
        ("wrong", "s[r]", "s[0]"),
    ],
    "16-mask": [
        ("out of bounds", "v = tl.load(x + i, mask=i < n)", "v = tl.load(x + i)"),
        ("out of bounds", "v, mask=i < n", "v"),
        ("out of bounds", "mask=i < n", "mask=i <= n"),
        ("wrong", "v, mask=i < n", "v, mask=i < n - 1"),  # the first element is never written
        ("wrong", "x + i, mask=i < n", "x + i, mask=i < n - 1"),  # a place that is not loaded is 0, or anything
        ("out of bounds", "out + n - 1 - i", "out + n - i"),
        ("wrong", "out + n - 1 - i", "out + i"),
        ("crashed", "v, mask=i < n", "v, mask=x"),
        ("not yet", "v, mask=i < n", "v, mask=___"),
    ],
    "16-softmax": [
        ("wrong", 'float("-inf")', "-1e4"),
        ("wrong", 'float("-inf")', "0.0"),
        ("wrong", "tl.exp(v - tl.max(v, axis=0))", "tl.exp(v)"),  # too large for float32
        ("wrong", "tl.exp(v - tl.max(v, axis=0))", "tl.exp(v - tl.sum(v, axis=0))"),
        ("out of bounds", "v = tl.load(x + r * w + c, mask=c < w,", "v = tl.load(x + r * w + c, mask=c <= w,"),
        ("out of bounds", "axis=0), mask=c < w", "axis=0)"),
        ("out of bounds", "out + r * w + c", "out + r * BLOCK + c"),
        ("wrong", "e / tl.sum(e, axis=0)", "e"),
        ("crashed", "axis=0), mask", "axis=1), mask"),
    ],
    "16-rms": [
        ("not yet", "", "def rms_rows(x, s, out, w, BLOCK: tl.constexpr):\n    tl.store(___, ___, mask=___)"),
        ("wrong", "axis=0) / w", "axis=0) / BLOCK"),  # the masked places do not count
        ("wrong", "mask=mask, other=0.0", "mask=mask, other=1.0"),
        ("wrong", "tl.sqrt(mean + 1e-6)", "(tl.sqrt(mean) + 1e-6)"),
        ("wrong", "tl.sqrt(mean + 1e-6)", "tl.sqrt(mean)"),
        ("wrong", " * scale", ""),
        ("wrong", "tl.load(s + c, mask=mask)", "tl.load(s)"),
        ("wrong", "v * v", "v"),
        ("out of bounds", "tl.load(s + c, mask=mask)", "tl.load(s + c)"),
        ("wrong", "tl.load(s + c, mask=mask)", "tl.load(s + r)"),  # one per row, as in exercise 1
        ("out of bounds", "x + r * w + c", "x + r * BLOCK + c"),
        ("out of bounds", "* scale, mask=mask)", "* scale)"),
        ("wrong", "mask = c < w", "mask = c < w - 1"),  # the only number of a row is not written
        ("crashed", "tl.sum(v * v, axis=0)", "tl.sum(v * v, axis=1)"),
        ("crashed", "tl.sqrt(mean", "torch.sqrt(mean"),
    ],
    "16-fusion": [
        ("wrong", "4 * n", "n"),  # numbers, not bytes
        ("wrong", "2 * k + others", "2 * k"),
        ("wrong", "2 * k + others", "k + 1 + others"),  # as if what is in between were only written
        ("wrong", "2 + others", "2"),
        ("wrong", "2 + others", "2 * k"),
        ("wrong", "if fused", "if not fused"),
        ("wrong", "return 4 * n * numbers", "return str(4 * n * numbers)"),
        ("wrong", "return 4 * n * numbers", "return [4 * n * numbers]"),
        ("wrong: your function returned nothing", "return 4 * n * numbers", "4 * n * numbers"),
    ],
}

SELECTED = """v = tl.load(x + r * w + c, mask=c < w)
    v = tl.where(c < w, v, float("-inf"))"""
MOVED_POINTERS = """    mask = c < w
    x, out = x + r * w, out + r * w
    r = 0"""

RIGHT = {
    "16-order": [
        ("r < h and c < w", "r < s.size and c < w"),
        ("x[r, c] * s[r]", "np.float32(x[r, c] * s[r])"),
        ("c, r = cuda.grid(2)", "r, c = cuda.grid(2)[::-1]"),
        ("    if r < h and c < w:  # guard\n        out", "    if r >= h or c >= w:\n        return\n    out"),
    ],
    "16-mask": [
        ("v, mask=i < n", "v, mask=n - 1 - i >= 0"),
        ("x + i, mask=i < n", "x + i, mask=i < n, other=0.0"),
        ("    v = tl", "    i = i.to(tl.int64)\n    v = tl"),
    ],
    "16-softmax": [
        ('v = tl.load(x + r * w + c, mask=c < w, other=float("-inf"))', SELECTED),
        ("tl.exp(v - tl.max(v, axis=0))", "tl.exp2((v - tl.max(v, axis=0)) * 1.4426950408889634)"),
        ("    r = tl.program_id(0)", "    r = tl.program_id(0).to(tl.int64)"),
    ],
    "16-rms": [
        ("v / tl.sqrt(mean + 1e-6)", "v * tl.rsqrt(mean + 1e-6)"),
        ("tl.sum(v * v, axis=0) / w", "tl.sum(tl.where(mask, v * v, 0.0)) / w"),
        ("mask=mask, other=0.0", "mask, 0"),
        ("    mask = c < w", MOVED_POINTERS),
    ],
    "16-fusion": [
        ("2 + others if fused else 2 * k + others", "(1 if fused else k) * 2 + others"),
        ("4 * n * numbers", "np.int64(4) * n * numbers"),
        ("4 * n * numbers", 'torch.empty(n * numbers, device="meta").nbytes'),
    ],
}
