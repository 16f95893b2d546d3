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
        (
            "wrong: PyTorch cannot read it: expected ) but found 'ident' here:\n    scaled_add(Tensor a Tensor b",
            "Tensor a, ",
            "Tensor a ",
        ),
        ("not yet", "Tensor b", "___"),
        ("wrong: this exercise takes", "", "schema = ['Tensor a', 'Tensor b']"),
    ],
    "17-fake": [
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "a.unsqueeze(1).expand(len(a), len(b))"),
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "a.new_empty((b.shape[0], a.shape[0])).t()"),
        ("wrong", "(a.shape[0], b.shape[0])", "(b.shape[0], a.shape[0])"),
        ("wrong", "(a.shape[0], b.shape[0])", "a.shape"),
        ("wrong", "a.new_empty((a.shape[0], b.shape[0]))", "torch.empty(a.shape[0], b.shape[0])"),
        (
            "wrong: the device should be cpu, but yours is meta",
            "a.new_empty((a.shape[0], b.shape[0]))",
            'torch.empty(a.shape[0], b.shape[0], dtype=a.dtype, device="meta")',
        ),
        (
            "wrong: the device should be cuda:0, but yours is cpu",
            "a.new_empty((a.shape[0], b.shape[0]))",
            "a.new_empty((a.shape[0], b.shape[0]), device='cpu')",
        ),
        (
            "wrong: the device should be cuda:1, but yours is cuda:0",  # the first GPU, and not that of the inputs
            "a.new_empty((a.shape[0], b.shape[0]))",
            "torch.empty(len(a), len(b), dtype=a.dtype, device=a.device.type)",
        ),
        (
            "wrong: a on cuda:0 and b on cuda:1 should raise a ValueError, but yours takes",
            "a.device != b.device",
            "False",
        ),
        (
            "wrong: a on cuda:0 and b on cuda:1",
            "a.device != b.device",
            "a.device.type != b.device.type",
        ),
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() != 1"),
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() != 1 and b.dim() != 1"),
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() != b.dim()"),  # takes two matrices
        ("wrong", "a.dim() != 1 or b.dim() != 1", "a.dim() > 1 or b.dim() > 1"),  # a number has no shape[0]
        ("crashed", "a.new_empty((a.shape[0], b.shape[0]))", "a.new_tensor([[p - q for q in b] for p in a.tolist()])"),
        ("wrong: your function returned nothing", "a.new_empty((a.shape[0], b.shape[0]))", "None"),
        ("wrong: your function returned nothing", "return a.new_empty", "a.new_empty"),
        ("wrong: your function should return a tensor", "a.new_empty((a.shape[0], b.shape[0]))", "a.shape + b.shape"),
        ("wrong: this exercise takes", "def differences_fake(a, b):", "def differences_fake(a):\n    b = a"),
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
    "17-turn": [
        ("out of bounds", "if (i >= n) return;  // guard", ""),
        ("out of bounds", "i >= n", "i > n"),
        ("unwritten", "i >= n", "i >= n - 1"),
        ("unwritten", "out[2 * i + 1] = s * p + c * q;", ""),
        ("raced", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),
        ("wrong", "c * p - s * q", "c * p + s * q"),  # the other way round, in one coordinate
        ("wrong", "cosf(angle), s = sinf(angle)", "sinf(angle), s = cosf(angle)"),
        ("wrong", "q = x[2 * i + 1]", "q = x[i]"),
        ("uninitialized", "s * p + c * q", "s * out[2 * i + 1] + c * q"),
        ("does not compile", "cosf(angle), s", "cosf(angle) s"),
        (
            "right, but slow",  # neighbours in a block are far from each other in memory
            "blockIdx.x * blockDim.x + threadIdx.x",
            "threadIdx.x * gridDim.x + blockIdx.x",
        ),
        ("not yet", "float c = cosf(angle)", "float c = ___"),
        ("wrong: this exercise takes CUDA", "", "turn_src = lambda x, angle: x"),
    ],
    "17-operator": [
        ("wrong: element [0, 0] of the result should be", "        x = x.contiguous()\n", ""),
        ("wrong: the size should be [17, 2]", "x.new_empty(x.shape)", "x.new_empty(len(x))"),
        (
            "wrong: the device should be cpu, but yours is meta",
            "x.new_empty(x.shape)",
            "torch.empty(x.shape, device='meta')",
        ),
        ("wrong: the device should be cuda:0", "x.new_empty(x.shape)", "torch.empty(x.shape)"),
        ("wrong: the result is stored row by row", "x.new_empty(x.shape)", "torch.empty_like(x)"),
        ("wrong: CUDA refuses a launch of 0 blocks", "        if len(x):\n    ", ""),
        ("wrong: element [", "cdiv(len(x), 128), 128]", "1, 128]"),
        ("wrong: the kernel goes through 2 points of x", "x, out, angle, len(x))", "x, out, angle, x.numel())"),
        ("wrong: the kernel takes x, out, angle and n", "x, out, angle, len(x))", "x, out, len(x))"),
        ("wrong: the kernel takes a float32 tensor for out", "torch.empty_like(x)", "torch.empty_like(x).double()"),
        ("wrong: element [0, 0] of the gradient should be", "turn(gradient, -ctx.angle)", "turn(gradient, ctx.angle)"),
        ("wrong: element [0, 0] of the gradient should be", "turn(gradient, -ctx.angle)", "gradient"),
        ("wrong: the gradient ends in: RuntimeError", "turn(gradient, -ctx.angle), None", "turn(gradient, -ctx.angle)"),
        ("wrong: the gradient ends in", "turn.register_autograd(turn_back, setup_context=keep_angle)", "pass"),
        ("wrong: with tensors that have no memory it ends in", "    @turn.register_fake\n", ""),
        (
            "wrong: your operator gives the right numbers, but has not launched the kernel",
            "kernel[cdiv(len(x), 128), 128](x, out, angle, len(x))",
            "a = torch.tensor(angle)\n"
            "            out.copy_(x @ torch.stack([a.cos(), a.sin(), -a.sin(), a.cos()]).view(2, 2))",
        ),
        ("wrong: your function should return an operator", "    return turn\n", "    return turn_back\n"),
        ("wrong: your function returned nothing", "    return turn\n", ""),
        ("not yet", "return x.new_empty(x.shape)", "return ___"),
        (
            "wrong: this exercise takes a Python function of kernel",
            "def turning(kernel):",
            "def turning():\n    kernel = 0",
        ),
    ],
    "17-triton": [
        ("out of bounds: program", "tl.load(x + i, mask=i < n)", "tl.load(x + i)"),
        ("out of bounds: program", "tl.store(out + i, v, mask=i < n)", "tl.store(out + i, v)"),
        ("wrong: element [", "mask=i < n)\n\n", "mask=i < n - 1)\n\n"),  # the last one is never written
        ("wrong: element [", "tl.program_id(0) * BLOCK + ", ""),
        ("wrong: element [", "tl.minimum(v + t, 0.0)", "tl.minimum(v - t, 0.0)"),
        (
            "wrong: element [",
            "tl.where(v > 0, tl.maximum(v - t, 0.0), tl.minimum(v + t, 0.0))",
            "tl.maximum(v - t, 0.0)",
        ),
        ("wrong: element [", "    x = x.contiguous()\n", ""),
        ("wrong: element [", "(triton.cdiv(x.numel(), 256),)", "(x.numel() // 256 + 0 or 1,)"),
        (
            "wrong: torch.compile would not see your launch",
            "torch.library.wrap_triton(shrink_program)",
            "shrink_program",
        ),
        ("wrong: make it with torch.library.triton_op", "torch.library.triton_op", "torch.library.custom_op"),
        ("wrong: the launch does not fit the program", "x.numel(), BLOCK=256)", "BLOCK=256)"),
        (
            "wrong: x[0] should be",
            "(x, out, t, x.numel(), BLOCK=256)\n    return out",
            "(x, x, t, x.numel(), BLOCK=256)\n    return x.clone()",
        ),
        ("not yet", "return out", "return ___"),
        ("not yet", "tl.store(out + i, v, mask=i < n)", "tl.store(___, ___)"),
        (
            "wrong: this exercise takes an operator",
            "",
            "import torch\ndef shrink(x, t): return torch.nn.functional.softshrink(x, t)",
        ),
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

RIGHT = {
    "17-launcher": [
        (
            "for (int i = first; i < n; i += step)  // guard\n        out[i] = a[i] + b[i];",
            "int i = first;\n    while (i < n) {\n        out[i] = a[i] + b[i];\n        i += step;\n    }",
        ),
        (  # a block takes whole runs of 128 numbers
            "for (int i = first; i < n; i += step)  // guard",
            "for (int i = first; i < n; i += gridDim.x * 128)",
        ),
    ],
    "17-schema": [
        ("float factor=1.0", "Scalar factor=1"),
        ("Tensor(a!) out", "Tensor(written!) out"),
        (" -> ()", "->()"),
    ],
    "17-fake": [
        (
            "a.new_empty((a.shape[0], b.shape[0]))",
            "torch.empty(len(a), len(b), dtype=a.dtype, device=a.device)",
        ),
        ("a.new_empty((a.shape[0], b.shape[0]))", "a[:, None] - b[None]"),
        ("return a.new_empty((a.shape[0], b.shape[0]))", "return torch.empty_like(torch.outer(a, b))"),
    ],
    "17-gradient": [
        ("(gradient * x).sum(dim=1)", "torch.einsum('rc,rc->r', gradient, x)"),
        ("gradient * s[:, None], (gradient * x).sum(dim=1)", "[torch.diag(s) @ gradient, (gradient @ x.t()).diag()]"),
    ],
    "17-turn": [
        (
            "p = x[2 * i], q = x[2 * i + 1];\n    out[2 * i] = c * p - s * q;\n    out[2 * i + 1] = s * p + c * q;",
            "p = x[2 * i], q = x[2 * i + 1];\n"
            "    reinterpret_cast<float2*>(out)[i] = make_float2(c * p - s * q, s * p + c * q);",
        ),
        ("float c = cosf(angle), s = sinf(angle), p", "float c, s;\n    sincosf(angle, &s, &c);\n    float p"),
    ],
    "17-operator": [
        ("x.new_empty(x.shape)", "torch.empty_like(x, memory_format=torch.contiguous_format)"),
        ("[cdiv(len(x), 128), 128]", "[(len(x) + 31) // 32, 32]"),
        (
            "return turn(gradient, -ctx.angle), None",
            "from math import cos, sin\n\n"
            "        c, s = cos(ctx.angle), sin(ctx.angle)\n"
            "        return gradient @ gradient.new_tensor([[c, -s], [s, c]]), None",
        ),
        ("torch.empty_like(x)\n", "x.new_zeros(len(x), 2)\n"),
    ],
    "17-triton": [
        ("tl.where(v > 0, tl.maximum(v - t, 0.0), tl.minimum(v + t, 0.0))", "v - tl.minimum(tl.maximum(v, -t), t)"),
        ("(triton.cdiv(x.numel(), 256),)", "lambda options: (triton.cdiv(x.numel(), options['BLOCK']),)"),
        ("BLOCK=256)", "BLOCK=1024, num_warps=8)"),
    ],
    "17-pays": [
        (
            "if gpu >= cpu:\n        return 0\n    return copies // (cpu - gpu) + 1",
            "k = 1\n    while cpu > gpu and copies + k * gpu >= k * cpu:\n        k += 1\n    return k * (cpu > gpu)",
        ),
        (
            "return copies // (cpu - gpu) + 1",
            "from fractions import Fraction\n    return int(Fraction(copies, cpu - gpu)) + 1",
        ),
    ],
}
