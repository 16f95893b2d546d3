"""Wrong answers to the exercises of lesson 02: (verdict, what the solution has there, what replaces it)."""

WRONG = {
    "02-count": [
        ("wrong", "(6663, 128)", "(6662, 128)"),  # rounded down
        ("wrong", "(6663, 128)", "(6663, 127)"),
        ("wrong", "(6663, 128)", "(128, 6663)"),
    ],
    "02-unnoticed": [
        ("wrong", "(16, 16), (20, 64)", "(16, 16)"),
        ("wrong", "(16, 16), (20, 64)", "(16, 16), (20, 64), (1, 1)"),
        ("wrong", "(16, 16), (20, 64)", "(16, 16), (32, 32)"),
    ],
    "02-guard": [
        ("out of bounds", "i < n", "i <= n"),
        ("out of bounds", "    if i < n:\n        out", "    out"),
        ("out of bounds", "    i = blockidx * blockdim + threadidx", "    i = blockidx * blockdim + threadidx - 1"),
        ("unwritten", "i < n", "i < n - 1"),
        ("raced", "blockidx * blockdim + threadidx", "threadidx"),
        ("raced", "blockidx * blockdim", "blockidx"),
        ("wrong", "x[i + 2 * n]", "x[i + n]"),
        ("crashed", "i < n", "i < count"),
        ("crashed", "    if i < n:", "    while i < n:"),  # never ends
    ],
    "02-mirror": [
        ("out of bounds", "i < h * w", "i <= h * w"),
        ("out of bounds", "(w - 1 - c)", "(w - c)"),  # off by one, which only the last pixel shows
        ("out of bounds", "i // w, i % w", "i // h, i % h"),
        ("wrong", "x[r * w + (w - 1 - c)]", "x[(h - 1 - r) * w + c]"),  # upside down
        ("raced", "x[r * w + (w - 1 - c)]", "out[r * w + (w - 1 - c)]"),
        ("unwritten", "out[i] =", "return"),
    ],
    "02-stride": [
        ("unwritten", "blocks * blockdim)", "n)"),  # every thread takes one number
        ("raced", "blocks * blockdim)", "blockdim)"),  # the step of one block
        ("out of bounds", "threadidx, n, ", "threadidx, n + 1, "),
        ("unwritten", "range(blockidx * blockdim + threadidx, ", "range(blockidx * blockdim + threadidx + 1, "),
        (
            "right, but slow",
            "for i in range(blockidx * blockdim + threadidx, n, blocks * blockdim):",
            "each = -(-n // (blocks * blockdim))\n"
            "    first = (blockidx * blockdim + threadidx) * each\n"
            "    for i in range(first, min(first + each, n)):",
        ),
    ],
}
