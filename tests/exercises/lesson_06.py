"""Other answers to the exercises of lesson 06: what the solution has there, what replaces it, and the verdict."""

_UNROLL = "    #pragma unroll 16\n"
_LOOP = "for (size_t i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];"
_BY_HAND = """size_t i = 0;
    for (; i + 16 <= k; i += 16)
        for (int j = 0; j < 16; ++j) o += m[r * k + i + j] * n[(i + j) * w + c];"""
_SWAPPED = (
    "size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.y;\n"
    "    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.x;",
    "size_t r = size_t(blockIdx.y) * blockDim.y + threadIdx.x;\n"
    "    size_t c = size_t(blockIdx.x) * blockDim.x + threadIdx.y;",
)
_FIVE = "[5, 7, 10, 11, 12]"

RIGHT = {
    "06-int": [
        ("2**31 // k", "(1 << 31) // k"),
        ("2**31 // k", "((2**31 - 1) - (k - 1)) // k + 1"),
        ("2**31 // k", "torch.tensor(2**31 // k)"),
    ],
    "06-unroll": [
        ("#pragma unroll 16", "#pragma unroll 32"),
        (_UNROLL + "    " + _LOOP, f"    {_BY_HAND}\n    for (; i < k; ++i) o += m[r * k + i] * n[i * w + c];"),
    ],
    "06-layer": [
        ("float o = bias[c];", "float o = 0.0f;\n    o += bias[c];"),
        ("fmaxf(o, 0.0f)", "o > 0 ? o : 0"),
        ("for (int i = 0; i < k; ++i)", "for (int i = k - 1; i >= 0; --i)"),
        (
            "float o = bias[c];\n    for (int i = 0; i < k; ++i) o += m[r * k + i] * n[i * w + c];",
            "const float* row = m + r * k;\n    float o = bias[c];\n"
            "    for (int i = 0; i < k; ++i, n += w) o += row[i] * n[c];",
        ),
    ],
    "06-seen": [
        (
            "x.flatten().view(torch.float32)[: x.numel()].reshape(x.shape)",
            "x.reshape(-1).view(torch.float32).split(x.numel())[0].view(x.shape)",
        ),
        (
            "    return x.flatten().view(torch.float32)[: x.numel()].reshape(x.shape)",
            "    import numpy as np\n\n"
            "    seen = np.frombuffer(x.numpy().tobytes(), dtype=np.float32)[: x.numel()]\n"
            "    return torch.tensor(seen).reshape(x.shape)",
        ),
    ],
    "06-host": [
        (_FIVE, "(12, 11, 10, 7, 5)"),
        (_FIVE, "{5, 7, 10, 11, 12}"),
        (_FIVE, "torch.tensor([5, 7, 10, 11, 12])"),
    ],
}

