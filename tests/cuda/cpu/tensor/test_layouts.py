"""Which lane holds which element, as `fragments` says it: after the PTX ISA's formulas, and as kernels find it."""

import re

import pytest
import torch

from tests.cuda.cpu.tensor.fragments import places
from utils.cuda.cpu.fragments import rows_of_matrices
from utils.cuda.fragments import fragments
from utils.cuda.kernel import compile_kernels

SHAPES = [
    (16, 16, "f16"), (16, 16, "bf16"), (16, 8, "f16"), (16, 8, "tf32"), (16, 4, "tf32"), (16, 32, "s8"), (16, 16, "u8"),
    (8, 16, "s8"), (16, 64, "s4"), (8, 32, "u4"), (8, 4, "f64"), (16, 8, "f64"), (16, 32, "e4m3"), (16, 256, "b1"),
]  # fmt: skip
TOTAL = {"f64": "f64", "s8": "s32", "u8": "s32", "s4": "s32", "u4": "s32", "b1": "s32"}


def held(tile):
    return torch.tensor(tile.held).unbind(-1)


@pytest.mark.parametrize("m, k, kind", SHAPES)
def test_mma_holds_what_the_isa_says(m, k, kind):
    found = fragments(f"mma.m{m}n8k{k}.{kind}")
    assert found.shape == f"m{m}n8k{k}" and found.d.type == TOTAL.get(kind, "f32")
    for tile, operand, of in ((found.a, "a", kind), (found.b, "b", kind), (found.c, "c", "f32"), (found.d, "c", "f32")):
        rows, columns = places(operand, m, k, of)
        assert torch.equal(held(tile)[0], rows) and torch.equal(held(tile)[1], columns), tile.name
        assert len(tile.holders) == tile.rows * tile.columns
        assert tile.holders[int(rows[9, 0]), int(columns[9, 0])] == (9, 0)


def test_what_is_together():
    """The groups that a picture draws as one cell: a register's elements, and pairs of an accumulator."""
    together = {"f16": (1, 2), "s8": (1, 4), "tf32": (1, 1), "f64": (1, 1), "b1": (1, 32)}
    for m, k, kind in SHAPES:
        if kind in together:
            found = fragments(f"mma.m{m}n8k{k}.{kind}")
            assert found.a.together == together[kind] and found.b.together == together[kind][::-1]
            assert found.d.together == (1, 2)
            for tile in (found.a, found.b, found.d):
                rows, columns = tile.together
                cells = {
                    (r + i, c + j): (lane, e + i + j)
                    for r, c, lane, e in tile.groups
                    for i in range(rows)
                    for j in range(columns)
                }
                assert cells == tile.holders


