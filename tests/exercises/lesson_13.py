"""Other answers to the exercises of lesson 13: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_OF_A_WARP = "a * any(warp) + b * (not all(warp))"
_SHUFFLES = "for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(0xffffffff, sum, half);"
_STORE = "if (i < n && i % 32 == 0) out[i / 32] = sum;"
_KEEP_STORE = "    if (i < n) out[i - lane + place] = v > 0.0f ? v : 0.0f;\n"
_COUNT = "for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) atomicAdd(&counts[x[i]], 1);"
_ADD = "if (t < 64) atomicAdd(&out[t], counts[t]);"
_ZERO = "    if (t < 64) counts[t] = 0;\n"
_FIRST_BARRIER = "    __syncthreads();  // otherwise a bin is zeroed that another warp has already counted in\n"
_SECOND_BARRIER = "    __syncthreads();  // otherwise a bin is added to out that others still count in\n"
_WARP_BARRIER = "        __syncwarp();  // otherwise a lane reads what another has not stored yet\n"
_ROUND = "if (lane < half) largest[lane] = fmaxf(largest[lane], largest[lane + half]);"


def _kept_where(condition):
    return f'''keep_src = r"""
__global__ void keep_positive(const float* x, float* out, int* counts, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float v = i < n ? x[i] : -1.0f;
    bool keeps = {condition};
    unsigned int votes = __ballot_sync(0xffffffff, keeps);
    int below = __popc(votes & ((1u << lane) - 1)), kept = __popc(votes);
    if (i < n) out[i - lane + (keeps ? below : kept + lane - below)] = keeps ? v : 0.0f;
    if (i < n && lane == 0) counts[i / 32] = kept;
}}
"""
'''


RIGHT = {
    "13-slots": [
        (_OF_A_WARP, "(a if True in warp else 0) + (b if False in warp else 0)"),
        (_OF_A_WARP, "max(a * side for side in warp) + max(b * (1 - side) for side in warp)"),
        (
            "",
            "def slots(left, a, b):\n"
            "    votes = [(i // 32, bool(side)) for i, side in enumerate(left)]\n"
            "    return float(sum(a if side else b for _, side in set(votes)))\n",
        ),
        (
            "",
            "def slots(left, a, b):\n"
            "    total = 0\n"
            "    while left:  # an answer may use up its list\n"
            "        warp = [left.pop(0) for _ in range(min(32, len(left)))]\n"
            "        total += a * any(warp) + b * (not all(warp))\n"
            "    return total\n",
        ),
    ],
    "13-shuffle": [
        (_SHUFFLES, _SHUFFLES.replace("down", "xor")),
        (_SHUFFLES, "for (int d = 1; d < 32; d *= 2) sum += __shfl_down_sync(0xffffffff, sum, d);"),
        (_STORE, "if (i < n && threadIdx.x % 32 == 0) out[blockIdx.x * 8 + threadIdx.x / 32] = sum;"),
        (
            _SHUFFLES,
            "float all = 0.0f;\n    for (int from = 0; from < 32; ++from) all += __shfl_sync(0xffffffff, sum, from);\n"
            "    sum = all;",
        ),
    ],
    "13-keep": [
        ("", _kept_where("v > 0.0f")),
        ("__popc(votes & ((1u << lane) - 1))", "__popc(votes << (31 - lane) << 1)"),
        (
            "__popc(votes & ((1u << lane) - 1))",
            "__popc(votes & ~(0xffffffff << lane))",
        ),
        (
            "int place = v > 0.0f ? below : kept + lane - below;",
            "int place = below;\n    if (!(v > 0.0f)) place = kept + __popc(~votes & ((1u << lane) - 1));",
        ),
    ],
    "13-bins": [
        (
            "    if (t < 64) atomicAdd(&out[t], counts[t]);\n",
            "    for (int b = t; b < 64; b += 256) atomicAdd(out + b, counts[b]);\n",
        ),
        (
            "",
            'bins_src = r"""\n'
            "__global__ void bins(const int* x, int* out, int n) {\n"
            "    __shared__ int counts[64 * 32];\n"
            "    for (int k = threadIdx.x; k < 64 * 32; k += 256) counts[k] = 0;\n"
            "    __syncthreads();\n"
            "    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 1024)\n"
            "        atomicAdd(counts + 32 * x[i] + threadIdx.x % 32, 1);\n"
            "    __syncthreads();\n"
            "    if (threadIdx.x >= 64) return;\n"
            "    int sum = 0;\n"
            "    for (int k = 0; k < 32; ++k) sum += counts[32 * threadIdx.x + (k + threadIdx.x) % 32];\n"
            "    atomicAdd(out + threadIdx.x, sum);\n"
            "}\n"
            '"""',
        ),
    ],
    "13-step": [
        (_WARP_BARRIER, "        __syncthreads();\n"),
        (_ROUND, _ROUND + "\n        __syncwarp();"),
        (
            "",
            'max_src = r"""\n'
            "__global__ void row_max(const float* x, float* out) {\n"
            "    const float* row = x + 64 * blockIdx.x;\n"
            "    float largest = fmaxf(row[threadIdx.x], row[threadIdx.x + 32]);\n"
            "    for (int half = 16; half > 0; half /= 2)\n"
            "        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, half));\n"
            "    if (threadIdx.x == 0) out[blockIdx.x] = largest;\n"
            "}\n"
            '"""',
        ),
    ],
}

