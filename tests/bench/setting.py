"""What the tests of the benchmark share: a call of its command, made-up figures, and a GPU that is only believed in."""

import sys
from types import SimpleNamespace

import torch

from bench import __main__, fused, measuring, norms, operation, operations, reduce, rows
from utils.lesson import figures, timing

TINY = {"bandwidth": 37, "matmul": 20, "narrow": 33, "reduce": 2**14, "histogram": 2**9, "rows": (5, 37), "fused": 5}
GPU = {"device": "NVIDIA Fake", "torch": "9.9", "cuda": "99.0"}


def run(monkeypatch, *arguments):
    """The status of `python -m bench` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    return __main__.main()


def made_up(name, seconds, samples=30, **counts):
    """A row's figures."""
    return {"name": name, "seconds": seconds, "quartiles": [seconds, 2 * seconds], "samples": samples} | counts


#: The modules of the benchmark that ask which device there is.
ASKING = (__main__, figures, fused, measuring, norms, operation, operations, reduce, rows, timing)


def on_a_gpu(monkeypatch, **properties):
    """Let the benchmark believe that there is a GPU; its tensors stay on the CPU."""
    for module in ASKING:
        monkeypatch.setattr(module, "device", lambda: SimpleNamespace(type="cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties))


def numbered(sets):
    """An operation on inputs that say which set they are of, the sets, and those that were used."""
    used = []
    operation = operations.product("`@`", lambda m, n: used.append(int(m[0, 0])) or m @ n, 1, 1, 1)
    return operation, [(torch.full((1, 1), float(i)), torch.ones(1, 1)) for i in range(sets)], used
