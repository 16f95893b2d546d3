"""Other answers to the exercises of lesson 11: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

# Rows of m for 11-square without the tile, as in lesson 06.
_FROM_MEMORY = """float a[2];
            for (int t = 0; t < 2; ++t)
                a[t] = r0 + 16 * t < h && start + i < k ? m[(r0 + 16 * t) * k + start + i] : 0.0f;"""

WRONG = {
    "11-cycles": [
        ("wrong", "max(fmas * (1 + reads) / 4, fmas * passes)", "fmas * (1 + reads) / 4 + fmas * passes"),
        ("wrong", "(1 + reads)", "reads"),  # the FMAs themselves take turns as well
        ("wrong", "/ 4, fmas", ", fmas"),  # one scheduler
        ("wrong", "fmas * passes", "fmas * passes / 4"),  # one pass for each scheduler
        ("wrong", "max(", "min("),
        ("wrong: your function returned nothing", "return max", "max"),
        ("wrong", "max(fmas * (1 + reads) / 4, fmas * passes)", "'4'"),
        ("wrong", "max(fmas * (1 + reads) / 4, fmas * passes)", "(fmas * (1 + reads) / 4, fmas * passes)"),
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
    "11-square": [
        ("wrong", "m_tile[tr + 16][i]", "m_tile[tr][i]"),
        ("wrong", "i < 16", "i < 15"),
        ("wrong", "sums[t][u] += a[t]", "sums[t][u] = a[t]"),
        ("out of bounds", "r < h && start + tc < k", "start + tc < k"),
        ("out of bounds", "if (r0 + 16 * t < h && c0 + 16 * u < w)  // guard\n", "if (r0 < h && c0 < w)\n"),
        ("raced", "        __syncthreads();  // otherwise a thread overwrites elements that others still read\n", ""),
        (
            "raced",
            "        __syncthreads();  // otherwise a thread reads elements that others have not loaded yet\n",
            "",
        ),
        ("unwritten", "(int u = 0; u < 2; ++u)\n            if", "(int u = 0; u < 1; ++u)\n            if"),
        ("right, but slow", "float a[2] = {m_tile[tr][i], m_tile[tr + 16][i]};", _FROM_MEMORY),
    ],
    "11-lanes": [
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 8, lane % 8"),  # row by row
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane % 4, lane // 4"),  # column by column
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 2 % 8, lane // 16 * 2 + lane % 2"),  # 8 x 4
        ("wrong", "lane // 8 * 2 + lane % 2", "lane // 8"),  # two lanes in one place
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "lane // 2 % 4"),  # a row alone
        ("wrong", "lane // 2 % 4, lane // 8 * 2 + lane % 2", "str(lane // 2 % 4), lane // 8 * 2 + lane % 2"),
        ("wrong: your function returned nothing", "return lane", "lane"),
    ],
}

RIGHT = {
    "11-cycles": [
        ("max(fmas * (1 + reads) / 4, fmas * passes)", "fmas / 4 * max(1 + reads, 4 * passes)"),
        ("max(fmas * (1 + reads) / 4, fmas * passes)", "sorted([(fmas + fmas * reads) * 0.25, passes * fmas])[-1]"),
    ],
    "11-row": [
        ("float a = m_tile[tr][i];\n", "const float a = m_tile[tr][i];\n#pragma unroll\n"),
        ("tc + 16 * u", "4 * tc + u"),  # a thread's columns side by side: nvcc reads four at once
        ("sums[u] += a *", "sums[u] += m_tile[tr][i] *"),  # nvcc reads it once
        (
            "for (int u = 0; u < 4; ++u) sums[u] += a * n_tile[i][tc + 16 * u];",
            """sums[0] += a * n_tile[i][tc];
            sums[1] += a * n_tile[i][tc + 16];
            sums[2] += a * n_tile[i][tc + 32];
            sums[3] += a * n_tile[i][tc + 48];""",
        ),
    ],
    "11-square": [
        (  # neighbours, where the solution has elements that are 16 apart
            "",
            '''square_src = r"""
__global__ void matmul_2x2(const float* m, const float* n, float* out, int h, int w, int k) {
    __shared__ float m_tile[32][16], n_tile[16][32];
    int thread = threadIdx.y * 16 + threadIdx.x, r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
    int tr = threadIdx.y * 2, tc = threadIdx.x * 2;
    float s = 0, right = 0, below = 0, across = 0;
    for (int start = 0; start < k; start += 16) {
        for (int i = thread; i < 512; i += 256) {
            int r = r0 + i / 16, j = start + i % 16;
            m_tile[i / 16][i % 16] = r < h && j < k ? m[r * k + j] : 0;
            j = start + i / 32;
            int c = c0 + i % 32;
            n_tile[i / 32][i % 32] = c < w && j < k ? n[j * w + c] : 0;
        }
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            float a = m_tile[tr][i], b = n_tile[i][tc], down = m_tile[tr + 1][i], next = n_tile[i][tc + 1];
            s += a * b, right += a * next, below += down * b, across += down * next;
        }
        __syncthreads();
    }
    int r = r0 + tr, c = c0 + tc;
    if (r < h && c < w) out[r * w + c] = s;
    if (r < h && c + 1 < w) out[r * w + c + 1] = right;
    if (r + 1 < h && c < w) out[(r + 1) * w + c] = below;
    if (r + 1 < h && c + 1 < w) out[(r + 1) * w + c + 1] = across;
}
"""
''',
        ),
        ("for (int i = 0; i < 16; ++i) {", "#pragma unroll\n        for (int i = 15; i >= 0; --i) {"),
        (  # nvcc reads each number once
            """float a[2] = {m_tile[tr][i], m_tile[tr + 16][i]};
            float b[2] = {n_tile[i][tc], n_tile[i][tc + 16]};
            for (int t = 0; t < 2; ++t)
                for (int u = 0; u < 2; ++u) sums[t][u] += a[t] * b[u];""",
            """for (int t = 0; t < 2; ++t)
                for (int u = 0; u < 2; ++u) sums[t][u] += m_tile[tr + 16 * t][i] * n_tile[i][tc + 16 * u];""",
        ),
        ("float sums[2][2] = {};", "float sums[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};"),
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
