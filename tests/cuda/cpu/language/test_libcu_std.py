"""cuda::std where it is not the standard library: types of 8 and 16 bits, complex numbers, and what C++17 lacks."""

import cmath
import math

import pytest
import torch

from tests.cuda.cpu.language.launching import run, same
from utils import compile_kernel

LIMITS = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda/std/limits>
template <class T> __device__ void limits(float* x) {
    using L = cuda::std::numeric_limits<T>;
    static_assert(L::is_specialized && L::is_signed && !L::is_integer && L::radix == 2);
    static_assert(cuda::std::numeric_limits<const T>::digits == L::digits);
    constexpr T largest = L::max();
    const T values[] = {largest, L::min(), L::lowest(), L::epsilon(), L::denorm_min(), L::round_error(), L::infinity()};
    for (int i = 0; i < 7; i++) x[i] = float(values[i]);
    x[7] = L::digits, x[8] = L::digits10, x[9] = L::max_digits10, x[10] = L::has_infinity;
    x[11] = isnan(float(L::quiet_NaN())), x[12] = L::min_exponent, x[13] = L::max_exponent;
}
__global__ void all(float* x, long long* n) {
    limits<__half>(x);
    limits<__nv_bfloat16>(x + 14);
    limits<__nv_fp8_e4m3>(x + 28);
    limits<__nv_fp8_e5m2>(x + 42);
    using wide = cuda::std::numeric_limits<__int128>;
    n[0] = wide::digits, n[1] = (long long)(wide::max() >> 64);
    { using namespace cuda::std; n[2] = numeric_limits<int>::max(); }
}
"""


def test_limits_of_types_of_8_and_16_bits(backend):
    x, n = run(backend, LIMITS, "all", 1, 1, torch.zeros(56), torch.zeros(3, dtype=torch.int64))
    inf, tables = math.inf, x.view(4, 14).tolist()
    assert n.tolist() == [127, 2**63 - 1, 2**31 - 1]
    assert tables[0] == [65504, 2**-14, -65504, 2**-10, 2**-24, 0.5, inf, 11, 3, 5, 1, 1, -13, 16]
    largest = torch.finfo(torch.bfloat16).max
    assert tables[1] == [largest, 2**-126, -largest, 2**-7, 2**-133, 0.5, inf, 8, 2, 4, 1, 1, -125, 128]
    assert tables[2] == [448, 2**-6, -448, 2**-3, 2**-9, 0.5, 0, 4, 0, 3, 0, 1, -6, 8]
    assert tables[3] == [57344, 2**-14, -57344, 2**-2, 2**-16, 0.5, inf, 3, 0, 2, 1, 1, -15, 15]


UNARY = """acos acosh asin asinh atan atanh ceil cos cosh exp exp2 expm1 floor lgamma log log10 log1p log2 round sin
sinh sqrt tan tanh trunc abs fabs rint nearbyint""".split()
BINARY = "atan2 hypot pow copysign fmax fmin nextafter".split()
MATH = f"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda/std/cmath>
template <class T> __global__ void one(const T* x, T* y, int n) {{
    int i = threadIdx.x;
    T v = x[i], *at = y + i;
    {" ".join(f"*at = cuda::std::{name}(v), at += n;" for name in UNARY)}
}}
template <class T> __global__ void two(const T* x, T* y, int* k, int n) {{
    int i = threadIdx.x;
    T v = x[i], w = x[n - 1 - i], *at = y + i;
    {" ".join(f"*at = cuda::std::{name}(v, w), at += n;" for name in BINARY)}
    int e = 0;
    v = cuda::std::frexp(x[i], &e);
    *at = cuda::std::ldexp(v, e - 1);
    v = x[i];
    k[i] = cuda::std::isnan(v) + 2 * cuda::std::isinf(v) + 4 * cuda::std::isfinite(v) + 8 * cuda::std::signbit(v) +
           16 * cuda::std::isnormal(v) + 32 * cuda::std::isless(v, w) + 64 * cuda::std::isunordered(v, w);
    static_assert(sizeof(cuda::std::fmax(v, 2.0)) == 8 && sizeof(cuda::std::fmin(1.0f, v)) == 4);
    if (cuda::std::isfinite(v)) k[i] += 128 * cuda::std::lround(v) + 1000000 * (copysign(2.0, v) < 0);
}}
"""


