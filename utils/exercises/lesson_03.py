"""Lesson 03: the first kernels in CUDA C++."""

import keyword
import re
import types
from functools import partial

import torch

from utils.cuda.kernel import compiled_for_gpu
from utils.exercises.exercise import Kernel, Question, given, once, poison, uses_name
from utils.exercises.verdicts import counted
from utils.lesson.simulator import cdiv

_SIZES = (1, 17, 255, 256, 1009)


def _in_64_bits(name, source):
    """Which 64-bit instructions NVIDIA's compiler makes of the kernel, in a sentence; "" if none."""
    ptx = compiled_for_gpu(source, name).ptx
    found = dict.fromkeys(re.findall(r"^\s+([a-z]\S*\bf64\S*)", ptx, re.MULTILINE))
    return f"some of it is computed as `double`, in 64 bits: {', '.join(found)}" if found else ""


# ---- a name for a build ---------------------------------------------------------------------------------------------

_MANY = 5_000  # names of 5 hexadecimal digits are certain to collide


def _wrong_name(build_name):
    source, options = "__global__ void f() {}", "-O3"
    first = given(build_name(source, options))
    if not isinstance(first, str) or not first.isidentifier() or keyword.iskeyword(first):
        return f"{first!r} is not a name that Python can import"
    if build_name(source, options) != first:
        return "the same source and options got two names: it would be compiled again every time"
    if uses_name(build_name, "hash"):
        return "Python's hash() of a text is different in every process: no other process would find the build"
    seen = {}
    for pair in _pairs(_texts_in(build_name)):
        name = build_name(*pair)
        if not isinstance(name, str) or not name.isidentifier():
            return f"{_shown(pair)} is called {name!r}, which is not a name that Python can import"
        if seen.setdefault(name, pair) != pair:
            return f"{_shown(seen[name])} and {_shown(pair)} are both called {name!r}: one would get the other's build"
    return ""


def _shown(pair):
    return "source {!r} with options {!r}".format(*pair)


def _pairs(separators):
    """(source, options) that a careless name does not keep apart: nearly the same, or the same when joined."""
    yield from [("__global__ void f() {}", "-O2"), ("__global__ void f() { }", "-O3"), ("ab", "c"), ("a", "bc")]
    work, digits = "out[i] = x[i] + y[i] * 2;", "-O3"
    yield from [(digits, work), (work, work), (digits, digits)]
    for text in (work, digits):
        near = {text, text.upper(), text.lower(), text.replace(" ", ""), text[::-1], "", "\n", "\n\n"}
        near |= {text + space for space in " \n\t\r"} | {space + text for space in " \n\t\r"}
        near |= {text[:i] + other + text[i + 1 :] for i in range(len(text)) for other in "-_ zZ7"}
        near |= {text[:i] + text[i + 1] + text[i] + text[i + 2 :] for i in range(len(text) - 1)}
        yield from ((each, digits) if text is work else (work, each) for each in sorted(near))
    for between in separators:
        yield from [(f"a{between}b", "c"), ("a", f"b{between}c"), (f"a{between}", "b"), ("a", f"{between}b")]
    yield from ((f"x[{number}]", "-O3") for number in range(_MANY))


def _texts_in(function):
    """What the function might join the two texts with: any ASCII character, and every text in its code."""
    codes, texts = [function.__code__] if isinstance(function, types.FunctionType) else [], set(map(chr, range(128)))
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        texts |= {const for const in code.co_consts if isinstance(const, str) and len(const) < 100}
    return sorted(texts - {""})


# ---- a call to a module ---------------------------------------------------------------------------------------------


