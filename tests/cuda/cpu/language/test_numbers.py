"""Functions of integers and floats, and conversions between them, against values computed without them."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.cuda.cpu.language.launching import run, same, signed
from utils import compile_kernel

# ---- integers -------------------------------------------------------------------------------------------------------


def byte_perm(x, y, select):
    eight = (y << 32 | x).to_bytes(8, "little")
    chosen = []
    for i in range(4):
        chosen.append(eight[select >> 4 * i & 7])
    return int.from_bytes(bytes(chosen), "little")


def parts(x, bits, is_signed):
    found = [x >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(p, bits) for p in found] if is_signed else found


def in_parts(bits, is_signed, function):
    """The expected result of a SIMD function that does the same to each part."""

    def expected(x, y):
        results = [function(p, q) for p, q in zip(parts(x, bits, is_signed), parts(y, bits, is_signed), strict=True)]
        return sum((r & ((1 << bits) - 1)) << bits * i for i, r in enumerate(results))

    return expected


def clamped(bits, is_signed):
    low = -(1 << (bits - 1)) if is_signed else 0
    return lambda x: max(low, min(low + (1 << bits) - 1, x))


def average(p, q):  # halves are rounded away from zero
    return (p + q + (p + q >= 0)) // 2


# C++ of two unsigned ints x, y and what it must give, as 32 bits. Python's integers have no end.
INTEGERS = {
    "__popc(x)": lambda x, y: x.bit_count(),
    "__popcll((unsigned long long)x << 32 | y)": lambda x, y: (x << 32 | y).bit_count(),
    "__clz(x)": lambda x, y: 32 - x.bit_length(),
    "__clzll((long long)x)": lambda x, y: 64 - x.bit_length(),
    "__ffs(x)": lambda x, y: (x & -x).bit_length(),
    "__ffsll((long long)x << 20)": lambda x, y: (x << 20 & -(x << 20)).bit_length(),
    "__brev(x)": lambda x, y: int(f"{x:032b}"[::-1], 2),
    "(unsigned)(__brevll((unsigned long long)x << 32 | y) >> 16)": lambda x, y: (
        int(f"{x << 32 | y:064b}"[::-1], 2) >> 16
    ),
    "__byte_perm(x, y, 0x3b61)": lambda x, y: byte_perm(x, y, 0x3B61),
    "__byte_perm(x, y, y)": lambda x, y: byte_perm(x, y, y),
    "__funnelshift_l(x, y, x)": lambda x, y: (y << 32 | x) << (x & 31) >> 32,
    "__funnelshift_r(x, y, 37)": lambda x, y: (y << 32 | x) >> 5,
    "__funnelshift_lc(x, y, 33)": lambda x, y: x,
    "__funnelshift_rc(x, y, 32)": lambda x, y: y,
    "__mulhi((int)x, (int)y)": lambda x, y: signed(x) * signed(y) >> 32,
    "__umulhi(x, y)": lambda x, y: x * y >> 32,
    "__mul24((int)x, (int)y)": lambda x, y: signed(x, 24) * signed(y, 24),
    "__umul24(x, y)": lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "__mul64hi((long long)(int)x << 20, (long long)(int)y << 20)": lambda x, y: signed(x) * signed(y) << 40 >> 64,
    "__umul64hi((unsigned long long)x << 20, (unsigned long long)y << 24)": lambda x, y: x * y << 44 >> 64,
    "__sad((int)x, (int)y, 5)": lambda x, y: abs(signed(x) - signed(y)) + 5,
    "__usad(x, y, 5)": lambda x, y: abs(x - y) + 5,
    "__hadd((int)x, (int)y)": lambda x, y: (signed(x) + signed(y)) >> 1,
    "__rhadd((int)x, (int)y)": lambda x, y: (signed(x) + signed(y) + 1) >> 1,
    "__uhadd(x, y)": lambda x, y: (x + y) >> 1,
    "__urhadd(x, y)": lambda x, y: (x + y + 1) >> 1,
    "__dp4a((int)x, (int)y, 7)": lambda x, y: (
        7 + sum(p * q for p, q in zip(parts(x, 8, 1), parts(y, 8, 1), strict=True))
    ),
    "__dp4a(x, y, 7u)": lambda x, y: 7 + sum(p * q for p, q in zip(parts(x, 8, 0), parts(y, 8, 0), strict=True)),
    "__dp2a_lo((int)x, (int)y, 1)": lambda x, y: (
        1 + sum(p * q for p, q in zip(parts(x, 16, 1), parts(y, 8, 1)[:2], strict=True))
    ),
    "__dp2a_hi(x, y, 1u)": lambda x, y: (
        1 + sum(p * q for p, q in zip(parts(x, 16, 0), parts(y, 8, 0)[2:], strict=True))
    ),
    "min((int)x, (int)y)": lambda x, y: min(signed(x), signed(y)),
    "max(x, y)": max,
    "umin(x, y)": min,
    "(unsigned)llmax((long long)(int)x, (long long)(int)y)": lambda x, y: max(signed(x), signed(y)),
    "abs((int)x)": lambda x, y: abs(signed(x)),
    "__vabs4(x)": lambda x, y: in_parts(8, True, lambda p, q: abs(p))(x, 0),
    "__vneg2(x)": lambda x, y: in_parts(16, True, lambda p, q: -p)(x, 0),
    "__vsadu4(x, y)": lambda x, y: sum(abs(p - q) for p, q in zip(parts(x, 8, 0), parts(y, 8, 0), strict=True)),
    "__vsads2(x, y)": lambda x, y: sum(
        abs(p - q) & 0xFFFF for p, q in zip(parts(x, 16, 1), parts(y, 16, 1), strict=True)
    ),
}
for _bits, _end in ((16, "2"), (8, "4")):
    INTEGERS |= {
        f"__vadd{_end}(x, y)": in_parts(_bits, False, lambda p, q: p + q),
        f"__vsub{_end}(x, y)": in_parts(_bits, False, lambda p, q: p - q),
        f"__vcmpeq{_end}(x, y)": in_parts(_bits, False, lambda p, q: -(p == q)),
        f"__vhaddu{_end}(x, y)": in_parts(_bits, False, lambda p, q: (p + q) // 2),
    }
    for _signed, _letter in ((False, "u"), (True, "s")):
        _fit = clamped(_bits, _signed)
        INTEGERS |= {
            f"__vmax{_letter}{_end}(x, y)": in_parts(_bits, _signed, max),
            f"__vmin{_letter}{_end}(x, y)": in_parts(_bits, _signed, min),
            f"__vabsdiff{_letter}{_end}(x, y)": in_parts(_bits, _signed, lambda p, q: abs(p - q)),
            f"__vavg{_letter}{_end}(x, y)": in_parts(_bits, _signed, average),
            f"__vcmplt{_letter}{_end}(x, y)": in_parts(_bits, _signed, lambda p, q: -(p < q)),
            f"__vsetge{_letter}{_end}(x, y)": in_parts(_bits, _signed, lambda p, q: p >= q),
            f"__vadd{_letter}s{_end}(x, y)": in_parts(_bits, _signed, lambda p, q, fit=_fit: fit(p + q)),
            f"__vsub{_letter}s{_end}(x, y)": in_parts(_bits, _signed, lambda p, q, fit=_fit: fit(p - q)),
        }


def dpx(end, bits, is_signed):
    """DPX with numbers of a type, the third of which is 5."""
    third = sum(5 << k for k in range(0, 32, bits))

    def each(function):
        return in_parts(bits, is_signed, function)

    def total(p, q):
        return signed(p + q, bits) if is_signed else (p + q) & (1 << bits) - 1

    def chosen(choose, is_first):
        by_part = list(enumerate(range(0, 32, bits)))
        flags = in_parts(bits, is_signed, is_first)
        return lambda x, y: each(choose)(x, y) ^ sum((flags(x, y) >> at & 1) << k for k, at in by_part)

    found = {
        f"__vimax3_{end}(x, y, {third})": each(lambda p, q: max(p, q, 5)),
        f"__vimin3_{end}(x, y, {third})": each(lambda p, q: min(p, q, 5)),
        f"__viaddmax_{end}(x, y, {third})": each(lambda p, q: max(total(p, q), 5)),
        f"__viaddmin_{end}(x, y, {third})": each(lambda p, q: min(total(p, q), 5)),
    }
    if is_signed:
        found |= {
            f"__vimax_{end}_relu(x, y)": each(lambda p, q: max(p, q, 0)),
            f"__vimin_{end}_relu(x, y)": each(lambda p, q: max(min(p, q), 0)),
            f"__vimin3_{end}_relu(x, y, {third})": each(lambda p, q: max(min(p, q, 5), 0)),
            f"__vimax3_{end}_relu(x, y, {third})": each(lambda p, q: max(p, q, 5)),
            f"__viaddmin_{end}_relu(x, y, {third})": each(lambda p, q: max(min(total(p, q), 5), 0)),
            f"__viaddmax_{end}_relu(x, y, {third})": each(lambda p, q: max(total(p, q), 5)),
        }
    flags, bits_of_flags = ("&low", "low") if bits == 32 else ("&high, &low", "(2u * high + low)")
    for name, choose, is_first in (("max", max, lambda p, q: p >= q), ("min", min, lambda p, q: p <= q)):
        code = f"[&] {{ bool high, low; auto r = __vib{name}_{end}(x, y, {flags}); return r ^ {bits_of_flags}; }}()"
        found[code] = chosen(choose, is_first)
    return found


for _end, _bits, _signed in (("s32", 32, True), ("u32", 32, False), ("s16x2", 16, True), ("u16x2", 16, False)):
    INTEGERS |= dpx(_end, _bits, _signed)


def integer_source():
    rows = "".join(f"    out[{k} * n + i] = {code};\n" for k, code in enumerate(INTEGERS))
    head = "__global__ void integers(const unsigned* a, const unsigned* b, unsigned* out, int n) {\n"
    head += "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n"
    head += "    unsigned x = a[i], y = b[i];\n"
    return head + rows + "}\n"


def test_integers(backend):
    special = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x7F80FF01, 0x80008000, 0x00FFFF00]
    generator = np.random.default_rng(2)
    a = [*special, *special[::-1], *generator.integers(0, 2**32, 237).tolist()]
    b = [*special, *special, *generator.integers(0, 2**32, 237).tolist()]
    n = len(a)
    x, y = (torch.tensor(v, dtype=torch.int64).to(torch.int32) for v in (a, b))
    *_, out = run(
        backend, integer_source(), "integers", 3, 96, x, y, torch.zeros(len(INTEGERS), n, dtype=torch.int32), n
    )
    got = out.to(torch.int64) & 0xFFFFFFFF
    for k, (code, expected) in enumerate(INTEGERS.items()):
        wanted = [int(expected(p, q)) & 0xFFFFFFFF for p, q in zip(a, b, strict=True)]
        wrong = [
            (hex(p), hex(q), hex(g), hex(w)) for p, q, g, w in zip(a, b, got[k].tolist(), wanted, strict=True) if g != w
        ]
        assert not wrong, f"{code}: {len(wrong)} wrong, first (x, y, got, expected) {wrong[0]}"


# ---- floats ---------------------------------------------------------------------------------------------------------

# C++ of a float x and a float y in (0, 1), and the same for float64 tensors.
FLOATS = {
    "rsqrtf(y)": lambda x, y: y.rsqrt(),
    "rcbrtf(y)": lambda x, y: y ** (-1 / 3),
    "fmaf(x, y, 2.0f)": lambda x, y: x * y + 2,
    "exp10f(y)": lambda x, y: 10**y,
    "sinpif(x)": lambda x, y: (torch.pi * x).sin(),
    "cospif(x)": lambda x, y: (torch.pi * x).cos(),
    "normcdff(x)": lambda x, y: torch.special.ndtr(x),
    "erfcxf(x)": lambda x, y: torch.special.erfcx(x),
    "erfcxf(64 * y)": lambda x, y: torch.special.erfcx(64 * y),
    "hypotf(x, y)": lambda x, y: torch.hypot(x, y),
    "rhypotf(x, y)": lambda x, y: 1 / torch.hypot(x, y),
    "norm3df(x, y, 2.0f)": lambda x, y: (x**2 + y**2 + 4).sqrt(),
    "rnorm4df(x, y, 2.0f, 1.0f)": lambda x, y: (x**2 + y**2 + 5).rsqrt(),
    "__expf(x)": lambda x, y: x.exp(),
    "__exp10f(y)": lambda x, y: 10**y,
    "__logf(y + 2)": lambda x, y: (y + 2).log(),
    "__log2f(y + 2)": lambda x, y: (y + 2).log2(),
    "__log10f(y + 2)": lambda x, y: (y + 2).log10(),
    "__sinf(x)": lambda x, y: x.sin(),
    "__cosf(x)": lambda x, y: x.cos(),
    "__tanf(y)": lambda x, y: y.tan(),
    "__powf(y, x)": lambda x, y: y**x,
    "__fdividef(x, y)": lambda x, y: x / y,
    "__saturatef(x)": lambda x, y: x.clamp(0, 1),
    "__frcp_rn(y)": lambda x, y: 1 / y,
    "__fsqrt_rn(y)": lambda x, y: y.sqrt(),
    "__frsqrt_rn(y)": lambda x, y: y.rsqrt(),
    "__fdiv_rn(x, y)": lambda x, y: x / y,
    "(float)__dadd_rn((double)x, (double)y)": lambda x, y: x + y,
    "(float)__fma_rn((double)x, (double)y, 1.0)": lambda x, y: x * y + 1,
    "(float)__dmul_rn((double)x, __drcp_rn((double)y))": lambda x, y: x / y,
    "(float)__dsqrt_rn((double)y)": lambda x, y: y.sqrt(),
    "(float)rsqrt((double)y)": lambda x, y: y.rsqrt(),
    "(float)sinpi((double)x)": lambda x, y: (torch.pi * x).sin(),
    "fminf(x, y) + min(x, 0.25f) + max(x, y)": lambda x, y: (
        torch.minimum(x, y) + x.clamp(max=0.25) + torch.maximum(x, y)
    ),
    "max(NAN, x) + min(y, NAN)": lambda x, y: x + y,
    "abs(x) + fabsf(x)": lambda x, y: 2 * x.abs(),
    "CUDART_PI_F * x": lambda x, y: torch.pi * x,
    "CUDART_INF_F * y": lambda x, y: float("inf") * y,
    "__int_as_float(__float_as_int(x))": lambda x, y: x,
    "__uint_as_float(__float_as_uint(x) ^ 0x80000000u)": lambda x, y: -x,
    "(float)__longlong_as_double(__double_as_longlong((double)x))": lambda x, y: x,
    "(float)__hiloint2double(__double2hiint((double)x), __double2loint((double)x))": lambda x, y: x,
}


def float_source():
    rows = "".join(f"    out[{k} * n + i] = {code};\n" for k, code in enumerate(FLOATS))
    return (
        "#include <math_constants.h>\n"
        "__global__ void floats(const float* a, const float* b, float* out, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n    float x = a[i], y = b[i];\n"
        + rows
        + "    float s, c, sp, cp;\n    __sincosf(x, &s, &c);\n    sincospif(x, &sp, &cp);\n"
        + f"    out[{len(FLOATS)} * n + i] = s + 2 * c;\n    out[{len(FLOATS) + 1} * n + i] = sp + 2 * cp;\n}}\n"
    )


def test_floats(backend):
    n = 1001
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(n, generator=generator).clamp(-3, 3)
    y = torch.rand(n, generator=generator) * 0.99 + 0.005
    *_, out = run(backend, float_source(), "floats", 8, 128, x, y, torch.zeros(len(FLOATS) + 2, n), n)
    w, z = x.double(), y.double()
    expected = [f(w, z) for f in FLOATS.values()]
    expected += [w.sin() + 2 * w.cos(), (torch.pi * w).sin() + 2 * (torch.pi * w).cos()]
    for code, got, value in zip([*FLOATS, "__sincosf", "sincospif"], out, expected, strict=True):
        torch.testing.assert_close(
            got, value.float(), rtol=2e-6, atol=4e-6, msg=lambda text, code=code: f"{code}: {text}"
        )


# C++ of float parameters: the value. The fast functions are what nvcc makes of them: lg2, mul, ex2, and div.approx.
SPECIAL = {
    "__powf(-two, two)": "nan",
    "__powf(0 * two, 0 * two)": "nan",
    "__powf(two, -two)": 0.25,
    "__fdividef(8, large)": 0.0,
    "__fdividef(-8, large)": -0.0,
    "__fdividef(infinite, large)": "nan",
    "__fdividef(8, infinite)": 0.0,
    "__fdividef(large, large / 4)": 4.0,
    "norm3df(none, two, -infinite)": "inf",
    "rnorm3df(none, two, infinite)": 0.0,
    "norm4df(none, two, two, infinite)": "inf",
    "rnorm4df(infinite, none, two, two)": 0.0,
    "rhypotf(infinite, none)": 0.0,
    "norm3df(none, two, two)": "nan",
    "norm3df(large, 0, 0)": float(torch.tensor(1.2e38)),
}


def test_floats_beyond_the_usual(backend):
    rows = "".join(f"    out[{k}] = {code};\n" for k, code in enumerate(SPECIAL))
    source = f"__global__ void k(float* out, float two, float large, float infinite, float none) {{\n{rows}}}\n"
    given = (2.0, 1.2e38, float("inf"), float("nan"))
    out, *_ = run(backend, source, "k", 1, 1, torch.zeros(len(SPECIAL)), *given)
    assert dict(zip(SPECIAL, map(str, out.tolist()), strict=True)) == {k: str(float(v)) for k, v in SPECIAL.items()}


CASTS = r"""
#define ALL(F, from, T, to)                                                             \
    __global__ void from##_to_##to(const F* x, T* out, int n) {                         \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                  \
        if (i >= n) return;                                                             \
        out[i] = __##from##2##to##_rn(x[i]);                                            \
        out[n + i] = __##from##2##to##_rz(x[i]);                                        \
        out[2 * n + i] = __##from##2##to##_ru(x[i]);                                    \
        out[3 * n + i] = __##from##2##to##_rd(x[i]);                                    \
    }
