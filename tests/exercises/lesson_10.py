"""Other answers to the exercises of lesson 10: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_COPY_WAIT_SUM = """\
        if (tile < 7) __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();  // also where nothing was begun: an empty batch has come at once
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += buffer[tile % 2][63 - t];
        __syncthreads();  // otherwise a thread fills the buffer that others still read
"""

WRONG = {
    "10-cycles": [
        ("wrong", "max(fmas * (1 + reads) / 4, fmas * passes)", "fmas * (1 + reads) / 4 + fmas * passes"),
        ("wrong", "(1 + reads)", "reads"),  # the FMAs themselves take turns as well
        ("wrong", "/ 4, fmas", ", fmas"),  # one scheduler
        ("wrong", "fmas * passes", "fmas * passes / 4"),  # one pass for each scheduler
        ("wrong", "max(", "min("),
    ],
    "10-row": [
        ("wrong", "m_tile[tr][i]", "m_tile[i][tr]"),
        ("wrong", "i < 16", "i < 15"),
        ("wrong", "n_tile[i][tc + 16 * u]", "n_tile[i][4 * tc + u]"),  # other columns than those that are stored
        ("out of bounds", "n_tile[i][tc + 16 * u]", "n_tile[i][tc + 64 * u]"),
        ("wrong", "sums[u] += a", "sums[u] = a"),
        ("raced", "        }\n        __syncthreads();\n", "        }\n"),
        ("right, but slow", "float a = m_tile[tr][i];", "float a = r < h && start + i < k ? m[r * k + start + i] : 0;"),
        ("right, but slow", "tc + 16 * u", "4 * tc + u"),  # a thread's columns side by side: lanes share banks
    ],
    "10-lanes": [
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 8, lane % 8"),  # row by row
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane % 4, lane // 4"),  # column by column
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 2 % 8, lane // 16 * 2 + lane % 2"),  # 8 x 4
        ("wrong", "lane // 8 * 2 + lane % 2", "lane // 8"),  # two lanes in one place
    ],
    "10-pipeline": [
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
        if (tile < 7) __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();
""",
        ),
        (
            "right, but slow",  # loads, no copies
            """    __pipeline_memcpy_async(&buffer[0][t], mine + t, 4);
    __pipeline_commit();
    for (int tile = 0; tile < 8; ++tile) {
        if (tile < 7) __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
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
    "10-row": [("float a = m_tile[tr][i];\n", "const float a = m_tile[tr][i];\n#pragma unroll\n")],
    "10-lanes": [
        ("return lane // 2 % 4, lane // 8 * 2 + lane % 2", "return [lane // 2 % 4, lane // 8 * 2 + lane % 2]"),
        ("lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane % 2 + lane // 4 % 2 * 2, lane // 2 % 2 + lane // 8 * 2"),
        (
            "return lane // 2 % 4, lane // 8 * 2 + lane % 2",  # the halves of the warp, each with pairs of its own
            """one, two = (lane % 2, lane // 2 % 2) if lane < 16 else (lane // 2 % 2, lane % 2)
    return lane // 4 % 2 * 2 + two, lane // 8 * 2 + one""",
        ),
    ],
    "10-pipeline": [
        (
            _COPY_WAIT_SUM,
            """        __pipeline_wait_prior(0);
        __syncthreads();
        if (tile < 7) __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
        __pipeline_commit();
        sum += buffer[tile % 2][63 - t];
""",
        ),
        (
            "    for (int tile = 0; tile < 8; ++tile) {\n" + _COPY_WAIT_SUM,  # the wait is at the bottom
            """    __pipeline_wait_prior(0);
    __syncthreads();
    for (int tile = 0; tile < 8; ++tile) {
        if (tile < 7) __pipeline_memcpy_async(&buffer[(tile + 1) % 2][t], mine + 64 * (tile + 1) + t, 4);
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
            """        if (tile < 7) __pipeline_wait_prior(1);
        else __pipeline_wait_prior(0);
""",
        ),
    ],
}