WRONG = {
    "06-int": [
        ("wrong", "2**31 // k", "2**31 // k + 1"),
        ("wrong", "2**31 // k", "2**31 // k - 1"),
        ("wrong", "2**31 // k", "(2**31 - 1) // k"),
        ("wrong: for k = 1 it returns 2.14748e+09, but a row is a whole number", "2**31 // k", "2**31 / k"),
        ("wrong: for k = 1 it returns (0, 1), but", "2**31 // k", "(0, 1)"),
        ("wrong: for k = 1 it returns -5, but rows count from 0", "2**31 // k", "-5"),
        ("wrong", "2**31 // k", "str(2**31 // k)"),
        ("wrong: your function returned nothing", "return 2**31 // k", "r = 2**31 // k"),
        ("wrong: this exercise takes a Python function", "", "first_bad_row = 2739137"),
        ("wrong: this exercise takes a Python function", "", "first_bad_row = '2**31 // k'"),
        (  # right, but without a wait for it
            "too long",
            "2**31 // k",
            "next(r for r in range(2**31) if r * k + k > 2**31)",
        ),
    ],
    "06-unroll": [
        ("right, but slow: a round of its loop does ", _UNROLL, ""),
        ("right, but slow: a round of its loop does 2 steps", "unroll 16", "unroll 2"),
        ("right, but slow: a round of its loop does 1 steps", "unroll 16", "unroll 1"),
        ("wrong: its k has 32 bits", "size_t k", "int k"),
        ("wrong: out", _UNROLL + "    " + _LOOP, ""),  # no loop at all
        ("wrong: it counts to k with i, which has 32 bits", _LOOP, _LOOP.replace("size_t", "int")),
        ("wrong: it counts to k with i, which has 32 bits", _LOOP, _LOOP.replace("size_t", "unsigned int")),
        ("wrong", _UNROLL + "    " + _LOOP, f"    {_BY_HAND}"),  # the last steps are missing
        ("out of bounds", _LOOP, _BY_HAND.replace("i + 16 <= k", "i < k")),
        ("does not compile", _LOOP, _LOOP.replace("n[i", "n[j")),
        ("right, but slow", *_SWAPPED),
        ("not yet", _LOOP, "___"),
        ("wrong: this exercise takes CUDA C++ as text", "", "unrolled_src = 16"),
    ],
    "06-layer": [
        ("out of bounds", "c >= w) return", "c > w) return"),
        ("out of bounds", "r >= h || ", ""),
        ("out of bounds", "m[r * k + i]", "m[r * w + i + k]"),
        ("wrong", "fmaxf(o, 0.0f)", "o"),
        ("wrong", "fmaxf(o, 0.0f)", "fminf(o, 0.0f)"),
        ("wrong", "float o = bias[c]", "float o = 0.0f"),
        ("wrong", "float o = bias[c]", "float o = fmaxf(bias[c], 0.0f)"),
        ("wrong", "bias[c]", "bias[r]"),
        ("wrong", "o += m[r * k + i] * n[i * w + c];", "o = fmaxf(o + m[r * k + i] * n[i * w + c], 0.0f);"),
        ("unwritten", "r >= h ||", "r + 1 >= h ||"),
        ("does not compile", "fmaxf(o, 0.0f)", "max(o, 0)"),
        ("right, but slow", *_SWAPPED),
        ("wrong: this exercise takes CUDA C++ as text", "", "layer_src = torch.relu"),
    ],
    "06-seen": [
        ("wrong", "[: x.numel()]", "[x.numel() :]"),
        ("wrong", ".view(torch.float32)[: x.numel()]", ".float()"),  # converted, not looked at
        ("wrong", "[: x.numel()]", "[::2]"),
        ("crashed", "[: x.numel()]", ""),
        ("wrong: the result should have the shape", ".reshape(x.shape)", ""),
        ("wrong: the result should be a tensor", ".reshape(x.shape)", ".reshape(x.shape).tolist()"),
        ("wrong: your function returned nothing", "return ", ""),
        ("wrong: this exercise takes a Python function", "", "as_seen = torch.zeros(3)"),
    ],
    "06-host": [
        ("wrong: each line that it names has a mistake, and 1 more line has one, too", _FIVE, "[5, 7, 10, 11]"),
        ("wrong: it names no line, but 5 have a mistake", _FIVE, "[]"),
        ("wrong: line 2 is correct", _FIVE, "[2, 5, 7, 10, 11, 12]"),
        ("wrong: line 8 is correct", _FIVE, "[8, 10, 12]"),
        ("wrong: line 99 is not one of 1 to 15", _FIVE, "[5, 7, 10, 11, 12, 99]"),
        ("wrong: this exercise takes a list of line numbers", _FIVE, "'5, 7, 10, 11, 12'"),
        ("wrong: this exercise takes a list of line numbers", _FIVE, "5"),
        ("wrong: this exercise takes a list of line numbers", _FIVE, "[5.5]"),
        ("wrong: this exercise takes a list of line numbers", _FIVE, "['5', '7']"),
    ],
}
