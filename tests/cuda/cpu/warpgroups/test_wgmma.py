"""wgmma: its types, shapes, layouts in shared memory and signs, against float64 and exact sums."""

import functools
from typing import NamedTuple

import numpy as np
import pytest
import torch

from tests.cuda.cpu.tensor import fragments
from tests.cuda.cpu.warpgroups import tiles
from utils import compile_kernel
from utils.cuda.kernel import compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")


class Instruction(NamedTuple):
    n: int
    d: str
    a: str
    b: str
    more: str = ""  # ".satfinite", ".and.popc"
    signs: tuple = (1, 1)
    across: tuple = (0, 0)
    in_registers: bool = False

    @property
    def k(self):
        return 256 // fragments.BITS[self.a]

    @property
    def name(self):
        words = [*map(str, self), "minus" if -1 in self.signs else ""]
        return "wgmma_" + "".join(c if c.isalnum() else "_" for c in "_".join(words))


def text(one):
    count = one.n * fragments.BITS[one.d] // 64
    letter = "f" if one.d == "f32" else "r"
    registers = ", ".join(f"%{i}" for i in range(count))
    a = "%" + str(count) if not one.in_registers else "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
    after = count + (4 if one.in_registers else 1)
    last = [f"%{after}", "p"]
    last += [str(sign) for sign in one.signs] if one.d != "s32" else []
    last += [str(bit) for bit in one.across[one.in_registers :]] if one.a in ("f16", "bf16") else []
    inputs = ", ".join(f'"r"(ra[{i}])' for i in range(4)) if one.in_registers else '"l"(at | da)'
    outputs = ", ".join(f'"+{letter}"(sums[{i}])' for i in range(count))
    c_type = "float" if one.d == "f32" else "unsigned"
    return f"""
__global__ void {one.name}(const uint4* bytes, const unsigned* a, const {c_type}* c, {c_type}* d, unsigned long long da,
                           unsigned long long db, int adds) {{
    __shared__ alignas(1024) uint4 image[2816];
    for (int i = threadIdx.x; i < 2816; i += 128) image[i] = bytes[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long at = (unsigned)__cvta_generic_to_shared(image) >> 4;
    unsigned ra[4];
    for (int i = 0; i < 4; i++) ra[i] = a[threadIdx.x * 4 + i];
    {c_type} sums[{count}];
    for (int i = 0; i < {count}; i++) sums[i] = c[threadIdx.x * {count} + i];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{after + 1}, 0;"
                 "wgmma.mma_async.sync.aligned.m64n{one.n}k{one.k}.{one.d}.{one.a}.{one.b}{one.more} "
                 "{{{registers}}}, {a}, {", ".join(last)}; }}"
                 : {outputs} : {inputs}, "l"(at + db), "r"(adds));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {count}; i++) d[threadIdx.x * {count} + i] = sums[i];
}}"""


FLOATS = [
    Instruction(8, "f32", "f16", "f16"),
    Instruction(64, "f32", "bf16", "bf16"),
    Instruction(256, "f32", "bf16", "bf16"),
    Instruction(40, "f16", "f16", "f16"),
    Instruction(24, "f32", "tf32", "tf32"),
    Instruction(16, "f32", "e4m3", "e5m2"),
    Instruction(8, "f16", "e5m2", "e4m3"),
    Instruction(8, "f32", "f16", "f16", signs=(-1, 1)),
    Instruction(8, "f32", "tf32", "tf32", signs=(1, -1)),
    Instruction(8, "f32", "f16", "f16", in_registers=True),
    Instruction(16, "f32", "tf32", "tf32", in_registers=True),
    Instruction(8, "f16", "e4m3", "e4m3", in_registers=True),
]
WHOLE = [
    Instruction(24, "s32", "s8", "u8"),
    Instruction(48, "s32", "u8", "s8", ".satfinite"),
    Instruction(8, "s32", "s8", "s8", in_registers=True),
    Instruction(16, "s32", "b1", "b1", ".and.popc"),
]
LAYOUTS = [Instruction(96, "f32", "bf16", "bf16", across=across) for across in ((0, 0), (1, 0), (0, 1), (1, 1))]


