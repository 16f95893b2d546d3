"""Floats that are `const`: what may use them under nvcc may use them here."""

import pytest
import torch

from utils import compile_kernel

pytestmark = pytest.mark.usefixtures("on_cpu")

LITERALS = r"""
struct Has { const float m = 2; };
__global__ void k(float* x, const float d = 3.0f) {
    const float c = 2.0f, e = -(1.5f);
    struct Local { const float q = 7; };
    const double w = x[1];
    auto f = [](float a) { return a * c + e; };
    float (*p)(float) = [](float a) { return a + c; };
    x[0] = f(1) + p(1) + Has().m + Local().q + *&c + w + d;
}
"""


def test_a_lambda_without_captures_uses_constant_floats():
    x = torch.tensor([0.0, 100.0])
    compile_kernel(LITERALS, "k")[1, 1](x, 5.0)
    assert x[0] == 0.5 + 3 + 2 + 7 + 2 + 100 + 5


CONSTANT_FLOATS = r"""
#define EPS 1e-3f
template <class T> __device__ T with(T x) {
    const float half = .5f;
    return [](T v) { return T(v * half); }(x);
}
__device__ float other(float h) { const float p = h * 2; auto f = [=] { return p; }; return f(); }
__device__ float early() { const float h = 3; const float q = h * 2; return [] { return q; }(); }
__device__ float third(float h) { const float p = h * 2; return p; }
__global__ void k(float* out) {
    float const a = .5f;
    const float b{.25f};
    const float c(1.5f);
    const auto d = 2.5f;
    const float e = EPS, ee = -EPS * 2;
    const float f = (float)3;
    const float g = float(4);
    constexpr float four = 4.f;
    const float h = a * four;
    const double i = 1.0 / 4;
    const float inf = 1.0f / 0.0f;
    const float late = out[0];
    struct L { __device__ static float get() { return h; } __device__ float operator()() const { return d; } };
    auto all = [](float x) { return x + a + b + c + d + e + f + g + h + float(i); };
    auto own = [=] { return late + inf; };
    out[1] = all(0);
    out[2] = L::get() + L()();
    out[3] = with(7.f);
    out[4] = own();
    out[5] = [] { return ee; }() + other(1) + early() + third(2);
}
"""


def test_a_constant_float_may_be_written_in_many_ways():
    x = torch.zeros(6)
    compile_kernel(CONSTANT_FLOATS, "k")[1, 1](x)
    assert x.tolist() == pytest.approx([0, 14.001, 4.5, 3.5, float("inf"), 11.998])


def test_a_constant_is_computed_from_constant_floats():
    source = """
    const float half = 0.5f;
    static const double one = 2 * half, three = 1 + 2 * one;
    static_assert(one == 1);
    __device__ float with(const float a = 1.5f) { return a; }
    __global__ void k(float* x) {
        const float five = 5;
        constexpr float all = three + five;
        x[0] = all + with() + *&half;
    }"""
    x = torch.zeros(1)
    compile_kernel(source, "k")[1, 1](x)
    assert x == 10
