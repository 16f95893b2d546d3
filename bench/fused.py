"""What the benchmark times of operations that do several steps in one kernel: bias and GELU, cross-entropy."""

import torch
import torch.nn.functional as F

from bench.operation import Operation, compiled, floats, kernel, on_a_gpu, tritons
from bench.rows import copies
from utils.cuda.common.toolchain import device

__all__ = ["operations", "sizes"]

DTYPE, IGNORED = torch.bfloat16, -100
UNIT = torch.finfo(DTYPE).eps / 2  # the largest part of a number that rounding to bfloat16 changes


def sizes() -> list[int]:
    return [8192 if on_a_gpu() else 64]


def operations(h):
    """Of h rows in bfloat16: bias and GELU of as many columns; cross-entropy of 50,257, the words that GPT-2 knows."""
    yield copies((h, h), DTYPE)
    yield from gelus(h)
    yield from cross_entropies(h, 50_257 if on_a_gpu() else 1001)


# ---- bias and GELU --------------------------------------------------------------------------------------------------


def gelus(h):
    fast, slope = kernel("gelu", "bias_gelu"), kernel("gelu", "bias_gelu_backward")
    size = DTYPE.itemsize * h * h
    for title, run, right in (
        ("PyTorch, `gelu(x + bias)`", gelu, gelu_values(2)),
        *((title, run, gelu_values(2)) for _, title, run in compiled("gelu", "torch.compile", gelu)),
        ("`bias_gelu`", fast, gelu_values(1)),
        *((title, run, gelu_values(1)) for _, title, run in tritons("bias_gelu")),
    ):
        yield Operation(f"bias and GELU: {title}", run, floats((h, h), (h,), dtype=DTYPE), right, 2 * size, of="gelu")
    naive = kernel("gelu", "bias_gelu_naive")
    title, inputs = "bias and GELU: one element per thread, `bias_gelu_naive`, float32", floats((h, h), (h,))
    yield Operation(title, naive, inputs, gelu_values(1), 4 * size, of="gelu")
    for title, run, rounded in (
        ("PyTorch", gelu_slopes, 2),
        *((title, run, 2) for _, title, run in compiled("gelu", "torch.compile", gelu_slopes)),
        ("`bias_gelu_backward`", slope, 1),
    ):
        inputs, right = floats((h, h), (h, h), (h,), dtype=DTYPE), (slope_values(rounded), sums_of_slopes(rounded))
        yield Operation(f"bias and GELU, gradient: {title}", run, inputs, right, 3 * size, of="gelu")


def gelu(x, bias):
    return F.gelu(x + bias)


def gelu_slopes(dy, x, bias):
    dx = torch.ops.aten.gelu_backward(dy, x + bias)
    return dx, dx.sum(0)


def gelu_values(rounded):
    """In float64. The result is rounded to bfloat16; so is x + bias, if it is stored, and gelu's slope is at most 1.13.
    A float32 sum 1 + erf is off by up to 2^-24, and our erf by 1.5e-7: below 1e-6 with |x| < 10."""

    def right(rows, x, bias):
        exact = F.gelu(v := x[rows].double() + bias.double())
        return exact, UNIT * exact.abs() + (rounded - 1) * 1.13 * UNIT * v.abs() + 1e-6

    return right


def exact_slopes(dy, x, bias):
    v = x.double() + bias.double()
    phi, density = 0.5 * torch.erfc(-v / 2**0.5), torch.exp(-0.5 * v * v) / (2 * torch.pi) ** 0.5
    return dy.double() * (phi + v * density), v


def slope_values(rounded):
    """In float64. As gelu_values; the slope of gelu's slope is at most 0.8."""

    def right(rows, dy, x, bias):
        exact, v = exact_slopes(dy[rows], x[rows], bias)
        return exact, UNIT * exact.abs() + (rounded - 1) * 0.8 * UNIT * (dy[rows].double() * v).abs() + 1e-5

    return right


def sums_of_slopes(rounded):
    """The sum over rows. Each term may be rounded to bfloat16 before, up or down at random, and x + bias as well: the
    errors grow with the root of the sum of squares, of which four times as much is allowed."""

    def right(rows, dy, x, bias):
        exact = torch.zeros_like(bias, dtype=torch.float64)
        squares = torch.zeros_like(exact)
        for first in range(0, len(x), 1024):
            part = slice(first, first + 1024)
            slopes, v = exact_slopes(dy[part], x[part], bias)
            exact += slopes.sum(0)
            squares += slopes.square().sum(0) + (dy[part].double() * v).square().sum(0)
        bound = UNIT * exact.abs() + (1e-5 + 4 * (rounded - 1) * UNIT) * squares.sqrt() + 1e-6
        return exact[rows], bound[rows]

    return right