ALL(float, float, int, int)
ALL(float, float, unsigned, uint)
ALL(float, float, long long, ll)
ALL(float, float, unsigned long long, ull)
ALL(double, double, int, int)
ALL(double, double, long long, ll)
ALL(double, double, float, float)
ALL(int, int, float, float)
ALL(long long, ll, float, float)
ALL(long long, ll, double, double)
__global__ void directed(const float* a, const float* b, const float* c, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i], z = c[i];
    float results[] = {__fadd_rn(x, y), __fadd_rz(x, y), __fadd_ru(x, y), __fadd_rd(x, y),
                       __fmul_rn(x, y), __fmul_rz(x, y), __fmul_ru(x, y), __fmul_rd(x, y),
                       __fmaf_rn(x, y, z), __fmaf_rz(x, y, z), __fmaf_ru(x, y, z), __fmaf_rd(x, y, z),
                       __fdiv_rn(x, y), __fdiv_rz(x, y), __fdiv_ru(x, y), __fdiv_rd(x, y),
                       __fsub_rn(x, y), __fsub_rz(x, y), __fsub_ru(x, y), __fsub_rd(x, y)};
    for (int k = 0; k < 20; k++) out[k * n + i] = results[k];
}
"""


def in_four_directions(exact, dtype):
    """Fractions rounded to a floating type: to nearest, to zero, up and down."""
    scalar = {torch.float32: np.float32, torch.float64: np.float64}[dtype]
    results = []
    for value in exact:
        near = scalar(float(value)) if dtype == torch.float64 else nearest_float(value)
        is_equal = Fraction(float(near)) == value
        below = near if Fraction(float(near)) <= value else np.nextafter(near, scalar(-np.inf))
        above = near if Fraction(float(near)) >= value else np.nextafter(near, scalar(np.inf))
        assert is_equal or below < above
        results.append((near, below if value > 0 else above, above, below))
    return torch.from_numpy(np.array(results, dtype=scalar)).T.contiguous()


def nearest_float(value):
    """A Fraction as a float32, rounded once: float() rounds correctly, to 53 bits, so the exact value has the say."""
    near = np.float32(float(value))
    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    even = lambda f: int(np.float32(f).view(np.int32)) & 1  # noqa: E731
    return min(candidates, key=lambda f: (abs(Fraction(float(f)) - value), even(f)))


@pytest.mark.parametrize(
    "name", ["float_to_int", "float_to_uint", "float_to_ll", "float_to_ull", "double_to_int", "double_to_ll"]
)
def test_floats_become_integers(backend, name):
    source, _, target = name.split("_")
    dtype = {"float": torch.float32, "double": torch.float64}[source]
    bits, is_signed = (64 if "ll" in target else 32), not target.startswith("u")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    values = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        0.99,
        -0.99,
        1e10,
        -1e10,
        1e20,
        -1e20,
        2.0**31,
        2.0**32,
        2.0**63,
        2.0**64,
    ]
    values += [float("inf"), -float("inf"), float("nan"), 2147483520.0, 8388609.5, -(2.0**31), 16777217.0]
    x = torch.tensor(
        [*values, *(torch.randn(100, generator=torch.Generator().manual_seed(1)) * 1e5).tolist()], dtype=dtype
    )
    n, integer = len(x), {32: torch.int32, 64: torch.int64}[bits]
    _, out = run(backend, CASTS, name, 1, 256, x, torch.zeros(4, n, dtype=integer), n)
    not_a_number = 1 << (bits - 1) if source == "double" or bits == 64 else 0
    for k, direction in enumerate((round, int, lambda v: -(-v // 1), lambda v: v // 1)):
        for value, got in zip(x.tolist(), out[k].tolist(), strict=True):
            if value != value:
                wanted = not_a_number
            elif abs(value) == float("inf"):
                wanted = high if value > 0 else low
            else:
                wanted = max(low, min(high, int(direction(Fraction(value)))))
            assert signed(wanted, bits) == got, (name, k, value)


@pytest.mark.parametrize("name", ["double_to_float", "int_to_float", "ll_to_float", "ll_to_double"])
def test_numbers_become_floats(backend, name):
    source, _, target = name.split("_")
    generator = np.random.default_rng(6)
    if source == "double":
        x = torch.from_numpy(np.concatenate([generator.standard_normal(300) * 1e3, [0.1, 1 + 2.0**-24, 1 + 2.0**-25]]))
    else:
        bits, dtype = {"int": (32, torch.int32), "ll": (64, torch.int64)}[source]
        near_middle = [(1 << 24) + 1, (1 << 30) + 65, -(1 << 30) - 63, (1 << 31) - 1]
        near_middle += [(1 << 62) + (1 << 38) + 1, (1 << 62) + 257, -(1 << 61) - 129] if bits == 64 else []
        x = torch.tensor(
            [*near_middle, *generator.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 300).tolist()], dtype=dtype
        )
    n, dtype = len(x), {"float": torch.float32, "double": torch.float64}[target]
    _, out = run(backend, CASTS, name, 3, 128, x, torch.zeros(4, n, dtype=dtype), n)
    same(out, in_four_directions([Fraction(v) for v in x.tolist()], dtype))


def test_arithmetic_in_four_directions(backend):
    n = 500
    generator = torch.Generator().manual_seed(7)
    a, b, c = (
        torch.randn(n, generator=generator) * 2.0 ** torch.randint(-30, 30, (n,), generator=generator) for _ in range(3)
    )
    *_, out = run(backend, CASTS, "directed", 4, 128, a, b, c, torch.zeros(20, n), n)
    triples = [tuple(map(Fraction, t)) for t in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    for k, f in enumerate(
        (
            lambda x, y, z: x + y,
            lambda x, y, z: x * y,
            lambda x, y, z: x * y + z,
            lambda x, y, z: x / y,
            lambda x, y, z: x - y,
        )
    ):
        same(out[4 * k : 4 * k + 4], in_four_directions([f(*t) for t in triples], torch.float32))


def test_the_larger_of_two_zeros_is_the_positive_one(backend):
    source = """__global__ void zeros(float* out, const float* x, const double* y) {
        out[0] = 1 / max(x[0], x[1]), out[1] = 1 / max(x[1], x[0]), out[2] = 1 / max(x[0], x[0]);
        out[3] = 1 / min(x[0], x[1]), out[4] = 1 / min(x[1], x[0]), out[5] = 1 / min(x[1], x[1]);
        out[6] = 1 / max(y[0], y[1]), out[7] = 1 / min(y[1], y[0]), out[8] = max(y[0], x[1] / x[1]);
    }"""
    out, x = torch.zeros(9, device=backend), torch.tensor([-0.0, 0.0], device=backend)
    compile_kernel(source, "zeros")[1, 1](out, x, x.double())
    inf = float("inf")
    assert out.tolist() == [inf, inf, -inf, -inf, -inf, inf, inf, -inf, -0.0]


def test_the_sign_of_a_zero_is_a_gpu_s(backend):
    source = """__global__ void zeros(float* out, const float* x, const double* y) {
        float results[] = {fmaxf(x[0], x[1]), fmaxf(x[1], x[0]), fminf(x[0], x[1]), fminf(x[1], x[0]),
                           fmax(x[0], x[1]), (float)fmax(y[0], y[1]), (float)fmin(y[1], y[0]),
                           __fadd_rd(x[0], x[1]), __fadd_rd(x[1], x[1]), __fsub_rd(x[2], x[2]),
                           __fmaf_rd(x[2], 1, -x[2]), __fmaf_rz(x[2], 1, -x[2]), __fadd_ru(x[2], -x[2]),
                           (float)__dadd_rd(y[2], -y[2])};
        for (int i = 0; i < 14; i++) out[i] = 1 / results[i];
        out[14] = fmaxf(x[3], x[2]), out[15] = fminf(x[2], x[3]), out[16] = fmaxf(x[2], x[4]);
        out[17] = 1 / cospif(x[2] - 2), out[18] = 1 / cospif(x[2] - 1), out[19] = 1 / sinpif(x[4]);
    }"""
    out, x = torch.zeros(20, device=backend), torch.tensor([-0.0, 0.0, 2.5, float("nan"), -1.0], device=backend)
    compile_kernel(source, "zeros")[1, 1](out, x, x.double())
    inf = float("inf")
    assert out[:7].tolist() == [inf, inf, -inf, -inf, inf, inf, -inf]
    assert out[7:14].tolist() == [-inf, inf, -inf, -inf, inf, inf, -inf]
    assert out[14:].tolist() == [2.5, 2.5, 2.5, inf, inf, -inf]
