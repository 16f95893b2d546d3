"""Tensors that a kernel cannot take: what to pass instead, and that torch can do it."""

import warnings

import pytest
import torch

from utils.cuda.common.arguments import Parameter, packed


def parameter(kind, size):
    return Parameter("x", f"{kind}*", f"const {kind}* x", 8, size, size)


FLOAT, DOUBLE, HALF, INT, BYTE = map(parameter, ("float", "double", "__half", "int", "char"), (4, 8, 2, 4, 1))
with warnings.catch_warnings():  # newer torch is going to drop them
    warnings.simplefilter("ignore")
    QUANTISED = torch.quantize_per_tensor(torch.tensor([0.5, 1.5]), 0.5, 3, torch.qint8)
COMPLEX = torch.tensor([1 + 2j, 3 - 4j])
ZEROS = torch._efficientzerotensor(2)


@pytest.mark.parametrize(
    ("tensor", "wanted", "instead", "values"),
    [
        (QUANTISED, FLOAT, "x.dequantize()", [0.5, 1.5]),
        (QUANTISED, HALF, "x.dequantize().to(torch.float16)", [0.5, 1.5]),
        (QUANTISED, BYTE, "x.int_repr()", [4, 6]),
        (COMPLEX, FLOAT, "torch.view_as_real(x)", [[1, 2], [3, -4]]),
        (COMPLEX, DOUBLE, "torch.view_as_real(x.to(torch.complex128))", [[1, 2], [3, -4]]),
        (COMPLEX.conj(), FLOAT, "torch.view_as_real(x.resolve_conj())", [[1, -2], [3, 4]]),
        (torch.tensor([1, 2]), FLOAT, "x.to(torch.float32)", [1, 2]),
        (ZEROS, FLOAT, "x.clone()", [0, 0]),
    ],
)
def test_what_to_pass_instead_keeps_the_values_and_is_taken(tensor, wanted, instead, values):
    with pytest.raises(TypeError, match="argument 1 of k ") as raised:
        packed("k", [wanted], [tensor], "cpu", None)
    assert f": {instead} " in str(raised.value)
    fits = eval(instead, {"x": tensor, "torch": torch})
    assert fits.tolist() == values
    packed("k", [wanted], [fits], "cpu", None)


def test_no_conversion_is_offered_that_loses_the_imaginary_parts():
    with pytest.raises(TypeError, match="takes a tensor of int32 or uint32, but this one is complex64$"):
        packed("k", [INT], [COMPLEX], "cpu", None)
