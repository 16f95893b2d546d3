"""`(c ? a : b)[i % n]`: which of them become calls, and that each takes its own element."""

import pytest
import torch

from utils.cuda.cpu.translate import translate
from utils.cuda.kernel import Tracer, compile_kernels

KEPT = [
    "x = f(c ? 1 : 2)[0];",
    "x = k(i)(c ? 1 : 2)[0];",
    "x = (a + b)[i % n] + (c ? 1 : 2);",
    "x = c ? a[i] : b[i];",
    "x = (f(c ? a : b))[i];",
    "auto g = [=](int w) { return w ? 1 : 2; }; x = g(1);",
    "#define MAX(p, q) ((p) > (q) ? (p) : (q))\nx = MAX(1, 2);",
]
CALLS = [
    "x = |(c ? a : b)|[i % n];",
    "x = |((c ? a : b))|[i % n];",
    "if (c) |(c ? a : b)|[i] = |(c ? b : a)|[i] + 1;",
    "x = (int)|(c ? a : b)|[i]; x = -|(c ? s : t)|.v[i % n] * |(c ? p : q)|->v[i];",
    "return |(c ? a : b)|[i];",
    "#define CURRENT (r & 1 ? a : b)\nx = |CURRENT|[i % n];",
    "#define OF(w, p, q) ((w) ? (p) : (q))\nx = |OF(c, a, b)|[i % n] + OF(c, 1, 2);",
    "#define AT(w, p, q, j) |(w ? p : q)|[j]\nx = AT(c, a, b, i);",
]


@pytest.mark.parametrize("text", [*KEPT, *CALLS])
def test_which_become_calls(text):
    source = f"__device__ int f(const int* a, const int* b, int c, int i, int n) {{\nint x;\n{text}\n}}"
    expected = source.replace("|(", "::cuda_on_cpu::chosen((").replace("|C", "::cuda_on_cpu::chosen(C")
    expected = expected.replace("|O", "::cuda_on_cpu::chosen(O").replace(")|", "))").replace("T|", "T)")
    assert translate(source.replace("|", "")) == expected


KERNELS = r"""
#define SOURCE (r & 1 ? b : a)
struct Index { int i; __device__ operator int() const { return i; } };
struct Eight { int v[8]; };
__global__ void in_turn(int* a, int* b, int n) {
    int i = threadIdx.x;
    for (int r = 0; r < 3; r++) {
        if (i < n) (r & 1 ? a : b)[i] = SOURCE[(i + 1) % n] + 1;
        __syncthreads();
    }
}
__global__ void picked(const int* a, const int* b, int* out, int n) {
    __shared__ int s[2][32];
    Eight one, two;
    int i = threadIdx.x;
    s[0][i] = a[i], s[1][i] = b[i];
    for (int k = 0; k < 8; k++) one.v[k] = a[k], two.v[k] = b[k];
    __syncthreads();
    out[i] = (i & 1 ? a : b)[i % n] + (i & 1 ? s[0] : s[1])[(i + 1) % n] + (i & 1 ? one : two).v[i % n % 8];
    out[i] += (i & 1 ? a : b)[Index{i % n}] + ((i & 1) ? a : b)[min(i / n, 31)];
}
"""


@pytest.mark.parametrize("traced", [False, True])
def test_each_takes_its_own_element(on_cpu, traced):
    n, a, b = 10, torch.arange(32).int(), torch.arange(100, 132).int()
    pairs, out = [a.clone(), b.clone()], torch.zeros(32).int()
    for kernel, args in zip(("in_turn", "picked"), ((*pairs, n), (a, b, out, n)), strict=True):
        if traced:
            trace = Tracer(KERNELS, kernel)[1, 32](*args)
            assert trace.ok, trace
            pairs, out = (list(trace.args[:2]), out) if kernel == "in_turn" else (pairs, trace.args[2])
        else:
            compile_kernels(KERNELS, [kernel])[0][1, 32](*args)
    x, y = a.tolist(), b.tolist()
    for r in range(3):
        source, to = (y, x) if r & 1 else (x, y)
        to[:n] = [source[(i + 1) % n] + 1 for i in range(n)]
    assert [one.tolist() for one in pairs] == [x, y]
    of = [(a if i & 1 else b).tolist() for i in range(32)]
    assert out.tolist() == [2 * v[i % n] + v[(i + 1) % n] + v[i % n % 8] + v[i // n] for i, v in enumerate(of)]
