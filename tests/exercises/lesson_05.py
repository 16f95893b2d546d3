"""Wrong answers to the exercises of lesson 05: (verdict, what the solution has there, what replaces it)."""

WRONG = {
    "05-size": [
        ("wrong", "(20, 7, 5)", "(5, 784, 10)"),
        ("wrong", "(20, 7, 5)", "(17, 7, 18)"),  # two blocks either way
        ("wrong", "(20, 7, 5)", "(16, 700, 16)"),
        ("wrong", "(20, 7, 5)", "(0, 7, 5)"),
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
}
