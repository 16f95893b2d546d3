"""Other answers to the exercises of lesson 04: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "04-outer": [
        ("wrong", "a[:, i, None] * b[i]", "a[:, i, None] @ b[i, None]"),
        (
            "wrong",
            "    for i in range(a.shape[1]):\n        out += a[:, i, None] * b[i]",
            "    out = torch.nn.functional.linear(a, b.t())",
        ),
        ("wrong", "    for i in range(a.shape[1]):\n        out += a[:, i, None] * b[i]", "    out = a @ b"),
        ("wrong", "range(a.shape[1])", "range(a.shape[1] - 1)"),
        ("wrong", "out +=", "out ="),
        ("crashed", "a[:, i, None]", "a[i, :, None]"),
        ("wrong", "return out", "return out.t()"),
        ("wrong: your function returned nothing", "return out", "out"),
        ("wrong: this exercise takes", "def matmul_outer(a, b):", "def matmul_outer(a):\n    b = a.t()"),
    ],
    "04-groups": [
        ("wrong", "(a[i : i + rows, :, None] * b).sum(dim=1)", "a[i : i + rows] @ b"),
        ("wrong", "range(0, a.shape[0], rows)", "range(0, a.shape[0] - rows + 1, rows)"),  # the last group is left out
        ("crashed", "(a[i : i + rows, :, None]", "(a[i : i + rows + 1, :, None]"),
        ("wrong", "range(0, a.shape[0], rows)", "range(0, a.shape[0], max(a.shape[0], 1))"),
        ("wrong", "    for i in", "    rows = max(a.shape[0], 1)\n    for i in"),  # all at once
    ],
    "04-guess": [
        ("out of bounds", "r >= h", "r > h"),
        ("out of bounds", "r * w + c", "r * h + c"),
        ("raced", "blockidx * blockdim + threadidx", "threadidx"),
        ("wrong", "range(1, w)", "range(1, w - 1)"),
        ("wrong", "scores[r * w + c] >", "scores[r * w + c] <"),
        ("wrong", "out[r] = best", "out[r] = scores[r * w + best]"),
        ("wrong", "scores[r * w + best]", "max(0, scores[r * w + best])"),  # a best score that starts at 0
        ("unwritten", "    out[r] = best", "    return best"),
        ("raced", "out[r] = best", "out[0] = best"),
    ],
    "04-pair": [
        ("wrong", "torch.arange(16.0).reshape(4, 4)", "torch.eye(4)"),
        ("wrong", "torch.arange(16.0).reshape(4, 4)", "torch.ones(4, 4)"),
        ("wrong", "torch.rand(4, 4), torch.arange(16.0).reshape(4, 4)", "torch.rand(5, 7), torch.rand(7, 3)"),
        ("wrong", "torch.arange(16.0).reshape(4, 4)", "torch.rand(5, 4)"),
        (
            "wrong: this exercise takes two matrices (m, n), both tensors, but got (array(",
            "",
            "pair = torch.rand(2, 2).numpy(), torch.rand(2, 2).numpy()",
        ),
        ("wrong: this exercise takes two matrices", "", "pair = torch.rand(4, 4)"),
    ],
    "04-test": [
        ("wrong", "rtol=1e-4, atol=1e-4", "rtol=1e-1, atol=1e-1"),
        ("wrong", "torch.testing.assert_close", "torch.isclose"),  # computed, and then ignored
        ("wrong", "rtol=1e-4, atol=1e-4", "rtol=0, atol=0"),  # refuses another order
        ("wrong", "(7, 7, 7), ", ""),
        ("wrong", "torch.randn(h, k), torch.randn(k, w)", "torch.ones(h, k), torch.ones(k, w)"),
        ("wrong: it accepts 5 of 5", "product(m, n), m @ n", "m @ n, product(m, n) * 0 + m @ n"),
        ("wrong: it never calls product", "product(m, n), m @ n", "m @ n, m @ n"),
        (
            "wrong: it should raise an AssertionError, but with one that forgets the last product of each sum it "
            "raises ValueError: not equal",
            "torch.testing.assert_close(product(m, n), m @ n, rtol=1e-4, atol=1e-4)",
            "if not torch.allclose(product(m, n), m @ n, rtol=1e-4, atol=1e-4):\n"
            "            raise ValueError('not equal')",
        ),
        ("crashed: NameError", "(1, 1, 1)", "size"),
    ],
    "04-data": [
        ("wrong", '"runs what the file says": 4', '"runs what the file says": 3'),
        ("wrong", '"asks for 40 GB": 6', '"asks for 40 GB": 5'),
        ("wrong", '"may be refused": 3', '"may be refused": 2'),
        ("wrong: a line is a number", '"may be refused": 3', '"may be refused": "3"'),
        ("wrong: this exercise takes a dictionary with the number of a line", "", 'answer = "4"'),
        ("not yet", '"may be refused": 3', '"may be refused": None'),
    ],
}

RIGHT = {
    "04-outer": [("a[:, i, None] * b[i]", "torch.outer(a[:, i], b[i])"), ("out +=", "out = out +")],
    "04-groups": [
        ("a[i : i + rows, :, None] * b)", "a[i : i + rows, :, None] * b[None])"),
        (
            "    for i in range(0, a.shape[0], rows):\n        out[i : i + rows] = (a[i : i + rows, :, None] * b)",
            "    for group, part in zip(out.split(rows), a.split(rows)):\n        group[:] = (part[:, :, None] * b)",
        ),
    ],
    "04-guess": [
        ("] > scores", "] >= scores"),
        (
            "    best = 0\n    for c in range(1, w):\n",
            "    best = w - 1\n    for c in reversed(range(w)):\n",
        ),
        ("        return  # guard", "        r = h - 1 - h % 1\n        return"),
    ],
    "04-pair": [
        ("torch.rand(4, 4), torch.arange(16.0).reshape(4, 4)", "torch.rand(2, 2), torch.rand(2, 2)"),
        ("torch.rand(4, 4), torch.arange(16.0).reshape(4, 4)", "1e-4 * torch.rand(2, 2), 1e-4 * torch.rand(2, 2)"),
    ],
    "04-test": [
        (
            "torch.testing.assert_close(product(m, n), m @ n, rtol=1e-4, atol=1e-4)",
            "assert (product(m, n) - m @ n).abs().max() < 1e-4",
        ),
        ("m @ n, rtol", "(m.double() @ n.double()).float(), rtol"),
    ],
    "04-data": [
        ('file says": 4', 'file says": 4.0'),
        ("", 'answer = dict(zip(["may be refused", "runs what the file says", "asks for 40 GB"], (3, 4, 6)))'),
    ],
}