WRONG = {
    "13-slots": [
        ("wrong", _OF_A_WARP, "a * any(warp) + b * (not any(warp))"),  # one side only
        ("wrong", _OF_A_WARP, "a + b"),  # always both
        ("wrong", _OF_A_WARP, "a * sum(warp) + b * (len(warp) - sum(warp))"),  # by lanes
        ("wrong", "total += ", "total = "),  # the last warp alone
        ("wrong", "range(0, len(left), 32)", "range(0, len(left) // 32 * 32, 32)"),  # without the rest
        ("wrong", "first + 32", "first + 31"),
        ("wrong: your function returned nothing", "    return total", "    total"),
        ("wrong", "return total", "return [total]"),
        ("wrong: this exercise takes a Python function", "", "slots = 60"),
    ],
    "13-shuffle": [
        ("crashed", "    float sum = i < n ? x[i] : 0.0f;", "    if (i >= n) return;\n    float sum = x[i];"),
        ("raced", _STORE, "if (i < n) out[i / 32] = sum;"),
        ("out of bounds", "i < n ? x[i] : 0.0f", "x[i]"),
        ("out of bounds", _STORE, "if (i % 32 == 0) out[i / 32] = sum;"),
        ("wrong", "half = 16", "half = 8"),
        ("wrong", _STORE, "if (i < n && (i % 32 == 31 || i == n - 1)) out[i / 32] = sum;"),  # not lane 0
        ("crashed", _SHUFFLES, "if (i < n) " + _SHUFFLES),
        ("wrong", "0.0f;  // guard", "1.0f;  // guard"),
        ("does not compile", "0xffffffff, sum, half", "sum, half"),
        ("not yet", _SHUFFLES, "..."),
        ("not yet", "", 'sums_src = "__global__ void warp_sums(const float* x, float* out, int n) { ... }"'),
        (
            "uninitialized: thread (0,0,0) of block (0,0,0) updates out[0]",
            _STORE,
            "if (i < n) atomicAdd(&out[i / 32], x[i]);",
        ),
        ("wrong: `__activemask()` returns", "(0xffffffff, sum", "(__activemask(), sum"),
    ],
    "13-keep": [
        ("stuck", "    float v = i < n ? x[i] : 0.0f;", "    if (i >= n) return;\n    float v = x[i];"),
        ("unwritten", _KEEP_STORE, "    if (v > 0.0f) out[i - lane + below] = v;\n"),  # no zeros
        ("wrong", "counts[i / 32] = kept", "counts[i / 32] = 32 - kept"),
        ("wrong", "", _kept_where("v >= 0.0f")),
        ("wrong", "", _kept_where("v > 1e-4f")),
        ("out of bounds", "if (i < n) out", "out"),
        ("wrong", "out[i - lane + place]", "out[i]"),
        ("raced", "out[i - lane + place]", "out[place]"),
        ("raced", "if (i < n && lane == 0) counts[i / 32] = kept;", "if (i < n) counts[i / 32] = below;"),
        ("out of bounds", "(1u << lane) - 1)", "(2u << lane) - 1)"),  # counts itself
        (
            "right, but slow",
            "",
            'keep_src = r"""\n'
            "__global__ void keep_positive(const float* x, float* out, int* counts, int n) {\n"
            "    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;\n"
            "    if (i >= n) return;\n"
            "    int first = i - lane, below = 0, kept = 0;\n"
            "    for (int k = first; k < first + 32 && k < n; ++k) {\n"
            "        if (k < i && x[k] > 0.0f) ++below;\n"
            "        if (x[k] > 0.0f) ++kept;\n"
            "    }\n"
            "    float v = x[i];\n"
            "    out[first + (v > 0.0f ? below : kept + lane - below)] = v > 0.0f ? v : 0.0f;\n"
            "    if (lane == 0) counts[i / 32] = kept;\n"
            "}\n"
            '"""',
        ),
    ],
    "13-bins": [
        (
            "right, but slow",
            "",
            'bins_src = r"""\n'
            "__global__ void bins(const int* x, int* out, int n) {\n"
            "    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 1024) atomicAdd(&out[x[i]], 1);\n"
            "}\n"
            '"""',
        ),
        ("too long", _ADD, "if (t < 64) for (int i = 0; i < n * 1000; ++i) out[t] += x[i % n] == t;"),
        ("uninitialized", _ZERO, ""),
        ("raced", _FIRST_BARRIER, ""),
        ("raced", _SECOND_BARRIER, ""),
        ("raced", "atomicAdd(&counts[x[i]], 1)", "counts[x[i]] += 1"),
        ("raced", "atomicAdd(&out[t], counts[t])", "out[t] = counts[t]"),
        ("out of bounds", _ADD, "atomicAdd(&out[t], counts[t]);"),
        ("wrong", "i += gridDim.x * 256", "i += n"),  # one element per thread
        ("wrong", "i < n;", "i < n - 1;"),
        ("wrong", "blockIdx.x * 256 + t", "t"),  # every block counts everything
    ],
    "13-step": [
        ("raced", _WARP_BARRIER, ""),
        ("wrong", "half = 16", "half = 8"),
        (
            "stuck",
            _WARP_BARRIER + "        " + _ROUND,
            "        if (lane < half) { __syncwarp(); largest[lane] = fmaxf(largest[lane], largest[lane + half]); }",
        ),
        ("raced", "if (lane == 0) out[blockIdx.x] = largest[0];", "out[blockIdx.x] = largest[0] + 0 * lane;"),
        ("out of bounds", "if (lane < half) ", ""),
        ("raced", "out[blockIdx.x] =", "out[0] ="),
        ("wrong", "fmaxf(row[lane], row[lane + 32])", "row[lane]"),
        ("wrong", "fmaxf(row[lane], row[lane + 32])", "fmaxf(fmaxf(row[lane], row[lane + 32]), 0.0f)"),
    ],
}
