"""Other answers to the exercises of lesson 14: what the solution has there, what replaces it, and the verdict."""

_SHUFFLES = "    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);\n"
_MEAN = "(n_a * mean_a + n_b * mean_b) / n"
_M2 = "m2_a + n_a * (mean - mean_a) ** 2 + m2_b + n_b * (mean - mean_b) ** 2"
_MERGED = f"    mean = {_MEAN}\n    return n, mean, {_M2}"
_BARRIER = "        __syncthreads();  // otherwise a thread compares what another warp has not stored yet\n"
_NEXT_COUNT = "        __syncthreads();  // otherwise a warp that is ahead stores its next count while others add\n"
_FIRST_COUNT = "        __syncthreads();  // otherwise a thread adds counts that other warps have not stored yet\n"
_FENCE = "        __threadfence();  // otherwise another block may see the flag before the sum\n"
_TAKEN = "atomicAdd(next, 1)"


def _row_sums(body):
    return f'row_sums = r"""\n__global__ void row_sums(const float* x, float* out, int h, int w) {{\n{body}}}\n"""\n'


def _positive(body):
    return f'positive = r"""\n__global__ void positive(const float* x, float* out, int n) {{\n{body}}}\n"""\n'


_VOLATILE = '''look_back_fixed = r"""
__global__ void look_back(const float* x, int* next, volatile int* flags, volatile float* sums, float* out, int n) {
    __shared__ float before;
    __shared__ int tile;
    int t = threadIdx.x;
    if (t == 0) {
        tile = atomicAdd(next, 1);
        float sum = 0.0f;
        for (int k = tile * 256; k < tile * 256 + 256 && k < n; ++k) sum += x[k];
        while (tile > 0 && flags[tile - 1] == 0) {
        }
        before = tile > 0 ? sums[tile - 1] : 0.0f;
        sums[tile] = before + sum;
        flags[tile] = 1;
    }
    __syncthreads();
    float sum = before;
    for (int k = tile * 256; k <= tile * 256 + t && k < n; ++k) sum += x[k];
    if (tile * 256 + t < n) out[tile * 256 + t] = sum;
}
"""
'''

RIGHT = {
    "14-rows": [
        ("__shfl_down_sync", "__shfl_xor_sync"),
        (
            _SHUFFLES + "    if (lane == 0) out[r] = sum;\n",
            "    __shared__ float sums[256];\n"
            "    sums[threadIdx.x] = sum;\n"
            "    __syncwarp();\n"
            "    if (lane > 0) return;\n"
            "    for (int k = 1; k < 32; ++k) sum += sums[threadIdx.x + k];\n"
            "    out[r] = sum;\n",
        ),
        ("    if (r >= h) return;  // guard\n", "    if (r > h - 1) return;\n"),
    ],
    "14-largest": [
        ("-INFINITY", "x[n - 1 - (n - 1) % 256]"),  # an element of this block in place of those that are missing
        (
            "    for (int stride = 128; stride > 0; stride /= 2) {\n"
            f"{_BARRIER}"
            "        if (t < stride) best[t] = fmaxf(best[t], best[t + stride]);\n"
            "    }\n"
            "    if (t == 0) out[blockIdx.x] = best[0];\n",
            "    __syncthreads();\n"
            "    if (t > 0) return;\n"
            "    float most = best[0];\n"
            "    for (int k = 1; k < 256; ++k) most = fmaxf(most, best[k]);\n"
            "    out[blockIdx.x] = most;\n",
        ),
        ("fmaxf(best[t], best[t + stride])", "best[t] < best[t + stride] ? best[t + stride] : best[t]"),
    ],
    "14-merge": [
        (_M2, "m2_a + m2_b + (mean_b - mean_a) ** 2 * n_a * n_b / n"),
        (_MEAN, "mean_a + (mean_b - mean_a) * n_b / n"),
        (_MERGED, f"    mean = {_MEAN}\n    return [n, mean, {_M2}]"),
    ],
    "14-positive": [
        (  # a scan over the block in shared memory, in rounds
            "",
            _positive(
                "    __shared__ int sums[256];\n"
                "    int t = threadIdx.x, before = 0;\n"
                "    for (int first = 0; first < n; first += 256) {\n"
                "        float v = first + t < n ? x[first + t] : -1.0f;\n"
                "        sums[t] = v > 0.0f;\n"
                "        for (int below = 1; below < 256; below *= 2) {\n"
                "            __syncthreads();\n"
                "            int other = t >= below ? sums[t - below] : 0;\n"
                "            __syncthreads();\n"
                "            sums[t] += other;\n"
                "        }\n"
                "        __syncthreads();\n"
                "        if (v > 0.0f) out[before + sums[t] - 1] = v;\n"
                "        before += sums[255];\n"
                "        __syncthreads();\n"
                "    }\n"
            ),
        ),
        ("__popc(kept & ((1u << lane) - 1))", "__popc(kept << 1 << (31 - lane))"),
    ],
    "14-look-back": [
        ("        flags[tile] = 1;\n", "        atomicExch((int*)flags + tile, 1);\n"),
        ("((volatile float*)sums)[tile - 1]", "sums[tile - 1]"),  # the fence above orders it
    ],
}

