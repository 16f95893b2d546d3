"""Draws the figures that the README shows: `python bench/figures.py`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import torch  # noqa: E402  the line above finds the course

from utils.cuda.kernel import Tracer  # noqa: E402

TRANSPOSE = """
__global__ void transpose(const float* x, float* out, int n) {
    int c = blockIdx.x * 32 + threadIdx.x;
    int r = blockIdx.y * 8 + threadIdx.y;
    out[c * n + r] = x[r * n + c];
}
"""


def main():
    n = 128
    x, out = torch.randn(n, n), torch.empty(n, n)
    trace = Tracer(TRANSPOSE, "transpose")[(n // 32, n // 8), (32, 8)](x, out, n, outputs=[out])
    trace.plot().savefig(HERE.parent / "images" / "trace_transpose.png", dpi=80)


if __name__ == "__main__":
    main()