@functools.cache
def compiled():
    every = FLOATS + WHOLE + LAYOUTS
    return dict(zip(every, compile_kernels("".join(map(text, every)), [one.name for one in every]), strict=True))


def lines(x, kind):
    """Rows of numbers along k as rows of 32 bytes."""
    bits = fragments.as_bits(x, kind).numpy()
    if kind == "b1":
        return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
    width = {8: np.uint8, 16: np.uint16, 32: np.uint32}[fragments.BITS[kind]]
    return np.ascontiguousarray(bits.astype(width)).view(np.uint8)


def sum_places(n):
    """Row and column of each sum that a thread has, as the table of the accumulator fragment D of the PTX ISA."""
    thread, i = torch.meshgrid(torch.arange(128), torch.arange(n // 2), indexing="ij")
    return thread // 32 * 16 + thread % 32 // 4 + i % 4 // 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2


def in_registers(rows):
    """The four registers of each thread that hold A, of 64 x 32 bytes."""
    words = torch.from_numpy(np.ascontiguousarray(rows).view(np.int32))  # 64 x 8
    thread, i = torch.meshgrid(torch.arange(128), torch.arange(4), indexing="ij")
    return words[thread // 32 * 16 + thread % 32 // 4 + i % 2 * 8, thread % 4 + i // 2 * 4].contiguous()


def product(one, a, b, c, adds=True, modes=("128B", "128B"), start=0, gap=0, shift=0):
    """d = a @ b + c, of 64 x n, in float64 or int64. The tiles begin `shift` bytes after a multiple of 1024."""
    image = np.full(2816 * 16, 0xFF, np.uint8)
    at, descriptors = 0, []
    for rows, kind, across, mode in ((a, one.a, one.across[0], modes[0]), (b.T, one.b, one.across[1], modes[1])):
        if across:
            matrix = fragments.as_bits(rows.T, kind).numpy().astype(np.uint16)
            bytes_, leading, stride = tiles.mn_major(np.ascontiguousarray(matrix), mode)
        else:
            bytes_, leading, stride = tiles.k_major(lines(rows, kind), mode, start, gap)
        image[at + shift : at + shift + len(bytes_)] = bytes_
        first = at + shift + (0 if across else start)
        descriptors.append(tiles.descriptor(first, leading, stride, mode) | (shift >> 7 & 7) << 49)
        at = -(-(at + shift + len(bytes_)) // 1024) * 1024
    row, column = sum_places(one.n)
    word = {"f32": torch.float32, "f16": torch.float16, "s32": torch.int32}[one.d]
    given = c[row, column].to(word).contiguous()
    given = given if one.d == "f32" else given.view(torch.int32)
    d = torch.full_like(given, -1)
    registers = in_registers(lines(a, one.a)) if one.in_registers else torch.zeros(512, dtype=torch.int32)
    compiled()[one][1, 128](torch.from_numpy(image), registers, given, d, *descriptors, int(adds))
    found = torch.zeros(64, one.n, dtype=torch.float64 if one.d != "s32" else torch.int64)
    found[row, column] = d.view(word).to(found.dtype)
    return found


def operands(one):
    return [
        fragments.random(shape, kind, False)
        for shape, kind in (((64, one.k), one.a), ((one.k, one.n), one.b), ((64, one.n), one.d))
    ]


@pytest.mark.parametrize("one", FLOATS, ids=lambda one: one.name)
def test_floats_against_float64(one):
    # A sum keeps 25 bits below the largest term and 23 of itself; of 8-bit floats 13 and 13.
    a, b, c = operands(one)
    eights = fragments.BITS[one.a] == 8
    within = 2.0**-10 if one.d == "f16" or eights else 2.0**-20
    expected, size = one.signs[0] * one.signs[1] * a @ b, a.abs() @ b.abs()
    assert ((product(one, a, b, c) - (expected + c)).abs() <= within * (size + c.abs())).all()
    assert ((product(one, a, b, c, adds=False) - expected).abs() <= within * size).all()


@pytest.mark.parametrize("one", WHOLE, ids=lambda one: one.name)
def test_whole_numbers_are_exact(one):
    a, b, _ = operands(one)
    c = torch.randint(-(2**31), 2**31, (64, one.n))
    c[:4] = 2**31 - 1
    exact = a.long() @ b.long() + c
    wrapped = (exact + 2**31) % 2**32 - 2**31
    expected = exact.clamp(-(2**31), 2**31 - 1) if one.more == ".satfinite" else wrapped
    assert torch.equal(product(one, a, b, c), expected)
    assert torch.equal(product(one, a, b, c, adds=False), a.long() @ b.long())


@pytest.mark.parametrize("mode_of_b", tiles.MODES)
@pytest.mark.parametrize("mode_of_a", tiles.MODES)
@pytest.mark.parametrize("one", LAYOUTS, ids=lambda one: f"across_{one.across}")
def test_every_layout(one, mode_of_a, mode_of_b):
    a, b, c = operands(one)
    d = product(one, a, b, c, modes=(mode_of_a, mode_of_b))
    assert ((d - (a @ b + c)).abs() <= 2.0**-20 * (a.abs() @ b.abs() + c.abs())).all()


@pytest.mark.parametrize("mode, start", [("128B", 32), ("128B", 96), ("64B", 32)])
def test_a_start_address_within_the_swizzle(mode, start):
    one = LAYOUTS[0]
    a, b, c = operands(one)
    d = product(one, a, b, c, modes=(mode, mode), start=start)
    assert ((d - (a @ b + c)).abs() <= 2.0**-20 * (a.abs() @ b.abs() + c.abs())).all()


@pytest.mark.parametrize("one", LAYOUTS[::3], ids=lambda one: f"across_{one.across}")
@pytest.mark.parametrize("mode", ["128B", "64B", "32B"])
def test_a_base_offset_moves_the_pattern(one, mode):
    a, b, c = operands(one)
    for shift in (128, 640, 896):
        d = product(one, a, b, c, modes=(mode, mode), shift=shift)
        assert ((d - (a @ b + c)).abs() <= 2.0**-20 * (a.abs() @ b.abs() + c.abs())).all()


def test_a_stride_with_room_between_groups():
    one = LAYOUTS[0]
    a, b, c = operands(one)
    d = product(one, a, b, c, modes=("none", "none"), gap=32)
    assert ((d - (a @ b + c)).abs() <= 2.0**-20 * (a.abs() @ b.abs() + c.abs())).all()


def test_sums_of_8_bit_floats_keep_13_bits():
    one = Instruction(16, "f32", "e4m3", "e5m2")
    a, b, c = torch.zeros(64, 32), torch.zeros(32, 16), torch.zeros(64, 16)
    a[:, 0], b[0] = 1, 1
    c[:] = 2.0**13 + 1  # 14 bits
    c[0] = 2.0**14 + 1  # the last of 15 is cut off
    d = product(one, a, b, c)
    assert (d[1:] == 2.0**13 + 2).all() and (d[0] == 2.0**14).all()


REFUSED = r"""
__global__ void sparse(unsigned long long a, unsigned long long b, float* out) {
    float d[4] = {};
    asm volatile("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, %6, 0, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(0));
    out[0] = d[0];
}"""


def test_sparse_products_are_refused():
    with pytest.raises(Exception, match=r"wgmma\.mma_async\.sp\S* needs a GPU"):
        compile_kernel(REFUSED, "sparse")
