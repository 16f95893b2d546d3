"""Other answers to the exercises of lesson 08: what the solution has there, what replaces it, and the verdict."""

_STRIDES = "sectors_of_stride = {0: 1, 3: 12, 6: 24, 9: 32}"
_ONE_LOAD = "((const float4*)bodies)[i]"
_PARTS = (
    "float4 body = ((const float4*)bodies)[i];\n    float x = body.x, y = body.y, z = body.z, mass = body.w;",
    "float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2], mass = bodies[4 * i + 3];",
)
_PLACE = "r = i / w, c = i % w"
_LOOP = "for (int k = 0; k < 16; ++k) ((unsigned char*)&v)[k] = 255 - ((unsigned char*)&v)[k];"
_TAIL = "for (; i < n; ++i) out[i] = 255 - x[i];"
_FLIPPED = "v.x = ~v.x, v.y = ~v.y, v.z = ~v.z, v.w = ~v.w;"
_BYTE_BY_BYTE = (
    "size_t i = 16 * (size_t(blockIdx.x) * blockDim.x + threadIdx.x);\n"
    "    for (size_t end = i + 16; i < n && i < end; ++i) out[i] = 255 - x[i];"
)
_NEGATIVE = 'negative_src = r"""\n__global__ void negative(const unsigned char* x, unsigned char* out, size_t n) {\n'

RIGHT = {
    "08-stride": [
        (_STRIDES, "sectors_of_stride = {s: min(4 * s, 32) or 1 for s in (9, 6, 3, 0)}"),
        (_STRIDES, "sectors_of_stride = {s: len({4 * i * s // 32 for i in range(32)}) for s in (0, 3, 6, 9)}"),
    ],
    "08-block": [
        ("(32, 8)", "[64, 4]"),
        ("(32, 8)", "(256, 1)"),
        ("(32, 8)", "tuple(torch.tensor([128, 2]).tolist())"),
    ],
    "08-energy": [
        (_ONE_LOAD, "reinterpret_cast<const float4*>(bodies)[i]"),
        (_ONE_LOAD, "*(const float4*)(bodies + 4 * i)"),
        (_ONE_LOAD, "*((float4*)bodies + i)"),
        (  # one load in the machine code, three in the source
            _ONE_LOAD + ";",
            _ONE_LOAD + ";\n    body.x = bodies[4 * i], body.y = ((const float4*)bodies)[i].y;",
        ),
    ],
    "08-rows": [
        (_PLACE, "r = i / w, c = i - r * w"),
        (_PLACE, "c = i % w, r = (i - c) / w"),
    ],
    "08-negative": [
        (_LOOP, _FLIPPED),
        ("uint4", "int4"),
        ("i + 16 <= n", "n >= 16 && i <= n - 16"),
        (
            "    if (i + 16 <= n) {",
            "    if (i >= n) return;\n    if (i + 16 <= n) {",
        ),
        ("*(const uint4*)(x + i)", "reinterpret_cast<const uint4*>(x)[i / 16]"),
    ],
}

WRONG = {
    "08-stride": [
        ("wrong: a request with stride 9 does not touch 36 sectors", "9: 32", "9: 36"),  # more sectors than lanes
        ("wrong", "0: 1", "0: 32"),  # lanes share a sector
        ("wrong", "3: 12", "3: 16"),  # rounded up to a power of two
        ("wrong", "6: 24", "6: 32"),
        ("wrong: this exercise takes a dictionary", "3: 12, 6: 24, 9: 32", "2: 8, 4: 16, 8: 32"),
        ("wrong: this exercise takes a dictionary", "0: 1", "'0': 1"),
        ("wrong: this exercise takes a dictionary", "3: 12", "3: 12.0"),
        ("wrong: this exercise takes a dictionary", "3: 12", "3: '12'"),
        ("wrong: this exercise takes a dictionary", _STRIDES, "sectors_of_stride = [1, 12, 24, 32]"),
        ("wrong: this exercise takes a dictionary", _STRIDES, "sectors_of_stride = 32"),
        ("not yet", "9: 32", "9: None"),
    ],
    "08-block": [
        ("wrong: with a block of (16, 16), the lanes of a warp are in 2 rows", "(32, 8)", "(16, 16)"),
        ("wrong: with a block of (8, 32), the lanes of a warp are in 4 rows", "(32, 8)", "(8, 32)"),
        ("wrong: a block of (32, 32) does not have 256 threads", "(32, 8)", "(32, 32)"),
        ("wrong: a block of (-32, -8) does not have 256 threads", "(32, 8)", "(-32, -8)"),
        ("wrong: this exercise takes a pair (x, y)", "(32, 8)", "256"),
        ("wrong: this exercise takes a pair (x, y)", "(32, 8)", "(32, 8, 1)"),
        ("wrong: this exercise takes a pair (x, y)", "(32, 8)", "'32 x 8'"),
        ("wrong: this exercise takes a pair (x, y)", "(32, 8)", "(32.0, 8)"),
        ("wrong: this exercise takes a pair (x, y)", "(32, 8)", "torch.eye(2)"),
    ],
    "08-energy": [
        ("out of bounds", _ONE_LOAD, "((const float4*)bodies)[4 * i]"),
        ("crashed", _ONE_LOAD, "*(const float4*)(bodies + i)"),  # misaligned
        ("does not compile", _ONE_LOAD, "(const float4*)bodies[i]"),  # casts a float
        ("does not compile", _ONE_LOAD, "bodies[i]"),
        ("out of bounds", "i >= n", "i > n"),
        ("wrong", "mass = body.w", "mass = body.x"),
        ("unwritten", "i >= n", "i >= n - 1"),
        ("right, but slow", *_PARTS),  # what is to be fixed
        (
            "right, but slow",  # a struct without alignment is read number by number
            f"float4 body = {_ONE_LOAD};",
            "struct Body { float x, y, z, w; };\n    Body body = ((const Body*)bodies)[i];",
        ),
        ("wrong: this exercise takes CUDA C++ as text", "", "energy_src = 16"),
    ],
    "08-rows": [
        ("right, but slow", _PLACE, "r = i % h, c = i / h"),  # what is to be fixed
        ("out of bounds", _PLACE, "r = i % w, c = i / w"),  # swapped
        ("out of bounds", _PLACE, "r = i / h, c = i % h"),
        ("out of bounds", "i >= h * w", "i > h * w"),
        ("unwritten", "i >= h * w", "i >= h * w - 1"),
        ("raced", "c = i % w", "c = 0"),
        ("does not compile", _PLACE, "r = i // w, c = i % w"),
        ("wrong: this exercise takes CUDA C++ as text", "", "rows_src = None or torch.zeros(2)"),
    ],
    "08-negative": [
        ("unwritten", _TAIL, ";"),  # without what is left
        ("out of bounds", "i + 16 <= n", "i < n"),
        ("out of bounds", "i + 16 <= n", "i + 15 <= n"),
        ("crashed", "uint4*)(x + i)", "uint4*)(x + i + 1)"),  # misaligned
        ("crashed", "size_t i = 16 * (", "size_t i = ("),  # misaligned
        ("wrong", "k < 16", "k < 4"),
        ("wrong", "255 - ((", "256 - (("),
        ("does not compile", "*(const uint4*)(x + i)", "(uint4)x[i]"),
        ("right, but slow", "", f'{_NEGATIVE}{_BYTE_BY_BYTE}\n}}\n"""'),
        ("not yet", "", f'{_NEGATIVE}\n}}\n"""'),
        ("wrong: this exercise takes CUDA C++ as text", "", "negative_src = lambda x: 255 - x"),
    ],
}
