"""Whatever a learner hands in: `check` prints one verdict for it and never raises, for every exercise there is."""

import math
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from utils.exercises import check
from utils.exercises.exercise import Function
from utils.exercises.judging import judged
from utils.exercises.lessons import LESSONS, exercises_of
from utils.exercises.verdicts import KINDS


class Hostile:
    """Every attribute, comparison and conversion of it raises."""

    def __getattribute__(self, name):
        raise RuntimeError(f"no {name} here")

    def __repr__(self):
        raise RuntimeError("no text here")

    __str__ = __eq__ = __bool__ = __len__ = __iter__ = __getitem__ = __float__ = __index__ = __format__ = __repr__
    __lt__ = __gt__ = __add__ = __radd__ = __contains__ = __array__ = __repr__
    __hash__ = object.__hash__


class Silly:
    """Whatever is asked of it, it answers with itself."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __getitem__(self, key):
        return self


def endless_list():
    value = [1]
    value.append(value)
    return value


def endless_dict():
    value = {}
    value["itself"] = value
    return value


def raises(error):
    def answer(*args, **kwargs):
        raise error

    return answer


def generator(*args):
    yield 1


def wrong_types(*args):
    return Hostile()


async def coroutine(*args):
    return 1


ODD = {
    "none": None,
    "ellipsis": ...,
    "true": True,
    "zero": 0,
    "huge": 10**400,
    "negative": -(2**70),
    "nan": math.nan,
    "inf": math.inf,
    "complex": 3 + 4j,
    "empty": "",
    "word": "4",
    "text": "def f(x:\n  return",
    "nul": "int x\0;",
    "surrogate": "__global__ void k() {} // \ud800",
    "long": "x" * 100_000,
    "bytes": b"16",
    "tuple": (6663,),
    "pair": (16, 16),
    "mixed": ("a", [None, {1: (2,)}]),
    "nested": [[[1, 2], [3]], []],
    "deep": __import__("functools").reduce(lambda inner, _: [inner], range(100_000), 1),
    "itself": endless_list(),
    "dict": {"a": 1},
    "dict of itself": endless_dict(),
    "set": {1, "x"},
    "array": np.arange(6.0).reshape(2, 3),
    "array of objects": np.array([None, "x", [1]], dtype=object),
    "numpy number": np.float32(3),
    "tensor": torch.zeros(2, 3),
    "no elements": torch.empty(0),
    "one element": torch.tensor(7),
    "complex tensor": torch.zeros(2, dtype=torch.complex64),
    "sparse": torch.zeros(2, 2).to_sparse(),
    "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "meta": torch.empty(3, device="meta"),
    "class": dict,
    "object": object(),
    "module": math,
    "range": range(5),
    "generator": (i for i in range(3)),
    "hostile": Hostile(),
    "silly": Silly(),
    "namespace": types.SimpleNamespace(x=1),
    "returns hostile": wrong_types,
    "returns itself": lambda *args: endless_list(),
    "returns meta": lambda *args: torch.empty(2, 2, device="meta"),
    "returns complex": lambda *args: 1j,
    "returns huge": lambda *args: 10**400,
    "returns nan": lambda *args: math.nan,
    "returns an array": lambda *args: np.zeros(3),
    "returns text": lambda *args: "\ud800",
    "returns its arguments": lambda *args: args,
    "returns nothing": lambda *args: None,
    "returns sparse": lambda *args: torch.zeros(5, 5).to_sparse(),
    "returns nested": lambda *args: ([1, [2]], {"a": (3,)}),
    "returns numbers": lambda *args: (np.float32(1), np.int64(2)),
    "takes nothing": lambda: 1,
    "raises": raises(ValueError("a mistake")),
    "raises without words": raises(KeyError()),
    "raises exit": raises(SystemExit(3)),
    "raises generator exit": raises(GeneratorExit()),
    "raises stop": raises(StopIteration()),
    "raises recursion": raises(RecursionError()),
    "raises memory": raises(MemoryError()),
    "raises a hostile error": raises(type("Bad", (Exception,), {"__str__": Hostile.__repr__})()),
    "raises a base exception": raises(type("Own", (BaseException,), {})("mine")),
    "a generator function": generator,
    "a coroutine": coroutine,
    "a built-in": len,
    "recursive": lambda *args: ODD["recursive"](*args),
}


@pytest.mark.parametrize("lesson", LESSONS)
def test_any_answer_gets_a_verdict(lesson, capsys):
    for exercise in exercises_of(lesson):
        for name, answer in ODD.items():
            try:
                check(exercise.name, answer)
            except BaseException as error:
                pytest.fail(f"{exercise.name}, {name}: {type(error).__name__}")
            said = capsys.readouterr().out
            assert said.startswith(KINDS), (exercise.name, name, said)
            assert "right" not in said.split(":")[0], (exercise.name, name, said)
            if not name.startswith(("raises", "recursive", "returns hostile")):
                assert not said.startswith("crashed"), (exercise.name, name, said)


@pytest.mark.parametrize("name", [None, 3, [1], "", "02-gaurd", "02", "99-x", "\ud800", Silly(), endless_list()])
def test_any_name_gets_an_answer(name, capsys):
    check(name, None)
    assert capsys.readouterr().out.startswith("There is no exercise ")


def test_the_stop_button_still_stops(capsys):
    with pytest.raises(KeyboardInterrupt):
        check("17-pays", raises(KeyboardInterrupt()))


def test_wrong_shapes_are_told_what_the_exercise_takes(capsys):
    for name, answer, takes in (
        ("02-count", (6663,), "two numbers (blocks, threads without a pixel), but got (6663,)"),
        ("02-unnoticed", (16, 16), "a list of sizes such as [(150, 225)], but got (16, 16)"),
        ("04-pair", (np.zeros((2, 2)), 3), "two matrices (m, n), both tensors, but got (array("),
        ("05-size", (1, 2), "three numbers (h, k, w), but got (1, 2)"),
        ("06-host", "5", "a list of line numbers, but got '5'"),
        ("01-cold", 5, "a Python function of f and clock, but got 5"),
        ("04-data", "4", "a dictionary with the number of a line for each mistake, but got '4'"),
    ):
        check(name, answer)
        assert capsys.readouterr().out.startswith(f"wrong: this exercise takes {takes}")


def nothing(*args):
    len(args)


def test_a_function_without_return_is_told_so(capsys):
    functions = [exercise for lesson in LESSONS for exercise in exercises_of(lesson) if isinstance(exercise, Function)]
    names = [exercise.name for exercise in functions] + ["10-median", "10-bound", "11-lanes", "17-fake", "17-gradient"]
    for name in names:
        check(name, nothing)
        assert capsys.readouterr().out.startswith("wrong: your function returned nothing: did you forget `return`?")


@pytest.mark.parametrize(
    "answer, said",
    [
        (
            lambda x: 1,
            "this exercise takes a Python function of copies, gpu and cpu, but yours is the function <lambda>(x)",
        ),
        (dict, "this exercise takes a Python function of copies, gpu and cpu, but got the class dict"),
        (generator, "this exercise takes a Python function of copies, gpu and cpu, but got the generator function gen"),
        (
            coroutine,
            "this exercise takes a Python function of copies, gpu and cpu, but got the async function coroutine",
        ),
        (
            "hostile",
            "this exercise takes a Python function of copies, gpu and cpu, but got an object of the type Hostile",
        ),
        (len, "this exercise takes a Python function of copies, gpu and cpu, but yours is the function len(obj"),
        (wrong_types, "the result should be 10, but yours is an object of the type Hostile (copies = 95, gpu = 1, cpu"),
        (
            lambda *args: torch.zeros(2, 3),
            "the result should be 10, but yours is a tensor of shape (2, 3), torch.float32",
        ),
        (lambda *args: np.zeros(3), "the result should be 10, but yours is array([0., 0., 0.]) (copies = 95"),
        (
            lambda *args: (len(args), None),
            "your function returned (3, None), where something is still missing (copies = 95",
        ),
    ],
)
def test_what_is_said_of_another_kind_of_answer(answer, said, capsys):
    check("17-pays", ODD[answer] if isinstance(answer, str) else answer)
    assert capsys.readouterr().out.startswith(f"wrong: {said}")


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda x: x.long(), "the result should be torch.float32, but yours is torch.int64"),
        (lambda x: x[:1], "the result should have the shape (2,), but yours has (1,)"),
        (lambda x: x.to("meta"), "the result should be on the device cpu, but yours is on meta"),
        (lambda x: x.to_sparse(), "the result should be an ordinary tensor, but yours has the layout torch.sparse_coo"),
        (lambda x: x.numpy(), "the result should be a tensor, but yours is array([1., 1.], dtype=float32)"),
        (lambda x: x.tolist(), "the result should be a tensor, but yours is [1.0, 1.0]"),
    ],
)
def test_what_is_said_of_another_kind_of_tensor(change, said):
    exercise = Function("99-ones", cases=[{"n": 2}], expected=lambda n: torch.ones(n))
    assert str(judged(exercise, lambda n: torch.ones(n))) == "right"
    assert str(judged(exercise, lambda n: change(torch.ones(n)))) == f"wrong: {said} (n = 2)"


@pytest.mark.parametrize("number", [np.float64(0.5), np.array(0.5), Fraction(1, 2), Decimal("0.5"), 0.5 + 1e-12])
def test_a_number_of_any_kind_is_a_number(number):
    exercise = Function("99-half", cases=[{"n": 2}], expected=lambda n: 1 / n)
    assert str(judged(exercise, lambda n: number)) == "right"


def test_a_fake_kernel_is_called_with_real_devices(capsys):
    def on(device):
        def fake(a, b):
            if a.dim() != 1 or b.dim() != 1 or a.device != b.device:
                raise ValueError("two vectors on one device")
            return torch.empty(a.shape[0], b.shape[0], dtype=a.dtype, device=device or a.device)

        check("17-fake", fake)
        return capsys.readouterr().out

    assert on(None) == "right\n"
    assert on("meta").startswith("wrong: the device should be cpu, but yours is meta")
    assert on("cpu").startswith("wrong: the device should be cuda:0, but yours is cpu")
