"""Lesson 17: a launcher's kernel, a schema, a fake kernel, a gradient, an operator from scratch, one written in Triton,
and when a trip to the GPU pays.

operators.py, in this folder, judges the two operators.
"""

import types

import torch

from utils.exercises.exercise import Function, Kernel, Question, given, once, poison
from utils.exercises.operators import DEVICES, fake_tensors, turned, unlike, wrong_operator, wrong_triton
from utils.exercises.verdicts import difference, is_a, not_taken, shown
from utils.lesson.simulator import cdiv

_THREADS, _MOST_BLOCKS = 128, 4


def _vectors(n):
    return {"a": torch.rand(n), "b": torch.rand(n), "out": poison(n), "n": n}


_SCHEMA = [("a", ["Tensor"], False), ("b", ["Tensor"], False), ("out", ["Tensor"], True)]
_SCHEMA += [("factor", ["float", "number"], False)]  # a Scalar is a number, as in PyTorch's own schemas


_SCHEMA_TEXT = "the text of a schema, such as 'square(Tensor x) -> Tensor'"


def _wrong_schema(answer):
    if not is_a(answer, str):
        return not_taken(_SCHEMA_TEXT, answer)
    try:
        schema = torch._C.parse_schema(answer)
    except RuntimeError as error:
        first, *place = str(error).strip().splitlines()
        return "\n    ".join([f"PyTorch cannot read it: {first}", *place])
    if schema.name != "scaled_add":
        return f"the operator should be called scaled_add, but yours is {schema.name}"
    names = [argument.name for argument in schema.arguments]
    if names != [name for name, _, _ in _SCHEMA]:
        return f"the arguments should be a, b, out, factor, but yours are {', '.join(names)}"
    for argument, (name, kinds, written) in zip(schema.arguments, _SCHEMA, strict=True):
        if str(argument.type) not in kinds:
            return f"{name} should be of type {kinds[0]}, but yours is {argument.type}"
        changes = argument.alias_info is not None and argument.alias_info.is_write
        if changes != written:
            return f"yours says that {name} {'is written to' if changes else 'is only read'}, which is not true"
        if argument.alias_info is not None and not written:
            return f"yours says that {name} shares memory with what is returned, but nothing is"
        if argument.kwarg_only:
            return f"the call is scaled_add(a, b, out, factor), but yours takes {name} by name only"
    factor = schema.arguments[-1]
    if not factor.has_default_value() or factor.default_value != 1:
        return "factor is 1 if it is left out, but yours does not say so"
    if schema.returns:
        return f"nothing is returned, but yours returns {', '.join(str(value.type) for value in schema.returns)}"
    return ""


def _wrong_fake(answer):
    # As torch.compile calls a fake kernel: with tensors that have a real device, and no memory.
    with fake_tensors():
        return next(filter(None, (_wrong_on(device, answer) for device in DEVICES)), "") or _wrong_on_two(answer)


def _wrong_on(device, answer):
    for h, w, dtype in ((3, 5, torch.float32), (4, 4, torch.float64), (1, 7, torch.float16), (0, 2, torch.float32)):
        a, b = torch.empty(h, dtype=dtype, device=device), torch.empty(w, dtype=dtype, device=device)
        case = f"a has {h} numbers and b {w}, both {str(dtype)[6:]}, on the device {device}"
        try:
            out = answer(a, b)
        except RuntimeError as error:
            if "invalid device ordinal" in str(error):  # it calculates, and there is one GPU, but this is a second
                return ""
            raise
        if wrong := unlike(given(out, torch.Tensor, "a tensor"), (h, w), a):
            return f"{wrong} ({case})"
    number, vector, matrix = (torch.empty(size, device=device) for size in ((), (3,), (3, 2)))
    for a, b in ((matrix, vector), (vector, matrix), (matrix, matrix), (number, vector), (vector, number)):
        if does := _does_not_refuse(answer, a, b):
            return f"sizes {list(a.shape)} and {list(b.shape)} should raise a ValueError, but yours {does}"
    return ""


