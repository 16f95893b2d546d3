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
    ],
    "04-groups": [
        ("wrong", "(a[i : i + rows, :, None] * b).sum(dim=1)", "a[i : i + rows] @ b"),
        ("wrong", "range(0, a.shape[0], rows)", "range(0, a.shape[0] - rows + 1, rows)"),  # the last group is left out
        ("crashed", "(a[i : i + rows, :, None]", "(a[i : i + rows + 1, :, None]"),
        ("wrong", "range(0, a.shape[0], rows)", "range(0, a.shape[0], max(a.shape[0], 1))"),
        ("wrong", "    for i in", "    rows = max(a.shape[0], 1)\n    for i in"),  # all at once
    ],
    "04-pair": [
        ("wrong", "torch.arange(16.0).reshape(4, 4)", "torch.eye(4)"),
        ("wrong", "torch.arange(16.0).reshape(4, 4)", "torch.ones(4, 4)"),
        ("wrong", "torch.rand(4, 4), torch.arange(16.0).reshape(4, 4)", "torch.rand(5, 7), torch.rand(7, 3)"),
        ("wrong", "torch.arange(16.0).reshape(4, 4)", "torch.rand(5, 4)"),
    ],
    "04-test": [
        ("wrong", "rtol=1e-4, atol=1e-4", "rtol=1e-1, atol=1e-1"),
        ("wrong", "torch.testing.assert_close", "torch.isclose"),  # computed, and then ignored
        ("wrong", "rtol=1e-4, atol=1e-4", "rtol=0, atol=0"),  # refuses another order
        ("wrong", "(7, 7, 7), ", ""),
        ("wrong", "torch.randn(h, k), torch.randn(k, w)", "torch.ones(h, k), torch.ones(k, w)"),
    ],
    "04-data": [
        ("wrong", '"runs what the file says": 4', '"runs what the file says": 3'),
        ("wrong", '"asks for 40 GB": 6', '"asks for 40 GB": 5'),
        ("wrong", '"may be refused": 3', '"may be refused": 2'),
    ],
}

RIGHT = {
    "04-outer": [("a[:, i, None] * b[i]", "torch.outer(a[:, i], b[i])"), ("out +=", "out = out +")],
    "04-groups": [("a[i : i + rows, :, None] * b)", "a[i : i + rows, :, None] * b[None])")],
    "04-pair": [
        ("torch.rand(4, 4), torch.arange(16.0).reshape(4, 4)", "torch.rand(2, 2), torch.rand(2, 2)"),
        ("torch.rand(4, 4), torch.arange(16.0).reshape(4, 4)", "1e-4 * torch.rand(2, 2), 1e-4 * torch.rand(2, 2)"),
    ],
}
