"""Other answers to the exercises of lesson 02: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "02-count": [
        ("wrong: the number of blocks is not 6662", "(6663, 128)", "(6662, 128)"),  # rounded down
        ("wrong", "(6663, 128)", "(6662.5, 128)"),
        ("wrong", "(6663, 128)", "(6663, 127)"),
        ("wrong", "(6663, 128)", "(128, 6663)"),
        ("wrong: this exercise takes two numbers", "(6663, 128)", "6663"),
        ("wrong: this exercise takes two numbers", "(6663, 128)", '("6663", "128")'),
        ("wrong: this exercise takes two numbers", "(6663, 128)", "(6663, 128, 0)"),
    ],
    "02-unnoticed": [
        ("wrong: 1 of the sizes that go unnoticed is missing", "(16, 16), (20, 64)", "(16, 16)"),
        ("wrong: 2 of the sizes that go unnoticed are missing", "(16, 16), (20, 64)", ""),
        ("wrong: for (1, 1) somebody does notice", "(16, 16), (20, 64)", "(16, 16), (20, 64), (1, 1)"),
        ("wrong: (32, 32) is not one of the sizes", "(16, 16), (20, 64)", "(16, 16), (32, 32)"),
        ("wrong: this exercise takes a list of sizes", "[(16, 16), (20, 64)]", "(16, 16)"),
        ("wrong: this exercise takes a list of sizes", "[(16, 16), (20, 64)]", "[256, 1280]"),
        ("wrong: this exercise takes a list of sizes", "[(16, 16), (20, 64)]", '"16 x 16"'),
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
        ("too long", "    if i < n:", "    while i < n:"),  # never ends
        ("crashed", "        out[i] =", "        out[:] ="),
        ("wrong: this exercise takes", "", "def repaired_bk(i, x, out, n):\n    out[i] = x[i]"),  # run_kernel's form
    ],
    "02-mirror": [
        ("out of bounds", "i < h * w", "i <= h * w"),
        ("out of bounds", "(w - 1 - c)", "(w - c)"),  # off by one, which only the last pixel shows
        ("out of bounds", "i // w, i % w", "i // h, i % h"),
        ("wrong", "x[r * w + (w - 1 - c)]", "x[(h - 1 - r) * w + c]"),  # upside down
        ("wrong", "x[r * w + (w - 1 - c)]", "x[h * w - 1 - i]"),  # upside down as well
        ("raced", "x[r * w + (w - 1 - c)]", "out[r * w + (w - 1 - c)]"),
        ("raced", "blockidx * blockdim + threadidx", "threadidx"),
        ("unwritten", "out[i] =", "return"),
        ("crashed", "x[r * w + (w - 1 - c)]", "x[r, w - 1 - c]"),  # memory has no rows
        ("crashed", "", "def mirror_bk(blockidx, threadidx, blockdim, x, out, h, w):\n    return x.flip(0)"),
    ],
    "02-stride": [
        ("unwritten", "blocks * blockdim)", "n)"),  # every thread takes one number
        ("raced", "blocks * blockdim)", "blockdim)"),  # the step of one block
        ("raced", "blocks * blockdim)", "64)"),  # that of two blocks
        ("out of bounds", "threadidx, n, ", "threadidx, n + 1, "),
        ("unwritten", "range(blockidx * blockdim + threadidx, ", "range(blockidx * blockdim + threadidx + 1, "),
        ("wrong", "2 * x[i]", "x[i] * x[i]"),
        (
            "raced",  # the whole loop in every thread
            "range(blockidx * blockdim + threadidx, n, blocks * blockdim)",
            "range(n)",
        ),
        (
            "right, but slow",
            "for i in range(blockidx * blockdim + threadidx, n, blocks * blockdim):",
            "each = -(-n // (blocks * blockdim))\n"
            "    first = (blockidx * blockdim + threadidx) * each\n"
            "    for i in range(first, min(first + each, n)):",
        ),
    ],
}

RIGHT = {
    "02-count": [
        ("(6663, 128)", "[6663.0, 128]"),
        ("(6663, 128)", "divmod(1066 * 1600 + 255, 256)[0], 256 - 1066 * 1600 % 256"),
    ],
    "02-unnoticed": [
        ("[(16, 16), (20, 64)]", "{(20, 64), (16, 16)}"),
        ("[(16, 16), (20, 64)]", "[[16, 16], [20, 64]]"),
    ],
    "02-guard": [
        ("    if i < n:\n        out", "    if i >= n:\n        return\n    out"),
        ("    if i < n:", "    for i in range(i, min(i + 1, n)):"),
    ],
    "02-mirror": [
        ("r, c = i // w, i % w", "r, c = divmod(i, w)"),
        (
            "        r, c = i // w, i % w\n        out[i] = x[r * w + (w - 1 - c)]",
            "        out[i] = x[i + w - 1 - i % w * 2]",
        ),
    ],
    "02-stride": [
        (
            "    for i in range(blockidx * blockdim + threadidx, n, blocks * blockdim):\n        out[i] = 2 * x[i]",
            "    i = blockidx * blockdim + threadidx\n    while i < n:\n        out[i] = 2 * x[i]\n"
            "        i += blocks * blockdim",
        ),
        (
            "    for i in range(blockidx * blockdim + threadidx, n, blocks * blockdim):",
            "    for turn in range(-(-n // (blocks * blockdim))):\n"
            "        i = (turn * blocks + blockidx) * blockdim + threadidx\n"
            "        if i >= n:\n            continue",
        ),
    ],
}
