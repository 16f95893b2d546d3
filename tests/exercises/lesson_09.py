"""Other answers to the exercises of lesson 09: what the solution has there, what replaces it, and the verdict."""

_LENGTH = "32 + columns % 32"
_LARGEST = "max(places.count(place) for place in range(8))"
_BARRIER = "    __syncthreads();  // otherwise a thread reads elements that other warps have not loaded yet\n"
_IN, _OUT = "tile[tr][tc ^ tr]", "tile[tc][tr ^ tc]"
_UNIT = "r * units + units - 1 - u"
_TURNED = "make_float4(v.w, v.z, v.y, v.x)"
_LOAD_AND_STORE = f"    float4 v = ((const float4*)x)[i];\n    ((float4*)out)[{_UNIT}] = {_TURNED};\n"


def _double(into, from_, more=""):
    """A transpose that puts a number into the tile at one place and takes it from another; `more` is set up before."""
    return f'''double_src = r"""
__global__ void transpose_double(const double* x, double* out, int h, int w) {{
    __shared__ double tile[16][16];
    int tr = threadIdx.y, tc = threadIdx.x{more};
    int r = blockIdx.y * 16 + tr, c = blockIdx.x * 16 + tc;
    if (r < h && c < w) {into} = x[r * w + c];
    __syncthreads();
    r = blockIdx.x * 16 + tr, c = blockIdx.y * 16 + tc;
    if (r < w && c < h) out[r * h + c] = {from_};
}}
"""'''


RIGHT = {
    "09-padding": [
        (_LENGTH, "32 if columns == 32 else 32 + columns"),
        (_LENGTH, "{1: 33, 2: 34, 4: 36, 8: 40, 16: 48, 32: 32}[columns]"),
        (_LENGTH, "torch.tensor(32 + columns % 32)"),
        (
            f"    return {_LENGTH}",
            "    length = 32\n"
            "    while len({(length * (i // columns) + i % columns) % 32 for i in range(32)}) < 32:\n"
            "        length += 1\n"
            "    return length",
        ),
    ],
    "09-units": [
        (_LARGEST, "float(max(map(places.count, places)))"),
        (_LARGEST, "np.bincount(places).max()"),
        (
            "",
            "def wavefronts_of_units(units):\n"
            "    quarters = np.array(units).reshape(4, 8) % 8\n"
            "    return sum(np.bincount(quarter).max() for quarter in quarters)\n",
        ),
    ],
    "09-swizzle": [
        ("", _double("tile[tr][(tc + tr) % 16]", "tile[tc][(tr + tc) % 16]")),
        ("", _double("tile[tc][tr ^ tc]", "tile[tr][tc ^ tr]")),  # turned on its way in
        ("", _double("(&tile[0][0])[16 * tr + p]", "(&tile[0][0])[16 * tc + p]", ", p = tr ^ tc")),
    ],
    "09-mirror": [
        (_UNIT, "i + units - 1 - 2 * u"),
        (_TURNED, "{v.w, v.z, v.y, v.x}"),
        (
            _LOAD_AND_STORE,
            "    float4 v = *(const float4*)(x + r * w + w - 4 - 4 * u);\n"
            "    float4 turned;\n"
            "    turned.x = v.w, turned.y = v.z, turned.z = v.y, turned.w = v.x;\n"
            "    ((float4*)out)[i] = turned;\n",
        ),
    ],
}

