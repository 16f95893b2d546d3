"""Lesson 17: a launcher's kernel, a schema, a fake kernel, a gradient, and when a trip to the GPU pays."""

import types

import torch

from utils.exercises.exercise import Function, Kernel, Question, given, once, poison
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
    from torch._subclasses import FakeTensorMode  # here: it takes a second to import

    # As torch.compile calls a fake kernel: with tensors that have a real device, and no memory.
    with FakeTensorMode():
        return _wrong_on("cpu", answer) or _wrong_on("cuda", answer)


def _wrong_on(device, answer):
    for h, w, dtype in ((3, 5, torch.float32), (4, 4, torch.float64), (1, 7, torch.float16), (0, 2, torch.float32)):
        a, b = torch.empty(h, dtype=dtype, device=device), torch.empty(w, dtype=dtype, device=device)
        out = given(answer(a, b), torch.Tensor, "a tensor")
        case = f"a has {h} numbers and b {w}, both {str(dtype)[6:]}, on the device {device}"
        for what, got, wanted in (
            ("size", list(out.shape), [h, w]),
            ("type", str(out.dtype)[6:], str(dtype)[6:]),
            ("device", out.device.type, device),
        ):
            if got != wanted:
                return f"the {what} should be {wanted}, but yours is {got} ({case})"
        if not out.is_contiguous():
            return f"the result is stored row by row, but yours has the strides {out.stride()} ({case})"
    number, vector, matrix = (torch.empty(size, device=device) for size in ((), (3,), (3, 2)))
    for a, b in ((matrix, vector), (vector, matrix), (matrix, matrix), (number, vector), (vector, number)):
        try:
            answer(a, b)
            does = "takes them"
        except ValueError:
            continue
        except (TypeError, IndexError, RuntimeError) as error:
            does = f"raises {type(error).__name__}"
        return f"sizes {list(a.shape)} and {list(b.shape)} should raise a ValueError, but yours {does}"
    return ""


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
