"""Other answers to the exercises of lesson 01: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "01-hwc": [
        ("wrong", "r * w * 3 + col * 3 + c", "c * h * w + r * w + col"),  # the layout of the lesson
        ("wrong", "r * w * 3", "r * h * 3"),  # height and width swapped
        ("wrong", "r * w * 3", "r * w"),  # rows of pixels, not of values
        ("wrong", "r * w * 3 + col * 3 + c", "(r, col, c)"),  # a place with three numbers
        ("wrong", "r * w * 3 + col * 3 + c", "str(r * w * 3 + col * 3 + c)"),
        ("wrong: your function returned nothing", "return r", "r"),
        ("crashed", "col * 3 + c", "col * 3 + c + channel"),
        ("wrong: this exercise takes a Python function", "", "place_hwc = 17"),
    ],
    "01-list": [
        ("wrong", "int(0.2989", "round(0.2989"),
        ("wrong", "0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140", "0.3 * x[i] + 0.59 * x[i + n] + 0.11"),
        ("wrong", "x[i + 2 * n]", "x[i + n]"),  # green for blue
        ("wrong", ".view(h, w)", ".view(w, h)"),
        ("wrong", ".view(h, w)", ""),
        ("wrong: your function returned nothing", "return torch", "torch"),
        ("wrong", ", dtype=torch.uint8", ""),
        ("wrong", "int(0.2989", "255 - int(0.2989"),
        (
            "wrong",
            "torch.tensor(out, dtype=torch.uint8).view(h, w)",
            "out",
        ),
        ("crashed", "x[i + 2 * n]", "x[i + 3 * n]"),
        ("wrong: this exercise takes a Python function", "", 'rgb2grey_list = "a loop"'),
    ],
    "01-film": [
        ("wrong", "24 * 60 * 60)", "24 * 60)"),  # hours of seconds
        ("wrong", "90 * 60 * 24", "90 * 24"),  # pictures per minute
        ("wrong", "1920 * 1080", "1920 + 1080"),
        ("wrong", " / (24 * 60 * 60)", ""),  # in seconds
        ("wrong: your function returned nothing", "return 1920", "days = 1920"),
        ("wrong", "return 1920", "return 3 * 1920"),  # values, not pixels
        ("wrong", "", "def film_days(per_pixel):\n    return f'{per_pixel} days'"),
        ("crashed", "pictures * per_pixel", "frames * per_pixel"),
    ],
    "01-cold": [
        ("wrong", "    f()  # warm up\n", ""),  # the cold run counts
        ("wrong", "min(times)", "sum(times) / len(times)"),
        ("wrong", "min(times)", "times"),
        ("wrong: your function returned nothing", "return min", "min"),
        ("wrong", "range(5)", "range(1)"),
        ("wrong", "clock() - start", "start - clock()"),
        ("wrong", "return min(times)", "return times[0]"),
        ("wrong: this exercise takes a Python function", "", "best_time = 3"),
        ("wrong: f ran 0 times", "", "def best_time(f, clock):\n    return clock()"),
        ("crashed: RuntimeError: that is one run too many", "range(5)", "range(50)"),
    ],
}

RIGHT = {
    "01-hwc": [
        ("r * w * 3 + col * 3 + c", "(r * w + col) * 3 + c"),
        ("r * w * 3 + col * 3 + c", "list(range(r * w * 3, (r + 1) * w * 3))[col * 3 :][c]"),
    ],
    "01-list": [
        (
            "int(0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140 * x[i + 2 * n])",
            "int(sum(f * x[i + j * n] for j, f in enumerate((0.2989, 0.5870, 0.1140))))",
        ),
        (
            "",
            "def rgb2grey_list(x):\n"
            "    c, h, w = x.shape\n"
            "    x = x.flatten().tolist()\n"
            "    out = torch.empty(h, w, dtype=torch.uint8)\n"
            "    for i, (r, g, b) in enumerate(zip(x, x[h * w :], x[2 * h * w :])):\n"
            "        out[i // w, i % w] = int(0.2989 * r + 0.5870 * g + 0.1140 * b)\n"
            "    return out",
        ),
    ],
    "01-film": [
        ("1920 * 1080 * pictures * per_pixel / (24 * 60 * 60)", "per_pixel / 86_400 * pictures * 1080 * 1920"),
        (
            "",
            "from datetime import timedelta\n\n\ndef film_days(per_pixel):\n    pixels = 1920 * 1080 * 90 * 60 * 24\n"
            "    return per_pixel * (pixels / timedelta(days=1).total_seconds())",
        ),
    ],
    "01-cold": [
        ("min(times)", "sorted(times)[0]"),
        (
            "",
            "def best_time(f, clock):\n"
            "    best, first = float('inf'), True\n"
            "    while first:\n"
            "        f()\n"
            "        first = False\n"
            "    for _ in range(5):\n"
            "        before = clock()\n"
            "        f()\n"
            "        after = clock()\n"
            "        if after - before < best:\n"
            "            best = after - before\n"
            "    return best",
        ),
    ],
}
