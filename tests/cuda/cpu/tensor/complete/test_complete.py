"""Complete kernels for tensor cores, here and on a GPU: products of every kind, softmax and attention, each against
float64 (whole numbers exactly), and traced."""

import math
from pathlib import Path

import pytest
import torch

from utils.cuda.kernel import Tracer, compile_kernels

HERE = Path(__file__).parent
PRODUCTS, ROWS = (HERE / "products.cu").read_text(), (HERE / "rows.cu").read_text()
SWIZZLED = {"matmul_swizzled<half>": torch.float16, "matmul_swizzled<__nv_bfloat16>": torch.bfloat16}
NAMES = [*SWIZZLED, "matmul_wmma", "matmul_bytes<int>", "matmul_bytes<float>", "matmul_tf32"]
SIZES = [(64, 64, 64), (1, 1, 1), (65, 40, 104), (33, 17, 45), (16, 72, 200)]  # m, n, k


@pytest.fixture
def products(backend):
    return dict(zip(NAMES, compile_kernels(PRODUCTS, NAMES), strict=True))


@pytest.fixture
def rows(backend):
    return dict(zip(["softmax", "attention"], compile_kernels(ROWS, ["softmax", "attention"]), strict=True))


def on(device, *tensors):
    return [tensor.to(device) for tensor in tensors]


def operands(name, m, n, k):
    """a, b, an output full of NaN or -1, the exact product in float64, and a bound on the error of each element.

    A sum of k terms is cut off k / 4 times at most, each time by less than 2^-22 of the sum of their magnitudes.
    """
    if name == "matmul_bytes<int>":
        a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (n, k)))
        exact = a.double() @ b.double().T
        return a.view(torch.uint8), b.view(torch.uint8), torch.full((m, n), -1, dtype=torch.int32), exact, 0 * exact
    c = torch.full((m, n), float("nan"))
    if name == "matmul_bytes<float>":
        a, b = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
        exact, magnitudes = a.double() @ b.double().T, a.double().abs() @ b.double().abs().T
        return a.view(torch.uint8), b.view(torch.uint8), c, exact, (k / 4 + 1) * 2.0**-22 * magnitudes
    kind = SWIZZLED.get(name, torch.float32 if name == "matmul_tf32" else torch.float16)
    a, b = torch.randn(m, k).to(kind), torch.randn(k, n).to(kind)
    exact, magnitudes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    rounded = 2.0**-10 if name == "matmul_tf32" else 0.0  # each factor to 11 bits
    return a, b, c, exact, ((k / 4 + 1) * 2.0**-22 + rounded) * magnitudes


def grid(name, m, n):
    height, width = (32, 16) if name.startswith(("matmul_bytes", "matmul_tf32")) else (64, 64)
    return -(-n // width), -(-m // height)


@pytest.mark.parametrize("name", NAMES)
def test_products_of_any_size(products, backend, name):
    for m, n, k in SIZES:
        a, b, c, exact, bound = operands(name, m, n, k)
        a, b, c = on(backend, a, b, c)
        products[name][grid(name, m, n), 128](a, b, c, m, n, k)
        assert ((c.cpu().double() - exact).abs() <= bound).all(), (m, n, k)


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("name", NAMES)
def test_a_trace_of_a_product_finds_nothing(name):
    for m, n, k in [(40, 24, 48), (19, 17, 33)]:
        a, b, c, exact, bound = operands(name, m, n, k)
        trace = Tracer(PRODUCTS, name, together=NAMES)[grid(name, m, n), 128](a, b, c, m, n, k, outputs=[c])
        assert trace.problems == []
        assert ((trace.args[2].double() - exact).abs() <= bound).all()


@pytest.mark.usefixtures("unjudged")
def test_the_swizzle_avoids_bank_conflicts():
    m, n, k = 64, 64, 64
    a, b, c, *_ = operands("matmul_swizzled<half>", m, n, k)
    trace = Tracer(PRODUCTS, "matmul_swizzled<half>", together=NAMES)[1, 128](a, b, c, m, n, k)
    loads = trace.requests[trace.requests["source"].str.contains("load_4")]
    assert loads["bank_conflicts"].sum() == 0 and loads["wavefronts"].sum() == 4 * loads["requests"].sum() > 0


def softmax(x):
    """In float64, and a bound: the exponents are bf16, so those up to 16 in magnitude are off by 2^-5 at most, and by
    the rounding of log2(e) to bf16."""
    y = x.double().softmax(1)
    return y, y * 2.0**-4 + 1e-30


@pytest.mark.parametrize("shape", [(5, 64), (1, 2), (9, 130), (4, 514)])
def test_softmax(rows, backend, shape):
    x = torch.randn(shape).clamp(-4, 4).bfloat16()
    y = torch.full_like(x, float("nan"))
    expected, bound = softmax(x)
    given, y = on(backend, x, y)
    rows["softmax"][-(-shape[0] // 4), 128](given.view(torch.int32), y.view(torch.int32), shape[0], shape[1] // 2)
    assert ((y.cpu().double() - expected).abs() <= bound).all()


def attention(q, k, v, causal):
    """In float64, and a bound: the weights are rounded to bf16 before they are multiplied with v."""
    scores = q.double() @ k.double().transpose(1, 2) / math.sqrt(q.shape[2])
    if causal:
        scores += torch.full(scores.shape[1:], -math.inf, dtype=torch.float64).triu(1)
    weights = scores.softmax(2)
    return weights @ v.double(), 2.0**-7 * (weights @ v.double().abs())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, n", [(1, 64), (2, 1), (2, 100), (1, 129)])
def test_attention(rows, backend, heads, n, causal):
    q, k, v = (torch.randn(heads, n, 64).bfloat16() for _ in range(3))
    out = torch.full((heads, n, 64), float("nan"))
    expected, bound = attention(q, k, v, causal)
    q, k, v, out = on(backend, q, k, v, out)
    rows["attention"][(-(-n // 64), heads), 128](q, k, v, out, n, int(causal))
    assert ((out.cpu().double() - expected).abs() <= bound).all()


@pytest.mark.usefixtures("unjudged")
def test_traces_of_rows_find_nothing():
    together = ["softmax", "attention"]
    x = torch.randn(3, 70).bfloat16()
    y = torch.full_like(x, float("nan"))
    given = [x.view(torch.int32), y.view(torch.int32)]
    trace = Tracer(ROWS, "softmax", together=together)[1, 128](*given, 3, 35, outputs=[given[1]])
    assert trace.problems == []
    q, k, v = (torch.randn(1, 70, 64).bfloat16() for _ in range(3))
    out = torch.full((1, 70, 64), float("nan"))
    trace = Tracer(ROWS, "attention", together=together)[(2, 1), 128](q, k, v, out, 70, 1, outputs=[out])
    assert trace.problems == []
    expected, bound = attention(q, k, v, causal=True)
    assert ((trace.args[3].double() - expected).abs() <= bound).all()
