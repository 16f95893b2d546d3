"""Random launches that go wrong, in a process of their own:  python -m tests.cuda.cpu.faulty 5000 [seed]

Every launch is of a kind below with random numbers. Each must end in an exception or, where a GPU would not notice
either, return. Afterwards Python must be whole: a collection, large allocations, a right launch, and a clean exit.
Prints how many launches of each kind raised, or were traced with a problem.
"""

import collections
import ctypes
import gc
import random
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from utils import load_cuda
from utils.cuda.common.diagnostics import CompileWarning
from utils.cuda.kernel import compile_kernel, compile_kernels
from utils.ground.errors import CourseError

__all__ = ["main"]

_HERE = Path(__file__).parent
SOURCE = (_HERE / "faulty.cu").read_text()
MEMORY = (_HERE / "faulty_memory.cu").read_text()
KERNELS = ["wrong", "right", "cooperate", "lanes", "copies", "groups", "atomics"]
DECLARED = "void device_memory(long long kind, long long n, long long at, long long in_kernel);"
CASES = {
    name: len(re.findall(r"^ +case \d+:", body, re.MULTILINE))
    for name, body in re.findall(r"^(?:__global__ )?void (\w+)\((.*?)^}", SOURCE + MEMORY, re.MULTILINE | re.DOTALL)
}
EXPECTED = (RuntimeError, TypeError, ValueError, CourseError, UsageError)


# ---- numbers --------------------------------------------------------------------------------------------------------


def _mask(random_):
    some = random_.getrandbits(32)
    return random_.choice([2**32 - 1, 0, 1, 2**16 - 1, 0xAAAAAAAA, some, some | 1, random_.getrandbits(5)])


