"""half and bfloat16: conversions, arithmetic and mathematics, against values computed without them."""

import re
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.cpp_extension import COMMON_NVCC_FLAGS

from tests.cuda.cpu.language.launching import run, same
from utils.cuda import cpu
from utils.ground.system import cxx_compiler

INCLUDE = Path(cpu.__file__).parent / "include"

SIXTEEN = {"half": (torch.float16, 10, -14), "bfloat16": (torch.bfloat16, 7, -126)}  # dtype, mantissa bits, exponent
ALL_16 = torch.arange(65536, dtype=torch.int32).to(torch.int16)  # every bit pattern


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


# ---- as PyTorch compiles extensions ---------------------------------------------------------------------------------

NAMED = """
half f(half a, half b) { return __hfma(a, b, __float2half(__half2float(a))); }
half2 g(half2 a) { return __hadd2(a, __float2half2_rn(1.5f)); }
bool h(half a, half b) { return __hlt(a, hsqrt(b)); }
"""


@pytest.mark.parametrize("kind", SIXTEEN)
@pytest.mark.parametrize(
    ("source", "rejected_for"),
    [
        (NAMED, ()),
        ("float f(half x) { return x; }", ("half", "bfloat16")),
        ("float f(half x) { return (float)x; }", ("half", "bfloat16")),
        ("half f(float x) { return x; }", ("half", "bfloat16")),
        ("half f(half a, half b) { return a + b; }", ("half",)),
        ("bool f(half a, half b) { return a < b; }", ("half",)),
        ("half2 f(half2 a, half2 b) { return a * b; }", ("half",)),
    ],
)
def test_torch_s_macros_leave_only_the_named_functions(kind, source, rejected_for):
    """As nvcc 13.2 judges the same sources; PyTorch leaves the operators of bfloat16 in place."""
    macros = [flag for flag in COMMON_NVCC_FLAGS if flag.startswith("-D")]
    assert len(macros) == 4
    text = named(f"#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n{source}", kind)
    command = [cxx_compiler(), "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"]
    for given, rejected in (([], False), (macros, kind in rejected_for)):
        done = subprocess.run([*command, *given], input=text, capture_output=True, text=True)
        assert (done.returncode != 0) == rejected, done.stderr
