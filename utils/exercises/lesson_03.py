"""Lesson 03: the first kernels in CUDA C++."""

import re

import torch

from utils.cuda.common import cxx
from utils.exercises.exercise import Kernel, Question, given, once, poison, uses_name
from utils.lesson.simulator import cdiv

_SIZES = (1, 17, 255, 256, 1009)


def _in_32_bits(expression):
    """A kernel around the expression, which does not compile if its value has more than 4 bytes."""
    expression = cxx.code(expression).strip().rstrip(";")
    bare = re.sub(r"\bfloat\((x\[[^\]]*\])\)|\(float\)\s*(x\[[^\]]*\])", r"\1\2", expression)  # no 64 bits in that
    words = [word for word in re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare) if word not in ("x", "i", "n")]
    if words:
        raise ValueError(f"no `{words[0]}`: keep the expression, and write its numbers as 32-bit ones")
    return f"""__global__ void rgb_to_grayscale_kernel(const unsigned char* x, unsigned char* out, size_t n) {{
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    static_assert(sizeof({expression}) == 4, "some of it is still computed in 64 bits");
    out[i] = {expression};
}}"""


def _wrong_name(build_name):
    one, other = "__global__ void f() {}", "__global__ void f() { }"
    first = given(build_name(one, "-O3"))
    if not isinstance(first, str) or not first.isidentifier():
        return f"{first!r} is not a name that Python can import"
    if build_name(one, "-O3") != first:
        return "the same source and options got two names: it would be compiled again every time"
    if build_name(other, "-O3") == first:
        return (
            f"two sources that differ in a space are both called {first!r}: the second would get the first one's build"
        )
    work = "out[i] = x[i] + y[i] * 2;"
    near = [work[:i] + other + work[i + 1 :] for i in range(len(work)) for other in "-_ zZ7" if other != work[i]]
    near += [work[:i] + work[i + 1] + work[i] + work[i + 2 :] for i in range(len(work) - 1) if work[i] != work[i + 1]]
    for changed in near:
        if build_name(changed, "-O3") == build_name(work, "-O3"):
            return f"{work!r} and {changed!r} get the same name"
    if build_name(one, "-O2") == first:
        return f"with -O3 and with -O2 it is called {first!r}: you would measure the wrong build"
    if build_name("ab", "c") == build_name("a", "bc"):
        return "source 'ab' with options 'c' and source 'a' with options 'bc' get the same name"
    if uses_name(build_name, "hash"):
        return "Python's hash() of a text is different in every process: the cache would never be found again"
    return ""


def _wrong_tiles(answer):
    across, down = cdiv(1600, 32), cdiv(1066, 8)
    names = ("number of blocks in x", "number of blocks in y", "number of threads without a pixel")
    right = (across, down, across * 32 * down * 8 - 1066 * 1600)
    parts = zip(names, answer, right, strict=True)
    return " and ".join(f"the {name} is not {yours}" for name, yours, expected in parts if yours != expected)


class _Module:
    """The module that the exercise says was built: one function, which is as strict as a binding."""

    calls = 0

    def launch_add2(self, c, a, b, n):
        if not all(isinstance(x, torch.Tensor) for x in (c, a, b)) or type(n) is not int:
            raise TypeError("launch_add2 takes three tensors and an int")
        if not 0 <= n <= min(x.numel() for x in (c, a, b)):
            raise IndexError(f"n = {n} is more than the smallest of the tensors has")
        self.calls += 1
        c.view(-1)[:n] = a.reshape(-1)[:n] + b.reshape(-1)[:n]


def _wrong_call(add):
    for shape in ((1,), (17,), (65, 100), (0,)):
        a, b = torch.randn(shape), torch.randn(shape)
        before = a.clone(), b.clone()
        module = _Module()
        c = add(module, a, b)
        if c is None and module.calls:
            return "it calls launch_add2 and returns None: launch_add2 itself returns nothing, c is what it has filled"
        if not isinstance(given(c), torch.Tensor):
            return f"it should return a tensor, but it returns {c!r}"
        if not module.calls:
            return "it does not call launch_add2"
        if not (torch.equal(a, before[0]) and torch.equal(b, before[1])):
            return "it changes a or b, which belong to the caller"
        if c.shape != a.shape or not torch.equal(c, a + b):
            return f"the sum of two tensors of shape {shape} is not right"
    return ""


EXERCISES = [
    Kernel(
        "03-double",
        sizes=[{"n": n} for n in _SIZES],
        arguments=lambda n: {
            "x": torch.randint(0, 256, (3 * n,), dtype=torch.uint8),
            "out": poison(n, dtype=torch.uint8),
            "n": n,
        },
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda x, out, n: (0.2989 * x[:n] + 0.5870 * x[n : 2 * n] + 0.1140 * x[2 * n :]).to(torch.uint8),
        cuda="rgb_to_grayscale_kernel",
        prepare=_in_32_bits,
        close={"atol": 1},  # a GPU rounds once where PyTorch rounds twice
    ),
    Kernel(
        "03-brighten",
        sizes=[{"n": n, "amount": amount} for n, amount in zip(_SIZES, (0, 255, 40, 1, 100), strict=True)],
        arguments=lambda n, amount: {
            "x": torch.randint(0, 256, (n,), dtype=torch.uint8),
            "out": poison(n, dtype=torch.uint8),
            "n": n,
            "amount": amount,
        },
        outputs=("out",),
        launch=lambda n, amount: (cdiv(n, 256), 256),
        expected=lambda x, out, n, amount: (x.int() + amount).clamp(max=255).to(torch.uint8),
        cuda="brighten_kernel",
        traffic=lambda n, amount: once(torch.empty(2 * n, dtype=torch.uint8)),
    ),
    Kernel(
        "03-squares",
        sizes=[{"n": n} for n in (1, 17, 1009, 50_000)],
        arguments=lambda n: {"out": poison(n, dtype=torch.int64), "n": n},
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda out, n: torch.arange(n) ** 2,
        cuda="squares_kernel",
        traffic=lambda n: once(torch.empty(n, dtype=torch.int64)),
    ),
    Question("03-name", _wrong_name),
    Question("03-tile", _wrong_tiles, takes="three numbers"),
    Question("03-binding", _wrong_call),
]
