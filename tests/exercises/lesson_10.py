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
    ],
}

RIGHT = {
    "10-intensity": [
        ("return flops / moved", "from fractions import Fraction\n    return Fraction(flops, 1) / Fraction(moved)"),
        (
            "moved = 4 * (h * k * (w / tile) + k * w * (h / tile) + h * w)",  # tile by tile, as the blocks do it
            """moved = 4 * h * w
    for block in range((h // tile) * (w // tile)):
        for step in range(k // tile):
            moved += 4 * 2 * tile * tile""",
        ),
    ],
    "10-median": [("statistics.median(samples)", "statistics.quantiles(samples * 3, n=2, method='inclusive')[0]")],
    "10-bound": [
        (
            'return max(arithmetic, memory), "arithmetic" if arithmetic > memory else "memory"',
            'return [memory, "memory"] if memory >= arithmetic else [arithmetic, "arithmetic"]',
        )
    ],
}
