"""Complete kernels for Hopper, here and on a GPU: products with TMA, mbarriers, clusters and wgmma, and attention, each
against float64 (whole numbers exactly), and traced, as they are and with mistakes."""

import math

import pytest
import torch

from bench.engine import tensor_launch
from tests.cuda.cpu.warpgroups.complete import sources
from tests.cuda.cpu.warpgroups.complete.sources import ATTENTION, HALVES, MULTICAST, PERSISTENT, PRODUCT, SPLIT
from utils import tensor_map
from utils.cuda.kernel import Tracer, compile_kernels
from utils.lesson.simulator import cdiv


@pytest.fixture
def hopper(backend):
    """The device, unless it is a GPU that is not Hopper."""
    if backend.type == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0 (wgmma)")
    return backend


def swizzled(x, *box):
    return tensor_map(x, box, "128B")


def operands(device, kind, *shapes):
    if kind == torch.int8:
        return [torch.randint(-128, 128, shape, dtype=kind).to(device) for shape in shapes]
    return [torch.randn(shape).to(kind).to(device) for shape in shapes]


def poisoned(device, m, n, kind=torch.float32):
    value = float("nan") if kind.is_floating_point else -1
    return torch.full((m, n), value, dtype=kind, device=device)


def exact(a, b, k):
    """In float64, and a bound: each of k / 16 sums of 16 products and one before is cut off, at 2^-22 of the
    magnitudes."""
    a, b = a.cpu().double(), b.cpu().double()
    return a @ b, (k / 16 + 1) * 2.0**-21 * (a.abs() @ b.abs())


# Each returns how to launch the kernel, its arguments, the output, what it must be, and a bound on the errors.


def product(kernel, device, m, n, k):
    a, b = operands(device, torch.bfloat16, (m, k), (k, n))
    c = poisoned(device, m, n)
    run, args = tensor_launch(PRODUCT.name, kernel, a, b, c)
    return run, args, c, *exact(a, b, k)


def persistent(kernel, device, m, n, k):
    a, b = operands(device, torch.bfloat16, (m, k), (n, k))
    c = poisoned(device, m, n, torch.bfloat16)
    args = swizzled(a, 64, 64), swizzled(b, 64, 128), swizzled(c, 64, 16), m, n, k
    expected, bound = exact(a, b.T, k)
    return kernel[2, 384, 3 * 32768 + 8 * 4096], args, c, expected, bound + 2.0**-8 * (expected.abs() + bound)


def multicast(kernel, device, m, n, k):
    a, b = operands(device, torch.bfloat16, (m, k), (n, k))
    c = poisoned(device, m, n)
    launch = kernel[(2 * cdiv(n, 256), cdiv(m, 64)), 160, 3 * 24576]
    return launch, (swizzled(a, 64, 32), swizzled(b, 64, 128), c, m, n, k), c, *exact(a, b.T, k)


def halves(kernel, device, m, n, k):
    a, b = operands(device, torch.int8, (m, k), (n, k))
    c = poisoned(device, m, n, torch.int32)
    expected = a.cpu().double() @ b.cpu().double().T
    args = swizzled(a, 128, 64), swizzled(b, 128, 16), c, m, n, k
    return kernel[(cdiv(n, 16), cdiv(m, 64), 2), 128], args, c, expected, 0 * expected


def split(kernel, device, m, n, k):
    a, b = operands(device, torch.bfloat16, (m, k), (n, k))
    c = torch.zeros(m, n, device=device)
    launch = kernel[(cdiv(n, 64), cdiv(m, 64), 3), 128, 4 * 8192 + 64 * 68 * 4]
    return launch, (swizzled(a, 64, 64), swizzled(b, 64, 64), c, m, n, k), c, *exact(a, b.T, k)