def _wrong_on_two(answer):
    for here, there in (("cuda:0", "cuda:1"), ("cuda:0", "cpu"), ("cpu", "cuda:1")):
        if does := _does_not_refuse(answer, torch.empty(3, device=here), torch.empty(4, device=there)):
            return f"a on {here} and b on {there} should raise a ValueError, but yours {does}"
    return ""


def _does_not_refuse(answer, a, b):
    try:
        answer(a, b)
    except ValueError:
        return ""
    except (TypeError, IndexError, RuntimeError) as error:
        return f"raises {type(error).__name__}"
    return "takes them"


_GRADIENTS = "two gradients, those of x and s"


def _wrong_gradient(answer):
    for h, w in ((1, 1), (3, 5), (4, 4), (7, 2)):
        x, s, gradient = (torch.randn(size, dtype=torch.float64) for size in ((h, w), (h,), (h, w)))
        ctx = types.SimpleNamespace(saved_tensors=(x, s), needs_input_grad=(True, True))
        gradients = given(answer(ctx, gradient), tuple | list, _GRADIENTS)
        if len(gradients) != 2:
            return f"your function should return {_GRADIENTS}, but it returned {shown(gradients)}"
        for name, got, wanted in (
            ("x", gradients[0], gradient * s[:, None]),
            ("s", gradients[1], (gradient * x).sum(1)),
        ):
            if wrong := difference(got, wanted, f"the gradient of {name}", {}):
                return f"{wrong} (x is {h} x {w})"
    return ""


def _points(n):
    return {"x": torch.randn(n, 2), "out": poison(n, 2), "angle": 6 * torch.rand(()).item() - 3, "n": n}


EXERCISES = [
    Kernel(
        "17-launcher",
        sizes=[{"n": n} for n in (1, 127, 512, 513, 2100)],
        arguments=_vectors,
        outputs=("out",),
        launch=lambda n: (min(cdiv(n, _THREADS), _MOST_BLOCKS), _THREADS),
        expected=lambda a, b, out, n: a + b,
        cuda="vector_add",
        traffic=lambda n: once(*(torch.empty(n) for _ in range(3))),
    ),
    Question("17-schema", _wrong_schema, takes=_SCHEMA_TEXT),
    Question("17-fake", _wrong_fake, takes=("a", "b")),
    Question("17-gradient", _wrong_gradient, takes=("ctx", "gradient")),
    Kernel(
        "17-turn",
        sizes=[{"n": n} for n in (1, 127, 129, 1000)],
        arguments=_points,
        outputs=("out",),
        launch=lambda n: (cdiv(n, 128), 128),
        expected=lambda x, out, angle, n: turned(x, angle),
        cuda="turn",
        # A number at a time: two requests per warp for x and two for out, each of every other number.
        traffic=lambda n: {"requests": 4 * cdiv(n, 32), "sectors": 4 * cdiv(8 * n, 32)},
    ),
    Question("17-operator", wrong_operator, takes=("kernel",)),
    Question("17-triton", wrong_triton, takes=("x", "t")),
    Function(
        "17-pays",
        cases=[
            {"copies": 95, "gpu": 1, "cpu": 11},
            {"copies": 100, "gpu": 1, "cpu": 11},
            {"copies": 5, "gpu": 2, "cpu": 300},
            {"copies": 100, "gpu": 20, "cpu": 20},
            {"copies": 100, "gpu": 30, "cpu": 20},
            {"copies": 0, "gpu": 1, "cpu": 2},
            {"copies": 1000, "gpu": 1, "cpu": 2},
            {"copies": 120_000, "gpu": 300, "cpu": 12_345},
        ],
        expected=lambda copies, gpu, cpu: 0 if gpu >= cpu else copies // (cpu - gpu) + 1,
    ),
]
