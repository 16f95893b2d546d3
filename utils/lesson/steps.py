"""The steps of lesson 12: a kernel's source with and without a change, and how long each step of a product takes."""

import torch

from utils.cuda.common.toolchain import device
from utils.cuda.kernel import compile_kernel
from utils.ground.progress import progress
from utils.lesson.timing import measure_fresh

__all__ = ["edited", "gaps_filled", "measure_steps"]

#: What takes each of the four changes out of matmul_pipelined_kernel: the text that is there, and its replacement.
NOT_SPREAD = {"if (i == 1 &&": "if (i == 0 &&", "if (i == 3 &&": "if (i == 0 &&", "if (i == 3) __": "if (i == 0) __"}
_COPY_N = "if (i == 0 && left >= STAGES) copy_n"
NOT_AHEAD = {"load((i + 1) % BK);": "", _COPY_N: "load(i); " + _COPY_N}
NOT_BACK = {"t % 2 ? TW - 1 - v : v": "v"}
NOT_COPIED = {"sums[t][u] += 0.0f;": "{}"}


def edited(text, edits) -> str:
    """A source in which each key of `edits` is replaced by its value. Raises ValueError unless each is found once."""
    for old, new in edits.items():
        if text.count(old) != 1:
            raise ValueError(f"{old!r} should be in the source once, but is there {text.count(old)} times")
        text = text.replace(old, new)
    return text


def gaps_filled(text) -> dict[str, str]:
    """Sources of `matmul_fast`: without the four changes that fill gaps, then with one more of them each."""
    out = {
        "none of the four": NOT_SPREAD | NOT_AHEAD | NOT_BACK | NOT_COPIED,
        "a step ahead": NOT_SPREAD | NOT_BACK | NOT_COPIED,
        "copies spread": NOT_BACK | NOT_COPIED,
        "there and back": NOT_COPIED,
        "+= 0.0f: matmul_fast": {},
    }
    return {change: edited(text, edits) for change, edits in out.items()}


def measure_steps(steps, shape) -> dict[str, float]:
    """Seconds of m.sum(), of m @ n and of each step for m (h, k) and n (k, w), where `shape` is (h, k, w).

    A step is a source, the name of its kernel, and its launch; one that needs more shared memory than the GPU has is
    left out. Raises AssertionError where a result is wrong.
    """
    h, k, w = shape
    room = torch.cuda.get_device_properties(device()).shared_memory_per_block_optin

    def tensors():
        return tuple(torch.randn(size, device=device()) for size in ((h, k), (k, w), (h, w)))

    found = {"reading m: m.sum()": measure_fresh(torch.sum, lambda: tensors()[:1]).seconds}
    found["@"] = measure_fresh(torch.matmul, lambda: tensors()[:2]).seconds
    there = {name: step for name, step in steps.items() if sum(step[2][2:]) <= room}
    for name, (text, of, launch) in progress(there.items(), "measuring"):
        run = compile_kernel(text, of)[launch]
        m, n, out = tensors()
        run(m, n, out, h, w, k)
        torch.testing.assert_close(out, (m.double() @ n.double()).float(), rtol=1e-4, atol=1e-2)
        found[name] = measure_fresh(lambda m, n, out, run=run: run(m, n, out, h, w, k), tensors).seconds
    return found