@pytest.mark.parametrize(("kind", "dtype"), [("__half", torch.float16), ("__nv_bfloat16", torch.bfloat16)])
def test_mathematics_of_16_bits(backend, kind, dtype):
    inf, nan, small = math.inf, math.nan, torch.finfo(dtype).tiny / 4
    x = torch.tensor(
        [0.0, -0.0, 0.3, -0.7, 1, -1, 1.5, 2.5, -2.5, 3, 7.25, -11, 60, small, inf, -inf, nan], dtype=dtype
    )
    n, wide = len(x), x.double()
    _, y = run(backend, MATH, f"one<{kind}>", 1, n, x, torch.zeros(len(UNARY), n, dtype=dtype), n)
    functions = {"fabs": "abs", "rint": "round", "nearbyint": "round"}
    for name, got in zip(UNARY, y, strict=True):
        wanted = getattr(torch, functions.get(name, name))(wide)
        if name == "round":  # of a half, away from zero
            wanted = torch.trunc(wide + torch.copysign(torch.tensor(0.5).double(), wide))
        step = torch.finfo(dtype).eps
        torch.testing.assert_close(
            got, wanted.to(dtype), rtol=step, atol=small, equal_nan=True, msg=lambda m, f=name: f + m
        )
    zeros = torch.zeros(len(BINARY) + 1, n, dtype=dtype), torch.zeros(n, dtype=torch.int32)
    _, y, k = run(backend, MATH, f"two<{kind}>", 1, n, x, *zeros, n)
    other = wide.flip(0)
    nexts = torch.nextafter(wide.float(), other.float())  # libcu++ takes the next float
    wanted = [torch.atan2(wide, other), torch.hypot(wide, other), torch.pow(wide, other), torch.copysign(wide, other)]
    wanted += [torch.fmax(wide, other), torch.fmin(wide, other), nexts, wide / 2]
    for got, exact in zip(y, wanted, strict=True):
        torch.testing.assert_close(got, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=0, equal_nan=True)
    finite = wide.isfinite()
    flags = wide.isnan() + 2 * wide.isinf() + 4 * finite + 8 * wide.signbit()
    flags += 16 * (finite & (wide.abs() >= torch.finfo(dtype).tiny)) + 32 * (wide < other)
    flags += 64 * (wide.isnan() | other.isnan())
    rounded = torch.trunc(wide + torch.copysign(torch.tensor(0.5).double(), wide)).where(finite, 0).long()
    same(k.long(), flags + 128 * rounded + 1000000 * (finite & wide.signbit()))


COMPLEX = r"""
#include <cuda_fp16.h>
#include <cuda/std/complex>
#include <cuda/std/tuple>
using cuda::std::complex;
struct Sample { int number; complex<float> z; };
static_assert(sizeof(Sample) == 16 && alignof(complex<float>) == 8 && alignof(complex<double>) == 16);
static_assert(sizeof(complex<__half>) == 4 && alignof(complex<__half>) == 4);
__global__ void numbers(complex<float>* out, complex<double>* twice, const complex<float>* in) {
    const complex<float> a = in[0], b = in[1];
    complex<float> c = a;
    c += b, c -= 1.0f, c *= b, c /= 2.0f;
    out[0] = a + b, out[1] = a - b, out[2] = a * b, out[3] = a / b, out[4] = 2.0f * a + 1.0f, out[5] = -a / 2.0f;
    out[6] = c, out[7] = exp(a), out[8] = cuda::std::sqrt(a), out[9] = cuda::std::pow(a, b);
    out[10] = cuda::std::log(a);
    out[11] = cuda::std::polar(2.0f, 0.5f), out[12] = conj(a), out[13] = cuda::std::sin(a), out[14] = tanh(a);
    out[15] = {cuda::std::abs(a), cuda::std::arg(b)}, out[16] = {cuda::std::norm(a), a.imag()};
    auto [re, im] = b;
    out[17] = {im, re}, out[18] = {cuda::std::get<0>(a), cuda::std::imag(a)};
    complex<__half> h = a;
    h = h * h + complex<__half>(b);
    out[19] = h, out[20] = {float(a == a && a != b), float(cuda::std::real(a))};
    twice[0] = cuda::std::pow(complex<double>(a), 2) + complex<double>(b);
    twice[1] = {cuda::std::arg(-2), cuda::std::norm(3)};
    using namespace cuda::std;
    twice[2] = complex<double>(1, 2);
}
"""


