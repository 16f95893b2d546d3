"""Other answers to the exercises of lesson 12: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_COPY_WAIT_SUM = """\
        if (tile < 7)
            __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();  // also where nothing was begun: an empty batch has come at once
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += buffer[tile % 2][63 - t];
        __syncthreads();  // otherwise a thread fills the buffer that others still read
"""

_OWN_SUM = "    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);\n"
_OF_ROWS = "            for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffff, sum, half);\n"
_BOTH = """            float b = n[i * w + c];
            sums[0][c] += a0 * b;
            sums[1][c] += a1 * b;
"""
_TOP_OF_THREE = """        __pipeline_wait_prior(1);
        __syncthreads();  // otherwise copies of others are missing, or begin too early
        if (tile < 6)
            __pipeline_memcpy_async(&buffer[(tile + 2) % 3][t], mine + 64 * (tile + 2) + t, 4);
        __pipeline_commit();
"""

WRONG = {
    "12-busy": [
        ("wrong: this exercise takes a Python function", "", "busy = 0.73"),
        ("wrong: this exercise takes a Python function", "", "busy = '73 %'"),
        ("wrong: your function returned nothing", "    return blocks /", "    blocks /"),
        ("wrong", "cdiv(w, columns)", "cdiv(h, columns)"),
        ("crashed", "cdiv(blocks, slots)", "(blocks // slots)"),
        ("wrong", "slots * cdiv(blocks, slots)", "slots"),
        ("wrong", "blocks / (slots * cdiv(blocks, slots)) if blocks else 0", "1.0"),
        ("crashed", " if blocks else 0", ""),
    ],
    "12-sums": [
        ("wrong: this exercise takes CUDA C++ as text", "", "row_sums = [1, 2]"),
        ("wrong", _OWN_SUM, ""),
        ("wrong", "half = 16", "half = 8"),
        ("raced", "threadIdx.x % 32", "threadIdx.x % 16"),
        ("out of bounds", "    if (r >= h) return;  // guard: the whole warp leaves\n", ""),
        ("out of bounds", "i < w", "i <= w"),
        ("unwritten", "if (lane == 0) out[r] = sum;", "if (lane == 32) out[r] = sum;"),
        ("raced", "if (lane == 0) out[r] = sum;", "out[r] = sum + lane;"),
        (
            "crashed",  # lanes that have nothing to read do not come to the shuffles
            "    float sum = 0.0f;\n",
            "    if (lane >= w) return;\n    float sum = 0.0f;\n",
        ),
        (
            "right, but slow",
            "    for (int i = lane; i < w; i += 32) sum += x[size_t(r) * w + i];\n" + _OWN_SUM,
            "    for (int i = 0; i < w; ++i) sum += x[size_t(r) * w + i];\n",
        ),
        (
            "right, but slow",
            _OWN_SUM,
            """    __shared__ float sums[256];
    sums[threadIdx.x] = sum;
    __syncwarp();
    if (lane == 0)
        for (int i = 1; i < 32; ++i) sum += sums[threadIdx.x + i];
""",
        ),
    ],
    "12-rows": [
        ("wrong: this exercise takes CUDA C++ as text", "", "two_rows = 2.0"),
        ("out of bounds", "min(r + 1, h - 1)", "r + 1"),
        ("out of bounds", "lane == 0 && r + t < h", "lane == 0"),
        ("wrong", "sums[1][c] += a1 * b", "sums[1][c] += a0 * b"),
        ("wrong", _OF_ROWS, ""),
        ("wrong", "int i = lane; i < k; i += 32", "int i = lane; i < k; i += 64"),
        ("unwritten", "for (int t = 0; t < 2; ++t)", "for (int t = 0; t < 1; ++t)"),
        (
            "right, but slow",  # n is read for each row
            "    for (int t = 0; t < 2; ++t)\n",
            """    for (int t = 0; t < 2; ++t)
        for (int c = 0; c < w; ++c) {
            sums[t][c] = 0.0f;
            for (int i = lane; i < k; i += 32) sums[t][c] += m[size_t(t ? r1 : r) * k + i] * n[i * w + c];
        }
    for (int t = 0; t < 2; ++t)