def test_names_of_instructions():
    whole = fragments("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
    assert (whole.a, whole.b) == (fragments("mma.m16n8k16.f16").a, fragments("mma.m16n8k16.f16").b)
    assert whole.d.type == "f16" and whole.d.held == fragments("mma.m16n8k16.f16").d.held
    wrong = ["mma.m16n8k17.f16", "mma.m16n16k16.f16", "mma.m16n8k16", "wmma.m16n8k16.f16", "wmma.m16n16k16.tf32",
             "add.m16n8k16.f16", "mma.bf16", "mma.m16n8k16.f32", "wmma.m16n16k16.f16.bf16.bf16.f16",
             "mma.m300n8k16.f16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32"]  # fmt: skip
    for name in wrong:
        with pytest.raises(ValueError, match=re.escape(repr(name))):
            fragments(name)


def test_four_products_in_one_instruction():
    """mma.m8n8k4 of half, after the ISA's figures: of the first product."""
    row = fragments("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32")
    own = [lane for lane in range(32) if lane % 16 < 4]
    assert row.quads and [lane for lane in range(32) if row.a.held[lane]] == own
    for lane in own:
        line = lane % 4 + 4 * (lane >= 16)
        assert row.a.held[lane] == tuple((line, i) for i in range(4))
        assert row.b.held[lane] == tuple((i, line) for i in range(4))
        sums = [((lane & 1) + (i & 2) + 4 * (lane >= 16), (i & 4) + (lane & 2) + (i & 1)) for i in range(8)]
        assert list(row.c.held[lane]) == sums
    column = fragments("mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16")
    for lane in own:
        high = 4 * (lane >= 16)
        assert column.a.held[lane] == tuple((i + high, lane % 4) for i in range(4))
        assert column.b.held[lane] == tuple((lane % 4, i + high) for i in range(4))
        assert column.d.held[lane] == tuple((lane % 4 + high, i) for i in range(8))


KERNELS = r"""
#include <mma.h>
using namespace nvcuda;
__device__ half2 both(int x) { return __halves2half2(__int2half_rn(x), __int2half_rn(x + 1)); }
// d = a * b, where element e of a lane's a is 8 * lane + e.
__global__ void through_a(const unsigned int* b, float* d) {
    const int lane = threadIdx.x;
    half2 a[4];
    for (int i = 0; i < 4; i++) a[i] = both(8 * lane + 2 * i);
    const unsigned int* r = (const unsigned int*)a;
    float s[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(b[2 * lane]), "r"(b[2 * lane + 1]));
    for (int i = 0; i < 4; i++) d[4 * lane + i] = s[i];
}
template <class Use, class Layout>
__device__ void loaded(const half* x, float* out) {
    wmma::fragment<Use, 16, 16, 16, half, Layout> f;
    wmma::load_matrix_sync(f, x, 16);
    for (int i = 0; i < 16; i++) out[threadIdx.x * 16 + i] = __half2float(f.x[i]);
}
__global__ void through_wmma(const half* x, float* a, float* b, float* c) {
    loaded<wmma::matrix_a, wmma::row_major>(x, a);
    loaded<wmma::matrix_b, wmma::row_major>(x, b);
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    for (int i = 0; i < f.num_elements; i++) f.x[i] = threadIdx.x * 8 + i;
    wmma::store_matrix_sync(c, f, 16, wmma::mem_row_major);
}
__global__ void rows(unsigned int* out) {
    __shared__ __align__(16) unsigned short s[64];
    for (int i = threadIdx.x; i < 64; i += 32) s[i] = i;
    __syncwarp();
    unsigned int at = (unsigned int)__cvta_generic_to_shared(s + threadIdx.x % 8 * 8), plain, transposed;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(plain) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(transposed) : "r"(at));
    out[threadIdx.x] = plain;
    out[32 + threadIdx.x] = transposed;
}
"""


@pytest.fixture(scope="module")
def kernels():
    names = ["through_a", "through_wmma", "rows"]
    return dict(zip(names, compile_kernels(KERNELS, names), strict=True))


def test_a_kernel_finds_every_element_of_a(kernels):
    """Every lane puts its number into its part of A; B takes eight columns of A at a time to where D can be read."""
    layout, seen = fragments("mma.m16n8k16.f16"), torch.full((16, 16), -1.0)
    for first in (0, 8):
        identity = torch.zeros(16, 8)
        identity[first : first + 8] = torch.eye(8)
        b = identity[held(layout.b)].half().contiguous().view(torch.int32)
        d, tile = torch.zeros(32, 4), torch.zeros(16, 8)
        kernels["through_a"][1, 32](b, d)
        tile[held(layout.d)] = d
        seen[:, first : first + 8] = tile
    holders = [[8 * lane + e for lane, e in (layout.a.holders[r, c] for c in range(16))] for r in range(16)]
    assert seen.tolist() == holders


def test_a_kernel_finds_every_element_of_wmma(kernels):
    layout, x = fragments("wmma.m16n16k16.f16"), torch.arange(256.0).view(16, 16)
    a, b, c = torch.zeros(32, 16), torch.zeros(32, 16), torch.zeros(16, 16)
    kernels["through_wmma"][1, 32](x.half(), a, b, c)
    for found, tile in ((a, layout.a), (b, layout.b)):
        assert torch.equal(found[:, :8], x[held(tile)]) and torch.equal(found[:, 8:], found[:, :8])
    assert torch.equal(c[held(layout.c)], torch.arange(256.0).view(32, 8))


def test_a_kernel_finds_every_element_of_ldmatrix(kernels):
    out = torch.zeros(2, 32, dtype=torch.int32)
    kernels["rows"][1, 32](out)
    for registers, transposed in zip(out, (False, True), strict=True):
        rows, columns = held(rows_of_matrices(transposed))
        assert torch.equal(torch.stack([registers & 0xFFFF, registers >> 16], -1), (8 * rows + columns).int())