WRONG = {
    "09-padding": [
        ("wrong: with columns = 2 and rows of 33 words, the read takes 2 wavefronts", _LENGTH, "33"),
        ("wrong: for columns = 32, rows shorter than 64 words take one wavefront, too", _LENGTH, "32 + columns"),
        ("wrong: for columns = 1, rows shorter than 35 words", _LENGTH, "35"),
        ("wrong: for columns = 1 it returns 1, but a row has at least 32 words", _LENGTH, "columns % 32"),
        ("wrong: with columns = 1 and rows of 32 words, the read takes 32 wavefronts", _LENGTH, "32"),
        ("wrong: for columns = 1 it returns 33, of type float, but a length is an int", _LENGTH, "32.0 + columns"),
        ("wrong: for columns = 1 it returns '33', of type str", _LENGTH, "str(32 + columns)"),
        ("wrong: for columns = 1 it returns (33, 34), of", _LENGTH, "(33, 34)"),
        ("wrong: your function returned nothing", f"return {_LENGTH}", f"length = {_LENGTH}"),
        ("wrong: this exercise takes a Python function", "", "row_length = 33"),
        ("wrong: this exercise takes a Python function", "", "row_length = 'tile[32][33]'"),
    ],
    "09-units": [
        ("wrong", "return sum(", "return max("),  # the worst quarter alone
        ("wrong", "unit % 8", "unit % 4"),
        ("wrong", "(0, 8, 16, 24)", "(0, 16)"),
        ("wrong: the result should be 4, but yours is 32 (units = [0, 1, 2,", _LARGEST, "len(set(places))"),
        ("wrong", _LARGEST, f"{_LARGEST} - 1"),  # conflicts, and not wavefronts
        ("wrong: your function returned nothing", "return sum", "sum"),
        ("wrong", f"sum({_LARGEST} for places in quarters)", f"[{_LARGEST} for places in quarters]"),
        ("wrong", f"sum({_LARGEST} for places in quarters)", f"str(sum({_LARGEST} for places in quarters))"),
        ("crashed", _LARGEST, "places.count(unit)"),
        ("wrong: this exercise takes a Python function", "", "wavefronts_of_units = 4"),
    ],
    "09-swizzle": [
        ("right, but slow", "", _double("tile[tr][tc]", "tile[tc][tr]")),
        ("right, but slow", "", _double("tile[tr][tc ^ (tr / 2)]", "tile[tc][tr ^ (tc / 2)]")),
        (
            "right, but slow: its tile takes 2,176 bytes of shared memory",
            "",
            _double("tile[tr][tc]", "tile[tc][tr]").replace("[16][16]", "[16][17]"),
        ),
        ("right, but slow: in the machine code", "", _double("tile[tr][tc ^ tr]", "x[c * w + r]")),  # around the tile
        ("right, but slow: in the machine code", "", _double("out[c * h + r]", "out[r * h + c]")),  # without one
        ("uninitialized", _OUT, "tile[tc][tr]"),  # swizzled on one side only
        ("uninitialized", _OUT, "tile[tr][tc ^ tr]"),  # not turned
        ("raced", _BARRIER, ""),
        ("out of bounds", "tc ^ tr", "tc + tr"),
        ("out of bounds", "if (r < w && c < h) ", ""),
        ("unwritten", "blockIdx.y * 16 + tc", "blockIdx.y * 32 + tc"),
        ("does not compile", "tile[tc][tr ^ tc]", "tile[tc, tr ^ tc]"),
    ],
    "09-mirror": [
        ("wrong", _TURNED, "v"),  # the units alone
        ("wrong", _UNIT, "i"),  # within the units alone
        ("out of bounds", _UNIT, "r * units + units - u"),
        ("out of bounds", "i >= h * units", "i > h * units"),
        ("unwritten", "i >= h * units", "i >= h * units - 1"),
        ("out of bounds", "units = w / 4", "units = w"),
        ("crashed", "((const float4*)x)[i]", "*(const float4*)(x + i)"),  # misaligned
        (
            "right, but slow",  # 4 bytes at a time
            _LOAD_AND_STORE,
            "    for (int k = 0; k < 4; ++k) out[r * w + w - 1 - (4 * u + k)] = x[4 * i + k];\n",
        ),
        (
            "right, but slow",
            f"((float4*)out)[{_UNIT}] = {_TURNED};",
            (
                "float turned[] = {v.w, v.z, v.y, v.x};\n"
                f"    for (int k = 0; k < 4; ++k) out[4 * ({_UNIT}) + k] = turned[k];"
            ),
        ),
    ],
}
