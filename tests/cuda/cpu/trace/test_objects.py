"""Objects with virtual functions: a trace of a program tells those that kernels have constructed from the host's."""

import pytest

from utils.cuda import run

PROGRAM = r"""
#include <cstdio>
#include <new>
#define BOTH __host__ __device__
struct Shape {
    BOTH virtual float area() const = 0;
};
struct Rect : Shape {
    float w, h;
    BOTH Rect(float w, float h) : w(w), h(h) {}
    BOTH float area() const override { return w * h; }
};
__global__ void areas(Shape** shapes, float* out) { out[threadIdx.x] = shapes[threadIdx.x]->area(); }
__global__ void make(Shape** shapes, Rect* room) {
    shapes[0] = new (room) Rect(2, 3);
    shapes[1] = new (room + 1) Rect(4, 5);
}
int main() {
    float* out;
    Shape** shapes;
    Rect* room;
    cudaMallocManaged(&out, 8), cudaMallocManaged(&shapes, 16), cudaMallocManaged(&room, 4 * sizeof *room);
    WHAT
    areas<<<1, 2>>>(shapes, out);
    if (cudaDeviceSynchronize()) return 1;
    printf("%g %g\n", out[0], out[1]);
}
"""
MAKE = "make<<<1, 1>>>(shapes, room); cudaDeviceSynchronize(); "
COPY = "cudaMemcpy({}, {}, 2 * sizeof(Rect), cudaMemcpyDefault); "
# What happens before the calls; whether the objects are the host's.
CASES = {
    "made by a kernel": (MAKE, False),
    "copied": (MAKE + COPY.format("room + 2", "room") + "shapes[0] = room + 2; shapes[1] = room + 3;", False),
    "copied by way of the host": (
        "char kept[2 * sizeof(Rect)]; " + MAKE + COPY.format("kept", "room") + COPY.format("room + 2", "kept")
        + "shapes[0] = room + 2; shapes[1] = room + 3;", False),
    "made by the host": ("for (int i = 0; i < 2; i++) shapes[i] = new (room + i) Rect(2, 3 + i);", True),
    "the host's, copied": ("Rect r[] = {{2, 3}, {4, 5}}; " + COPY.format("room", "r")
                           + "shapes[0] = room; shapes[1] = room + 1;", True),
    "made by the host in the same place": (MAKE + "new (room) Rect(2, 3);", True),
}  # fmt: skip


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("case", CASES)
def test_whose_functions_a_kernel_calls(tmp_path, capfd, case):
    before, hosts = CASES[case]
    program = tmp_path / "objects.cu"
    program.write_text(PROGRAM.replace("WHAT", before))
    assert run.main([str(program), "--trace"]) == hosts
    said = capfd.readouterr()
    called = (
        "thread (0,0,0) of block (0,0,0) calls a virtual function of an object that the host has constructed, a `Rect`"
    )
    assert (called in said.err) == hosts, said.err
    assert ("construct it in a kernel" in said.err) == hosts
    assert said.out == ("" if hosts else "6 20\n")
