"""Other answers to the exercise of lesson 00: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "00-brighten": [
        ("wrong", "min(x[i] + 60, 255)", "x[i] + 60"),  # 200 becomes 4
        ("wrong", "min(x[i] + 60, 255)", "max(x[i] + 60, 255)"),
        ("wrong", "min(x[i] + 60, 255)", "min(x[i], 255) + 60"),
        ("wrong", "min(x[i] + 60, 255)", "min((unsigned char)(x[i] + 60), (unsigned char)255)"),
        ("wrong", "min(x[i] + 60, 255)", "(x[i] + 60) % 255"),
        ("does not compile", "min(x[i] + 60, 255)", "min(x[i] + 60, 255.0f)"),  # a GPU's compiler rejects it
        ("does not compile", "min(x[i] + 60, 255);", "min(x[i] + 60, 255)"),
        ("out of bounds", "i < n", "i <= n"),
        ("out of bounds", "if (i < n)", ""),
        ("unwritten", "i < n", "i + 1 < n"),
        ("raced", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),
        ("wrong: the source has no kernel 'brighten'", "brighten(", "change("),
    ],
}

RIGHT = {
    "00-brighten": [
        ("min(x[i] + 60, 255)", "x[i] > 195 ? 255 : x[i] + 60"),
        ("min(x[i] + 60, 255)", "255 - max(195 - x[i], 0)"),
        ("if (i < n)  // guard\n        out[i]", "if (i >= n) return;\n    out[i]"),
    ],
}
