"""Three operations with our own kernels: vector_add, square and matmul.

Each is a PyTorch operator: it has a gradient and works under torch.compile. The compiled part (csrc/api.cpp) defines
the operators' names and arguments; what is best written in Python is added here. `_C` holds the same functions without
gradients.
"""

import torch

from my_kernels import _C

__all__ = ["built_for", "matmul", "square", "vector_add"]

#: What the kernels were built for: 'cuda', or 'cpu' if the CUDA course's engine runs them.
built_for = _C.device

_ops = torch.ops.my_kernels


def vector_add(a, b):
    """a + b for float32, float64 or float16 tensors of one size; the result is contiguous.

    Raises ValueError for sizes that differ, TypeError for another dtype.
    """
    return _ops.vector_add(a, b)


def square(x):
    """Every element of a float32, float64 or float16 tensor squared; the result is contiguous.

    Raises TypeError for another dtype.
    """
    return _ops.square(x)


def matmul(m, n):
    """The matrix product of m (h, k) and n (k, w), both float32 or both float64: (h, w).

    Raises ValueError for sizes that do not fit, TypeError for another dtype.
    """
    return _ops.matmul(m, n)


# ---- the result's size and dtype, without computing it: torch.compile calls these with tensors that have no memory --


@torch.library.register_fake("my_kernels::vector_add")
def _(a, b):
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same size, but a has {list(a.shape)} and b has {list(b.shape)}")
    return a.new_empty(a.shape)


@torch.library.register_fake("my_kernels::square")
def _(x):
    return x.new_empty(x.shape)


@torch.library.register_fake("my_kernels::matmul")
def _(m, n):
    if m.dim() != 2 or n.dim() != 2 or m.shape[1] != n.shape[0]:
        raise ValueError(f"m and n must be matrices that fit, but their sizes are {list(m.shape)} and {list(n.shape)}")
    return m.new_empty((m.shape[0], n.shape[1]))


# ---- gradients: what the forward pass saves (ctx), and what the backward pass computes from it (gradient) -----------


def _vector_add_gradient(ctx, gradient):
    return gradient, gradient


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _square_gradient(ctx, gradient):
    (x,) = ctx.saved_tensors
    return 2 * x * gradient


def _matmul_gradient(ctx, gradient):
    m, n = ctx.saved_tensors
    need_m, need_n = ctx.needs_input_grad
    return matmul(gradient, n.t()) if need_m else None, matmul(m.t(), gradient) if need_n else None


torch.library.register_autograd("my_kernels::vector_add", _vector_add_gradient)
torch.library.register_autograd("my_kernels::square", _square_gradient, setup_context=_keep)
torch.library.register_autograd("my_kernels::matmul", _matmul_gradient, setup_context=_keep)


# ---- under torch.autocast: the kernels compute in float32 ----------------------------------------------------------

# In torch 2.11, torch.compile takes the rule that was registered last, on either device: so that is the kernels' own.
_devices = ("cpu", "cuda") if built_for == "cuda" else ("cuda", "cpu")
for _name in ("vector_add", "square", "matmul"):
    for _device in _devices:
        torch.library.register_autocast(f"my_kernels::{_name}", _device, torch.float32)
