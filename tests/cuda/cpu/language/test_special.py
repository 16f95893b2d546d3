"""The less common functions of CUDA's Math API, and numbers of 8 bits, against torch's."""

import math

import pytest
import torch

from tests.cuda.cpu.language.launching import same
from utils.cuda.kernel import compile_kernels

SOURCE = r"""
#include <cuda_fp8.h>

__global__ void inverse(const double* x, double* out, float* single, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double u = x[i];
    out[i] = erfinv(2 * u - 1), out[n + i] = erfcinv(2 * u), out[2 * n + i] = normcdfinv(u);
    out[3 * n + i] = cyl_bessel_i0(20 * u - 10), out[4 * n + i] = cyl_bessel_i1(20 * u - 10);
    float f = u;
    single[i] = erfinvf(2 * f - 1), single[n + i] = erfcinv(2 * f), single[2 * n + i] = normcdfinvf(f);
    single[3 * n + i] = cyl_bessel_i0f(20 * f - 10), single[4 * n + i] = cyl_bessel_i1f(20 * f - 10);
}

__global__ void lengths(const double* x, double* out) {
    out[0] = norm3d(x[0], x[1], x[2]), out[1] = norm4d(x[0], x[1], x[2], x[3]), out[2] = norm(5, x);
    out[3] = rhypot(x[0], x[1]), out[4] = rnorm(5, x), out[5] = rnorm4d(x[0], x[1], x[2], x[3]);
    out[6] = norm3d(1e300, 1e300, 0.0), out[7] = norm3d(1e-300, 1e-300, 0.0);
}

__global__ void one_name(const float* x, float* out) {
    float s, c;
    sincos(x[0], &s, &c);
    out[0] = s, out[1] = c, out[2] = rsqrt(x[0]), out[3] = j0(x[0]), out[4] = exp10(x[0]), out[5] = normcdf(x[0]);
    out[6] = sizeof(rsqrt(x[0])) + sizeof(sinpi(x[0])) + sizeof(j0(x[0])) + sizeof(erfinv(x[0]));
}

__global__ void directed(const double* x, double* out, int n) {
    int i = threadIdx.x;
    double a = x[i], b = x[n + i], c = x[2 * n + i], *at = out + i;
#define BOTH(function, ...) *at = function##_rd(__VA_ARGS__), at[n] = function##_ru(__VA_ARGS__), \
                            at[2 * n] = function##_rz(__VA_ARGS__), at += 3 * n;
    BOTH(__dadd, a, b) BOTH(__dsub, a, b) BOTH(__dmul, a, b) BOTH(__ddiv, a, b) BOTH(__drcp, a) BOTH(__fma, a, b, c)
    BOTH(__dsqrt, fabs(a))
}

typedef unsigned char Bits;
template <class F8>
__device__ void eight_bits(const float* x, const Bits* bits, float* values, Bits* near, Bits* plain,
                           __nv_fp8_interpretation_t kind) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    F8 given;
    given.__x = bits[i % 256];
    if (i < 256) values[i] = (float)given;
    if (i < 256) values[256 + i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(bits[i], kind)));
    near[i] = F8(x[i]).__x;
    plain[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, kind);
}
__global__ void e4m3(const float* x, const Bits* bits, float* values, Bits* near, Bits* plain) {
    eight_bits<__nv_fp8_e4m3>(x, bits, values, near, plain, __NV_E4M3);
}
__global__ void e5m2(const float* x, const Bits* bits, float* values, Bits* near, Bits* plain) {
    eight_bits<__nv_fp8_e5m2>(x, bits, values, near, plain, __NV_E5M2);
}
__global__ void packed_eights(const __nv_fp8_e4m3* x, const float4* four, __nv_fp8x4_e4m3* out, float* back) {
    out[0] = __nv_fp8x4_e4m3(four[0]);
    float4 all = (float4)out[0];
    __nv_fp8x2_e5m2 pair(make_float2(all.x, all.y));
    back[0] = all.x, back[1] = all.y, back[2] = all.z, back[3] = all.w;
    back[4] = ((float2)pair).y, back[5] = (float)x[0], back[6] = (int)__nv_fp8_e4m3(-3.7f);
    back[7] = (bool)__nv_fp8_e5m2(0.0f), back[8] = (float)__nv_fp8_e4m3(__float2half(7));
}
__global__ void e8m0(const double* x, const Bits* bits, float* values, Bits* up, Bits* down) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_fp8_e8m0 given;
    given.__x = bits[i % 256];
    if (i < 256) values[i] = (float)given;
    if (i < 256) values[256 + i] = __bfloat162float(__nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(bits[i])));
    up[i] = __nv_fp8_e8m0(x[i]).__x;
    down[i] = __nv_cvt_float_to_e8m0((float)x[i], __NV_NOSAT, cudaRoundZero);
}
"""
NAMES = ["inverse", "lengths", "one_name", "directed", "e4m3", "e5m2", "packed_eights", "e8m0"]
pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture(scope="module")
def kernels():
    return dict(zip(NAMES, compile_kernels(SOURCE, NAMES), strict=True))


