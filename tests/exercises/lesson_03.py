"""Other answers to the exercises of lesson 03: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

WRONG = {
    "03-double": [
        ("wrong", "0.2989f * x[i] + 0.5870f * x[i + n] + 0.1140f * x[i + 2 * n]", "truncf(0.2989 * x[i])"),
        ("wrong", "0.2989f * x[i] ", "(unsigned)(0.2989 * x[i]) "),
        ("does not compile", "0.2989f", "0.2989"),
        ("does not compile", "0.5870f", "0.5870"),
        ("wrong", "0.2989f * x[i] ", "float(0.2989) * x[i] "),
        ("wrong", "0.2989f * x[i] ", "0.5870f * x[i] "),
        ("out of bounds", "x[i + 2 * n]", "x[i + 3 * n]"),
    ],
    "03-brighten": [
        ("out of bounds", "i < n", "i <= n"),
        ("wrong", "sum > 255 ? 255 : sum", "sum"),  # 250 + 10 is 4
        ("wrong", "sum > 255 ? 255", "sum > 255 ? 0"),
        ("raced", "size_t(blockIdx.x) * blockDim.x + threadIdx.x", "threadIdx.x"),
        ("unwritten", "i < n", "i + 1 < n"),
        ("does not compile", "int sum", "sum"),
        ("does not compile", "sum > 255 ? 255 : sum", "min(sum, 255.0f)"),  # only NVIDIA's compiler rejects these two
        ("does not compile", "i < n", "i < min(n, 1 << 20)"),
        ("wrong: the source has no kernel", "brighten_kernel", "brighter_kernel"),
        (
            "right, but slow",  # neighbouring threads 8 bytes apart
            "size_t(blockIdx.x) * blockDim.x + threadIdx.x",
            "size_t(blockIdx.x) * blockDim.x + threadIdx.x % 32 * 8 + threadIdx.x / 32",
        ),
    ],
    "03-squares": [
        ("wrong", "long long i = (long long)blockIdx", "int i = blockIdx"),
        ("wrong", "= i * i", "= (long long)((int)i * (int)i)"),  # widened too late
        ("out of bounds", "i < n", "i <= n"),
        ("raced", "(long long)blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),
    ],
    "03-name": [
        (
            "wrong",  # the same letters in another order
            "hashlib.sha256(repr((source, options)).encode()).hexdigest()[:16]",
            "f'{len(source)}_{sum(map(ord, source))}_{len(options)}_{sum(map(ord, options))}'",
        ),
        ("wrong", 'return "build_" +', 'return "inline_ext" or'),
        ("wrong", "repr((source, options))", "source"),
        ("wrong", "repr((source, options))", "(source + options)"),
        ("wrong", '"build_" + ', ""),  # may begin with a digit
        (
            "wrong",
            "hashlib.sha256(repr((source, options)).encode()).hexdigest()[:16]",
            "str(abs(hash((source, options))))",
        ),
    ],
    "03-tile": [
        ("wrong", "(50, 134, 9600)", "(134, 50, 9600)"),
        ("wrong", "(50, 134, 9600)", "(50, 133, 9600)"),
        ("wrong", "(50, 134, 9600)", "(50, 134, 0)"),
    ],
    "03-binding": [
        ("wrong", "    module.launch_add2(c, a, b, a.numel())\n    return c", "    return a + b"),
        (
            "wrong",
            "    module.launch_add2(c, a, b, a.numel())\n    return c",
            "    return module.launch_add2(c, a, b, a.numel())",
        ),
        ("crashed", "module.launch_add2(", "module.torch_launch_add2("),
        ("crashed", "(c, a, b, a.numel())", "(c, a, b)"),
        ("crashed", "a.numel()", "4 * a.numel()"),  # bytes
        ("wrong", "torch.empty_like(a)", "a"),
        ("wrong", "a.numel()", "len(a)"),
    ],
}

RIGHT = {
    "03-double": [
        ("0.2989f * x[i] ", "0.2989f * float(x[i]) "),
        ("x[i + 2 * n]", "x[i + 2 * n]  // all in float"),
    ],
}
