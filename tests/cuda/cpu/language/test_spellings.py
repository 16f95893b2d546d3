"""Kernels and their words however they are spelled: as attributes, by macros, or over the ends of lines."""

import pytest
import torch

from utils.cuda.kernel import compile_kernels

KERNELS = r"""
#define P2(a, b) a##b
#define MAKE(name) P2(__glo, bal__) void name(int* x) { x[0] = 5; }
P2(__glo, bal__) void pasted(int* x) { x[0] = 1; }
MAKE(made)
__global__ void unused [[maybe_unused]] (int* x) { x[0] = 2; }
template <int N> __global__ void typed [[maybe_unused]] (int* x [[maybe_unused]]) { x[0] = N; }
__attribute__((device)) int g = 4;
__attribute__((constant)) int c = 9;
__attribute__((global)) __attribute__((launch_bounds(64))) void attributes(int* x) {
    __attribute__((shared)) int s;
    s = 3;
    x[0] = [] { return s; }();
}
__glo\
bal__ void continued(int* o\
ut) { __sha\
red__ int s; s = g + c + thread\
Idx.x; __sync\
threads();
  out[0] = [] { return s; }() + 100 * __LINE__; }
"""
LINE = 1 + KERNELS[: KERNELS.index("__LINE__")].count("\n")
VALUES = {"pasted": 1, "made": 5, "unused": 2, "typed<7>": 7, "attributes": 3, "continued": 13 + 100 * LINE}


@pytest.mark.usefixtures("on_cpu")
def test_kernels_are_found_however_they_are_spelled():
    kernels = dict(zip(VALUES, compile_kernels(KERNELS, list(VALUES)), strict=True))
    for name, value in VALUES.items():
        x = torch.zeros(1, dtype=torch.int32)
        kernels[name][1, 1](x)
        assert x.item() == value, name
    with pytest.raises(RuntimeError, match="a block of .* has 65 threads, and the kernel's __launch_bounds__ allows"):
        kernels["attributes"][1, 65](torch.zeros(1, dtype=torch.int32))