class _Module(types.ModuleType):
    """The module that the exercise says was built: one function, which is as strict as its binding and `data_ptr`."""

    calls, elsewhere = 0, False

    def launch_add2(self, c, a, b, n):
        if not all(isinstance(x, torch.Tensor) for x in (c, a, b)) or type(n) is not int:
            raise TypeError("launch_add2 takes three tensors and an int")
        fewest = min(x.numel() for x in (c, a, b))
        if not 0 <= n <= fewest:
            raise IndexError(f"launch_add2 gets n = {n}, but the smallest tensor has {counted(fewest, 'element')}")
        if wrong := [x.dtype for x in (c, a, b) if x.dtype != torch.float32]:
            raise RuntimeError(f"data_ptr<float>() needs a tensor of torch.float32, but this one is {wrong[0]}")
        self.calls += 1
        self.elsewhere = c.device != a.device
        if self.elsewhere:
            return
        total = a.reshape(-1)[:n] + b.reshape(-1)[:n]
        if c.is_floating_point():
            c.fill_(torch.nan)  # memory that was not cleared may hold the sum by chance
        c.view(-1)[:n] = total

    launch_add2.__qualname__ = "launch_add2"  # what Python says of wrong arguments


def _wrong_call(add):
    for shape in ((1,), (17,), (65, 100), (0,)):
        a, b = torch.randn(shape), torch.randn(shape)
        before = a.clone(), b.clone()
        module = _Module("module")
        c = add(module, a, b)
        if c is None and module.calls:
            return "it calls launch_add2 and returns None: launch_add2 itself returns nothing, but fills c"
        if not isinstance(given(c), torch.Tensor):
            return f"it should return a tensor, but it returns {c!r}"
        if not module.calls:
            return "it does not call launch_add2"
        if not (torch.equal(a, before[0]) and torch.equal(b, before[1])):
            return "it changes a or b, which belong to the caller"
        if c.shape != a.shape:
            return f"the sum should have the shape {tuple(a.shape)}, but it has {tuple(c.shape)}"
        if not torch.equal(c, a + b):
            return f"the sum of two tensors of shape {shape} is not right"
    with torch.device("meta"):  # stands for a device where PyTorch makes tensors by default, and a is not
        add(module, a, b)
    return "on a GPU, c would not be where a is: torch.empty_like(a) makes it there" if module.elsewhere else ""


EXERCISES = [
    Kernel(
        "03-double",
        sizes=[{"n": n} for n in _SIZES],
        arguments=lambda n: {"x": torch.randint(0, 256, (3 * n,), dtype=torch.uint8), "out": poison(n), "n": n},
        outputs=("out",),
        launch=lambda n: (cdiv(n, 256), 256),
        expected=lambda x, out, n: 0.2989 * x[:n] + 0.5870 * x[n : 2 * n] + 0.1140 * x[2 * n :],
        cuda="grey_kernel",
        close={"rtol": 0, "atol": 1e-3},  # weights with one digit less are further off
        why_slow=partial(_in_64_bits, "grey_kernel"),
    ),
    Kernel(
        "03-fade",
        sizes=[{"n": n, "t": t} for n, t in zip(_SIZES, (0.5, 1.0, 0.25, 0.0, 0.75), strict=True)],
        arguments=lambda n, t: {
            "x": torch.randint(0, 256, (n,), dtype=torch.uint8),
            "y": torch.randint(0, 256, (n,), dtype=torch.uint8),
            "out": poison(n, dtype=torch.uint8),
            "n": n,
            "t": t,
        },
        outputs=("out",),
        launch=lambda n, t: (cdiv(n, 256), 256),
        expected=lambda x, y, out, n, t: ((1 - t) * x + t * y).to(torch.uint8),
        cuda="fade_kernel",
        close={"rtol": 0, "atol": 1},
        traffic=lambda n, t: once(torch.empty(3 * n, dtype=torch.uint8)),
        why_slow=partial(_in_64_bits, "fade_kernel"),
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
    Kernel(
        "03-half",
        sizes=[{"h": h, "w": w} for h, w in ((1, 1), (16, 16), (3, 17), (40, 5), (33, 50))],
        arguments=lambda h, w: {
            "x": torch.randint(0, 256, (2 * h, 2 * w), dtype=torch.uint8),
            "out": poison(h, w, dtype=torch.uint8),
            "h": h,
            "w": w,
        },
        outputs=("out",),
        launch=lambda h, w: ((cdiv(w, 16), cdiv(h, 16)), (16, 16)),
        expected=lambda x, out, h, w: (x.view(h, 2, w, 2).sum((1, 3)) // 4).to(torch.uint8),
        cuda="half_kernel",
    ),
    Question("03-name", _wrong_name),
    Question("03-binding", _wrong_call),
]