def test_complex_numbers(backend):
    a, b = complex(1.5, -0.5), complex(0.25, 2)
    in_, twice = torch.tensor([a, b], dtype=torch.complex64), torch.zeros(3, dtype=torch.complex128)
    out, twice, _ = run(backend, COMPLEX, "numbers", 1, 1, torch.zeros(21, dtype=torch.complex64), twice, in_)
    wanted = [a + b, a - b, a * b, a / b, 2 * a + 1, -a / 2, (a + b - 1) * b / 2, cmath.exp(a), cmath.sqrt(a), a**b]
    wanted += [cmath.log(a), cmath.rect(2, 0.5), a.conjugate(), cmath.sin(a), cmath.tanh(a)]
    wanted += [complex(abs(a), cmath.phase(b)), complex(abs(a) ** 2, a.imag), complex(b.imag, b.real), a, a * a + b]
    wanted += [complex(1, a.real)]
    torch.testing.assert_close(
        out.to(torch.complex128), torch.tensor(wanted, dtype=torch.complex128), rtol=1e-5, atol=1e-5
    )
    exact = torch.tensor([a**2 + b, complex(math.pi, 9), complex(1, 2)], dtype=torch.complex128)
    torch.testing.assert_close(twice, exact, rtol=1e-14, atol=1e-14)


MORE = r"""
#include <cuda/bit>
#include <cuda/discard_memory>
#include <cuda/numeric>
#include <cuda/std/array>
#include <cuda/std/bitset>
#include <cuda/std/cmath>
#include <cuda/std/concepts>
#include <cuda/std/expected>
#include <cuda/std/functional>
#include <cuda/std/memory>
#include <cuda/std/numbers>
#include <cuda/std/numeric>
#include <cuda/std/source_location>
#include <cuda/std/span>
#include <cuda/stream_ref>
#include <cuda/type_traits>
#include <cuda/version>
namespace cs = cuda::std;
static_assert(CCCL_MAJOR_VERSION >= 3 && cuda::is_floating_point_v<__half> && !cs::is_floating_point_v<__half>);
static_assert(cs::is_same_v<cs::remove_cvref_t<const int&>, int> && cs::is_bounded_array_v<int[3]>);
static_assert(cs::byteswap(0x12345678u) == 0x78563412u && cs::byteswap((short)0x1234) == 0x3412);
static_assert(cs::midpoint(2, 5) == 3 && cs::midpoint(5, 2) == 4 && cs::midpoint(-2147483647, 2147483647) == 0);
static_assert(cs::cmp_less(-1, 1u) && !cs::in_range<signed char>(300) && cs::integral<int> && cs::same_as<int, int>);
static_assert(cuda::bit_reverse(1u) == 0x80000000u && cuda::bitfield_extract(0xabcdu, 4, 8) == 0xbc);
static_assert(cuda::bitfield_insert(0u, 0xffu, 4, 4) == 0xf0 && cuda::overflow_cast<signed char>(300).overflow);
struct Pair { int a; };
__device__ cs::expected<int, float> half_of(int v) {
    if (v % 2) return cs::unexpected(0.5f);
    return v / 2;
}
__global__ void more(int* x, float* f) {
    auto two = cs::to_array({7, 8});
    auto minus = cs::bind_front([](int a, int b) { return a - b; }, 10);
    cs::span<int> all(x, 16);
    cs::bitset<8> bits(5);
    bits.set(1);
    x[0] = two[1] + minus(3), x[1] = cs::as_bytes(all).size(), x[2] = bits.count(), x[3] = cs::ssize(two);
    x[4] = half_of(6).value() + half_of(3).value_or(20) + half_of(3).has_value();
    x[5] = half_of(8).transform([](int v) { return v + 1; }).and_then(half_of).error() * 10;
    x[6] = cs::source_location::current().line(), x[7] = cs::assume_aligned<4>(x)[1] + *cs::to_address(x + 2);
    x[8] = cs::invoke(&Pair::a, Pair{4}) + cs::identity{}(5);
    f[0] = cs::numbers::pi_v<float> * 2, f[1] = cs::lerp(2.0f, 4.0f, 0.25f), f[2] = cs::midpoint(1.0f, 4.0f);
    f[3] = half_of(3).error(), f[4] = cs::sqrtf(16), f[5] = cs::hypot(2.0f, 3.0f, 6.0f);
    cuda::discard_memory(f + 6, 4);
}
"""


def test_what_c_plus_plus_17_lacks(backend):
    x, f = run(backend, MORE, "more", 1, 1, torch.zeros(16, dtype=torch.int32), torch.zeros(8))
    line = next(i for i, text in enumerate(MORE.splitlines(), 1) if "current()" in text)
    assert x.tolist()[:9] == [15, 64, 3, 2, 23, 5, line, 67, 9]
    torch.testing.assert_close(f[:6], torch.tensor([2 * math.pi, 2.5, 2.5, 0.5, 4, 7]))


@pytest.mark.usefixtures("on_cpu")
def test_the_same_in_c_plus_plus_20():
    x = torch.zeros(16, dtype=torch.int32)
    compile_kernel(MORE, "more", options=["-std=c++20"])[1, 1](x, torch.zeros(8))
    assert x.tolist()[:6] == [15, 64, 3, 2, 23, 5]
