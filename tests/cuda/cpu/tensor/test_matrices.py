"""ldmatrix, stmatrix and movmatrix: which lane has which element, and what is refused."""

import pytest
import torch

from utils.cuda.kernel import compile_kernels

SOURCE = r"""
__device__ unsigned int address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
"""
FORMS = [(count, trans) for count in (1, 2, 4) for trans in (False, True)]


def _instructions():
    """ldmatrix and stmatrix of every form, as two templates."""
    forms = {"ldmatrix": [], "stmatrix": []}
    for count, trans in FORMS:
        registers = ", ".join(f"%{i}" for i in range(count))
        form = f"sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
        chosen = f"if constexpr (count == {count} && trans == {str(trans).lower()}) asm volatile"
        out, given = (", ".join(f'"{letter}"(d[{i}])' for i in range(count)) for letter in ("=r", "r"))
        forms["ldmatrix"].append(f'{chosen}("ldmatrix.{form} {{{registers}}}, [%{count}];" : {out} : "r"(row));')
        forms["stmatrix"].append(f'{chosen}("stmatrix.{form} [%{count}], {{{registers}}};" :: {given}, "r"(row));')
    return "".join(
        f"template <int count, bool trans> __device__ void {name}(unsigned int (&d)[count], unsigned int row) {{\n"
        + "\n".join(lines)
        + "\n}\n"
        for name, lines in forms.items()
    )


KERNELS = r"""
template <int count, bool trans>
__global__ void load(const unsigned short* x, const int* rows, unsigned int* out) {
    __shared__ __align__(16) unsigned short before[8], s[64 * 8];
    int lane = threadIdx.x;
    before[lane % 8] = 0;
    for (int i = lane; i < 64 * 8; i += 32) s[i] = x[i];
    __syncwarp();
    unsigned int d[count];
    ldmatrix<count, trans>(d, address(s + 8 * rows[lane]));
    for (int i = 0; i < count; i++) out[i * 32 + lane] = d[i];
}
template <int count, bool trans>
__global__ void store(const unsigned int* x, const int* rows, unsigned short* out) {
    __shared__ __align__(16) unsigned short s[64 * 8];
    int lane = threadIdx.x;
    for (int i = lane; i < 64 * 8; i += 32) s[i] = 0xffff;
    unsigned int d[count];
    for (int i = 0; i < count; i++) d[i] = x[i * 32 + lane];
    __syncwarp();
    stmatrix<count, trans>(d, address(s + 8 * rows[lane]));
    __syncwarp();
    for (int i = lane; i < 64 * 8; i += 32) out[i] = s[i];
}
__global__ void transpose(const unsigned int* x, unsigned int* out) {
    unsigned int d;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(x[threadIdx.x]));
    out[threadIdx.x] = d;
}
__global__ void misaligned(unsigned int* out) {
    __shared__ __align__(16) unsigned short s[256];
    unsigned int d[1];
    ldmatrix<1, false>(d, address(s + 4 * threadIdx.x));
    out[threadIdx.x] = d[0];
}
__global__ void outside(unsigned int* out) {
    __shared__ __align__(16) unsigned short s[256];
    unsigned int d[1];
    ldmatrix<1, false>(d, address(s + 100000 * threadIdx.x));
    out[threadIdx.x] = d[0];
}
__global__ void some_lanes(unsigned int* out) {
    __shared__ __align__(16) unsigned short s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = 1;
    __syncwarp();
    unsigned int d[1] = {7};
    if (threadIdx.x < 16) ldmatrix<1, false>(d, address(s + 8 * threadIdx.x));
    __syncwarp();
    out[threadIdx.x] = d[0];
}
"""
NAMES = [f"{what}<{count}, {str(trans).lower()}>" for what in ("load", "store") for count, trans in FORMS]
OTHERS = ["transpose", "misaligned", "outside", "some_lanes"]


@pytest.fixture(scope="module")
def kernels():
    source = SOURCE + _instructions() + KERNELS
    return dict(zip(NAMES + OTHERS, compile_kernels(source, NAMES + OTHERS), strict=True))


def held(matrices, trans):
    """What the lanes hold of 8 x 8 matrices, one register for each: two elements, the first in the low half."""
    if trans:
        matrices = matrices.transpose(-1, -2)
    pairs = matrices.to(torch.int64).reshape(-1, 8, 4, 2)
    return (pairs[..., 0] | pairs[..., 1] << 16).reshape(-1, 32)


def some_rows(count):
    """Different rows for the lanes whose addresses count, and 63 for the others."""
    rows = torch.full((32,), 63, dtype=torch.int32)
    rows[: 8 * count] = torch.randperm(63)[: 8 * count]
    return rows


@pytest.mark.parametrize("count, trans", FORMS)
def test_ldmatrix(kernels, count, trans):
    x, rows = torch.randint(0, 2**15, (64, 8), dtype=torch.int16), some_rows(count)
    out = torch.zeros(count, 32, dtype=torch.int32)
    kernels[f"load<{count}, {str(trans).lower()}>"][1, 32](x, rows, out)
    assert torch.equal(out.to(torch.int64), held(x[rows[: 8 * count]].view(count, 8, 8), trans))


@pytest.mark.parametrize("count, trans", FORMS)
def test_stmatrix(kernels, count, trans):
    matrices, rows = torch.randint(0, 2**15, (count, 8, 8)), some_rows(count)
    out = torch.zeros(64, 8, dtype=torch.int16)
    kernels[f"store<{count}, {str(trans).lower()}>"][1, 32](held(matrices, trans).to(torch.int32), rows, out)
    expected = torch.full((64, 8), -1, dtype=torch.int16)
    expected[rows[: 8 * count]] = matrices.reshape(-1, 8).to(torch.int16)
    assert torch.equal(out, expected)


def test_movmatrix(kernels):
    matrix = torch.randint(0, 2**15, (1, 8, 8))
    out = torch.zeros(1, 32, dtype=torch.int32)
    kernels["transpose"][1, 32](held(matrix, False).to(torch.int32), out)
    assert torch.equal(out.to(torch.int64), held(matrix, True))


def test_a_row_that_is_misaligned_or_outside_ends_the_kernel(kernels):
    out = torch.zeros(32, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"thread \(1, 0, 0\) .*ldmatrix for a row at an address .* multiple of 16"):
        kernels["misaligned"][1, 32](out)
    with pytest.raises(RuntimeError, match=r"thread \(1, 0, 0\)"):
        kernels["outside"][1, 32](out)


def test_lanes_that_do_not_come_are_waited_for(kernels):
    with pytest.raises(RuntimeError, match="ldmatrix"):
        kernels["some_lanes"][1, 32](torch.zeros(32, dtype=torch.int32))
