"""A recording of tensor cores: what lanes bring to a product and get, rows of ldmatrix, and copies in flight."""

import json
from pathlib import Path

import pytest
import torch

from tests.cuda.cpu.tensor.fragments import FLOATS, unpacked
from utils.cuda.fragments import fragments
from utils.cuda.kernel import Tracer

BENCH = (Path(__file__).parents[4] / "bench" / "tensor_cores.cu").read_text()


@pytest.fixture(scope="module", params=["matmul_mma", "matmul_wmma"])
def recorded(request, unjudged):
    n, depth = 64, 32
    a, b = torch.randn(n, depth).bfloat16(), torch.randn(depth, n).bfloat16()
    trace = Tracer(BENCH, request.param)[1, 128](a, b, torch.zeros(n, n), n, depth)
    return request.param, a.double(), b.double(), trace.recording()


def matrix(recording, step, which):
    """One of the matrices of a product, from the values that are listed by lane and element."""
    tile = recording.products[step.product]["tiles"][which]
    values = recording.operands[step.operands[which]]
    found = torch.full((tile["rows"] * tile["columns"],), float("nan"), dtype=torch.float64)
    found[torch.tensor(tile["cells"])] = torch.tensor([float(value) for value in values], dtype=torch.float64)
    return found.view(tile["rows"], tile["columns"])


def test_products_have_the_values_of_the_tensors(recorded):
    name, a, b, recording = recorded
    steps = [step for step in recording.steps if step.kind == "product"]
    columns = 8 if name == "matmul_mma" else 16
    # 4 warps, each 32 x 32 of the result, 32 deep
    assert len(steps) == 4 * (32 // 16) * (32 // columns) * (32 // 16)
    (product,) = recording.products
    kind = "mma.m16n8k16.bf16" if columns == 8 else "wmma.m16n16k16.bf16"
    assert product["shape"] == fragments(kind).shape and product["name"] in ("mma.sync", "wmma::mma_sync")
    sums = {}
    for step in steps:
        of_a, of_b, before, after = (matrix(recording, step, which) for which in range(4))
        of_a, of_b = of_a.bfloat16().double(), of_b.bfloat16().double()  # from the shortest decimals
        (row,) = [i for i in range(0, 64, 16) for k in (0, 16) if torch.equal(a[i : i + 16, k : k + 16], of_a)]
        (column,) = [
            j for j in range(0, 64, columns) for k in (0, 16) if torch.equal(b[k : k + 16, j : j + columns], of_b)
        ]
        place = row, column
        assert torch.allclose(before, sums.get(place, torch.zeros(16, columns).double()), rtol=0, atol=1e-5)
        assert torch.allclose(after, before + of_a @ of_b, rtol=0, atol=1e-4)
        sums[place] = after
    whole = torch.cat([torch.cat([sums[i, j] for j in range(0, 64, columns)], 1) for i in range(0, 64, 16)])
    assert torch.allclose(whole, a @ b, rtol=0, atol=1e-4)
    written = json.loads(recording.to_json())
    assert written["products"][0]["tiles"][0]["rows"] == 16 and len(written["operands"]) == len(recording.operands)


def test_rows_of_ldmatrix_and_copies_in_flight(recorded):
    name, _, _, recording = recorded
    if name == "matmul_wmma":
        assert recording.matrices == {} and not any(step.kind == "copy" for step in recording.steps)
        return
    assert {step.matrices for step in recording.steps} == {None, "rows", "transposed"}
    assert recording.matrices["rows"]["cells"][2:4] == [2, 3]  # lane 1: the next pair of the row
    assert recording.matrices["transposed"]["cells"][2:4] == [16, 24]  # and of the column
    copies = [step for step in recording.steps if step.kind == "copy"]
    begun, arrived = [s for s in copies if s.values is None], [s for s in copies if s.values is not None]
    assert begun and len(begun) == len(arrived)
    shared = {step.memory for step in copies}
    assert {recording.memories[k].space for k in shared} == {"shared"}
    assert {(s.memory, e) for s in begun for e in s.elements} == {(s.memory, e) for s in arrived for e in s.elements}
    names = {name for step in recording.steps for name in step.variables}
    assert not any("cuda_on_cpu" in name for name in names) and any(name.startswith("sums[") for name in names)


SMALL = r"""
__global__ void small(const unsigned int* x, int* out) {
    const int lane = threadIdx.x;
    int s[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
                 : "r"(x[6 * lane]), "r"(x[6 * lane + 1]), "r"(x[6 * lane + 2]), "r"(x[6 * lane + 3]),
                   "r"(x[6 * lane + 4]), "r"(x[6 * lane + 5]));
    float f[4] = {};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};" : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                 : "r"(x[6 * lane]), "r"(x[6 * lane + 1]), "r"(x[6 * lane + 2]), "r"(x[6 * lane + 3]),
                   "r"(x[6 * lane + 4]), "r"(x[6 * lane + 5]));
    for (int i = 0; i < 4; i++) out[4 * lane + i] = s[i] + (f[i] > 0);
}
"""


def test_narrow_types_are_decoded(unjudged):
    """Four bits, with and without a sign, and the two formats of 8-bit floating point."""
    x = torch.randint(-(2**31), 2**31, (32, 6), dtype=torch.int64).to(torch.int32) & ~0x08080808  # without NaN
    recording = Tracer(SMALL, "small")[1, 32](x, torch.zeros(128, dtype=torch.int32)).recording()
    whole, floats = [step for step in recording.steps if step.kind == "product"]
    for step, kinds in ((whole, ("s4", "u4")), (floats, ("e4m3", "e5m2"))):
        for which, kind in enumerate(kinds):
            bits = unpacked(x[:, :4] if which == 0 else x[:, 4:], kind)
            if step is floats:
                bits = bits.to(torch.uint8).view(FLOATS[kind])
            elif kind == "s4":
                bits = torch.where(bits > 7, bits - 16, bits)
            found = torch.tensor(recording.operands[step.operands[which]]).double().view(32, -1)
            assert torch.equal(found, bits.double().view(32, -1)), kind
    assert recording.operands[whole.operands[2]] == [1, 2, 3, 4] * 32
