"""Other answers to the exercises of lesson 03: what the solution has there, and what replaces it.

A wrong one has its verdict in front."""

_HASHED = "hashlib.sha256(repr((source, options)).encode()).hexdigest()[:16]"
_JOINED = "repr((source, options))"
_NUMBER = "size_t(blockIdx.x) * blockDim.x + threadIdx.x"
_CALL = "    module.launch_add2(c, a, b, a.numel())\n    return c"

WRONG = {
    "03-double": [
        ("right, but slow", "0.2989f", "0.2989"),
        ("right, but slow", "0.5870f", "0.5870"),
        ("right, but slow", "0.2989f * x[i] ", "float(0.2989 * x[i]) "),
        ("right, but slow", "0.2989f * x[i] ", "0.2989f * (float)(double)x[i] + 0.0 "),
        ("wrong", "0.2989f * x[i] ", "0.5870f * x[i] "),
        ("wrong", "0.2989f * x[i] ", "0.299f * x[i] "),
        ("wrong", "0.2989f * x[i] ", "0.5f + 0.2989f * x[i] "),
        ("wrong", "0.2989f * x[i] ", "truncf(0.2989f * x[i]) "),
        ("wrong", "0.2989f * x[i] ", "(unsigned)(0.2989f * x[i]) "),
        ("out of bounds", "x[i + 2 * n]", "x[i + 3 * n]"),
        ("does not compile", "0.2989f", "0.2989g"),
    ],
    "03-fade": [
        ("out of bounds", "i < n", "i <= n"),
        ("wrong", "(1 - t) * x[i] + t * y[i]", "t * x[i] + (1 - t) * y[i]"),
        ("wrong", "t * y[i]", "(int)t * y[i]"),
        ("wrong", "(1 - t) * x[i] + t * y[i]", "x[i] + (unsigned char)(y[i] - x[i]) * t"),
        ("wrong", "t * y[i]", "y[i]"),
        ("raced", _NUMBER, "threadIdx.x"),
        ("unwritten", "i < n", "i + 1 < n"),
        ("right, but slow", "(1 - t)", "(1.0 - t)"),
        ("right, but slow", _NUMBER, f"{_NUMBER} % 32 * 8 + threadIdx.x / 32"),  # neighbours 8 bytes apart
        ("wrong: the source has no kernel", "fade_kernel", "blend_kernel"),
        ("does not compile", "size_t i =", "i ="),
        ("does not compile", "i < n", "i < min(n, 1 << 20)"),  # only NVIDIA's compiler rejects it
    ],
    "03-squares": [
        ("wrong", "long long i = (long long)blockIdx", "int i = blockIdx"),
        ("wrong", "= i * i", "= (long long)((int)i * (int)i)"),  # widened too late
        ("wrong", "= i * i", "= i * i % (1LL << 31)"),
        ("out of bounds", "i < n", "i <= n"),
        ("raced", "(long long)blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),
        ("unwritten", "i < n", "i > 0 && i < n"),
    ],
    "03-half": [
        ("out of bounds", "r < h && c < w", "r < h"),
        ("wrong", "(2 * w)", "w"),  # the rows of x taken for those of out
        ("wrong", "(x[i] + x[i + 1] + x[i + 2 * w] + x[i + 2 * w + 1]) / 4", "x[i]"),
        ("wrong", "+ x[i + 1] + x[i + 2 * w] + x[i + 2 * w + 1]) / 4", "/ 4 + x[i + 1] / 4 + x[i + 2 * w] / 4)"),
        ("wrong", "(x[i] + x[i + 1]", "(unsigned char)(x[i] + x[i + 1]"),
        ("wrong", "x[i + 2 * w] + x[i + 2 * w + 1]", "x[i + w] + x[i + w + 1]"),
        ("raced", "size_t(blockIdx.y) * blockDim.y + threadIdx.y", "threadIdx.y"),
        ("does not compile", "size_t i = ", "i = "),
    ],
    "03-name": [
        (
            "wrong",  # the same letters in another order
            _HASHED,
            "f'{len(source)}_{sum(map(ord, source))}_{len(options)}_{sum(map(ord, options))}'",
        ),
        ("wrong", 'return "build_" +', 'return "inline_ext" or'),
        ("wrong", _JOINED, "source"),
        ("wrong", _JOINED, "(source + options)"),
        ("wrong", _JOINED, r"(source + '\0' + options)"),
        ("wrong", _JOINED, "','.join([source, options])"),
        ("wrong", _JOINED, "f'{source} {options}'"),
        ("wrong", _JOINED, "f'{source}-- with --{options}'"),
        ("wrong", _JOINED, "repr((source.strip(), options))"),
        ("wrong", _JOINED, "repr((source, options.strip()))"),
        ("wrong", _JOINED, "repr((source.lower(), options))"),
        ("wrong", "[:16]", "[:4]"),
        ("wrong", '"build_" + ', ""),  # may begin with a digit
        ("wrong", _HASHED, "str(abs(hash((source, options))))"),
        ("wrong", _HASHED, "source"),
        ("wrong", _HASHED, "str(sum(map(ord, source)) ^ sum(map(ord, options)))"),  # of two equal texts always 0
    ],
    "03-binding": [
        ("wrong", _CALL, "    return a + b"),
        ("wrong", _CALL, "    return module.launch_add2(c, a, b, a.numel())"),
        ("crashed", "module.launch_add2(", "module.torch_launch_add2("),
        ("crashed", "(c, a, b, a.numel())", "(c, a, b)"),
        ("crashed: IndexError: launch_add2 gets n = 4, but the smallest", "a.numel()", "4 * a.numel()"),  # bytes
        ("crashed", "torch.empty_like(a)", "torch.empty(a.shape, dtype=torch.float64)"),
        ("wrong: the sum should have the shape", "torch.empty_like(a)", "a.new_empty(a.numel())"),
        ("wrong: on a GPU, c would not be where a is", "torch.empty_like(a)", "torch.empty(a.shape)"),
        ("wrong", "torch.empty_like(a)", "a"),
        ("wrong", "a.numel()", "len(a)"),
    ],
}

RIGHT = {
    "03-double": [
        ("0.2989f * x[i] ", "0.2989f * float(x[i]) "),
        ("0.2989f", "float(0.2989)"),
        ("0.2989f", "(float)0.2989"),
        ("0.2989f * x[i] +", "fmaf(x[i], 0.2989f, 0.0f) +"),
    ],
    "03-fade": [
        ("(1 - t) * x[i] + t * y[i]", "x[i] + (y[i] - x[i]) * t"),
        ("(1 - t) * x[i] + t * y[i]", "fmaf(t, float(y[i]) - float(x[i]), x[i])"),
        ("    if (i < n)  // guard", "    if (i >= n) return;"),
    ],
    "03-squares": [
        ("out[i] = i * i", "out[i] = (long long)(int)i * (int)i"),
        ("long long i = (long long)blockIdx.x", "size_t i = size_t(blockIdx.x)"),
        ("= i * i", "= llrint(double(i) * i)"),  # a double holds such squares exactly
    ],
    "03-half": [
        ("/ 4", ">> 2"),
        ("if (r < h && c < w) {  // guard", "if (r >= h || c >= w) return;\n    {"),
        ("size_t i = 2 * r * (2 * w) + 2 * c;", "size_t i = 4 * r * w + c + c;"),
    ],
    "03-name": [
        (_JOINED, "f'{len(source)} {source}{options}'"),
        ("hashlib.sha256", "hashlib.md5"),
        ("[:16]", ""),
        ('"build_" + ' + _HASHED, '"_".join("h" + hashlib.sha1(t.encode()).hexdigest() for t in (source, options))'),
        (_HASHED, "(source.encode().hex() + '_' + options.encode().hex())"),  # long, and never twice the same
    ],
    "03-binding": [
        ("torch.empty_like(a)", "torch.zeros(a.shape, device=b.device)"),
        ("torch.empty_like(a)", "a.new_empty(*a.shape)"),
        ("a.numel()", "c.numel()"),
        ("a.numel()", "len(b.flatten())"),
    ],
}
