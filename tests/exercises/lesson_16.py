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
    ],
    "16-mask": [
        ("out of bounds", "v = tl.load(x + i, mask=i < n)", "v = tl.load(x + i)"),
        ("out of bounds", "v, mask=i < n", "v"),
        ("out of bounds", "mask=i < n", "mask=i <= n"),
        ("wrong", "v, mask=i < n", "v, mask=i < n - 1"),  # the first element is never written
        ("wrong", "x + i, mask=i < n", "x + i, mask=i < n - 1"),  # a place that is not loaded is 0, or anything
        ("out of bounds", "out + n - 1 - i", "out + n - i"),
        ("wrong", "out + n - 1 - i", "out + i"),
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
    "16-fusion": [
        ("wrong", "4 * n", "n"),  # numbers, not bytes
        ("wrong", "2 * k + others", "2 * k"),
        ("wrong", "2 * k + others", "k + 1 + others"),  # as if what is in between were only written
        ("wrong", "2 + others", "2"),
        ("wrong", "2 + others", "2 * k"),
        ("wrong", "if fused", "if not fused"),
    ],
}

RIGHT = {
    "16-order": [
        ("r < h and c < w", "r < s.size and c < w"),
        ("x[r, c] * s[r]", "np.float32(x[r, c] * s[r])"),
    ],
}