""",
        ),
    ],
    "12-three": [
        ("raced", "__pipeline_wait_prior(1)", "__pipeline_wait_prior(2)"),
        ("raced", "        __pipeline_wait_prior(1);\n", ""),
        ("raced", "        __syncthreads();  // otherwise copies", "        // copies"),
        (
            "raced",  # the last tile is not waited for
            "        __pipeline_commit();\n        sum +=",
            "        if (tile < 6) __pipeline_commit();\n        sum +=",
        ),
        ("raced", "buffer[(tile + 2) % 3]", "buffer[(tile + 1) % 3]"),
        ("out of bounds", "buffer[(tile + 2) % 3]", "buffer[(tile + 2) % 4]"),
        ("out of bounds", "tile < 6", "tile < 7"),
        ("right, but slow", "__pipeline_wait_prior(1)", "__pipeline_wait_prior(0)"),
    ],
    "12-pipeline": [
        ("raced", "        __syncthreads();  // otherwise a thread fills the buffer that others still read\n", ""),
        (
            "raced",
            "        __pipeline_wait_prior(1);\n        __syncthreads();\n",
            "        __pipeline_wait_prior(1);\n",
        ),
        ("raced", "        __pipeline_wait_prior(1);\n", ""),
        (
            "raced",  # the last tile is not waited for
            "        __pipeline_commit();  // also where nothing was begun: an empty batch has come at once\n",
            "        if (tile < 7) __pipeline_commit();\n",
        ),
        ("out of bounds", "tile < 7", "tile < 8"),
        ("raced", "buffer[tile % 2]", "buffer[(tile + 1) % 2]"),
        ("right, but slow", "__pipeline_wait_prior(1)", "__pipeline_wait_prior(0)"),
        (
            "right, but slow",  # the copy starts after the sum
            _COPY_WAIT_SUM,
            """        __pipeline_wait_prior(0);
        __syncthreads();
        sum = sum + buffer[tile % 2][63 - t];
        if (tile < 7)
            __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();
""",
        ),
        (
            "right, but slow",  # loads, no copies
            """    __pipeline_memcpy_async(&buffer[0][t], mine + t, 4);
    __pipeline_commit();
    for (int tile = 0; tile < 8; ++tile) {
        if (tile < 7)
            __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();  // also where nothing was begun: an empty batch has come at once
        __pipeline_wait_prior(1);
""",
            """    for (int tile = 0; tile < 8; ++tile) {
        buffer[tile % 2][t] = mine[64 * tile + t];
""",
        ),
    ],
}

RIGHT = {
    "12-busy": [
        ("blocks / (slots * cdiv(blocks, slots))", "blocks / (slots * ((blocks + slots - 1) // slots))"),
        ("blocks / (slots * cdiv(blocks, slots)) if blocks else 0", "blocks / max(1, slots * -(-blocks // slots))"),
    ],
    "12-sums": [
        ("__shfl_xor_sync", "__shfl_down_sync"),
        (_OWN_SUM, _OWN_SUM.replace("half = 16; half > 0; half /= 2", "half = 1; half < 32; half *= 2")),
        ("if (lane == 0) out[r] = sum;", "if (lane == 31) out[r] = sum;"),
    ],
    "12-rows": [
        (_BOTH, _BOTH.replace("n[i * w + c]", "__ldg(n + i * w + c)")),
        (
            _OF_ROWS + "            if (lane == 0 && r + t < h) out",
            _OF_ROWS.replace("xor", "down") + "            if (lane == 0 && r + t < h) out",
        ),
    ],
    "12-three": [
        (
            _TOP_OF_THREE,
            """        if (tile < 7)
            __pipeline_wait_prior(1);
        else __pipeline_wait_prior(0);
        __syncthreads();
        if (tile < 6) {
            __pipeline_memcpy_async(&buffer[(tile + 2) % 3][t], mine + 64 * (tile + 2) + t, 4);
            __pipeline_commit();
        }
""",
        ),
        (
            "        sum += buffer[tile % 3][63 - t];\n",
            "        sum = sum + buffer[tile - tile / 3 * 3][63 - t];\n",
        ),
    ],
    "12-pipeline": [
        (
            _COPY_WAIT_SUM,
            """        __pipeline_wait_prior(0);
        __syncthreads();
        if (tile < 7)
            __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();
        sum += buffer[tile % 2][63 - t];
""",
        ),
        (
            "    for (int tile = 0; tile < 8; ++tile) {\n" + _COPY_WAIT_SUM,  # the wait is at the bottom
            """    __pipeline_wait_prior(0);
    __syncthreads();
    for (int tile = 0; tile < 8; ++tile) {
        if (tile < 7)
            __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();
        sum += buffer[tile % 2][63 - t];
        __pipeline_wait_prior(0);
        __syncthreads();
""",
        ),
        (
            "    for (int tile = 0; tile < 8; ++tile) {\n" + _COPY_WAIT_SUM,
            """    auto fetch = [&](int tile) {
        if (tile < 8) __pipeline_memcpy_async(&buffer[tile % 2][t], mine + 64 * tile + t, 4);
        __pipeline_commit();
    };
    for (int tile = 0; tile < 8; ++tile) {
        __pipeline_wait_prior(0);
        __syncthreads();
        fetch(tile + 1);
        sum += buffer[tile % 2][63 - t];
""",
        ),
        (
            """        __pipeline_wait_prior(1);
""",
            """        if (tile < 7)
            __pipeline_wait_prior(1);
        else __pipeline_wait_prior(0);
""",
        ),
    ],
}
