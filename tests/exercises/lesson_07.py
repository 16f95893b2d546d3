"""Other answers to the exercises of lesson 07: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_LOAD_M = "        if (tc < 8) m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;\n"
_LOAD_M_BY_TWO_WARPS = """        int e = tr * 32 + tc, row = blockIdx.y * 8 + e / 8, at = start + e % 8;
        if (e < 64) m_tile[e / 8][e % 8] = row < h && at < k ? m[row * k + at] : 0.0f;
"""
_STEPS = "        for (int i = 0; i < 8; ++i) o += m_tile[tr][i] * n_tile[i][tc];\n"

_BARRIER = "    __syncthreads();  // otherwise a thread adds numbers that others have not loaded yet\n"
_GUARD = "    if (i >= n) return;  // guard\n"
_LOOP = "for (int j = t; j < 128 + 2 * radius; j += 128) {"
_ONE_ELSE = "for (int j = t; j < 128 + 2 * radius; j += 128 + 2 * radius) {"

WRONG = {
    "07-sum": [
        ("wrong: this exercise takes a Python function", "", "block_sum_bk = 'sum'"),
        ("wrong: this exercise takes a Python function", "", "def block_sum_bk(x, out, n):\n    out[0] = sum(x)"),
        ("raced", "        syncthreads()\n", ""),
        ("raced", "    while half > 0:\n        syncthreads()\n", "    syncthreads()\n    while half > 0:\n"),
        (
            "crashed",
            "        syncthreads()\n        if t < half:\n",
            "        if t < half:\n            syncthreads()\n",
        ),
        (
            "crashed",
            "    t = threadidx.x\n",
            "    t = threadidx.x\n    if i >= n:\n        return\n",
        ),  # the others wait
        ("out of bounds", "x[i] if i < n else 0.0", "x[i]"),
        ("out of bounds", "i < n", "i <= n"),
        ("wrong", "blockdim.x // 2", "blockdim.x // 4"),  # half of the elements are left out
        ("unwritten", "out[blockidx.x] =", "return"),
        (
            "right, but slow",
            "    t = threadidx.x\n",
            "    t = threadidx.x\n"
            "    if t == 0:\n"
            "        out[blockidx.x] = sum(x[j] for j in range(i, min(i + blockdim.x, n)))\n"
            "    return\n",
        ),
    ],
    "07-neighbours": [
        ("wrong: this exercise takes CUDA C++ as text", "", "neighbours = 3"),
        ("raced", "    __syncthreads();", "    //"),
        ("stuck", "    tile[t] = i < n ? x[i] : 0.0f;\n", "    if (i >= n) return;\n    tile[t] = x[i];\n"),
        ("stuck", "    __syncthreads();", "    if (i < n) __syncthreads();"),
        ("uninitialized", "    tile[t] = i < n ? x[i] : 0.0f;\n", "    if (i < n) tile[t] = x[i];\n"),
        ("out of bounds", "i + 1 < n", "i < n"),
        ("out of bounds", "if (i < n) out", "if (i <= n) out"),
        ("out of bounds", "tile[130]", "tile[128]"),
        ("wrong", "i > 0 ? x[i - 1] : 0.0f", "0.0f"),
        (
            "right, but slow",
            "out[i] = tile[t - 1] + tile[t] + tile[t + 1]",
            "out[i] = (i > 0 ? x[i - 1] : 0.0f) + x[i] + (i + 1 < n ? x[i + 1] : 0.0f)",
        ),
    ],
    "07-rectangle": [
        ("wrong: this exercise takes CUDA C++ as text", "", "rectangle = [8, 32]"),
        ("raced", "__syncthreads();  // otherwise a thread reads", "//"),
        ("raced", "__syncthreads();  // otherwise a thread loads", "//"),
        ("stuck", _LOAD_M, _LOAD_M.replace("if (tc < 8) ", "if (tc < 8) { ").rstrip() + " __syncthreads(); }\n"),
        ("stuck", "    float o = 0.0f;\n", "    if (r >= h || c >= w) return;\n    float o = 0.0f;\n"),
        ("out of bounds", "if (tc < 8) ", ""),
        ("out of bounds", "start + tr < k && c < w", "start + tr < k"),
        ("wrong", "m_tile[tr][i] * n_tile[i][tc]", "m_tile[i][tr] * n_tile[i][tc]"),
        (
            "right, but slow",
            _STEPS,
            "        for (int i = start; i < start + 8 && i < k; ++i)\n"
            "            if (r < h && c < w) o += m[r * k + i] * n[i * w + c];\n",
        ),
    ],
    "07-window": [
        ("raced", "    __syncthreads();", "    //"),
        ("stuck", _BARRIER + _GUARD, _GUARD + _BARRIER),
        ("out of bounds", "from >= 0 && ", ""),
        ("out of bounds", "from < n ?", "from <= n ?"),
        ("out of bounds", "    if (i >= n) return;  // guard\n", ""),
        ("uninitialized", _LOOP, _ONE_ELSE),  # as in exercise 2: too few threads where radius is large
        ("uninitialized", "j < 128 + 2 * radius", "j < 128 + radius"),
        ("wrong", "j <= 2 * radius", "j < 2 * radius"),
        ("wrong", "128 - radius + j", "128 - 1 + j"),
        ("unwritten", "if (i >= n) return", "if (i + 1 >= n) return"),
        ("does not compile", "extern __shared__ float tile[]", "__shared__ float tile[128 + 2 * radius]"),
        (
            "right, but slow: yours makes 2,",
            "tile[t + j]",
            "(i - radius + j >= 0 && i - radius + j < n ? x[i - radius + j] : 0.0f)",
        ),
        (
            "right, but slow: yours makes",
            "for (int j = t; j < 128 + 2 * radius; j += 128) {",
            "if (t == 0) for (int j = 0; j < 128 + 2 * radius; ++j) {",
        ),
        ("wrong: this exercise takes CUDA C++ as text", "", "window = torch.nn.AvgPool1d(3)"),
    ],
}

_ROUNDS = """    half = blockdim.x // 2
    while half > 0:
        syncthreads()
        if t < half:
            shared[t] += shared[t + half]
        half = half // 2
    if t == 0:
        out[blockidx.x] = shared[0]"""
_ALONE = "    syncthreads()\n    if t == 0:\n        out[blockidx.x] = {}"

# No more requests than needed, but each of them reads from many places: only the sectors show it.
WRONG["07-neighbours"].append(
    (
        "right, but slow",
        "    int i = blockIdx.x * 128 + threadIdx.x;\n    int t = threadIdx.x + 1;",
        "    int t = threadIdx.x % 16 * 8 + threadIdx.x / 16 + 1;\n    int i = blockIdx.x * 128 + t - 1;",
    )
)
_LOAD_N = "        n_tile[tr][tc] = start + tr < k && c < w ? n[(start + tr) * w + c] : 0.0f;\n"
WRONG["07-rectangle"].append(
    (
        "right, but slow",
        _LOAD_N,
        """        int e = tr * 32 + tc, down = e % 8, right = e / 8, to = blockIdx.x * 32 + right;
        n_tile[down][right] = start + down < k && to < w ? n[(start + down) * w + to] : 0.0f;
