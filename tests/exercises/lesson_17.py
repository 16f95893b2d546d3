"""Other answers to the exercises of lesson 17: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "17-launcher": [
        (
            "unwritten",  # enough for the sizes that one has thought of
            "for (int i = first; i < n; i += step)  // guard\n        out[i] = a[i] + b[i];",
            "for (int i = first; i < n && i < 4 * step; i += step) out[i] = a[i] + b[i];",
        ),
        ("out of bounds", "i < n", "i <= n"),
        ("unwritten", "i < n;", "i < n - 1;"),
        ("unwritten", "for (int i = first; i < n; i += step)", "int i = first;\n    if (i < n)"),  # a cap and no loop
        ("unwritten", "i += step", "i += 2 * step"),
        ("raced", "i += step", "i += 1"),  # every number is added by many
        ("raced", "int step = gridDim.x * blockDim.x", "int step = blockDim.x"),
        ("raced", "int step = gridDim.x * blockDim.x", "int step = gridDim.x"),
        ("wrong", "a[i] + b[i]", "a[i] + b[first]"),
        (
            "right, but slow",  # a piece of the vector for each thread
            "for (int i = first; i < n; i += step)",
            "int share = (n + step - 1) / step;\n"
            "    for (int i = first * share; i < n && i < (first + 1) * share; ++i)",
        ),
    ],
    "17-schema": [
        ("wrong", "Tensor(a!) out", "Tensor out"),
        ("wrong", "Tensor a,", "Tensor(a!) a,"),
        ("wrong", "Tensor a,", "Tensor(b) a,"),
        ("wrong", "float factor=1.0", "*, float factor=1.0"),
        ("wrong", "-> ()", "-> Tensor"),
        ("wrong", "float factor=1.0", "float factor"),
        ("wrong", "float factor=1.0", "float factor=2.0"),
        ("wrong", "float factor=1.0", "int factor=1"),
        ("wrong", "Tensor b, ", ""),
        ("wrong", "Tensor b,", "tensor b,"),
        ("wrong", "scaled_add(", "add("),
        ("wrong: PyTorch cannot read it: expected arrow but found 'eof' here:\n    scaled_add(", " -> ()", ""),
        ("not yet", "Tensor b", "___"),
    ],
    "17-fake": [
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "a.unsqueeze(1).expand(len(a), len(b))"),
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "a.new_empty((b.shape[0], a.shape[0])).t()"),
        ("wrong", "(a.shape[0], b.shape[0])", "(b.shape[0], a.shape[0])"),
        ("wrong", "(a.shape[0], b.shape[0])", "a.shape"),
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "torch.empty(a.shape[0], b.shape[0])"),
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", 'torch.empty(a.shape[0], b.shape[0], device="meta")'),
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "a.new_empty((a.shape[0], b.shape[0]), device='cpu')"),
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() != 1"),
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() != 1 and b.dim() != 1"),
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() != b.dim()"),  # takes two matrices
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() > 1 or b.dim() > 1"),  # a number has no shape[0]
        ("crashed", "a.new_empty((a.shape[0], b.shape[0]))", "a.new_tensor([[p - q for q in b] for p in a.tolist()])"),
        ("wrong: your function returned nothing", "a.new_empty((a.shape[0], b.shape[0]))", "None"),
        ("wrong: your function returned nothing", "return a.new_empty", "a.new_empty"),
    ],
    "17-gradient": [
        ("crashed", "gradient * s[:, None]", "gradient * s[None]"),  # scales columns: there must be as many
        ("wrong", "gradient * s[:, None]", "s[:, None]"),
        ("wrong", "gradient * s[:, None]", "gradient * x"),
        ("wrong", "(gradient * x).sum(dim=1)", "(gradient * x).sum(dim=0)"),
        ("wrong", "(gradient * x).sum(dim=1)", "gradient * x"),
        ("wrong", "(gradient * x).sum(dim=1)", "gradient.sum(dim=1)"),
        ("wrong", "(gradient * x).sum(dim=1)", "(gradient * x).mean(dim=1)"),
        (
            "wrong",
            "gradient * s[:, None], (gradient * x).sum(dim=1)",
            "(gradient * x).sum(dim=1), gradient * s[:, None]",
        ),
        ("wrong: your function returned (", "(gradient * x).sum(dim=1)", "None"),
        ("wrong: your function should return two gradients", ", (gradient * x).sum(dim=1)", ""),
    ],
    "17-pays": [
        (
            "wrong",  # gives up too early
            "return copies // (cpu - gpu) + 1",
            "return next((k for k in range(1, 12) if copies + k * gpu < k * cpu), 0)",
        ),
        ("wrong", "copies // (cpu - gpu) + 1", "-(-copies // (cpu - gpu))"),  # as fast is not faster
        ("wrong", "copies // (cpu - gpu) + 1", "copies // (cpu - gpu)"),
        ("wrong", "copies // (cpu - gpu) + 1", "copies // cpu + 1"),
        ("wrong", "copies // (cpu - gpu) + 1", "copies / (cpu - gpu) + 1"),
        ("crashed", "gpu >= cpu", "gpu > cpu"),
        ("wrong", "return 0", "return 1"),
        ("not yet", "copies // (cpu - gpu) + 1", "___"),
    ],
}

RIGHT = {"17-schema": [("float factor=1.0", "Scalar factor=1")]}
