"""Whole products by tensor cores: tiles staged in shared memory, with guards, and the kernels of the benchmark."""

from pathlib import Path

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import Tracer, compile_kernels

BENCH = Path(__file__).parents[4] / "bench" / "tensor_cores.cu"
STAGED = r"""
#include <mma.h>
using namespace nvcuda;
// c = a * b by wmma, for any m, n and k: a block of four warps computes 32 x 32 elements, each warp 16 x 16.
__global__ void staged(const half* a, const half* b, float* c, int m, int n, int k) {
    __shared__ __align__(32) half of_a[32][24], of_b[16][40];
    __shared__ __align__(32) float of_c[32][36];
    const int warp = threadIdx.x / 32, row = warp / 2 * 16, column = warp % 2 * 16;
    const int block_row = blockIdx.y * 32, block_column = blockIdx.x * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int from = 0; from < k; from += 16) {
        for (int i = threadIdx.x; i < 32 * 16; i += 128) {
            const int r = block_row + i / 16, d = from + i % 16;
            of_a[i / 16][i % 16] = r < m && d < k ? a[r * k + d] : __float2half(0.0f);
        }
        for (int i = threadIdx.x; i < 16 * 32; i += 128) {
            const int d = from + i / 32, s = block_column + i % 32;
            of_b[i / 32][i % 32] = d < k && s < n ? b[d * n + s] : __float2half(0.0f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, &of_a[row][0], 24);
        wmma::load_matrix_sync(fb, &of_b[0][column], 40);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncthreads();
    }
    wmma::store_matrix_sync(&of_c[row][column], sum, 36, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * 32; i += 128) {
        const int r = block_row + i / 32, s = block_column + i % 32;
        if (r < m && s < n) c[r * n + s] = of_c[i / 32][i % 32];
    }
}
"""


@pytest.mark.parametrize("m, n, k", [(64, 32, 48), (17, 45, 33), (1, 1, 1), (33, 65, 100)])
def test_staged_tiles_of_any_size(m, n, k):
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.full((m, n), float("nan"))
    compile_kernel(STAGED, "staged")[(-(-n // 32), -(-m // 32)), 128](a, b, c, m, n, k)
    within = 2.0**-20 * (a.double().abs() @ b.double().abs())
    assert ((c - a.double() @ b.double()).abs() <= within).all()


def test_a_trace_of_staged_tiles_finds_nothing_but_a_missing_barrier(unjudged):
    m, n, k = 33, 20, 40
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.zeros(m, n)
    trace = Tracer(STAGED, "staged")[(1, 2), 128](a, b, c, m, n, k, outputs=[c])
    assert trace.problems == []
    without = STAGED.replace("sum, fa, fb, sum);\n        __syncthreads();", "sum, fa, fb, sum);")
    trace = Tracer(without, "staged")[(1, 2), 128](a, b, c, m, n, k)
    assert {problem.kind for problem in trace.problems} == {"race"}
    assert "load_matrix_sync" in trace.problems[0].message


@pytest.fixture(scope="module")
def benchmarked():
    names = ["matmul_wmma", "matmul_mma"]
    return dict(zip(names, compile_kernels(BENCH.read_text(), names), strict=True))


def test_the_kernels_of_the_benchmark(benchmarked):
    for name, kernel in benchmarked.items():
        for n, depth in ((64, 32), (128, 96)):
            a, b = torch.randn(n, depth).bfloat16(), torch.randn(depth, n).bfloat16()
            c = torch.full((n, n), float("nan"))
            kernel[(n // 64, n // 64), 128](a, b, c, n, depth)
            within = 2.0**-20 * (a.double().abs() @ b.double().abs())
            assert ((c - a.double() @ b.double()).abs() <= within).all(), name


def test_a_trace_of_the_kernel_with_ldmatrix_and_mma(unjudged):
    n, depth = 64, 96
    a, b, c = torch.randn(n, depth).bfloat16(), torch.randn(depth, n).bfloat16(), torch.zeros(n, n)
    trace = Tracer(BENCH.read_text(), "matmul_mma")[1, 128](a, b, c, n, depth, outputs=[c])
    assert trace.problems == []
    rows = trace.requests[trace.requests["source"].str.contains("load_4")]
    # 4 warps, 6 steps of 16, 2 instructions each of either form; 4 passes each, thanks to the swizzle.
    assert list(zip(rows["requests"], rows["wavefronts"], rows["bank_conflicts"], strict=True)) == [(48, 192, 0)] * 2


WRONG = {
    "too_lax": ("wait_for_all_but<0>();", "wait_for_all_but<1>();", "before the asynchronous copy to it"),
    "no_barrier": (
        "wait_for_all_but<0>();\n        }\n        __syncthreads();",
        "wait_for_all_but<0>();\n        }",
        "copy",
    ),
    "overwritten": (
        "}\n        __syncthreads();  // without it, the next",
        "}\n        // without it, the next",
        "load_4",
    ),
    "without_swizzle": ("(piece ^ row % 8) * 8", "piece * 8", None),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_traces_of_kernels_with_a_mistake(mistake, unjudged):
    right, wrong, message = WRONG[mistake]
    source = BENCH.read_text()
    assert source.count(right) == 1
    n, depth = 64, 96
    a, b, c = torch.randn(n, depth).bfloat16(), torch.randn(depth, n).bfloat16(), torch.zeros(n, n)
    trace = Tracer(source.replace(right, wrong), "matmul_mma")[1, 128](a, b, c, n, depth)
    if message is None:
        rows = trace.requests[trace.requests["source"].str.contains("load_4_transposed")]
        assert trace.problems == [] and rows["bank_conflicts"].sum() == 7 * rows["wavefronts"].sum() / 8
    else:
        assert any(message in problem.message for problem in trace.problems), trace.problems
