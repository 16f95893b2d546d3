"""What device code may call: each function against values computed without it, on the CPU engine and on a GPU."""

import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from utils import CompileError, compile_kernel

SIXTEEN = {"half": (torch.float16, 10, -14), "bfloat16": (torch.bfloat16, 7, -126)}  # dtype, mantissa bits, exponent
ALL_16 = torch.arange(65536, dtype=torch.int32).to(torch.int16)  # every bit pattern


def run(backend, source, name, blocks, threads, *args):
    """Launch on the backend and bring the tensors back; numbers pass as they are."""
    kernel = compile_kernel(source, name)
    placed = [a.to(backend).contiguous() if isinstance(a, torch.Tensor) else a for a in args]
    kernel[blocks, threads](*placed)
    return [a.cpu() for a in placed if isinstance(a, torch.Tensor)]


def same(got, expected):
    """Equal bit for bit, but for the sign of a zero and the bits of a NaN."""
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def named(source, kind):
    """A source about half, also for bfloat16: the names that CUDA has for it there."""
    if kind == "half":
        return source
    source = source.replace("half2half2", "bfloat162bfloat162").replace("__half2 ", "__nv_bfloat162 ")
    source = re.sub(r"\bhalf2\b", "__nv_bfloat162", re.sub(r"\bhalf\b", "__nv_bfloat16", source))
    return re.sub(r"(?<=_)(\w*)half", r"\1bfloat16", source).replace("cuda_fp16.h", "cuda_bf16.h")


def neighbours(x, kind):
    """The largest 16-bit number not above each of `x` (float64), and the smallest not below."""
    grid = ALL_16.view(SIXTEEN[kind][0]).double()
    grid = grid[~grid.isnan()].unique().numpy()
    x = x.numpy()
    below = grid[np.searchsorted(grid, x, side="right") - 1]
    above = grid[np.searchsorted(grid, x, side="left")]
    return torch.from_numpy(below), torch.from_numpy(above)


def rounded(exact, kind):
    """A Fraction rounded to nearest, ties to even, as a float; no larger than the format's largest number."""
    _, mantissa, smallest = SIXTEEN[kind]
    if exact == 0:
        return 0.0
    exponent = smallest
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - mantissa)
    return float(round(exact / unit) * unit)  # round() takes ties to even


# ---- half and bfloat16 ----------------------------------------------------------------------------------------------

CONVERSIONS = r"""
#include <cuda_fp16.h>
__global__ void widen(const half* x, float* out, float* implicit, float* pairs, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __half2float(x[i]);
    implicit[i] = x[i];
    half2 p = __halves2half2(x[i], x[n - 1 - i]);
    float2 f = __half22float2(p);
    pairs[2 * i] = f.x;
    pairs[2 * i + 1] = __high2float(p);
}
__global__ void narrow(const float* x, half* rn, half* rz, half* ru, half* rd, half* implicit, half2* pair, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    rn[i] = __float2half_rn(x[i]);
    rz[i] = __float2half_rz(x[i]);
    ru[i] = __float2half_ru(x[i]);
    rd[i] = __float2half_rd(x[i]);
    implicit[i] = x[i];
    pair[i] = __floats2half2_rn(x[i], -x[i]);
}
__global__ void from_double(const double* x, half* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __double2half(x[i]);
}
__global__ void integers(const half* x, int* rn, int* rz, int* ru, int* rd, unsigned* u, const int* k, half* back,
                         short* bits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    rn[i] = __half2int_rn(x[i]);
    rz[i] = __half2int_rz(x[i]);
    ru[i] = __half2int_ru(x[i]);
    rd[i] = __half2int_rd(x[i]);
    u[i] = __half2uint_rn(x[i]);
    back[i] = __int2half_rn(k[i]);
    bits[i] = __half_as_short(__ushort_as_half(__half_as_ushort(x[i])));
}
"""


@pytest.mark.parametrize("kind", SIXTEEN)
def test_16_bits_become_float(backend, kind):
    x = ALL_16.view(SIXTEEN[kind][0])
    out, pairs = torch.zeros(65536), torch.zeros(65536, 2)
    _, out, implicit, pairs = run(
        backend, named(CONVERSIONS, kind), "widen", 256, 256, x, out, out.clone(), pairs, 65536
    )
    same(out, x.float())
    same(implicit, x.float())
    same(pairs, torch.stack([x.float(), x.float().flip(0)], 1))


def awkward_floats(kind):
    """All 16-bit numbers, the middles between them, the floats beside these, random floats, and the special ones."""
    grid = ALL_16.view(SIXTEEN[kind][0]).float()
    grid = grid[grid.isfinite()].unique()
    middles = (grid[1:].double() + grid[:-1].double()).div(2).float()
    infinity = torch.tensor(float("inf"))
    beside = [torch.nextafter(middles, infinity), torch.nextafter(middles, -infinity)]
    generator = torch.Generator().manual_seed(16)
    anything = torch.randint(-(2**31), 2**31 - 1, (100_003,), generator=generator).to(torch.int32).view(torch.float32)
    special = torch.tensor(
        [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 3.4e38, -3.4e38, 65519.99, 65520, 1e-45]
    )
    return torch.cat([grid, middles, *beside, anything, special])


