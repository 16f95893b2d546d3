"""mma.sync, ldmatrix, stmatrix and movmatrix in asm statements: products of tiles against torch's."""

import pytest
import torch

from utils.cuda.kernel import compile_kernels

SOURCE = r"""
#include <cuda_fp16.h>
__device__ unsigned int shared_at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
template <int scheme> __device__ void product(unsigned int* d, const unsigned int* a, const unsigned int* b);
#define MMA(number, name, type, constraint)                                                                    \
    template <> __device__ void product<number>(unsigned int* u, const unsigned int* a, const unsigned int* b) { \
        type* d = (type*)u;                                                                                    \
        asm volatile("mma.sync.aligned." name " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3])           \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                               \
    }
MMA(0, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
MMA(1, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
// 16 x 16 by 16 x 8, both operands through shared memory and ldmatrix, the second as it is stored, row by row
template <int scheme> __device__ void tile(const unsigned short* x, const unsigned short* y, float* out) {
    __shared__ __align__(16) unsigned short sx[16][16], sy[16][8];
    int i = threadIdx.x;
    for (int k = i; k < 256; k += 32) sx[k / 16][k % 16] = x[k];
    for (int k = i; k < 128; k += 32) sy[k / 8][k % 8] = y[k];
    __syncwarp();
    unsigned int a[4], b[2];
    float d[4] = {1, 1, 1, 1};
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(shared_at(&sx[i % 16][i / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared::cta.b16 {%0, %1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1]) : "r"(shared_at(&sy[i % 16][0])));
    product<scheme>((unsigned int*)d, a, b);
    for (int k = 0; k < 4; k++) out[(i / 4 + k / 2 * 8) * 8 + i % 4 * 2 + k % 2] = d[k];
}
__global__ void halves(const unsigned short* x, const unsigned short* y, float* out) { tile<0>(x, y, out); }
__global__ void bfloats(const unsigned short* x, const unsigned short* y, float* out) { tile<1>(x, y, out); }
__global__ void bytes(const unsigned int* x, const unsigned int* y, int* out) {  // 16 x 32 by 32 x 8, in words
    int i = threadIdx.x, g = i / 4, m = i % 4, d[4];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
                 " {%8, %9}, {%10, %10, %10, %10};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(x[8 * g + m]), "r"(x[8 * (g + 8) + m]), "r"(x[8 * g + m + 4]), "r"(x[8 * (g + 8) + m + 4]),
                   "r"(y[8 * g + m]), "r"(y[8 * g + m + 4]), "r"(2));
    for (int k = 0; k < 4; k++) out[(g + k / 2 * 8) * 8 + m * 2 + k % 2] = d[k];
}
__global__ void doubles(const double* x, const double* y, double* out) {  // 8 x 4 by 4 x 8
    int i = threadIdx.x;
    double d[2];
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %4};"
        : "=d"(d[0]), "=d"(d[1]) : "d"(x[i]), "d"(y[i % 4 * 8 + i / 4]), "d"(0.0));
    out[2 * i] = d[0], out[2 * i + 1] = d[1];
}
__global__ void turned(const unsigned int* x, unsigned int* out) {  // an 8 x 8 matrix, transposed in two ways
    __shared__ __align__(16) unsigned int s[2][32];
    int i = threadIdx.x;
    unsigned int t;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(x[i]));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 :: "r"(shared_at(&s[i / 8 % 2][i % 8 * 4])), "r"(x[i]), "r"(t) : "memory");
    __syncwarp();
    out[i] = t, out[32 + i] = s[0][i], out[64 + i] = s[1][i];
}
"""


@pytest.fixture(scope="module")
def kernels():
    names = ["halves", "bfloats", "bytes", "doubles", "turned"]
    return dict(zip(names, compile_kernels(SOURCE, names), strict=True))


@pytest.mark.parametrize(("name", "kind"), [("halves", torch.float16), ("bfloats", torch.bfloat16)])
def test_products_through_ldmatrix(kernels, name, kind):
    x, y, out = torch.randn(16, 16).to(kind), torch.randn(16, 8).to(kind), torch.full((16, 8), torch.nan)
    kernels[name][1, 32](x.view(torch.int16), y.view(torch.int16), out)
    torch.testing.assert_close(out, x.float() @ y.float() + 1, rtol=1e-5, atol=1e-5)


def test_products_of_bytes_and_of_doubles(kernels):
    x = torch.randint(-128, 128, (16, 32), dtype=torch.int8)
    y, out = torch.randint(0, 256, (8, 32), dtype=torch.uint8), torch.zeros(16, 8, dtype=torch.int32)
    kernels["bytes"][1, 32](x.view(torch.int32), y.view(torch.int32), out)
    torch.testing.assert_close(out, x.int() @ y.int().T + 2)
    x, y = torch.randn(8, 4, dtype=torch.float64), torch.randn(4, 8, dtype=torch.float64)
    out = torch.zeros(8, 8, dtype=torch.float64)
    kernels["doubles"][1, 32](x, y, out)
    torch.testing.assert_close(out, x @ y)


def test_transposed_matrices(kernels):
    x, out = torch.arange(64, dtype=torch.int16).view(8, 8), torch.zeros(3, 8, 8, dtype=torch.int16)
    kernels["turned"][1, 32](x.view(torch.int32), out.view(torch.int32))
    torch.testing.assert_close(out, torch.stack([x.T, x.T, x]))
