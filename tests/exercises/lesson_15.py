"""Other answers to the exercises of lesson 15: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_MERGED = "    m = max(a, b)\n    return m + math.log(math.exp(a - m) + math.exp(b - m))\n"
_GUARD = "    if (r >= h) return;  // guard: the whole warp leaves\n"
_SQUARES = "    for (int c = lane; c < w; c += 32) s += row[c] * row[c];\n"
_PRODUCTS = "    for (int c = lane; c < w; c += 32) s += y[first + c] * dy[first + c];\n"
_ONLINE = """        float n = fmaxf(m, row[c]);
        s = s * expf(m - n) + expf(row[c] - n);
        m = n;
"""
_STORE = "    for (int c = lane; c < w; c += 32) out[size_t(r) * w + c] = expf(row[c] - n) / s;\n"
_BARRIER = "    __syncthreads();  // otherwise warp 0 adds sums that other warps have not stored yet\n"
_DOWN = """column_sums = r'''
__global__ void column_sums(const float* x, float* out, int h, int w) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * 32;
    for (int c = first + warp; c < w && c < first + 32; c += 8) {  // a warp down a column
        float s = 0.0f;
        for (int r = lane; r < h; r += 32) s += x[size_t(r) * w + c];
        for (int half = 16; half > 0; half /= 2) s += __shfl_xor_sync(0xffffffff, s, half);
        if (lane == 0) out[c] = s;
    }
}
'''"""

_ONE_WARP = """column_sums = r'''
__global__ void column_sums(const float* x, float* out, int h, int w) {
    int c = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x >= 32 || c >= w) return;
    float s = 0.0f;
    for (int r = 0; r < h; ++r) s += x[size_t(r) * w + c];
    out[c] = s;
}
'''"""

WRONG = {
    "15-merge": [
        ("wrong: this exercise takes a Python function", "", "merged = 1.0"),
        ("wrong: your function returned nothing", "    return m +", "    m +"),
        ("crashed", _MERGED, "    return math.log(math.exp(a) + math.exp(b))\n"),
        ("crashed", "max(a, b)", "min(a, b)"),
        ("crashed", _MERGED, "    return a + math.log(1 + math.exp(b - a))\n"),
        ("wrong", "return m + math", "return math"),
        ("crashed", "math.exp(b - m))", "math.exp(b - a))"),
        ("wrong", _MERGED, "    return max(a, b)\n"),
        ("wrong", _MERGED, "    return a + b\n"),
    ],
    "15-rms": [
        ("wrong: this exercise takes CUDA C++ as text", "", "rms_norm = 2.0"),
        ("wrong", "s / w + eps", "s + eps"),
        ("wrong", "s / w + eps", "s / w"),
        ("wrong", "rsqrtf(s / w + eps)", "1.0f / (s / w + eps)"),
        ("wrong", " * weight[c]", ""),
        ("wrong", "    s = sum_of_warp(s);\n", ""),
        ("out of bounds", _GUARD, ""),
        ("out of bounds", "c < w; c += 32) s +=", "c <= w; c += 32) s +="),
        ("unwritten", "c < w; c += 32) out", "c < w / 32 * 32; c += 32) out"),
        (
            "right, but slow",  # each lane reads the whole row
            _SQUARES + "    s = sum_of_warp(s);\n",
            "    for (int c = 0; c < w; ++c) s += row[c] * row[c];\n",
        ),
    ],
    "15-hunt": [
        ("not yet", "", "repaired = None"),
        ("wrong: this exercise takes CUDA C++ as text", "", "repaired = 2"),
        ("wrong", "float m = -3.4e38f", "float m = -1000.0f"),
        ("wrong", "float m = -3.4e38f", "float m = -INFINITY"),  # half of a row is masked
        ("wrong", "s * expf(m - n) + expf(row[c] - n)", "s * expf(n - m) + expf(row[c] - n)"),
        ("wrong", "s * expf(m - n) + expf(row[c] - n)", "s + expf(row[c] - n)"),
        ("unwritten", _STORE, _STORE.replace("c < w;", "c < w / 32 * 32;")),
        ("wrong", "expf(row[c] - n) / s;", "expf(row[c]) / s;"),
        ("wrong", "float n = max_of_warp(m);", "float n = m;"),
        ("wrong", "sum_of_warp(s * expf(m - n))", "sum_of_warp(s)"),
        (
            "right, but slow",  # three passes, and one more for each lane
            "    for (int c = lane; c < w; c += 32) {\n" + _ONLINE + "    }\n",
            "    for (int c = 0; c < w; ++c) m = fmaxf(m, row[c]);\n"
            "    for (int c = lane; c < w; c += 32) s += expf(row[c] - m);\n",
        ),
    ],
    "15-gradient": [
        ("wrong: this exercise takes CUDA C++ as text", "", "gradient = 1"),
        ("wrong", "(dy[first + c] - s)", "dy[first + c]"),
        ("wrong", "y[first + c] * (dy", "(dy"),
        ("wrong", "s += y[first + c] * dy[first + c]", "s += dy[first + c]"),
        ("wrong", "    s = sum_of_warp(s);\n", ""),
        ("out of bounds", _GUARD, ""),
        ("unwritten", "c < w; c += 32) dx", "c < w; c += 64) dx"),
        (
            "right, but slow",
            _PRODUCTS + "    s = sum_of_warp(s);\n",
            "    for (int c = 0; c < w; ++c) s += y[first + c] * dy[first + c];\n",
        ),
    ],
    "15-columns": [
        ("wrong: this exercise takes CUDA C++ as text", "", "column_sums = 1"),
        ("raced", _BARRIER, ""),
        ("wrong", "r += 8", "r += 16"),
        ("wrong", "k < 8", "k < 7"),
        ("out of bounds", "    if (c < w)  // guard\n", ""),
        ("out of bounds", "warp > 0 || c >= w", "warp > 0"),
        ("stuck", "    sums[warp][lane] = s;\n", "    if (c >= w) return;\n    sums[warp][lane] = s;\n"),
        ("right, but slow", "", _DOWN),
        ("right, but slow: its warps", "", _ONE_WARP),
    ],
}

RIGHT = {
    "15-merge": [
        (_MERGED, "    return max(a, b) + math.log1p(math.exp(-abs(a - b)))\n"),
        (_MERGED, "    if a < b:\n        a, b = b, a\n    return a + math.log(1 + math.exp(b - a))\n"),
        (_MERGED, "    return torch.logsumexp(torch.tensor([a, b], dtype=torch.float64), 0).item()\n"),
    ],
    "15-rms": [
        ("rsqrtf(s / w + eps)", "1.0f / sqrtf(s / w + eps)"),
        (_SQUARES, "    for (int c = lane; c < w; c += 32) s = fmaf(row[c], row[c], s);\n"),
        ("row[c] * scale * weight[c]", "scale * (weight[c] * row[c])"),
    ],
    "15-hunt": [
        ("float m = -3.4e38f", "float m = -1e30f"),
        (_ONLINE, "        if (row[c] > m) s *= expf(m - row[c]), m = row[c];\n        s += expf(row[c] - m);\n"),
    ],
    "15-gradient": [
        (_PRODUCTS, "    for (int c = lane; c < w; c += 32) s = fmaf(y[first + c], dy[first + c], s);\n"),
        ("y[first + c] * (dy[first + c] - s)", "y[first + c] * dy[first + c] - y[first + c] * s"),
        (
            "    size_t first = size_t(r) * w;\n",
            "    y += size_t(r) * w, dy += size_t(r) * w, dx += size_t(r) * w;\n    size_t first = 0;\n",
        ),
    ],
    "15-columns": [
        ("    if (warp > 0 || c >= w) return;  // guard\n", "    if (threadIdx.x >= 32 || c >= w) return;\n"),
        (
            "    for (int k = 0; k < 8; ++k) s += sums[k][lane];\n",
            "    for (int k = 7; k >= 0; --k) s += sums[k][lane];\n",
        ),
    ],
}