@pytest.mark.parametrize("kind", SIXTEEN)
def test_float_becomes_16_bits(backend, kind):
    x = awkward_floats(kind)
    n, dtype = len(x), SIXTEEN[kind][0]
    out = [torch.zeros(n, dtype=dtype) for _ in range(5)] + [torch.zeros(n, 2, dtype=dtype)]
    _, rn, rz, ru, rd, implicit, pair = run(backend, named(CONVERSIONS, kind), "narrow", -(-n // 256), 256, x, *out, n)
    nearest = x.to(dtype)
    same(rn, nearest)
    same(implicit, nearest)
    same(pair, torch.stack([nearest, (-x).to(dtype)], 1))
    number = ~x.isnan()
    assert rz[~number].isnan().all() and ru[~number].isnan().all() and rd[~number].isnan().all()
    x = x[number].double()
    below, above = neighbours(x, kind)
    same(rd[number].double(), below)
    same(ru[number].double(), above)
    same(rz[number].double(), torch.where(x < 0, above, below))
    (_, from_double) = run(
        backend, named(CONVERSIONS, kind), "from_double", 400, 1024, x, torch.zeros(len(x), dtype=dtype), len(x)
    )
    same(from_double, nearest[number])


@pytest.mark.parametrize("kind", SIXTEEN)
def test_16_bits_and_integers(backend, kind):
    dtype, n = SIXTEEN[kind][0], 65536
    x = ALL_16.view(dtype)
    k = (torch.randint(-(2**31), 2**31 - 1, (n,)) >> torch.randint(0, 31, (n,))).to(torch.int32)
    ints = [torch.zeros(n, dtype=torch.int32) for _ in range(5)]
    got = run(
        backend, named(CONVERSIONS, kind), "integers", 256, 256, x, *ints, k, torch.zeros_like(x), ALL_16.clone(), n
    )
    wide = x.double().nan_to_num(nan=0.0)
    limits = torch.iinfo(torch.int32)
    for out, whole in zip(got[1:5], (wide.round(), wide.trunc(), wide.ceil(), wide.floor()), strict=True):
        same(out, whole.clamp(limits.min, limits.max).to(torch.int32))
    same(got[5].view(torch.uint32).to(torch.int64), wide.round().clamp(0, 2**32 - 1).to(torch.int64))
    largest = torch.finfo(dtype).max
    back = torch.tensor([rounded(Fraction(v), kind) for v in k[:5000].tolist()], dtype=torch.float64)
    back = torch.where(back.abs() > largest, back.sign() * float("inf"), back)
    same(got[7][:5000].double(), back)
    same(got[8], ALL_16)


ARITHMETIC = r"""
#include <cuda_fp16.h>
__global__ void arithmetic(const half* a, const half* b, const half* c, half* out, bool* held, half2* pairs, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half x = a[i], y = b[i];
    half sum = x;
    sum += y;
    half results[] = {x + y, x - y, x * y, x / y, __hfma(x, y, c[i]), __hadd(x, y), __hsub(x, y), __hmul(x, y),
                      __hdiv(x, y), -x, __habs(x), __hmax(x, y), __hmin(x, y), __hmax_nan(x, y), __hadd_sat(x, y),
                      __hfma_relu(x, y, c[i]), sum};
    for (int k = 0; k < 17; k++) out[k * n + i] = results[k];
    bool holds[] = {x == y, x != y, x < y, x <= y, x > y, x >= y, __hltu(x, y), __hequ(x, y), __hisnan(x),
                    __hisinf(x) != 0};
    for (int k = 0; k < 10; k++) held[k * n + i] = holds[k];
    half2 p = __halves2half2(x, y), q = __half2half2(c[i]);
    half2 both[] = {p + q, p * q, __hsub2(p, q), __h2div(p, q), __hfma2(p, q, p), __hneg2(p), __hmin2(p, q),
                    __hgt2(p, q), __lowhigh2highlow(p), __lows2half2(p, q), __highs2half2(p, q)};
    for (int k = 0; k < 11; k++) pairs[k * n + i] = both[k];
}
__global__ void mathematics(const half* a, half* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half x = a[i];
    half results[] = {hsqrt(x), hrsqrt(x), hrcp(x), hexp(x), hexp2(x), hlog(x), hlog2(x), hlog10(x), hsin(x), hcos(x),
                      hfloor(x), hceil(x), hrint(x), htrunc(x), __high2half(h2sqrt(__half2half2(x)))};
    for (int k = 0; k < 15; k++) out[k * n + i] = results[k];
}
"""


@pytest.mark.parametrize("kind", SIXTEEN)
def test_16_bit_arithmetic(backend, kind):
    dtype, n = SIXTEEN[kind][0], 100_003
    generator = torch.Generator().manual_seed(3)
    a, b, c = (ALL_16[torch.randint(0, 65536, (n,), generator=generator)].view(dtype) for _ in range(3))
    close = torch.randint(-40, 40, (n,), generator=generator).to(torch.int16)  # a and b of like size, as a rule
    b = torch.where(torch.arange(n) % 2 == 0, b, (a.view(torch.int16) ^ close).view(dtype))
    out, held = torch.zeros(17, n, dtype=dtype), torch.zeros(10, n, dtype=torch.bool)
    source = named(ARITHMETIC, kind)
    *_, out, held, pairs = run(
        backend, source, "arithmetic", -(-n // 128), 128, a, b, c, out, held, torch.zeros(11, n, 2, dtype=dtype), n
    )
    x, y = a.double(), b.double()
    sums = (x + y).to(dtype), (x - y).to(dtype), (x * y).to(dtype)  # exact in a double, or far from any middle
    divided = (x / y).to(dtype)
    for first in (0, 5):
        for k, expected in enumerate(sums):
            same(out[first + k], expected)
    tolerance = {} if backend.type == "cpu" else {"rtol": 2.0 ** -SIXTEEN[kind][1], "atol": 1e-7}
    for k in (3, 8):
        torch.testing.assert_close(out[k], divided, equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0}))
    same(out[9], -a)
    same(out[10], a.abs())
    larger = torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))
    smaller = torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.minimum(a, b)))
    same(out[11], larger)
    same(out[12], smaller)
    same(out[13], torch.maximum(a, b))
    same(out[14], (x + y).nan_to_num(nan=0.0).clamp(0, 1).to(dtype))
    same(out[16], sums[0])
    unordered = a.isnan() | b.isnan()
    truths = [a == b, ~unordered & (a != b) | unordered, a < b, a <= b, a > b, a >= b, unordered | (a < b)]
    same(held, torch.stack([*truths, unordered | (a == b), a.isnan(), a.isinf()]))

    p, q = torch.stack([a, b], 1), c[:, None].expand(n, 2)
    exact = p.double(), q.double()
    torch.testing.assert_close(
        pairs[3], (exact[0] / exact[1]).to(dtype), equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0})
    )
    expected = [exact[0] + exact[1], exact[0] * exact[1], exact[0] - exact[1]]
    for k, value in enumerate(expected):
        same(pairs[k], value.to(dtype))
    same(pairs[5], -p)
    same(pairs[6], torch.where(p.isnan(), q, torch.where(q.isnan(), p, torch.minimum(p, q))))
    same(pairs[7], (p > q).to(dtype))
    same(pairs[8], p.flip(1))
    same(pairs[9], torch.stack([a, c], 1))
    same(pairs[10], torch.stack([b, c], 1))