def test_inverse_functions_and_bessel_functions(kernels):
    ends = 10.0 ** -torch.arange(1, 16, dtype=torch.float64)
    u = torch.cat([torch.linspace(0.001, 0.999, 777, dtype=torch.float64), ends, 1 - ends])
    n = len(u)
    out, single = torch.zeros(5, n, dtype=torch.float64), torch.zeros(5, n)
    kernels["inverse"][(n + 63) // 64, 64](u, out, single, n)
    erfinv, erfcinv, normcdfinv, i0, i1 = out
    # Each inverse is put back: the error is then that of the argument, which the function's slope carries over.
    torch.testing.assert_close(torch.special.erfc(erfcinv), 2 * u, rtol=1e-13, atol=0)
    torch.testing.assert_close(torch.special.erfc(-normcdfinv * math.sqrt(0.5)) / 2, u, rtol=1e-13, atol=0)
    torch.testing.assert_close(torch.special.erf(erfinv), 2 * u - 1, rtol=1e-14, atol=1e-15)
    torch.testing.assert_close(i0, torch.special.i0(20 * u - 10), rtol=2e-14, atol=0)
    torch.testing.assert_close(i1, torch.special.i1(20 * u - 10), rtol=2e-14, atol=1e-14)
    middle = slice(0, 777)  # where a float's own error counts for little
    torch.testing.assert_close(single[:, middle].double(), out[:, middle], rtol=3e-4, atol=1e-6)
    edges, exact = torch.tensor([0, 0.5, 1, -0.5], dtype=torch.float64), torch.zeros(5, 4, dtype=torch.float64)
    kernels["inverse"][1, 32](edges, exact, torch.zeros(5, 4), 4)
    assert exact[0].tolist()[:3] == [-math.inf, 0, math.inf] and exact[0, 3].isnan()
    assert exact[2].tolist()[:3] == [-math.inf, 0, math.inf] and exact[2, 3].isnan()


def test_lengths_of_vectors(kernels):
    x = torch.randn(5, dtype=torch.float64)
    out = torch.zeros(8, dtype=torch.float64)
    kernels["lengths"][1, 1](x, out)
    length = [x[:n].norm().item() for n in range(6)]
    expected = [length[3], length[4], length[5], 1 / length[2], 1 / length[5], 1 / length[4]]
    expected += [1e300 * math.sqrt(2), 1e-300 * math.sqrt(2)]
    torch.testing.assert_close(out, torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0)


def test_one_name_for_float_and_double(kernels):
    x, out = torch.tensor([0.75]), torch.zeros(7)
    kernels["one_name"][1, 1](x, out)
    expected = [math.sin(0.75), math.cos(0.75), 0.75**-0.5, torch.special.bessel_j0(x).item(), 10**0.75]
    expected += [torch.special.ndtr(x).item(), 16]
    torch.testing.assert_close(out, torch.tensor(expected), rtol=3e-7, atol=0)


def test_double_arithmetic_with_the_rounding_in_its_name(kernels):
    from fractions import Fraction

    n = 64
    x = torch.randn(3, n, dtype=torch.float64) * 10.0 ** torch.randint(-12, 12, (3, n))
    x[:2, 0], x[:2, 1] = 1e-200, 1e200  # products that a double cannot hold
    out = torch.zeros(7, 3, n, dtype=torch.float64)
    kernels["directed"][1, n](x, out, n)
    for i in range(n):
        a, b, c = (Fraction(v.item()) for v in x[:, i])
        exact = [a + b, a - b, a * b, a / b, 1 / a, a * b + c]
        for (down, up, zero), value in zip(out[:6, :, i].tolist(), exact, strict=True):
            assert -math.inf <= down <= up and math.nextafter(down, math.inf) >= up
            assert (down == -math.inf or Fraction(down) <= value) and (up == math.inf or value <= Fraction(up))
            assert zero == (down if value > 0 else up)
        down, up, zero = out[6, :, i].tolist()
        assert Fraction(down) ** 2 <= abs(a) <= Fraction(up) ** 2 and zero == down
        assert up in (down, math.nextafter(down, math.inf))


@pytest.mark.parametrize(("name", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_numbers_of_eight_bits(kernels, name, dtype):
    bits = torch.arange(256, dtype=torch.uint8)
    values = bits.view(dtype).float()
    finite = values[values.isfinite()].sort().values
    between = (finite[:-1] + finite[1:]) / 2
    x = torch.cat([finite, between, between.nextafter(finite[1:]), between.nextafter(finite[:-1])])
    x = torch.cat([x, torch.randn(1000) * 10.0 ** torch.randint(-8, 7, (1000,)), torch.tensor([1e30, -1e30])])
    x = torch.cat([x, torch.tensor([math.inf, -math.inf])])
    x = torch.cat([x, torch.zeros(-len(x) % 128)])
    got, near, plain = torch.zeros(512), torch.zeros(len(x), dtype=torch.uint8), torch.zeros(len(x), dtype=torch.uint8)
    kernels[name][len(x) // 128, 128](x, bits, got, near, plain)
    same(got[:256], values)
    same(got[256:], values)
    largest = finite[-1]
    same(near.view(dtype).float(), x.clamp(-largest, largest).to(dtype).float())  # too large: the largest
    unlimited = x.to(dtype).float()
    if name == "e4m3":  # which has no infinity; some versions of torch make the largest of what is too large
        unlimited[x.abs() > (largest + 480) / 2] = math.nan
    same(plain.view(dtype).float(), unlimited)
    nan = torch.full((256,), math.nan)
    kernels[name][2, 128](nan, bits, got, near, plain)
    assert near[:256].view(dtype).float().isnan().all()


def test_scales_of_eight_bits(kernels):
    powers = 2.0 ** torch.arange(-140, 129, dtype=torch.float64)
    x = torch.cat([powers, 1.5 * powers, powers * (1 + 2.0**-40), powers * (1 - 2.0**-40), torch.tensor([0.0, 1e300])])
    x = torch.cat([x, -x, torch.tensor([math.inf, -math.inf, math.nan])])
    n = len(x)
    x = torch.cat([x, torch.ones(-n % 128)])
    bits = torch.arange(256, dtype=torch.uint8)
    values, up, down = torch.zeros(512), torch.zeros(len(x), dtype=torch.uint8), torch.zeros(len(x), dtype=torch.uint8)
    kernels["e8m0"][len(x) // 128, 128](x, bits, values, up, down)
    expected = 2.0 ** (torch.arange(256, dtype=torch.float64) - 127)
    expected[255] = math.nan
    for half in values.double().split(256):
        same(half, expected)

    def scale(value, rounding, saturate):
        if math.isnan(value) or (math.isinf(value) and not saturate):
            return 255
        exponent = 1e9 if math.isinf(value) else rounding(math.log2(abs(value))) if value else -1e9
        return int(min(max(exponent + 127, 0), 254))

    # log2 is exact for powers of two, and the others are far enough from them for float64.
    assert up[:n].tolist() == [scale(value, math.ceil, True) for value in x[:n].tolist()]
    assert down[:n].tolist() == [scale(value, math.floor, False) for value in x[:n].float().tolist()]


def test_two_and_four_numbers_of_eight_bits(kernels):
    x = torch.tensor([0.3]).to(torch.float8_e4m3fn)
    four, out, back = torch.tensor([0.1, -500, 3.3, 1000]), torch.zeros(1, dtype=torch.int32), torch.zeros(9)
    kernels["packed_eights"][1, 1](x, four, out, back)
    expected = four.clamp(-448, 448).to(torch.float8_e4m3fn)
    assert torch.equal(out.view(torch.uint8), expected.view(torch.uint8))
    pair = expected.float()[1].to(torch.float8_e5m2).float().item()
    assert back.tolist() == [*expected.float().tolist(), pair, x.float().item(), -3, 0, 7]
    with pytest.raises(TypeError, match="tensor of float8_e4m3fn, but this one is float32"):
        kernels["packed_eights"][1, 1](four, four, out, back)


FAR = """__global__ void k(float* x) {
    x[0] = cyl_bessel_i0f(x[0]), x[1] = cyl_bessel_i1f(x[1]), x[2] = cyl_bessel_i0f(x[2]), x[3] = cyl_bessel_i0f(x[3]);
    x[4] = sinpif(x[4]), x[5] = cospif(x[5]), x[6] = cospif(x[6]), x[7] = sinpif(x[7]), x[8] = cospif(x[8]);
}"""


def test_infinite_and_large_arguments():
    x = torch.tensor([math.inf, -math.inf, 2e7, math.nan, math.inf, -math.inf, 3e38, -7.25, 3.0])
    (far,) = compile_kernels(FAR, ["k"])
    far[1, 1](x)
    expected = [math.inf, -math.inf, math.inf, math.nan, math.nan, math.nan, 1, math.sqrt(0.5), -1]
    torch.testing.assert_close(x, torch.tensor(expected), equal_nan=True)
