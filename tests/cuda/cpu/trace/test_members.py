"""Members of structs in reports: named as the source names them, where its layout can be read."""

import pytest
import torch

from utils.cuda.cpu.trace.members import members
from utils.cuda.kernel import compile_kernel

STRUCTS = """
struct Slot { int key, value; };
struct __align__(16) Wide { float x; };
struct Part {
    float3 at;
    double mass;
    float v[2][2];
    unsigned char kind = 3;
    Slot s;
    __device__ float f() const { return mass; }
    const float* p;
    unsigned long long n;
    bool on{true};
};
"""
PART = "at.x at.y at.z mass v[0][0] v[0][1] v[1][0] v[1][1] kind s.key s.value p n on".split()


def test_the_layout_is_the_compilers():
    assert members(STRUCTS, "Slot", 8) == {(0, 4): ".key", (4, 4): ".value"}
    assert members(STRUCTS, "float4", 16) == {(4 * k, 4): f".{name}" for k, name in enumerate("xyzw")}
    # An array of the offsets that the compiler gives each member.
    places = ", ".join(f"offsetof(Part, {name})" for name in PART)
    source = f"""#include <cstddef>
    {STRUCTS}
    __global__ void k(int* x) {{
        const size_t at[] = {{{places}}};
        for (int i = 0; i < {len(PART)}; i++) x[i] = at[i];
        x[{len(PART)}] = sizeof(Part);
    }}"""
    x = torch.zeros(len(PART) + 1, dtype=torch.int32)
    compile_kernel(source, "k")[1, 1](x)
    *offsets, size = x.tolist()
    found = members(STRUCTS, "Part", size)
    assert {name: at for (at, _), name in found.items()} == {f".{n}": at for n, at in zip(PART, offsets, strict=True)}


def test_what_cannot_be_read_has_no_members():
    assert members(STRUCTS, "Slot", 12) == members(STRUCTS, "Wide", 16) == members(STRUCTS, "Unknown", 8) == {}


KERNEL = """struct Slot { int key, value; };
__global__ void k(Slot* table, float4* v, int i) {
    __shared__ Slot mine[32];
    WHAT
}"""
CASES = {
    "table[i].value++;": "both touch table[3].value in line 4",
    "table[threadIdx.x + 63].key = 1;": "writes table[64].key, but table has 64 elements",
    "v[i].z = threadIdx.x;": "both write v[3].z in line 4",
    "mine[i].value = threadIdx.x;": "both write mine[3].value in line 4",
    "table[i] = mine[threadIdx.x];": "reads mine[0].key before any thread",
}


@pytest.mark.parametrize("line", CASES)
def test_a_report_names_the_member(line):
    kernel = compile_kernel(KERNEL.replace("WHAT", line), "k")
    problems = kernel.trace[1, 2](torch.zeros(64, 2, dtype=torch.int32), torch.zeros(8, 4), 3).problems
    assert any(CASES[line] in problem.message for problem in problems), [problem.message for problem in problems]
