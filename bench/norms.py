"""What the benchmark times of layer norm and RMS norm, forward and backward. rows.py makes them part of its table."""

from functools import partial

import torch
from torch.nn.functional import layer_norm, rms_norm

from bench.operation import Operation, compiled, kernel, on_a_gpu, tritons
from utils.cuda.common.toolchain import device

__all__ = ["norms"]

EPS = 1e-5
UNIT = 2.0**-24  # half of the distance between two float32 numbers, as a part of them


RUNGS = {  # of layer norm: what each does, and the longest row that it takes
    "layer_norm_three_passes": ("three passes",),
    "layer_norm_welford": ("two passes, Welford",),
    "layer_norm_shared": ("rows in shared memory", 32768),
    "layer_norm_warps": ("rows in the registers of a warp", 1024),
    "layer_norm_registers": ("rows in the registers of a block", 32768),
}


def norms(shape, dtype):
    """Layer norm and RMS norm of the rows of x (h, w) with a weight and, for layer norm, a bias; and their gradients,
    which read x and dy and write dx."""
    (h, w), name = shape, str(dtype).removeprefix("torch.")
    for title, calls, moved, inputs, of in (
        ("layer norm", layer_norms(w, dtype), 2, layer_inputs, "layernorm"),
        ("RMS norm", rms_norms(w), 2, rms_inputs, "layernorm"),
        ("layer norm's gradients", layer_gradients(w, dtype), 3, gradient_inputs, "layernorm_backward"),
        ("RMS norm's gradients", rms_gradients(w), 3, rms_gradient_inputs, "layernorm_backward"),
    ):
        for who, run, right in calls:
            bytes_ = moved * dtype.itemsize * h * w
            yield Operation(f"{title}: {who}, {name}", run, partial(inputs, shape, dtype), right, bytes_, of=of)


def layer_norms(w, dtype):
    """Who computes it, the call and the correct result."""

    def eager(x, weight, bias):
        return layer_norm(x, (w,), weight, bias, EPS)

    yield from peers(eager, eager, "layer_norm", normed)
    rungs = [(name, words) for name, (words, *most) in RUNGS.items() if w <= min(most, default=w)]
    for name, words in rungs if dtype is torch.float32 else []:
        yield f"{words}, `{name}`", kernel("layernorm", name, EPS), (normed, means, scales)
    yield "whichever fits, `layer_norm`", kernel("layernorm", "layer_norm", EPS), (normed, means, scales)


def rms_norms(w):
    def eager(x, weight):
        return rms_norm(x, (w,), weight, EPS)

    yield from peers(eager, eager, "rms_norm", rms_normed)
    yield "`rms_norm`", kernel("layernorm", "rms_norm", EPS), (rms_normed, rms_scales)


def layer_gradients(w, dtype):
    right = (input_gradients, weight_gradients, bias_gradients)
    of_pytorch = (input_gradients, partial(weight_gradients, parts=True), partial(bias_gradients, parts=True))

    def eager(dy, x, weight, mean, rstd):
        saved = mean[:, None], rstd[:, None]
        return torch.ops.aten.native_layer_norm_backward(dy, x, [w], *saved, weight, weight, [True, True, True])

    if on_a_gpu():  # a CPU's takes means of x's dtype
        yield "PyTorch", eager, of_pytorch
    yield from peers(None, eager, "layer_norm_backward", right)
    if dtype is torch.float32:
        name = "layer_norm_backward_two_kernels"
        yield f"two kernels, `{name}`", kernel("layernorm_backward", name), right
    yield "one kernel, `layer_norm_backward`", kernel("layernorm_backward", "layer_norm_backward"), right


def rms_gradients(w):
    right = (rms_input_gradients, rms_weight_gradients)

    def eager(dy, x, weight, rstd):
        return torch.ops.aten._fused_rms_norm_backward(dy, x, [w], rstd[:, None], weight, [True, True])

    def as_written(dy, x, weight, rstd):
        d, scale = dy.float(), rstd[:, None]
        y, g = x.float() * scale, d * weight.float()
        dx = scale * (g - y * (g * y).mean(1, keepdim=True))
        return dx.to(x.dtype), (d * y).sum(0).to(x.dtype)

    if on_a_gpu():  # a CPU has no such function
        yield "PyTorch", eager, (rms_input_gradients, partial(rms_weight_gradients, parts=True))
    yield from peers(None, as_written, "", right)
    yield "`rms_norm_backward`", kernel("layernorm_backward", "rms_norm_backward"), right


def peers(eager, written, triton, right):
    """PyTorch, what torch.compile makes of `written`, and Triton's function, as far as they are here."""
    if eager:
        yield "PyTorch", eager, right
    for _, title, run in [*compiled("", "torch.compile", written), *(tritons(triton) if triton else [])]:
        yield title, run, right


# ---- inputs ---------------------------------------------------------------------------------------------------------


def random_rows(*shapes, dtype):
    return [torch.randn(shape, device=device()).to(dtype) for shape in shapes]


