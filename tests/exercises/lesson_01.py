"""Other answers to the exercises of lesson 01: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "01-hwc": [
        ("wrong", "r * w * 3 + col * 3 + c", "c * h * w + r * w + col"),  # the layout of the lesson
        ("wrong", "r * w * 3", "r * h * 3"),  # height and width swapped
        ("wrong", "r * w * 3", "r * w"),  # rows of pixels, not of values
        ("crashed", "col * 3 + c", "col * 3 + c + channel"),
        ("not yet", "r * w * 3 + col * 3 + c", "None"),
    ],
    "01-list": [
        ("wrong", "int(0.2989", "round(0.2989"),
        ("wrong", "0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140", "0.3 * x[i] + 0.59 * x[i + n] + 0.11"),
        ("wrong", "x[i + 2 * n]", "x[i + n]"),  # green for blue
        ("wrong", ".view(h, w)", ".view(w, h)"),
        ("wrong", ", dtype=torch.uint8", ""),
        ("wrong", "int(0.2989", "255 - int(0.2989"),
        ("crashed", "x[i + 2 * n]", "x[i + 3 * n]"),
    ],
    "01-film": [
        ("wrong", "24 * 60 * 60)", "24 * 60)"),  # hours of seconds
        ("wrong", "90 * 60 * 24", "90 * 24"),  # pictures a minute
        ("wrong", "1920 * 1080", "1920 + 1080"),
    ],
    "01-cold": [
        ("wrong", "    f()  # warm up\n", ""),  # the cold run counts
        ("wrong", "min(times)", "sum(times) / len(times)"),
        ("wrong", "range(5)", "range(1)"),
        ("wrong", "clock() - start", "start - clock()"),
        ("wrong", "return min(times)", "return times[0]"),
    ],
}

RIGHT = {
    "01-list": [
        (
            "int(0.2989 * x[i] + 0.5870 * x[i + n] + 0.1140 * x[i + 2 * n])",
            "int(sum(f * x[i + j * n] for j, f in enumerate((0.2989, 0.5870, 0.1140))))",
        ),
    ],
}