""",
    )
)
RIGHT = {
    "07-neighbours": [
        (
            "    if (t == 1) tile[0] = i > 0 ? x[i - 1] : 0.0f;\n",
            "    if (t == 1) tile[0] = blockIdx.x ? x[i - 1] : 0;\n",
        ),
        ("    if (i < n) out[i] =", "    if (i >= n) return;\n    out[i] ="),
        ("tile[t - 1] + tile[t] + tile[t + 1]", "tile[t + 1] + (i < n ? x[i] : 0.0f) + tile[t - 1]"),
    ],
    "07-window": [
        ("if (i >= n) return;  // guard\n    float sum = 0.0f;", "float sum = 0.0f;\n    if (i >= n) return;"),
        ("for (int j = 0; j <= 2 * radius; ++j) sum +=", "for (int j = 2 * radius; j >= 0; --j) sum +="),
        (
            "        int from = int(blockIdx.x) * 128 - radius + j;\n"
            "        tile[j] = from >= 0 && from < n ? x[from] : 0.0f;  // guard\n",
            "        tile[j] = 0.0f;\n        int from = i - t - radius + j;\n"
            "        if (from >= 0 && from < n) tile[j] = x[from];\n",
        ),
    ],
    "07-rectangle": [
        ("for (int i = 0; i < 8; ++i)", "for (int i = 7; i >= 0; --i)"),
        (_LOAD_M, _LOAD_M_BY_TWO_WARPS),
    ],
    "07-sum": [
        (_ROUNDS, _ALONE.format("sum(shared)")),
        (_ROUNDS, _ALONE.format("sum(v for v in shared)")),
        (_ROUNDS, _ALONE.format("sum(shared[: blockdim.x])")),
    ],
}
WRONG["07-sum"].append(("raced", _ROUNDS, _ALONE.format("sum(shared)").removeprefix("    syncthreads()\n")))