# ---- cross-entropy --------------------------------------------------------------------------------------------------


def cross_entropies(h, w):
    loss, slopes = kernel("crossentropy", "cross_entropy"), kernel("crossentropy", "cross_entropy_backward")

    def ours(logits, target):
        return loss(logits, target, IGNORED)

    def ours_and_gradient(logits, target):
        _, logsumexp, count = loss(logits, target, IGNORED)
        return slopes(torch.ones_like(count), logits, target, logsumexp, count, IGNORED)

    size = DTYPE.itemsize * h * w
    triton = [(title, run) for _, title, run in tritons("cross_entropy")]
    triton_gradient = [(title, run) for _, title, run in tritons("cross_entropy_gradient")]
    for title, run, right in (
        ("PyTorch", F.cross_entropy, mean_loss(4 * UNIT)),
        *((title, run, mean_loss(4 * UNIT)) for _, title, run in compiled("loss", "torch.compile", F.cross_entropy)),
        ("`cross_entropy`", ours, (mean_loss(1e-6), logsumexps, counts)),
        *((title, run, (mean_loss(1e-6), logsumexps)) for title, run in triton),
    ):
        yield Operation(f"cross-entropy: {title}", run, logits_and_target(h, w), right, size, of="crossentropy")
    for title, run, right in (
        ("PyTorch", gradient_of(F.cross_entropy), loss_slopes(16)),
        *(
            (title, gradient_of(run), loss_slopes(16))
            for _, title, run in compiled("loss", "torch.compile", F.cross_entropy)
        ),
        ("`cross_entropy` and `cross_entropy_backward`", ours_and_gradient, loss_slopes(0)),
        *((title, run, loss_slopes(0)) for title, run in triton_gradient),
    ):
        name = f"cross-entropy and its gradient: {title}"
        yield Operation(name, run, logits_and_target(h, w), right, 3 * size, of="crossentropy")


def logits_and_target(h, w):
    return lambda: (*floats((h, w), dtype=DTYPE)(), torch.randint(0, w, (h,), device=device()))


def gradient_of(loss):
    """A function that computes a loss and the gradient of the logits; torch.compile compiles both of them."""

    def run(logits, target):
        logits = logits.detach().requires_grad_()
        return torch.autograd.grad(loss(logits, target), logits)[0]

    return run


def parts(logits, step=1024):
    """The logits in float64, some rows at a time, and where they begin."""
    return ((first, logits[first : first + step].double()) for first in range(0, len(logits), step))


def logsumexps(rows, logits, target):
    """In float64. In float32, log and the largest element are exact to some units; the sum to less than 2^-18."""
    exact = torch.cat([torch.logsumexp(part, 1) for _, part in parts(logits[rows])] or [logits.new_zeros(0).double()])
    return exact, 2.0**-18 + 2.0**-22 * exact.abs()


def mean_loss(unit):
    """In float64. A result in bfloat16 is rounded, as are the losses that it is the mean of: by `unit` of it."""

    def right(rows, logits, target):
        sums = [
            F.cross_entropy(part, target[first : first + len(part)], reduction="sum") for first, part in parts(logits)
        ]
        exact = sum(sums) / len(logits)
        return exact[None][rows], unit * exact.abs() + 1e-5

    return right


def counts(rows, logits, target):
    return torch.tensor([float(len(logits))], device=logits.device, dtype=torch.float64)[rows], 0.0


def loss_slopes(stored):
    """In float64. Where log-probabilities are stored in bfloat16, and below `stored` in magnitude, their rounding
    changes a probability by up to that many units, and 1 / h is rounded as well."""

    def right(rows, logits, target):
        shares = torch.softmax(logits[rows].double(), 1)
        bound = (stored * UNIT + 2.0**-18) * shares
        wanted = F.one_hot(target[rows], logits.shape[1])
        exact = (shares - wanted) / len(logits)
        return exact, bound / len(logits) + (2 if stored else 1) * UNIT * exact.abs() + 1e-12

    return right
