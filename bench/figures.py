"""Draws the README's picture and film of a trace, images/trace_*:  python -m bench.figures"""

from pathlib import Path

import torch

from utils.cuda.kernel import Tracer

IMAGES = Path(__file__).parents[1] / "images"
TRANSPOSE = """
__global__ void transpose(const float* x, float* out, int n) {
    int c = blockIdx.x * 32 + threadIdx.x;
    int r = blockIdx.y * 8 + threadIdx.y;
    out[c * n + r] = x[r * n + c];
}
"""
REVERSE = """\
__global__ void reverse(const float* x, float* out) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = x[i];
    out[i] = tile[63 - threadIdx.x];
}
"""


def main():
    n = 128
    x, out = torch.randn(n, n), torch.empty(n, n)
    trace = Tracer(TRANSPOSE, "transpose")[(n // 32, n // 8), (32, 8)](x, out, n, outputs=[out])
    trace.plot().savefig(IMAGES / "trace_transpose.png", dpi=80)

    x, out = torch.arange(64.0), torch.zeros(64)
    Tracer(REVERSE, "reverse")[1, 64](x, out, outputs=[out]).film(IMAGES / "trace_reverse.gif")


if __name__ == "__main__":
    main()
