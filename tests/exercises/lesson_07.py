"""Other answers to the exercises of lesson 07: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_LOAD_M = "        if (tc < 8) m_tile[tr][tc] = r < h && start + tc < k ? m[r * k + start + tc] : 0.0f;\n"
_STEPS = "        for (int i = 0; i < 8; ++i) o += m_tile[tr][i] * n_tile[i][tc];\n"

WRONG = {
    "07-sum": [
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
        ("raced", "    __syncthreads();", "    //"),
        ("crashed", "    tile[t] = i < n ? x[i] : 0.0f;\n", "    if (i >= n) return;\n    tile[t] = x[i];\n"),
        ("crashed", "    __syncthreads();", "    if (i < n) __syncthreads();"),
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
        ("raced", "__syncthreads();  // otherwise a thread reads", "//"),
        ("raced", "__syncthreads();  // otherwise a thread loads", "//"),
        ("crashed", _LOAD_M, _LOAD_M.replace("if (tc < 8) ", "if (tc < 8) { ").rstrip() + " __syncthreads(); }\n"),
        ("crashed", "    float o = 0.0f;\n", "    if (r >= h || c >= w) return;\n    float o = 0.0f;\n"),
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
    "07-sum": [
        (_ROUNDS, _ALONE.format("sum(shared)")),
        (_ROUNDS, _ALONE.format("sum(v for v in shared)")),
        (_ROUNDS, _ALONE.format("sum(shared[: blockdim.x])")),
    ]
}
WRONG["07-sum"].append(("raced", _ROUNDS, _ALONE.format("sum(shared)").removeprefix("    syncthreads()\n")))