def layer_inputs(shape, dtype) -> tuple:
    """x with a mean of 1, weight and bias."""
    x, weight, bias = random_rows(shape, shape[1:], shape[1:], dtype=dtype)
    return x.add_(1), weight, bias


def rms_inputs(shape, dtype) -> tuple:
    return layer_inputs(shape, dtype)[:2]


def gradient_inputs(shape, dtype) -> tuple:
    """dy, x, weight, and the mean and rstd of x's rows in float32."""
    dy, x, weight = random_rows(shape, shape, shape[1:], dtype=dtype)
    x.add_(1)
    variance, mean = torch.var_mean(x, 1, correction=0) if dtype == torch.float32 else moments(x)
    return dy, x, weight, mean, (variance + EPS).rsqrt()


def moments(x):
    """Variance and mean of rows in float32, some rows at a time: a copy of all in float32 would take much memory."""
    parts = [torch.var_mean(part.float(), 1, correction=0) for part in x.split(4096)]
    return [torch.cat(values) for values in zip(*parts, strict=True)]


def rms_gradient_inputs(shape, dtype) -> tuple:
    dy, x, weight, *_ = gradient_inputs(shape, dtype)
    squares = torch.cat([part.float().square().mean(1) for part in x.split(4096)])
    return dy, x, weight, (squares + EPS).rsqrt()


# ---- correct results, in float64 ------------------------------------------------------------------------------------
# A value v of float32 arithmetic passes some ten roundings, each of half a unit, 2^-24 of the numbers it is made of: 32
# of them are allowed. Sums over a row have errors of the same size, since they are added up by parts. Then the result
# is rounded to the dtype of the output.


def rounded(exact, error, dtype):
    """The exact values, and how far a result may be off that has `error` in float32 and is then rounded to `dtype`."""
    return exact, error + (torch.finfo(dtype).eps / 2) * (exact.abs() + error) + 1e-30


def statistics(x, centered=True):
    """mean and rstd of rows, as columns, and the rows."""
    x = x.double()
    mean = x.mean(1, keepdim=True) if centered else torch.zeros(len(x), 1, dtype=x.dtype, device=x.device)
    return mean, ((x - mean).square().mean(1, keepdim=True) + EPS).rsqrt(), x


def normed(rows, x, weight, bias=None, centered=True):
    mean, rstd, exact = statistics(x[rows], centered)
    size = (exact.abs() + mean.abs()) * rstd * weight.double().abs()
    exact = (exact - mean) * rstd * weight.double()
    if bias is not None:
        exact, size = exact + bias.double(), size + bias.double().abs()
    return rounded(exact, 32 * UNIT * size, x.dtype)


def rms_normed(rows, x, weight):
    return normed(rows, x, weight, centered=False)


def means(rows, x, weight, bias):
    mean, _, exact = statistics(x[rows])
    return mean[:, 0], 32 * UNIT * exact.abs().mean(1)


def scales(rows, x, weight, bias=None, centered=True):
    _, rstd, _ = statistics(x[rows], centered)
    return rstd[:, 0], 32 * UNIT * rstd[:, 0]


def rms_scales(rows, x, weight):
    return scales(rows, x, weight, centered=False)


def input_gradients(rows, dy, x, weight, mean, rstd):
    mean, rstd = (0.0 if mean is None else mean[rows, None].double()), rstd[rows, None].double()
    y, g = (x[rows].double() - mean) * rstd, dy[rows].double() * weight.double()
    shift = 0.0 if isinstance(mean, float) else g.mean(1, keepdim=True)
    exact = rstd * (g - shift - y * (g * y).mean(1, keepdim=True))
    size = g.square().mean(1, keepdim=True).sqrt()  # the means of g and g * y are smaller
    return rounded(exact, 32 * UNIT * rstd * (g.abs() + size * (1 + y.abs() + rstd * abs(mean))), x.dtype)


def rms_input_gradients(rows, dy, x, weight, rstd):
    return input_gradients(rows, dy, x, weight, None, rstd)


def column_sums(rows, dy, y, dtype, parts):
    """Sums over the rows of dy * y, for the columns `rows`. A peer may add up a column one element after the other:
    added up at random, n roundings reach the root of n times 2^-24 of the norm. Four times as much is allowed. With
    `parts`, sums of parts may be rounded to the dtype, too, as PyTorch does: each by half a unit of what it is."""
    products = dy[:, rows].double() * y
    unit = max(256, len(products)) ** 0.5 * UNIT + (torch.finfo(dtype).eps / 2 if parts else 0)
    error = 4 * unit * products.square().sum(0).sqrt()
    return rounded(products.sum(0), error, dtype)


def weight_gradients(rows, dy, x, weight, mean, rstd, parts=False):
    y = x[:, rows].double() if mean is None else x[:, rows].double() - mean[:, None]
    return column_sums(rows, dy, y * rstd[:, None], x.dtype, parts)


def bias_gradients(rows, dy, x, weight, mean, rstd, parts=False):
    return column_sums(rows, dy, 1.0, x.dtype, parts)


def rms_weight_gradients(rows, dy, x, weight, rstd, parts=False):
    return weight_gradients(rows, dy, x, weight, None, rstd, parts)
