"""Other answers to the exercises of lesson 05: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "05-size": [
        ("wrong", "(20, 7, 5)", "(5, 784, 10)"),
        ("wrong", "(20, 7, 5)", "(17, 7, 18)"),  # two blocks either way
        ("wrong", "(20, 7, 5)", "(16, 700, 16)"),
        ("wrong", "(20, 7, 5)", "(0, 7, 5)"),
        ("wrong: this exercise takes three numbers (h, k, w), but got (20, 5)", "(20, 7, 5)", "(20, 5)"),
        ("wrong: this exercise takes three numbers (h, k, w), but got '20 x 7 x 5'", "(20, 7, 5)", "'20 x 7 x 5'"),
    ],
    "05-1d": [
        ("out of bounds", "idx >= h * w", "idx > h * w"),
        ("out of bounds", "idx // w, idx % w", "idx // h, idx % h"),
        ("out of bounds", "idx // w, idx % w", "idx % w, idx // w"),
        ("out of bounds", "n[i * w + c]", "n[i * k + c]"),
        ("wrong", "range(k)", "range(k - 1)"),
        ("unwritten", "out[idx] = o", "return o"),
        ("raced", "blockidx * blockdim + threadidx", "threadidx"),
    ],
    "05-nt": [
        ("out of bounds", "n[c * k + i]", "n[i * w + c + 1]"),
        ("wrong", "n[c * k + i]", "n[i * w + c]"),  # n as if it were (k, w)
        ("out of bounds", "r >= h or c >= w", "r >= h"),
        ("out of bounds", "r >= h or c >= w", "c >= w"),
        ("unwritten", "r >= h or c >= w", "r >= h - 1 or c >= w"),
        ("raced", "c = blockidx.x * blockdim.x + threadidx.x", "c = threadidx.x"),
    ],
    "05-two": [
        ("raced", "blockidx.y * 2 * blockdim.y", "blockidx.y * blockdim.y"),
        ("unwritten", "(top, top + blockdim.y)", "(top,)"),
        ("raced", "(top, top + blockdim.y)", "(top, top + 1)"),
        ("out of bounds", "r < h and c < w", "top < h and c < w"),
        ("out of bounds", "r < h and c < w", "r < h"),
        ("wrong", "            o = 0.0\n", "            o = o if r > top else 0.0\n"),
        ("wrong", "range(k)", "range(k - 1)"),
    ],
}

RIGHT = {
    "05-size": [
        ("(20, 7, 5)", "(1, 1, 17)"),  # the columns
        ("(20, 7, 5)", "[160, 3, 144]"),
    ],
    "05-1d": [
        ("idx // w, idx % w", "divmod(idx, w)"),
        ("r, c = idx // w, idx % w", "c = idx % w\n    r = (idx - c) / w\n    r = int(r)"),
        ("if idx >= h * w:", "if idx // w >= h:"),
    ],
    "05-nt": [
        (
            "    for i in range(k):\n        o += m[r * k + i] * n[c * k + i]",
            "    o = sum(m[r * k + i] * n[c * k + i] for i in reversed(range(k)))",
        ),
        ("if r >= h or c >= w:", "if not (r < h and c < w):"),
    ],
    "05-two": [
        ("(top, top + blockdim.y)", "range(top, top + 2 * blockdim.y, blockdim.y)"),
        (  # two rows that are neighbours
            "top = blockidx.y * 2 * blockdim.y + threadidx.y\n"
            "    c = blockidx.x * blockdim.x + threadidx.x\n"
            "    for r in (top, top + blockdim.y):",
            "top = 2 * (blockidx.y * blockdim.y + threadidx.y)\n"
            "    c = blockidx.x * blockdim.x + threadidx.x\n"
            "    for r in (top, top + 1):",
        ),
        ("top = blockidx.y * 2 * blockdim.y + threadidx.y", "top = blockidx.y * 8 + threadidx.y"),
    ],
}
