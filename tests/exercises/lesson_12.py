"""Other answers to the exercises of lesson 12: what the solution has there, and what replaces it.

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
    "12-pipeline": [
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