WRONG = {
    "14-rows": [
        ("wrong", _SHUFFLES, ""),  # the sum of one lane
        ("wrong", "lanes = 16", "lanes = 8"),
        (
            "right, but slow",
            "int c = lane; c < w; c += 32",
            "int c = lane * ((w + 31) / 32); c < min(w, (lane + 1) * ((w + 31) / 32)); ++c",
        ),
        ("out of bounds", "    if (r >= h) return;  // guard\n", ""),
        ("raced", "blockIdx.x * 8 + threadIdx.x / 32", "threadIdx.x / 32"),
        ("raced", "if (lane == 0) out[r]", "out[r]"),
        (
            "right, but slow",
            "",
            _row_sums(
                "    int r = blockIdx.x * 8 + threadIdx.x / 32;\n"
                "    float sum = 0.0f;\n"
                "    if (r >= h || threadIdx.x % 32 > 0) return;\n"
                "    for (int c = 0; c < w; ++c) sum += x[r * w + c];\n"
                "    out[r] = sum;\n"
            ),
        ),
        ("does not compile", "__shfl_down_sync(0xffffffff, sum, lanes)", "__shfl_down(sum, lanes)"),
    ],
    "14-largest": [
        ("wrong", "-INFINITY", "0.0f"),
        ("wrong", "-INFINITY", "-1000.0f"),
        ("wrong", "-INFINITY", "x[0]"),
        ("raced", _BARRIER, ""),
        ("out of bounds", "t < stride", "t <= stride"),
        ("raced", "t < stride", "t <= stride && t < 128"),
        ("raced", _BARRIER, "        if (stride < 128) __syncthreads();\n"),
        ("wrong", "stride = 128", "stride = 64"),
        ("wrong", "stride > 0", "stride > 1"),
        ("unwritten", "if (t == 0) out", "if (t == 256) out"),
        ("out of bounds", "i < n ? x[i] : -INFINITY", "x[i]"),
    ],
    "14-merge": [
        ("wrong", _MEAN, "(mean_a + mean_b) / 2"),
        ("wrong", _M2, "m2_a + m2_b"),
        ("wrong", _M2, "m2_a + m2_b + (mean_b - mean_a) ** 2"),
        ("wrong", "n = n_a + n_b", "n = max(n_a, n_b)"),
        ("wrong: your function returned nothing", "    return n, mean", "    merged = n, mean"),
        ("wrong: your function should return three numbers", _MERGED, f"    mean = {_MEAN}\n    return n, mean"),
        ("wrong: your function should return three numbers", f"return n, mean, {_M2}", "return n"),
        ("wrong", "(mean - mean_b) ** 2", "(mean - mean_b)"),
        ("crashed", "/ n\n", "/ (n_a - n_a)\n"),
        ("wrong: this exercise takes a Python function", "", "merge = (2, 3.0, 2.0)"),
    ],
    "14-positive": [
        (
            "right, but slow",
            "",
            _positive(
                "    int place = 0;\n"
                "    if (threadIdx.x == 0)\n"
                "        for (int i = 0; i < n; ++i)\n"
                "            if (x[i] > 0.0f) out[place++] = x[i];\n"
            ),
        ),
        (
            "right, but slow: its warps",
            "",
            _positive(
                "    int lane = threadIdx.x, place = 0;\n"
                "    for (int first = 0; lane < 32 && first < n; first += 32) {\n"
                "        float v = first + lane < n ? x[first + lane] : 0.0f;\n"
                "        unsigned int kept = __ballot_sync(0xffffffff, v > 0.0f);\n"
                "        if (v > 0.0f) out[place + __popc(kept & ((1u << lane) - 1))] = v;\n"
                "        place += __popc(kept);\n"
                "    }\n"
            ),
        ),
        ("out of bounds", _FIRST_COUNT, ""),
        ("raced", _NEXT_COUNT, ""),
        ("out of bounds", "v > 0.0f) out", "v < 0.0f) out"),
        ("out of bounds", "v > 0.0f)", "v != 0.0f)"),
        ("raced", "if (k < warp) place += counts[k];", ""),
        ("unwritten", "first += 256", "first += 512"),
        ("unwritten", "            before += counts[k];\n", ""),
        ("wrong", "x[i] : 0.0f", "x[n - 1 - i] : 0.0f"),  # in reverse order
        ("out of bounds", "(1u << lane) - 1", "(2u << lane) - 1"),
    ],
    "14-look-back": [
        ("raced", _FENCE, ""),
        (
            "wrong: no trace sees it",
            "            __threadfence();  // otherwise the sum may be one from before the flag\n",
            "",
        ),
        ("raced", "", _VOLATILE),
        ("raced", _FENCE + "        flags[tile] = 1;\n", "        flags[tile] = 1;\n" + _FENCE),
        ("wrong: if the last block begins first", _TAKEN, "blockIdx.x"),
        ("wrong", "before = ((volatile float*)sums)[tile - 1];", "before += 0.0f;"),
        ("too long", "        flags[tile] = 1;\n", ""),  # nobody is told
        ("uninitialized", "sums[tile] = before + sum;", "sums[tile] = sums[tile] + sum;"),
        ("wrong", "sums[tile] = before + sum;", "sums[tile] = sum;"),
        ("out of bounds", " && k < n; ++k) sum += x[k];\n        before", "; ++k) sum += x[k];\n        before"),
    ],
}
