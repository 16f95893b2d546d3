"""Other answers to the exercises of lesson 10: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "10-median": [
        ("wrong", "    f()\n    wait()\n    samples", "    samples"),  # cold
        ("wrong", "    wait()\n    samples", "    samples"),  # the warm-up goes on in the first sample
        ("wrong", "        f()\n        wait()\n", "        f()\n"),  # started, not finished
        ("wrong", "        start = clock()\n        f()\n", "        f()\n        start = clock()\n"),
        ("wrong", "statistics.median", "statistics.mean"),
        ("wrong", "statistics.median", "min"),
        ("wrong", "range(repeat)", "range(repeat + 1)"),
        ("wrong", "    f()\n    wait()\n    samples", "    f()\n    f()\n    wait()\n    samples"),  # warm twice
        ("crashed", "range(repeat)", "range(0)"),
        ("wrong: your function returned nothing", "return statistics", "statistics"),
        ("wrong: your function should return a number of seconds, but it", "statistics.median(samples)", "samples"),
    ],
    "10-intensity": [
        ("wrong", "2 * h * w * k\n", "h * w * k\n"),  # the additions are left out
        ("wrong", " + h * w", ""),  # the result is stored, too
        ("wrong", "4 * (", "("),  # numbers, not bytes
        ("wrong", "h * k * (w / tile)", "h * k"),  # as if each number were loaded once
        ("wrong", "k * w * (h / tile)", "k * w * (h / tile**2)"),
        ("wrong", "return flops / moved", "return moved / flops"),
        ("wrong", "return flops / moved", "return 'flops / moved'"),
        ("wrong", "return flops / moved", "return flops, moved"),
        ("wrong: your function returned nothing", "return flops / moved", "flops / moved"),
    ],
    "10-bound": [
        ("wrong", "max(", "min("),
        ("wrong", "max(arithmetic, memory)", "arithmetic + memory"),  # they go on at the same time
        ("wrong", '"arithmetic" if', '"memory" if'),
        ("wrong", "arithmetic > memory", "flops > bytes"),
        ("wrong", "bytes / bandwidth", "bytes / peak"),
        ("wrong", "flops / peak", "peak / flops"),
        ("wrong", 'return max(arithmetic, memory), "arithmetic" if arithmetic > memory else "memory"', "return memory"),
        ("wrong", "return max(arithmetic, memory)", "return flops / min(peak, flops / bytes * bandwidth)"),  # no copy
    ],
    "10-hunt": [
        ("wrong", '"compiles while the clock runs": 6', '"compiles while the clock runs": 5'),
        ("wrong", '"stops too early": 9', '"stops too early": 4'),
        ("wrong", '"fits into the cache": 1', '"fits into the cache": 2'),
        ("wrong", '"checks nothing": 10', '"checks nothing": 3'),
        ("wrong", '"checks nothing": 10', '"checks nothing": "10"'),
        ("wrong: this exercise takes a dictionary", "", "mistakes = [6, 9, 1, 10]"),
        ("wrong: this exercise takes a dictionary", "", "mistakes = {6: 'compiles', 9: 'stops'}"),
    ],
    "10-place": [
        ("wrong: one pass: ", "8 / 16", "8 / 24"),
        ("wrong: two passes: 0.286 FLOP per byte is not the intensity: with 8 operations, that is 28", "24", "28"),
        ("wrong: two passes: ", "8 / 24", "8 / 6"),  # per number, not per byte
        ("wrong: two passes: ", "8 / 24", "24 / 8"),
        ("wrong: one pass: ", "8 / 16", "0"),
        ("wrong: one pass: ", "8 / 16", "-0.5"),
        ("wrong: this exercise takes a dictionary", "8 / 24", "'8 / 24'"),
        ("wrong: this exercise takes a dictionary", "", "places = 8 / 24, 8 / 16"),
        ("wrong: this exercise takes a dictionary", "", "places = {'one pass': 0.5}"),
    ],
    "10-fuse": [
        ("out of bounds", "if (i >= n / 4) return;  // guard", ""),
        ("out of bounds", "i >= n / 4", "i >= n"),  # pixels, not groups
        ("out of bounds", "i >= n / 4", "i > n / 4"),
        ("unwritten", "i >= n / 4", "i >= n / 16"),
        ("wrong", "x + n)", "x)"),
        ("wrong", "pixel(r.w, g.w, b.w)", "pixel(r.z, g.z, b.z)"),
        ("wrong", "return 1.5f * (gray - 0.5f) + 0.5f", "return gray"),
        ("wrong", "1.5f * (gray - 0.5f) + 0.5f", "1.5f * gray - 0.5f + 0.5f"),
        ("does not compile", "make_float4(", "(float4)("),
        (  # fused, but 4 bytes per thread at a time
            "right, but slow: yours makes 128 requests",
            """    float4 r = reinterpret_cast<const float4*>(x)[i];
    float4 g = reinterpret_cast<const float4*>(x + n)[i];
    float4 b = reinterpret_cast<const float4*>(x + 2 * n)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(
        pixel(r.x, g.x, b.x), pixel(r.y, g.y, b.y), pixel(r.z, g.z, b.z), pixel(r.w, g.w, b.w));""",
            "    for (size_t p = 4 * i; p < 4 * i + 4; ++p) out[p] = pixel(x[p], x[n + p], x[2 * n + p]);",
        ),
    ],
}

RIGHT = {
    "10-intensity": [
        ("return flops / moved", "from fractions import Fraction\n    return Fraction(flops, 1) / Fraction(moved)"),
        ("return flops / moved", "from fractions import Fraction\n    return Fraction(flops, int(moved))"),
        (
            "moved = 4 * (h * k * (w / tile) + k * w * (h / tile) + h * w)",  # number by number
            """moved = 0
    for row in range(0, h, tile):
        for column in range(0, w, tile):
            for step in range(0, k, tile):
                moved += sum(4 for _ in range(tile) for _ in range(tile)) * 2
            moved += 4 * tile**2""",
        ),
        (
            "moved = 4 * (h * k * (w / tile) + k * w * (h / tile) + h * w)",  # tile by tile, as the blocks do it
            """moved = 4 * h * w
    for block in range((h // tile) * (w // tile)):
        for step in range(k // tile):
            moved += 4 * 2 * tile * tile""",
        ),
    ],
    "10-median": [
        ("statistics.median(samples)", "statistics.quantiles(samples * 3, n=2, method='inclusive')[0]"),
        (
            "    samples = []\n    for _ in range(repeat):\n        start = clock()\n",
            "    samples = []\n    while len(samples) < repeat:\n        wait()\n        start = clock()\n",
        ),
        ("statistics.median(samples)", "float(__import__('numpy').median(samples))"),
    ],
    "10-hunt": [
        ('"stops too early": 9', '"stops too early": __import__("numpy").int64(9)'),
        ('"checks nothing": 10', '"checks nothing": 10.0'),
    ],
    "10-place": [
        ('{"two passes": 8 / 24, "one pass": 8 / 16}', "{'one pass': 0.5, 'two passes': 0.33}"),
        ("8 / 24", "__import__('fractions').Fraction(1, 3)"),
    ],
    "10-fuse": [
        ("i >= n / 4", "4 * i >= n"),
        (  # the two steps in one line, and the planes as one array of groups
            """    float4 r = reinterpret_cast<const float4*>(x)[i];
    float4 g = reinterpret_cast<const float4*>(x + n)[i];
    float4 b = reinterpret_cast<const float4*>(x + 2 * n)[i];""",
            """    const float4* planes = (const float4*)x;
    float4 r = planes[i], g = planes[n / 4 + i], b = planes[n / 2 + i];""",
        ),
        ("return 1.5f * (gray - 0.5f) + 0.5f", "return fmaf(1.5f, gray, -0.25f)"),
    ],
    "10-bound": [
        (
            "arithmetic, memory = flops / peak, bytes / bandwidth",
            "from fractions import Fraction\n"
            "    arithmetic, memory = Fraction(flops) / Fraction(peak), Fraction(bytes) / Fraction(bandwidth)",
        ),
        (
            'return max(arithmetic, memory), "arithmetic" if arithmetic > memory else "memory"',
            'return [memory, "memory"] if memory >= arithmetic else [arithmetic, "arithmetic"]',
        ),
    ],
}