def _index(random_):
    """A random index, size or address: near, far, or anywhere."""
    near, far = (
        random_.randrange(-80, 80),
        random_.choice([-1, 1]) * random_.randrange(1, 10 ** random_.randrange(2, 11)),
    )
    return random_.choice([near, near, far, random_.randrange(2**20), random_.randrange(-(2**63), 2**63) // 8])


def _launch(random_):
    threads = random_.choice([1, 7, 32, 33, 64, 256])
    return random_.randrange(1, 6), threads, random_.choice([0, 0, 64, 4096])


def _tensor(random_):
    return torch.zeros(random_.choice([1, 8, 31, 240, 1000, 5000]))


# ---- kinds ----------------------------------------------------------------------------------------------------------


def _offset(random_, kind):
    """A random index or address for a case of the kernel `wrong`."""
    near = random_.randrange(-80, 80)
    far = random_.choice([-1, 1]) * random_.randrange(1, 10 ** random_.randrange(2, 11))
    anywhere = random_.randrange(-(2**63), 2**63)
    if kind in (12, 13, 22, 31, 41):  # addresses
        return random_.choice([0, near, random_.randrange(2**20), random_.randrange(2**48), anywhere])
    if kind in (10, 11):
        return random_.choice([abs(near), random_.randrange(200, 10**6)])
    if kind in (26, 27, 28):
        return random_.choice([abs(near) + 1, abs(far)])
    if kind == 15:
        return random_.randrange(1, 10 ** random_.randrange(2, 7))
    if kind in (0, 1, 2, 3, 4, 24, 25, 29, 30, 5, 6, 7, 8, 9, 32, 33, 34) and random_.random() < 0.05:
        return anywhere // 8
    return random_.choice([near, far])


def wrong(random_, made, x):
    kind = random_.randrange(CASES["wrong"])
    made.wrong[_launch(random_)](x, x.numel(), kind, random_.randrange(10**6), _offset(random_, kind))


def lanes(random_, made, x):
    kind, lane = random_.randrange(CASES["lanes"]), random_.choice([0, 1, 5, 16, 31, 32, -1, random_.randrange(2**31)])
    width = random_.choice([32, 16, 8, 1, 0, 3, 33, -1, random_.randrange(-(2**31), 2**31)])
    return made.lanes[_launch(random_)](x.int(), x.numel(), kind, _mask(random_), lane, width)


def copies(random_, made, x):
    times = random_.choice([0, 1, 2, 3, 100, random_.randrange(10**5)])
    kind = random_.randrange(CASES["copies"])
    return made.copies[_launch(random_)](x, x.numel(), kind, _index(random_), times)


def groups(random_, made, x):
    kind = random_.randrange(CASES["groups"])
    a = random_.choice([0, 3, 8, 32, 64, random_.randrange(-(2**31), 2**31)])
    return made.groups[_launch(random_)](x.int(), x.numel(), kind, a, _mask(random_))


def atomics(random_, made, x):
    return made.atomics[_launch(random_)](x, x.numel(), random_.randrange(CASES["atomics"]), _index(random_))


def cooperate(random_, made, x):
    made.cooperate[1, random_.choice([2, 32, 64])](x, random_.choice([0, x.numel(), 10**9]))


def memory(random_, made, x):
    kind, in_kernel = random_.randrange(CASES["device_memory"]), random_.choice([0, 0, *range(7)])
    made.device_memory(kind, random_.choice([1, 64, 100, 4096]), _index(random_), in_kernel)


def size(random_, made, x):
    made.right[random_.choice([2**31 - 1, 1]), 2048](x, x.numel())


def arguments(random_, made, x):
    """Launches and arguments that Python itself must refuse."""
    size = random_.choice([0, -1, 2**31, 2**64, 1.5, None, "4", (1, 2, 3, 4), (), [2, 0], float("nan"), True])
    launch = random_.choice([(size, 32), (1, size), (1, 32, size), (size,), size])
    args = random_.choice([(x, 8), (x,), (x.double(), 8), (8, x), (x, 2**40), (x, None), (None, 8), (x[::2], 8)])
    made.right[launch](*args)


def trace(random_, made, x):
    """A few of the others, traced."""
    kind = random_.choice([lanes, copies, groups, atomics])
    return kind(random_, SimpleNamespace(**{kind.__name__: getattr(made, kind.__name__).trace}), x[:64])


PIECES = ["", "\0", "\ud800", "\ufeff", "\u200b", "\r", "\x1b[31m", "é", "🚀", "}", '"', "/*", "#", "\\\n"]
LINES = ["", "--resources", "-DN=3", "-D", "--what", "-I\0", "--std=c++9", '"', "-DN=\ud800", "-I/dev/zero"]


def _damaged(random_, text):
    """A text that is cut, or in which something is replaced, or as a broken editor or encoding leaves it."""
    at = random_.randrange(len(text))
    piece = random_.choice(PIECES)
    return random_.choice(
        [
            text[:at] + piece + text[at + random_.randrange(3) :],
            text[:at],
            text.encode("utf-16").decode("latin-1"),
            text.replace("\n", "\r\n" if piece else "\r") + piece,
            text.replace(" ", "\u00a0"),
            piece + text,
            random_.choice([text.encode(), bytearray(text.encode()), None, piece * 10_000, Path(text[:5]), [text]]),
        ]
    )


SMALL = "__global__ void small(float* x, int n) {\n    int i = threadIdx.x; // ä\n    if (i < n) x[i] = 1.0f;\n}\n"


def encodings(random_, made, x):
    compile_kernel(_damaged(random_, SMALL), "small")[1, 32](x[:32], x[:32].numel())


def cells(random_, made, x):
    line = random_.choice(LINES)
    cell = _damaged(random_, SMALL)
    ran = made.shell.run_cell(f"%%cuda {line}\n{cell if isinstance(cell, str) else SMALL}", store_history=False)
    ran.raise_error()


# How often each kind is chosen. A build takes as long as a thousand launches.
KINDS = [wrong] * 80 + [lanes, copies] * 40 + [groups, atomics, memory] * 30
KINDS += [arguments, cooperate, size, trace] * 5 + [encodings, cells] * 2


# ---- all of them ----------------------------------------------------------------------------------------------------


class Made:
    """The kernels, the function of load_cuda, and a notebook's shell."""

    def __init__(self):
        for name, kernel in zip(KERNELS, compile_kernels(SOURCE, KERNELS), strict=True):
            setattr(self, name, kernel)
        self.device_memory = load_cuda(MEMORY, DECLARED, ["device_memory"]).device_memory
        self.shell = InteractiveShell.instance(colors="nocolor")
        self.shell.run_line_magic("load_ext", "utils.cuda.magic")
        self.shell.showtraceback = lambda *_, **__: None  # the exception is raised again


def main(count, seed):
    """Make `count` launches; returns how many of each kind raised, and how many there were."""
    random_, made = random.Random(seed), Made()
    launched, raised = collections.Counter(), collections.Counter()
    kept = []
    for _ in range(count):
        kind = random_.choice(KINDS)
        launched[kind.__name__] += 1
        x = _tensor(random_)
        kept = [*kept[-5:], x, bytearray(random_.randrange(1, 10**5))]
        try:
            traced = kind(random_, made, x)
            raised[kind.__name__] += traced is not None and not traced.ok
        except EXPECTED:
            raised[kind.__name__] += 1
    check(made.right)
    return launched, raised


def check(right):
    """Python and the engine work as before."""
    gc.collect()
    for _ in range(20):
        large = [bytearray(10**7), list(range(10**5)), {i: str(i) for i in range(10**4)}, torch.ones(10**6)]
        assert large[3].sum() == 10**6 and sum(large[1]) == 4999950000 and large[2][777] == "777"
        assert ctypes.string_at(ctypes.create_string_buffer(b"whole")) == b"whole"
    x = torch.zeros(1000)
    right[4, 256](x, 1000)
    assert (x == 2 * torch.arange(1000)).all()
    gc.collect()


if __name__ == "__main__":
    from utils.lesson.start import start

    start()
    warnings.simplefilter("ignore", CompileWarning)
    launched, raised = main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for kind in sorted(launched):
        print(f"{kind}: {raised[kind]} of {launched[kind]} raised")
    print(f"{sum(launched.values())} launches, {sum(raised.values())} exceptions, and Python is whole", flush=True)