def attention(kernel, device, n, causal=True):
    """The bound: the weights are rounded to bf16 before they are multiplied with v."""
    q, k, v = operands(device, torch.bfloat16, *[(n, 64)] * 3)
    out = poisoned(device, n, 64)
    scores = q.cpu().double() @ k.cpu().double().T / math.sqrt(64)
    if causal:
        scores += torch.full((n, n), -math.inf, dtype=torch.float64).triu(1)
    weights, values = scores.softmax(1), v.cpu().double()
    args = *(swizzled(x, 64, 64) for x in (q, k, v)), out, n
    return kernel[cdiv(n, 64), 160, 5 * 8192], args, out, weights @ values, 2.0**-7 * (weights @ values.abs())


def check(out, expected, bound, size):
    assert ((out.cpu().double() - expected).abs() <= bound).all(), size


PRODUCTS = [
    (PRODUCT, product, [(128, 128, 64), (1, 8, 8), (300, 136, 520)]),
    (PERSISTENT, persistent, [(128, 128, 64), (1, 8, 8), (300, 200, 136)]),
    (MULTICAST, multicast, [(64, 256, 64), (1, 2, 8), (65, 300, 392)]),
    (HALVES, halves, [(64, 16, 256), (3, 5, 128), (65, 20, 656)]),
    (SPLIT, split, [(64, 64, 192), (3, 4, 64), (65, 68, 520)]),
]


@pytest.mark.parametrize("kernel, prepared, sizes", PRODUCTS, ids=lambda x: getattr(x, "name", ""))
def test_products_of_any_size(hopper, kernel, prepared, sizes):
    together = [MULTICAST.name, HALVES.name] if kernel.file == MULTICAST.file else [kernel.name]
    text = (sources.BENCH / "hopper.cuh").read_text() + kernel.file.read_text()
    compiled = compile_kernels(text, together)[together.index(kernel.name)]
    for size in sizes:
        run, args, c, expected, bound = prepared(compiled, hopper, *size)
        run(*args)
        check(c, expected, bound, size)


def test_attention_of_any_length(hopper):
    text = (sources.BENCH / "hopper.cuh").read_text() + ATTENTION.file.read_text()
    both = compile_kernels(text, ["attention<false>", "attention<true>"])
    for causal, compiled in enumerate(both):
        for n in (64, 1, 200, 321):
            run, args, out, expected, bound = attention(compiled, hopper, n, causal)
            run(*args)
            check(out, expected, bound, (causal, n))


# ---- traces ---------------------------------------------------------------------------------------------------------


def tracer(name, *kernels):
    together = [each for kernel in kernels for each in sources.names(kernel)]
    return Tracer(sources.source(*kernels), name, together=together)


TRACED = [
    (PRODUCT, product, (130, 136, 328)),
    (PERSISTENT, persistent, (300, 136, 264)),
    (MULTICAST, multicast, (70, 260, 328)),
    (HALVES, halves, (65, 20, 656)),
    (SPLIT, split, (65, 68, 520)),
    (ATTENTION, attention, (200,)),
]


@pytest.mark.usefixtures("unjudged", "on_cpu")
@pytest.mark.parametrize("kernel, prepared, size", TRACED, ids=lambda x: getattr(x, "name", ""))
def test_traces(kernel, prepared, size):
    of_one_file = [MULTICAST, HALVES] if kernel.file == MULTICAST.file else [kernel]
    right, *wrong = sources.names(kernel)
    trace, args, c, expected, bound = prepared(tracer(right, *of_one_file), torch.device("cpu"), *size)
    found = trace(*args, outputs=[c])
    assert found.problems == []
    at = next((k for k, arg in enumerate(args) if arg is c), None)
    if at is not None:  # otherwise it is the tensor of a map
        check(found.args[at], expected, bound, size)
    lines = sources.source(*of_one_file).splitlines()
    for name, (_, _, (kind, says, line)) in zip(wrong, kernel.mistakes.values(), strict=True):
        trace, args, *_ = prepared(tracer(name, *of_one_file), torch.device("cpu"), *size)
        problems = trace(*args).problems
        fitting = [p for p in problems if p.kind == kind and says in p.message + p.hint]
        assert any(line in lines[p.line - 1] for p in fitting), problems
