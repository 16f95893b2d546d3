"""How the tests of the language launch a kernel and compare what it gave."""

import torch

from utils import compile_kernel


def run(backend, source, name, blocks, threads, *args):
    """Launch on the backend and bring the tensors back; numbers pass as they are."""
    kernel = compile_kernel(source, name)
    placed = [a.to(backend).contiguous() if isinstance(a, torch.Tensor) else a for a in args]
    kernel[blocks, threads](*placed)
    return [a.cpu() for a in placed if isinstance(a, torch.Tensor)]


def same(got, expected):
    """Equal bit for bit, but for the sign of a zero and the bits of a NaN."""
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x
