"""How the files of this folder write a launch down."""

import torch

from tests.launches import Launch, empty, floats, integers


def add_to(launches, name, source, kernel, grid, block, args, outputs=(1,), shared_bytes=0):
    """Append a Launch to the list `launches`."""
    launches.append(Launch(name, source, kernel, grid, block, args, shared_bytes, tuple(outputs)))


def given(x, out, *numbers, dtype=torch.float32):
    """Arguments: x full of random values and out to be written, of these shapes, then numbers."""

    def make():
        if dtype.is_floating_point:
            full = floats(*shape(x), dtype=dtype)
        else:
            full = integers(*shape(x), below=256 if dtype == torch.uint8 else 100, dtype=dtype)
        return [full, empty(*shape(out), dtype=dtype), *numbers]

    return make


def shape(size):
    return size if isinstance(size, tuple) else (size,)
