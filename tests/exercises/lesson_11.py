"""Other answers to the exercises of lesson 11: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "11-cycles": [
        ("wrong", "max(fmas * (1 + reads) / 4, fmas * passes)", "fmas * (1 + reads) / 4 + fmas * passes"),
        ("wrong", "(1 + reads)", "reads"),  # the FMAs themselves take turns as well
        ("wrong", "/ 4, fmas", ", fmas"),  # one scheduler
        ("wrong", "fmas * passes", "fmas * passes / 4"),  # one pass for each scheduler
        ("wrong", "max(", "min("),
    ],
    "11-row": [
        ("wrong", "m_tile[tr][i]", "m_tile[i][tr]"),
        ("wrong", "i < 16", "i < 15"),
        ("wrong", "n_tile[i][tc + 16 * u]", "n_tile[i][4 * tc + u]"),  # other columns than those that are stored
        ("out of bounds", "n_tile[i][tc + 16 * u]", "n_tile[i][tc + 64 * u]"),
        ("wrong", "sums[u] += a", "sums[u] = a"),
        ("raced", "        }\n        __syncthreads();\n", "        }\n"),
        ("right, but slow", "float a = m_tile[tr][i];", "float a = r < h && start + i < k ? m[r * k + start + i] : 0;"),
    ],
    "11-lanes": [
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 8, lane % 8"),  # row by row
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane % 4, lane // 4"),  # column by column
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 2 % 8, lane // 16 * 2 + lane % 2"),  # 8 x 4
        ("wrong", "lane // 8 * 2 + lane % 2", "lane // 8"),  # two lanes in one place
    ],
}

RIGHT = {
    "11-row": [
        ("float a = m_tile[tr][i];\n", "const float a = m_tile[tr][i];\n#pragma unroll\n"),
        ("tc + 16 * u", "4 * tc + u"),  # a thread's columns side by side: nvcc reads four at once
    ],
    "11-lanes": [
        ("return lane // 2 % 4, lane // 8 * 2 + lane % 2", "return [lane // 2 % 4, lane // 8 * 2 + lane % 2]"),
        ("lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane % 2 + lane // 4 % 2 * 2, lane // 2 % 2 + lane // 8 * 2"),
        (
            "return lane // 2 % 4, lane // 8 * 2 + lane % 2",  # the halves of the warp, each with pairs of its own
            """one, two = (lane % 2, lane // 2 % 2) if lane < 16 else (lane // 2 % 2, lane % 2)
    return lane // 4 % 2 * 2 + two, lane // 8 * 2 + one""",
        ),
    ],
}
