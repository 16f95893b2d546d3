"""Wrong answers to the exercises of lesson 06: (verdict, what the solution has there, what replaces it)."""

WRONG = {
    "06-int": [
        ("wrong", "2**31 // k", "2**31 // k + 1"),
        ("wrong", "2**31 // k", "2**31 // k - 1"),
        ("wrong", "2**31 // k", "(2**31 - 1) // k"),
        ("wrong", "2**31 // k", "2**31 / k"),
        (
            "crashed",
            "2**31 // k",
            "next(r for r in range(2**31) if r * k + k > 2**31)",
        ),  # right, but without a wait for it
    ],
    "06-seen": [
        ("wrong", "[: x.numel()]", "[x.numel() :]"),
        ("wrong", ".view(torch.float32)[: x.numel()]", ".float()"),  # converted, not looked at
        ("wrong", "[: x.numel()]", "[::2]"),
        ("crashed", "[: x.numel()]", ""),
    ],
    "06-layer": [
        ("out of bounds", "c >= w) return", "c > w) return"),
        ("out of bounds", "r >= h || ", ""),
        ("out of bounds", "m[r * k + i]", "m[r * w + i + k]"),
        ("wrong", "fmaxf(o, 0.0f)", "o"),
        ("wrong", "float o = bias[c]", "float o = 0.0f"),
        ("wrong", "bias[c]", "bias[r]"),
        ("unwritten", "r >= h ||", "r + 1 >= h ||"),
        (
            "right, but slow",
            "size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;\n"
            "    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;",
            "size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.x;\n"
            "    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.y;",
        ),
    ],
    "06-host": [
        ("wrong", "[5, 6, 8, 9, 10]", "[5, 6, 8, 9]"),
        ("wrong", "[5, 6, 8, 9, 10]", "[2, 5, 6, 8, 9, 10]"),
        ("wrong", "[5, 6, 8, 9, 10]", "[7, 8, 9]"),
    ],
}
