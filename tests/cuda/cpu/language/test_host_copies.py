"""What host code gets that copies to the name of a variable of the device: an error; the variable keeps its value."""

import pytest
import torch

from utils import load_cuda
from utils.cuda import run

pytestmark = [pytest.mark.usefixtures("on_cpu"), pytest.mark.filterwarnings("ignore:.*a copy of the host's own")]

# An H200 prints the same.
PROGRAM = r"""
#include <cstdio>
__constant__ float w[4];
__device__ int n;
__device__ float d[4];
__global__ void k(float* y) { y[threadIdx.x] = w[threadIdx.x] + d[threadIdx.x]; }
int main() {
    float h[4] = {1, 2, 3, 4}, y[4], *dy, *p;
    int m = 5;
    cudaMalloc(&dy, sizeof(y));
    printf("%d", cudaMemcpy(w, h, sizeof(h), cudaMemcpyHostToDevice));
    printf(" %d", cudaMemcpy(&n, &m, sizeof(m), cudaMemcpyHostToDevice));
    printf(" %d", cudaMemcpy(h, d, sizeof(h), cudaMemcpyDeviceToHost));
    printf(" %d", cudaMemset(d, 0, sizeof(d)));
    printf(" %d", cudaMemcpy(d, h, sizeof(h), cudaMemcpyDefault));
    printf(" %d", cudaMemcpyAsync(d + 1, h, 4, cudaMemcpyHostToDevice));
    printf(" %d", cudaGetSymbolAddress((void**)&p, d));
    printf(" %d", cudaMemcpy(p, h, sizeof(h), cudaMemcpyHostToDevice));
    printf(" %d\n", cudaGetLastError());
    k<<<1, 4>>>(dy);
    cudaMemcpy(y, dy, sizeof(y), cudaMemcpyDeviceToHost);
    printf("%g %g\n", y[0], y[3]);
}
"""


@pytest.mark.parametrize("mode", [[], ["--trace"]])
def test_in_a_program(tmp_path, capfd, mode):
    program = tmp_path / "copies.cu"
    program.write_text(PROGRAM)
    assert run.main([str(program), *mode]) == 0
    assert capfd.readouterr().out == "1 1 1 1 0 1 0 0 1\n1 4\n"


EXTENSION = """
__constant__ float w[4];
__global__ void k(float* y) { y[threadIdx.x] = w[threadIdx.x]; }
int fill(torch::Tensor y, bool by_symbol) {
    float h[4] = {1, 2, 3, 4};
    int error = by_symbol ? cudaMemcpyToSymbol(w, h, sizeof(h)) : cudaMemcpy(w, h, sizeof(w), cudaMemcpyHostToDevice);
    cudaGetLastError();
    k<<<1, 4>>>(y.data_ptr<float>());
    return error;
}
"""


def test_in_an_extension():
    module, y = load_cuda(EXTENSION, "int fill(torch::Tensor y, bool by_symbol);", ["fill"]), torch.ones(4)
    assert module.fill(y, False) == 1 and y.tolist() == [0, 0, 0, 0]
    assert module.fill(y, True) == 0 and y.tolist() == [1, 2, 3, 4]