@pytest.mark.parametrize("kind", SIXTEEN)
def test_fused_multiply_add_rounds_once(backend, kind):
    """Among others products that lie in the middle between two numbers, where a tiny third term decides."""
    dtype, mantissa, smallest = SIXTEEN[kind]
    largest = torch.finfo(dtype).max
    generator = torch.Generator().manual_seed(5)
    n = 3000
    a, b = (torch.randn(n, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
    c = (-(a.double() * b.double()) * (1 + torch.randn(n, generator=generator) * 2.0**-mantissa)).to(dtype)
    step = 2.0 ** -((mantissa + 1) // 2)
    tie = 1 + step * torch.arange(n) % 1
    a[: n // 3] = tie[: n // 3].to(dtype)
    b[: n // 3] = tie[: n // 3].flip(0).to(dtype)
    tiny = 2.0 ** (smallest - mantissa)
    c[: n // 3] = torch.where(torch.arange(n // 3) % 2 == 0, tiny, -tiny).to(dtype)
    small = slice(n - 500, n)  # results among the subnormal numbers
    a[small] = (a[small].double() * 2.0 ** (smallest // 2)).to(dtype)
    b[small] = (b[small].double() * 2.0 ** (smallest // 2)).to(dtype)
    c[small] = ((torch.arange(500) - 250) * tiny).to(dtype)
    out, held = torch.zeros(17, n, dtype=dtype), torch.zeros(10, n, dtype=torch.bool)
    *_, out, _, pairs = run(
        backend,
        named(ARITHMETIC, kind),
        "arithmetic",
        24,
        128,
        a,
        b,
        c,
        out,
        held,
        torch.zeros(11, n, 2, dtype=dtype),
        n,
    )
    exact = [
        Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert all(abs(value) < largest for value in exact)
    once = torch.tensor([rounded(value, kind) for value in exact], dtype=torch.float64)
    twice = (a * b + c).double()
    assert (once != twice).sum() > n // 20, "these numbers must tell a fused from a separate addition"
    same(out[4].double(), once)
    same(out[15].double(), once.clamp(min=0))
    exact = [Fraction(x) * Fraction(z) + Fraction(x) for x, z in zip(b.tolist(), c.tolist(), strict=True)]
    same(pairs[4][:, 1].double(), torch.tensor([rounded(value, kind) for value in exact], dtype=torch.float64))


@pytest.mark.parametrize("kind", SIXTEEN)
def test_16_bit_mathematics(backend, kind):
    dtype, mantissa, _ = SIXTEEN[kind]
    x = ALL_16.view(dtype)
    x = x[(x.abs() < 20) & (x.abs() > 1e-3)]
    _, out = run(
        backend, named(ARITHMETIC, kind), "mathematics", 256, 256, x, torch.zeros(15, len(x), dtype=dtype), len(x)
    )
    w = x.double()
    expected = [w.sqrt(), w.rsqrt(), 1 / w, w.exp(), w.exp2(), w.log(), w.log2(), w.log10(), w.sin(), w.cos()]
    for k, value in enumerate(expected):
        torch.testing.assert_close(out[k], value.to(dtype), rtol=2.0**-mantissa, atol=2e-3, equal_nan=True)
    for k, value in enumerate((w.floor(), w.ceil(), w.round(), w.trunc())):
        same(out[10 + k], value.to(dtype))
    torch.testing.assert_close(out[14], w.sqrt().to(dtype), rtol=2.0**-mantissa, atol=0, equal_nan=True)


# ---- integers -------------------------------------------------------------------------------------------------------


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


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


# ---- vectors, loads and stores --------------------------------------------------------------------------------------

VECTOR_SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8}
VECTOR_SIZES |= {"longlong": 8, "ulonglong": 8, "float": 4, "double": 8}


def vector_source():
    lines = ["__global__ void vectors(int* sizes, int* values) {", "    int k = 0, v = 0;"]
    for name in VECTOR_SIZES:
        for count in (1, 2, 3, 4):
            lines.append(f"    sizes[k++] = sizeof({name}{count}); sizes[k++] = alignof({name}{count});")
            numbers = ", ".join(str(10 * count + part) for part in range(count))
            lines.append(f"    {{ {name}{count} p = make_{name}{count}({numbers});")
            lines += [f"      values[v++] = (int)p.{part};" for part in "xyzw"[:count]]
            lines.append("    }")
    return "\n".join([*lines, "}", LOADS])


LOADS = r"""
union Pack { float4 all; unsigned char bytes[16]; };
__device__ float4 operator*(float s, float4 v) { return make_float4(s * v.x, s * v.y, s * v.z, s * v.w); }
__global__ void loads(const float* x, float4* out, int n) {
    dim3 grid = gridDim;
    uint3 at = blockIdx;
    int i = at.x * blockDim.x + threadIdx.x;
    if (i >= n || grid.y != 1) return;
    const float4* rows = reinterpret_cast<const float4*>(x);
    float4 v = __ldg(&rows[i]), w = __ldcg(rows + i);
    Pack pack;
    pack.all = __ldcs(rows + i);
    pack.bytes[15] ^= 0x80;
    __stcs(out + i, 2.0f * v);
    __stcg(&out[n + i], make_float4(w.w, w.z, w.y, __ldca(x + 4 * i)));
    out[2 * n + i] = pack.all;
}
"""


def test_vectors(backend):
    count = len(VECTOR_SIZES)
    sizes, values = run(
        backend, vector_source(), "vectors", 1, 1, torch.zeros(8 * count).int(), torch.zeros(10 * count).int()
    )
    expected = []
    for bytes_each in VECTOR_SIZES.values():
        for parts_of in (1, 2, 3, 4):
            together = parts_of in (2, 4)
            expected += [parts_of * bytes_each, min(16, parts_of * bytes_each) if together else bytes_each]
    assert sizes.tolist() == expected
    assert values.tolist() == [10 * c + part for c in (1, 2, 3, 4) for part in range(c)] * count


def test_loads_and_stores(backend):
    n = 77
    x = torch.randn(n, 4)
    _, out = run(backend, vector_source(), "loads", 2, 64, x, torch.zeros(3, n, 4), n)
    negated = x * torch.tensor([1.0, 1.0, 1.0, -1.0])
    same(out, torch.stack([2 * x, x[:, [3, 2, 1, 0]], negated]))


# ---- a warp ---------------------------------------------------------------------------------------------------------

SHUFFLES = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T>
__global__ void shuffles(const T* x, T* out, int width) {
    int i = threadIdx.x, n = blockDim.x;
    T v = x[i];
    for (int k = 0; k < 33; k += 3) {
        T* row = out + 4 * n * (k / 3) + i;
        row[0] = __shfl_sync(0xffffffff, v, k, width);
        row[n] = __shfl_up_sync(0xffffffff, v, k & 31, width);
        row[2 * n] = __shfl_down_sync(0xffffffff, v, k & 31, width);
        row[3 * n] = __shfl_xor_sync(0xffffffff, v, k & 31, width);
    }
}
__global__ void pairs(const half2* x, half2* out, const __nv_bfloat162* y, __nv_bfloat162* out2) {
    int i = threadIdx.x;
    out[i] = __shfl_down_sync(0xffffffff, x[i], 1);
    out2[i] = __shfl_xor_sync(0xffffffff, y[i], 1);
}
"""
SHUFFLED = {
    "int": torch.int32,
    "unsigned int": torch.int32,
    "long": torch.int64,
    "unsigned long long": torch.int64,
    "float": torch.float32,
    "double": torch.float64,
    "__half": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
}


def shuffled(lane, kind, k, width):
    """The lane whose value a shuffle gives ("CUDA C++ Programming Guide", Warp Shuffle Functions)."""
    first = lane // width * width
    if kind == "index":
        return first + k % width
    other = {"up": lane - k, "down": lane + k, "xor": lane ^ k}[kind]
    if kind == "xor":
        return other if other < first + width else lane
    return other if first <= other < first + width else lane


@pytest.mark.parametrize("c_type, width", [*((t, 32) for t in SHUFFLED), ("int", 8), ("float", 16), ("double", 1)])
def test_shuffles(backend, c_type, width):
    dtype, n = SHUFFLED[c_type], 64
    x = torch.randn(n).to(dtype) if dtype.is_floating_point else torch.randint(-(2**31), 2**31 - 1, (n,)).to(dtype)
    _, out = run(backend, SHUFFLES, f"shuffles<{c_type}>", 1, n, x, torch.zeros(11, 4, n, dtype=dtype), width)
    for row, k in enumerate(range(0, 33, 3)):
        for column, kind in enumerate(("index", "up", "down", "xor")):
            source = [i // 32 * 32 + shuffled(i % 32, kind, k if kind == "index" else k & 31, width) for i in range(n)]
            same(out[row, column], x[source])


def test_shuffles_of_pairs(backend):
    x, y = torch.randn(32, 2).half(), torch.randn(32, 2).bfloat16()
    _, out, _, out2 = run(backend, SHUFFLES, "pairs", 1, 32, x, torch.zeros_like(x), y, torch.zeros_like(y))
    same(out, x[[*range(1, 32), 31]])
    same(out2, y[[i ^ 1 for i in range(32)]])


VOTES = r"""
__global__ void votes(const int* x, int* out, int n) {
    int i = threadIdx.x, lane = i % 32;
    if (i >= n) return;
    unsigned here = __ballot_sync(0xffffffff, 1);
    int all, none;
    int results[] = {(int)here, (int)__ballot_sync(here, x[i] > 3), __any_sync(here, x[i] == 5),
                     __all_sync(here, x[i] < 7),
                     (int)__match_any_sync(here, x[i]), (int)__match_all_sync(here, x[i] / 100, &all),
                     (int)__match_all_sync(here, (double)x[i], &none), all, none,
                     (int)__match_any_sync(here, (unsigned long long)x[i] << 40)};
    for (int k = 0; k < 10; k++) out[k * n + i] = results[k];
    int part = lane % 3 == 0;  // two parts of the warp, each by itself
    unsigned mask = __ballot_sync(here, part);
    if (!part) mask = here & ~mask;
    out[10 * n + i] = __reduce_add_sync(mask, x[i]);
    out[11 * n + i] = __reduce_min_sync(mask, x[i] - 5);
    out[12 * n + i] = __reduce_max_sync(mask, (unsigned)x[i]);
    out[13 * n + i] = __reduce_and_sync(mask, (unsigned)x[i] | 8);
    out[14 * n + i] = __reduce_or_sync(mask, (unsigned)x[i]);
    out[15 * n + i] = __reduce_xor_sync(mask, (unsigned)x[i]);
    if (part) out[16 * n + i] = __popc(__activemask() & mask) > 0;
    __syncwarp(here);
}
__global__ void in_turns(int* out) {  // __syncwarp orders memory
    __shared__ int s[64];
    int i = threadIdx.x, first = i / 32 * 32;
    s[i] = i;
    for (int step = 1; step < 32; step *= 2) {
        __syncwarp();
        int v = s[first + (i + step) % 32];
        __syncwarp();
        s[i] += v;
    }
    out[i] = s[i];
}
"""


def test_votes(backend):
    n = 75  # the last warp has 11 threads
    x = torch.randint(0, 8, (n,), generator=torch.Generator().manual_seed(8)).to(torch.int32)
    x[32:64] = 4
    _, out = run(backend, VOTES, "votes", 1, 96, x, torch.zeros(17, n).int(), n)
    for first in (0, 32, 64):
        lanes = range(first, min(first + 32, n))
        v = x[first : first + 32].tolist()
        mask = lambda chosen: signed(sum(1 << k for k, yes in enumerate(chosen) if yes))  # noqa: E731
        everyone = mask([True] * len(v))
        for i in lanes:
            got, own = out[:, i].tolist(), v[i - first]
            alike = len(set(v)) == 1
            wanted = [everyone, mask([k > 3 for k in v]), int(5 in v), int(max(v) < 7), mask([k == own for k in v])]
            wanted += [everyone, everyone if alike else 0, 1, int(alike), mask([k == own for k in v])]
            mine = [k for at, k in enumerate(v) if (at % 3 == 0) == ((i - first) % 3 == 0)]
            xor = 0
            for k in mine:
                xor ^= k
            together = [sum(mine), min(mine) - 5, max(mine), int(np.bitwise_and.reduce([k | 8 for k in mine]))]
            wanted += [*together, int(np.bitwise_or.reduce(mine)), xor, int((i - first) % 3 == 0)]
            assert got == wanted, i


def test_syncwarp_orders(backend):
    (out,) = run(backend, VOTES, "in_turns", 1, 64, torch.zeros(64).int())
    assert out.tolist() == [sum(range(32))] * 32 + [sum(range(32, 64))] * 32


# ---- atomics --------------------------------------------------------------------------------------------------------

ATOMICS = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__global__ void atomics(const int* x, int* i32, unsigned* u32, unsigned long long* u64, long long* i64, float* f32,
                        double* f64, half* f16, __nv_bfloat16* b16, half2* h2, int n) {
    __shared__ int bins[8];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 8) bins[t] = 0;
    __syncthreads();
    if (i < n) {
        int v = x[i];
        atomicAdd(&bins[v & 7], 1);
        atomicAdd(i32, v);
        atomicSub(i32 + 1, v);
        atomicMin(i32 + 2, v);
        atomicMax(i32 + 3, v);
        atomicAnd(i32 + 4, v | 0x100);
        atomicOr(i32 + 5, v);
        atomicXor(i32 + 6, v);
        atomicAdd_block(i32 + 7 + blockIdx.x, v);
        atomicAdd(u32, v);
        atomicMin(u32 + 1, (unsigned)v);
        atomicMax(u32 + 2, (unsigned)v);
        atomicInc(u32 + 3, 10);
        atomicDec(u32 + 4, 6);
        atomicAdd(u64, (unsigned long long)v << 33);
        atomicMax(u64 + 1, (unsigned long long)v << 33);
        atomicOr_system(u64 + 2, 1ull << (v & 63));
        atomicMin(i64, (long long)v << 33);
        atomicAdd(f32, v);
        atomicAdd(f64, 0.5 * v);
        atomicAdd(f16, __int2half_rn(v & 1));
        atomicAdd(b16, __float2bfloat16(v & 1));
        atomicAdd(h2, __floats2half2_rn(v & 1, (v >> 1) & 1));
        int seen = i32[40], old;  // the largest of floats, as one does without atomicMax(float*)
        do {
            old = seen;
            if (__int_as_float(old) >= 0.25f * v) break;
            seen = atomicCAS(i32 + 40, old, __float_as_int(0.25f * v));
        } while (seen != old);
        unsigned place = atomicAdd(u32 + 5, 1u);
        atomicExch(i32 + 64 + place, i);
    }
    __syncthreads();
    if (t < 8) atomicAdd(i32 + 48 + t, bins[t]);
}
__global__ void locked(int* lock, int* total, unsigned short* taken, int rounds) {
    for (int k = 0; k < rounds; k++) {
        bool done = false;
        while (!done) {
            if (atomicCAS(lock, 0, 1) == 0) {
                __threadfence();
                *(volatile int*)total = *(volatile int*)total + 1;
                __nanosleep(20);  // others come meanwhile
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }
    if (threadIdx.x == 0) atomicCAS(taken, (unsigned short)7, (unsigned short)60000);
}
__global__ void handed_over(int* flags, int* out) {  // each thread waits for the next one's flag
    int i = threadIdx.x, n = blockDim.x;
    if (i < n - 1)
        while (atomicAdd(flags + i + 1, 0) == 0) {}
    out[i] = (i < n - 1 ? *(volatile int*)(out + i + 1) : 0) + 1;
    __threadfence();
    atomicExch(flags + i, 1);
}
"""


def test_atomics(backend):
    n, threads = 3001, 128
    blocks = -(-n // threads)
    x = torch.randint(0, 200, (n,), generator=torch.Generator().manual_seed(9)).to(torch.int32)
    i32 = torch.zeros(64 + n, dtype=torch.int32)
    i32[[2, 4]] = torch.tensor([10**6, -1], dtype=torch.int32)
    u32 = torch.tensor([0, 10**6, 0, 0, 5, 0], dtype=torch.int32)
    u64, i64 = torch.zeros(3, dtype=torch.int64), torch.full((1,), 2**60)
    f16, b16, h2 = torch.zeros(1).half(), torch.zeros(1).bfloat16(), torch.zeros(2).half()
    got = run(
        backend,
        ATOMICS,
        "atomics",
        blocks,
        threads,
        x,
        i32,
        u32,
        u64,
        i64,
        torch.zeros(1),
        torch.zeros(1).double(),
        f16,
        b16,
        h2,
        n,
    )
    _, i32, u32, u64, i64, f32, f64, f16, b16, h2 = (g.tolist() for g in got)
    v = x.tolist()
    both = [
        int(np.bitwise_and.reduce([k | 0x100 for k in v])),
        int(np.bitwise_or.reduce(v)),
        int(np.bitwise_xor.reduce(v)),
    ]
    assert i32[:7] == [sum(v), -sum(v), min(v), max(v), *both]
    assert i32[7 : 7 + blocks] == [sum(v[b * threads : (b + 1) * threads]) for b in range(blocks)]
    assert i32[48:56] == [sum(k & 7 == b for k in v) for b in range(8)]
    assert torch.tensor(i32[40], dtype=torch.int32).view(torch.float32).item() == max(v) / 4
    assert sorted(i32[64:]) == list(range(n)), "every thread got a place of its own"
    count = 5
    for _ in range(n):
        count = 6 if count == 0 or count > 6 else count - 1
    assert u32 == [sum(v), min(v), max(v), n % 11, count, n]
    bits = 0
    for k in v:
        bits |= 1 << (k & 63)
    assert u64 == [sum(v) << 33, max(v) << 33, signed(bits, 64)]
    assert i64 == [min(v) << 33] and f32 == [sum(v)] and f64 == [sum(v) / 2]
    odd = sum(k & 1 for k in v)
    assert f16 == [odd] and h2 == [odd, sum(k >> 1 & 1 for k in v)]
    assert b16 == [min(odd, 256)], "at 256 a bfloat16 no longer counts by one"


def test_spin_lock(backend):
    taken = torch.tensor([7], dtype=torch.int16)
    lock, total, taken = run(backend, ATOMICS, "locked", 4, 96, torch.zeros(1).int(), torch.zeros(1).int(), taken, 3)
    assert (lock.item(), total.item(), taken.item() & 0xFFFF) == (0, 4 * 96 * 3, 60000)


def test_waiting_for_a_later_thread(backend):
    n = 64
    _, out = run(backend, ATOMICS, "handed_over", 1, n, torch.zeros(n).int(), torch.zeros(n).int())
    assert out.tolist() == list(range(n, 0, -1))


@pytest.mark.parametrize(
    "call, c_type",
    [
        ("atomicAdd(p, 1)", "unsigned long"),
        ("atomicMax(p, 1)", "float"),
        ("atomicInc(p, 1)", "int"),
        ("atomicCAS(p, 0, 1)", "short"),
    ],
)
def test_what_has_no_atomic_is_refused(call, c_type, monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    with pytest.raises(CompileError, match=rf"CUDA has {call[:9]} only for pointers to"):
        compile_kernel(f"__global__ void count({c_type}* p) {{ {call}; }}", "count")


# ---- cooperative groups ---------------------------------------------------------------------------------------------

GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

struct Big { double a; int b; float c; int d[4]; };  // 32 bytes

__device__ int ask(const cg::thread_group& g) { g.sync(); return (int)(1000 * g.size() + g.thread_rank()); }
template <class Group> __device__ int sum(Group g, int v) { cg::sync(g); return cg::reduce(g, v, cg::plus<int>()); }

template <int N>
__global__ void tiles(const int* x, int* out, float* scanned) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<N>(block);
    int i = block.thread_rank(), n = block.size(), v = x[i], all;
    cg::thread_block_tile<N> plain = tile;
    auto single = cg::this_thread();
    int results[] = {(int)tile.thread_rank(), (int)tile.size(), (int)tile.meta_group_rank(),
                     (int)tile.meta_group_size(), tile.shfl(v, 1), tile.shfl_up(v, 1), tile.shfl_down(v, 1),
                     tile.shfl_xor(v, 1),
                     tile.any(v == 3), tile.all(v < 6), (int)tile.ballot(v & 1), (int)tile.match_any(v),
                     sum(plain, v), cg::reduce(tile, v, cg::less<int>()), cg::reduce(tile, v, cg::bit_xor<int>()),
                     cg::inclusive_scan(tile, v), cg::exclusive_scan(tile, v, cg::plus<int>()),
                     cg::reduce(tile, v, [](int a, int b) { return a > b ? a : b; }), ask(tile), ask(block),
                     (int)tile.match_all(v, all), all, (int)single.size(), ask(cg::tiled_partition(block, N))};
    for (int k = 0; k < 24; k++) out[k * n + i] = results[k];
    scanned[i] = cg::inclusive_scan(tile, 0.1f * v);
    Big big = {0.5 * v, v, 2.0f * v, {v, v, v, 7 * v}};
    big = cg::reduce(tile, big, [](Big p, Big q) { return p.b >= q.b ? p : q; });
    scanned[n + i] = (float)big.a + big.b + big.c + big.d[3];
}
__global__ void parts(const int* x, int* out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int i = block.thread_rank(), n = block.size(), v = x[i];
    auto sign = cg::binary_partition(warp, v > 4);
    auto label = cg::labeled_partition(warp, v);
    auto three = cg::tiled_partition(label, 2);
    auto four = cg::tiled_partition<4>(cg::tiled_partition<16>(warp));
    int results[] = {(int)sign.size(), (int)sign.thread_rank(), (int)sign.meta_group_rank(), (int)label.size(),
                     (int)label.thread_rank(), (int)label.meta_group_size(), sum(sign, i), cg::inclusive_scan(label, i),
                     cg::exclusive_scan(label, i), sign.shfl(i, 0), sign.shfl_down(i, 1), sign.shfl_up(i, 2),
                     (int)three.size(), (int)three.meta_group_rank(), (int)four.meta_group_rank(), sum(four, v),
                     (int)sign.ballot(v & 1)};
    for (int k = 0; k < 17; k++) out[k * n + i] = results[k];
    if (v == 2) {
        auto some = cg::coalesced_threads();
        int first = cg::invoke_one_broadcast(some, [&] { return 5; });
        out[17 * n + i] = sum(some, 1) <= (int)warp.size() && first == 5 && some.thread_rank() < some.size();
    }
    dim3 at = block.thread_index(), dim = block.group_dim(), group = block.group_index();
    out[18 * n + i] = at.x + 100 * at.y + 10000 * dim.x + 1000000 * (dim.y + group.x);
}
__global__ void whole_grid(int* counts, int* out) {
    cg::grid_group grid = cg::this_grid();
    atomicAdd(counts, 1);
    grid.sync();
    int first = *(volatile int*)counts;
    grid.sync();
    atomicAdd(counts + 1, (int)grid.thread_rank());
    cg::sync(grid);
    int all = first + (int)grid.size() + (int)grid.num_blocks() + *(volatile int*)(counts + 1);
    out[grid.thread_rank()] = all + grid.is_valid();
}
"""


@pytest.mark.parametrize("size", [1, 2, 8, 16, 32])
def test_tiles(backend, size):
    n = 64
    x = torch.randint(0, 7, (n,), generator=torch.Generator().manual_seed(size)).to(torch.int32)
    _, out, scanned = run(backend, GROUPS, f"tiles<{size}>", 1, n, x, torch.zeros(24, n).int(), torch.zeros(2, n))
    v = x.tolist()
    mask = lambda chosen: signed(sum(1 << k for k, yes in enumerate(chosen) if yes))  # noqa: E731
    for i in range(n):
        first, rank = i // size * size, i % size
        mine = v[first : first + size]
        alike = len(set(mine)) == 1
        up, down = (rank - 1 if rank else rank), (rank + 1 if rank + 1 < size else rank)
        xor = rank ^ 1 if rank ^ 1 < size else rank
        wanted = [rank, size, first // size, n // size, mine[1 % size], mine[up], mine[down], mine[xor]]
        wanted += [int(3 in mine), int(max(mine) < 6), mask([k & 1 for k in mine]), mask([k == v[i] for k in mine])]
        wanted += [sum(mine), min(mine), int(np.bitwise_xor.reduce(mine)), sum(mine[: rank + 1]), sum(mine[:rank])]
        wanted += [max(mine), 1000 * size + rank, 1000 * n + i, mask([True] * size) if alike else 0, int(alike), 1]
        wanted += [1000 * size + rank]
        if size == 1:
            wanted[7] = int(out[7, i])  # lane 1 of a tile of one is nowhere: CUDA promises nothing
        assert out[:, i].tolist() == wanted, i
    groups = x.view(-1, size).double()
    torch.testing.assert_close(scanned[0].view(-1, size), (0.1 * groups).cumsum(1).float())
    same(scanned[1].view(-1, size), (10.5 * groups.amax(1, keepdim=True)).float().expand(-1, size))


def test_parts_of_a_warp(backend):
    n = 64
    x = torch.randint(0, 7, (n,), generator=torch.Generator().manual_seed(11)).to(torch.int32)
    _, out = run(backend, GROUPS, "parts", 1, (16, 4), x, torch.full((19, n), -1).int())
    v = x.tolist()
    for i in range(n):
        first = i // 32 * 32
        warp = range(first, first + 32)
        sign = [k for k in warp if (v[k] > 4) == (v[i] > 4)]
        label = [k for k in warp if v[k] == v[i]]
        labels = {v[k] for k in warp}
        at, in_label = sign.index(i), label.index(i)
        pair = label[in_label // 2 * 2 :][:2]
        wanted = [
            len(sign),
            at,
            int(v[i] > 4),
            len(label),
            in_label,
            len(labels),
            sum(sign),
            sum(label[: in_label + 1]),
        ]
        wanted += [sum(label[:in_label]), sign[0], sign[min(at + 1, len(sign) - 1)], sign[at - 2] if at >= 2 else i]
        wanted += [len(pair), in_label // 2, i % 16 // 4, sum(v[i // 4 * 4 :][:4])]
        wanted += [signed(sum(1 << k for k, lane in enumerate(sign) if v[lane] & 1))]
        assert out[:17, i].tolist() == wanted, i
        assert out[17, i] == (1 if v[i] == 2 else -1)
        assert out[18, i] == i % 16 + 100 * (i // 16) + 10000 * 16 + 1000000 * 4


def test_grid_sync(backend):
    blocks, threads = 3, 40
    n = blocks * threads
    counts, out = run(backend, GROUPS, "whole_grid", blocks, threads, torch.zeros(2).int(), torch.zeros(n).int())
    assert counts.tolist() == [n, sum(range(n))]
    assert out.tolist() == [2 * n + blocks + sum(range(n)) + 1] * n


# ---- asynchronous copies --------------------------------------------------------------------------------------------

COPIES = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>
__global__ void two_stages(const float* x, float* out, int tiles) {  // loads a tile while it uses the one before
    __shared__ float s[2][64];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&s[0][i], x + i, 4);
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&s[(k + 1) % 2][i], x + 64 * (k + 1) + i, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        out[64 * k + i] = s[k % 2][63 - i];
        __syncthreads();
    }
}
__global__ void with_zeros(const float4* x, float4* out) {
    __shared__ float4 s[8];
    int i = threadIdx.x;
    s[i] = make_float4(9, 9, 9, 9);
    __pipeline_memcpy_async(s + i, x + i, 16, i % 5 * 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = s[i];
}
__global__ void too_early(const float* x, float* out) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = -1;
    __pipeline_memcpy_async(s + i, x + i, 4);
    __pipeline_commit();
    __pipeline_memcpy_async(s + i, x + 32 + i, 4);  // never committed
    out[i] = s[i];
    __pipeline_wait_prior(1);
    out[32 + i] = s[i];
    __pipeline_wait_prior(0);
    out[64 + i] = s[i];
}
__global__ void together(const int* x, int* out, int n) {
    extern __shared__ int s[];
    auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, s, x, sizeof(int) * n);
    cooperative_groups::wait(block);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[n - 1 - i];
}
__global__ void bytes_together(const signed char* x, signed char* out, int n) {
    __shared__ signed char s[64];
    auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, s + 1, x + 1, n - 1);
    cooperative_groups::wait(block);
    for (int i = 1 + threadIdx.x; i < n; i += blockDim.x) out[i] = s[i];
}
"""


def test_asynchronous_copies(backend):
    x = torch.randn(5, 64)
    _, out = run(backend, COPIES, "two_stages", 1, 64, x, torch.zeros(5, 64), 5)
    same(out, x.flip(1))
    x = torch.randn(8, 4)
    _, out = run(backend, COPIES, "with_zeros", 1, 8, x, torch.zeros(8, 4))
    kept = torch.tensor([[k < 4 - i % 5 for k in range(4)] for i in range(8)])
    same(out, x * kept)
    x = torch.arange(77, dtype=torch.int32)
    kernel = compile_kernel(COPIES, "together")
    x, out = x.to(backend), torch.zeros_like(x, device=backend)
    kernel[1, 32, 4 * 77](x, out, 77)
    assert out.tolist() == list(range(76, -1, -1))
    x = torch.arange(61, dtype=torch.int8)
    _, out = run(backend, COPIES, "bytes_together", 1, 32, x, torch.zeros_like(x), 61)
    same(out, x)


def test_copies_of_another_size_are_refused_with_it(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    source = """
#include <cuda_pipeline.h>
__global__ void copied(const float* x, float* out, int bytes, int zeros) {
    __shared__ __align__(16) float s[8];
    __pipeline_memcpy_async(s, x, bytes, zeros);
}
"""
    for bytes_, zeros in ((12, 0), (4, 8)):
        with pytest.raises(RuntimeError, match=f"begins a copy of {bytes_} bytes, {zeros} of them zeros: it takes 4"):
            run(torch.device("cpu"), source, "copied", 1, 1, torch.ones(8), torch.zeros(1), bytes_, zeros)


def test_a_copy_is_done_at_the_wait(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    x = torch.randn(2, 32)
    _, out = run(torch.device("cpu"), COPIES, "too_early", 1, 32, x, torch.zeros(3, 32))
    same(out, torch.stack([torch.full((32,), -1.0), torch.full((32,), -1.0), x[0]]))


def test_a_copy_of_nothing_but_zeros_reads_nothing():
    source = """
#include <cuda_pipeline.h>
__global__ void filled(const float* x, float* out, int n) {
    __shared__ float s[32];
    int i = threadIdx.x;
    __pipeline_memcpy_async(s + i, x + 100 * i, 4, i < n ? 0 : 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = s[i];
}
"""
    for n, problems in ((1, 0), (2, 1)):
        out = torch.full((32,), float("nan"))
        trace = compile_kernel(source, "filled").trace[1, 32](torch.ones(100), out, n, outputs=[out])
        assert len(trace.problems) == problems and trace.args[1].tolist()[n:] == [0.0] * (32 - n)
    assert trace.problems[0].kind == "out_of_bounds" and "reads x[100]" in str(trace.problems[0])


@pytest.mark.parametrize(("from_", "to", "where"), [(1, 0, "reads 16 bytes at x[1]"), (0, 1, "writes 16 bytes at s[1")])
def test_a_copy_needs_both_places_at_a_multiple_of_its_size(from_, to, where):
    source = """
#include <cuda_pipeline.h>
__global__ void copied(const float* x, float* out, int from, int to) {
    __shared__ __align__(16) float s[8];
    __pipeline_memcpy_async(s + to, x + from, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[0] = s[to];
}
"""
    trace = compile_kernel(source, "copied").trace[1, 1](torch.ones(8), torch.zeros(1), from_, to)
    assert trace.problems[0].kind == "misaligned" and trace.problems[0].line == 5
    assert where in trace.problems[0].message and "a multiple of 16" in trace.problems[0].message


def test_copies_of_bytes_are_traced():
    x = torch.arange(61, dtype=torch.int8)
    trace = compile_kernel(COPIES, "bytes_together").trace[1, 32](x, torch.zeros_like(x), 61)
    assert trace.ok and trace.args[1].tolist() == [0, *range(1, 61)]
    loads = trace.requests[(trace.requests.space == "global") & (trace.requests.op == "load")]
    # 60 bytes, one at a time: 32 lanes copy bytes 1 to 32, of two sectors, and 28 the others.
    assert loads.requests.tolist() == [2] and loads.sectors.tolist() == [3]


def test_zeros_from_a_variable_that_nobody_has_read():
    source = """
#include <cuda_pipeline.h>
struct P { float a[3]; };
__device__ P table[64];
__global__ void zeros(float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(s + t, &table[t], 4, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    P p = table[63 - t], q[2];
    q[t % 2] = p;
    out[t] = q[t % 2].a[t % 3] + s[t];
}
"""
    out = torch.full((64,), float("nan"))
    trace = compile_kernel(source, "zeros").trace[1, 64](out, outputs=[out])
    assert trace.ok and trace.args[0].tolist() == [0.0] * 64


@pytest.mark.parametrize("wait", ["__pipeline_wait_prior(0);", ""])
def test_a_copy_that_goes_outside_is_told_when_it_begins(wait):
    source = f"""
#include <cuda_pipeline.h>
__global__ void beyond(const float* x) {{
    __shared__ float s[64];
    __pipeline_memcpy_async(s + threadIdx.x + 1, x + threadIdx.x, 4);
    __pipeline_commit();
    {wait}
}}
"""
    trace = compile_kernel(source, "beyond").trace[1, 64](torch.randn(64))
    (problem,) = trace.problems
    assert problem.kind == "out_of_bounds" and problem.line == 5 and "writes s[64]" in problem.message
    assert problem.count == 1
    assert trace.requests.requests.tolist() == [2, 2]  # the load and the store of two warps


def test_copies_from_elsewhere_cost_what_other_accesses_cost():
    source = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
__global__ void moved(float* out) {
    __shared__ __align__(16) float s[2][128];
    auto block = cooperative_groups::this_thread_block();
    for (int i = 0; i < 4; i++) s[0][32 * i + threadIdx.x] = i;
    block.sync();
    cooperative_groups::memcpy_async(block, s[1], s[0], sizeof(s[0]));
    cooperative_groups::wait(block);
    cooperative_groups::memcpy_async(block, out, s[1], sizeof(s[1]));
    cooperative_groups::wait(block);
}
"""
    out = torch.full((128,), float("nan"))
    trace = compile_kernel(source, "moved").trace[1, 32](out, outputs=[out])
    assert trace.ok and trace.args[0].tolist() == [float(i // 32) for i in range(128)]
    copied = trace.requests[trace.requests.bytes == 16].groupby(["space", "op"])[["sectors", "wavefronts"]].sum()
    assert copied.loc["global", "store"].tolist() == [16, 0]
    assert copied.loc["shared", "load"].tolist() == [0, 8] and copied.loc["shared", "store"].tolist() == [0, 4]


UNDER_WAY = r"""
#include <cuda_pipeline.h>
__global__ void tiles(const float* x, float* out) {
    __shared__ float s[BUFFERS][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < BUFFERS - 1; i++) {
        __pipeline_memcpy_async(&s[i][t], x + 64 * i + t, 4);
        __pipeline_commit();
    }
    for (int i = 0; i < 6; i++) {
        __pipeline_wait_prior(BUFFERS - 2);
        BEFORE
        int next = i + BUFFERS - 1;
        if (next < 6) __pipeline_memcpy_async(&s[next % BUFFERS][t], x + 64 * next + t, 4);  // the copy
        __pipeline_commit();
        BEHIND
        sum += s[i % BUFFERS][63 - t];  // the read
    }
    out[t] = sum;
}
template <bool LAST>
__global__ void before_the_wait(const float* x, float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = 1;
    __syncthreads();
    __pipeline_memcpy_async(&s[t], x + t, 4);  // the copy
    __pipeline_commit();
    __syncthreads();
    out[t] = s[63 - t];  // the read
    if (LAST) __syncthreads();
    __pipeline_wait_prior(0);
}
"""
SYNC = "__syncthreads();"


@pytest.mark.parametrize("order", ["forward", "reversed", 5])
@pytest.mark.parametrize(
    ("kernel", "buffers", "before", "behind", "races"),
    [
        ("tiles", 3, SYNC, "", False),
        ("tiles", 2, SYNC, "", False),
        ("tiles", 3, "", SYNC, True),  # a buffer is filled that others still read
        ("tiles", 2, "", SYNC, True),
        ("before_the_wait<true>", 2, "", "", True),  # the copy is under way while others read
        ("before_the_wait<false>", 2, "", "", True),  # a barrier is between, and does not help
    ],
)
def test_a_copy_may_write_from_its_begin_to_its_wait(kernel, buffers, before, behind, races, order):
    source = UNDER_WAY.replace("BEFORE", before).replace("BEHIND", behind)
    x = torch.randn(6, 64)
    compiled = compile_kernel(source, kernel, [f"-DBUFFERS={buffers}"])
    trace = compiled.trace[1, 64](x, torch.zeros(64), order=order)
    met = {problem.source.rpartition("// ")[2] for problem in trace.problems if problem.kind == "race"}
    assert bool(trace.problems) == races and met <= {"the copy", "the read"}, trace.problems
    if kernel == "before_the_wait<true>":
        assert "while that copy is under way" in trace.problems[0].message
        assert "Let every thread wait" in trace.problems[0].hint
    if kernel == "before_the_wait<false>":
        said = trace.problems[0].message.rpartition(", ")[2]
        assert said == "with no barrier between this and the wait for that copy", said
        assert "Let every thread wait" in trace.problems[0].hint


# ---- the rest -------------------------------------------------------------------------------------------------------

REST = r"""
#include <cassert>
__device__ float twice(float x) { return 2 * x; }
__global__ void checked(const float* x, float* out, int n) {
    int i = threadIdx.x;
    assert(n > 0 && "a text, with a comma");
    assert(x[i] >= 0);
    __builtin_assume(n > 0);
    out[i] = twice(x[i]);
}
__global__ void trapped(int at) { if (threadIdx.x == at) __trap(); }
__global__ void clocks(long long* out) {
    long long before = clock64();
    __nanosleep(1000);
    __threadfence_block();
    __threadfence_system();
    out[threadIdx.x] = clock64() - before;
}
"""


def test_assert_and_trap(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    cpu, x = torch.device("cpu"), torch.arange(40.0)
    _, out = run(cpu, REST, "checked", 1, 40, x, torch.zeros(40), 40)
    same(out, 2 * x)
    x[17] = -1
    with pytest.raises(RuntimeError, match=r"x\[i\] >= 0"):
        run(cpu, REST, "checked", 1, 40, x, torch.zeros(40), 40)
    with pytest.raises(RuntimeError, match="trap"):
        run(cpu, REST, "trapped", 2, 64, 5)


def test_clock(backend):
    (out,) = run(backend, REST, "clocks", 1, 64, torch.zeros(64, dtype=torch.int64))
    assert (out > 0).all()
