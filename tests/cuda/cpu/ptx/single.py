"""One instruction at a time: a source with a case for each, run on awkward inputs and compared with references."""

from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from utils import compile_kernel

#: Bits of floats: both zeros, subnormals, ordinary and neighbouring numbers, the largest, infinities, NaN.
F32 = [0, 1 << 31, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x40490FDB, 0xC2F6E979]
F32 += [0x33800000, 0x4B7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F000000, 0x322BCC77]
F16 = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3C01, 0x4248, 0xD7B3, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]
F16 += [0x7E00, 0x1400, 0x3800]
B16 = [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x3F81, 0x4049, 0xC2F7, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80]
B16 += [0x7FC0, 0x3380, 0x3F00]
F64 = [
    np.float64(x).view(np.uint64).item() for x in (0.0, -0.0, 5e-324, 1.0, -1.5, np.pi, 1e308, -1e308, np.inf, np.nan)
]
INT = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    255,
    0x12345678,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFF,
    0xFFFFFFF9,
    0xDEADBEEF,
]
WIDE = [0, 1, 5, 63, 64, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x123456789ABCDEF0]

_LETTERS = {"h": "unsigned short", "r": "unsigned int", "l": "unsigned long long", "f": "float", "d": "double"}


class Case(NamedTuple):
    """PTX with its operands' constraints, the inputs, and a reference that maps their bits to the result's."""

    ptx: str
    letters: str  # of the result, then of the inputs: "rrr"
    inputs: tuple  # a list of bits for each input, or one list of tuples
    reference: object


def source(cases):
    """A kernel that runs case number `op` on each of n inputs."""
    body = []
    for number, case in enumerate(cases):
        out, *given = case.letters
        reads = ", ".join(f'"{letter}"({_input(letter, name)})' for letter, name in zip(given, "abcd", strict=False))
        asm = f'asm volatile("{case.ptx}" : "={out}"(out) : {reads});'
        result = {"f": "__float_as_uint(out)", "d": "__double_as_longlong(out)"}.get(out, "out")
        body.append(f"case {number}: {{ {_LETTERS[out]} out; {asm} r[i] = {result}; break; }}")
    arguments = ", ".join(f"const unsigned long long* {name}" for name in "abcd")
    return (
        f"__global__ void k(int op, {arguments}, unsigned long long* r, int n) {{\n"
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i >= n) return;\nswitch (op) {\n"
        + "\n".join(body)
        + "\n}\n}\n"
    )


def _input(letter, name):
    if letter == "f":
        return f"__uint_as_float((unsigned int){name}[i])"
    if letter == "d":
        return f"__longlong_as_double({name}[i])"
    return f"({_LETTERS[letter]}){name}[i]"


def check(cases, backend="cpu"):
    """Run every case, and report all that differ from their references."""
    kernel, wrong = compile_kernel(source(cases), "k"), []
    for number, case in enumerate(cases):
        rows = list(product(*case.inputs)) if isinstance(case.inputs, tuple) else case.inputs
        rows = rows[:: max(1, len(rows) // 1500)]
        columns = [np.array([row[k] if k < len(row) else 0 for row in rows], np.uint64) for k in range(4)]
        given = [torch.from_numpy(column.view(np.int64)).to(backend) for column in columns]
        result = torch.full((len(rows),), -1, dtype=torch.int64, device=backend)
        kernel[(len(rows) + 127) // 128, 128](number, *given, result, len(rows))
        mask = {"h": 0xFFFF, "r": 0xFFFFFFFF, "f": 0xFFFFFFFF}.get(case.letters[0], (1 << 64) - 1)
        got = [x & mask for x in result.cpu().tolist()]
        for row, mine in zip(rows, got, strict=True):
            expected = case.reference(*row)
            close = expected(mine) if callable(expected) else mine == expected & mask
            if not close:
                shown = expected if callable(expected) else hex(expected & mask)
                wrong.append(f"{case.ptx} of {[hex(x) for x in row]}: {mine:#x}, not {shown}")
                break
    assert not wrong, "\n".join(wrong)


# ---- numbers --------------------------------------------------------------------------------------------------------


class Float(NamedTuple):
    """A format by its digits (the hidden one included) and its largest exponent."""

    width: int
    digits: int
    most: int

    def parts(self, bits):
        """'nan', 'inf' or a Fraction; and the sign."""
        sign = bits >> (self.width - 1) & 1
        mantissa = bits & ((1 << (self.digits - 1)) - 1)
        exponent = bits >> (self.digits - 1) & (2 * self.most + 1)
        if exponent == 2 * self.most + 1:
            return ("nan" if mantissa else "inf"), sign
        hidden = 1 << (self.digits - 1) if exponent else 0
        power = max(exponent, 1) - self.most - self.digits + 1
        size = Fraction(mantissa + hidden) * Fraction(2) ** power
        return (-size if sign else size), sign

    def round(self, x, way="rn", zero_sign=0):
        """The bits of a Fraction."""
        sign, size = int(x < 0), abs(x)
        if x == 0:
            return zero_sign << (self.width - 1)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= Fraction(2) ** exponent > size
        exponent = max(exponent, 1 - self.most)
        unit = Fraction(2) ** (exponent - self.digits + 1)
        whole, rest = divmod(size, unit)
        up = {"rn": rest * 2 > unit or rest * 2 == unit and whole % 2, "rz": False}
        up |= {"rp": rest and not sign, "rm": rest and sign, "rna": rest * 2 >= unit}
        whole += bool(up[way])
        limit = Fraction(2) ** (self.most + 1)
        if whole * unit >= limit:
            away = way in ("rn", "rna") or way == ("rm" if sign else "rp")
            return sign << (self.width - 1) | (self.infinity if away else self.infinity - 1)
        if whole < 1 << (self.digits - 1):
            return sign << (self.width - 1) | int(whole)
        biased = exponent + self.most
        return sign << (self.width - 1) | (biased << (self.digits - 1)) + int(whole) - (1 << (self.digits - 1))

    @property
    def infinity(self):
        return (2 * self.most + 1) << (self.digits - 1)


SINGLE, HALF, BFLOAT, DOUBLE = Float(32, 24, 127), Float(16, 11, 15), Float(16, 8, 127), Float(64, 53, 1023)
NAN = {SINGLE: 0x7FFFFFFF, HALF: 0x7FFF, BFLOAT: 0x7FFF}


def fma_bits(form, a, b, c, way="rn"):
    """a * b + c in a format, by the rules of IEEE 754; NaN as PTX has it."""
    (x, sx), (y, sy), (z, sz) = (form.parts(v) for v in (a, b, c))
    if "nan" in (x, y, z) or "inf" in (x, y) and 0 in (x, y):
        return NAN[form]
    sp = sx ^ sy
    if "inf" in (x, y):
        return NAN[form] if z == "inf" and sz != sp else sp << (form.width - 1) | form.infinity
    if z == "inf":
        return c
    total = x * y + z
    zero = sp if sp == sz else int(way == "rm")
    return form.round(total, way, zero)


def add_bits(form, a, b, way="rn"):
    one = form.round(Fraction(1))
    return fma_bits(form, a, one, b, way)


def mul_bits(form, a, b, way="rn"):
    sign = (a ^ b) >> (form.width - 1) & 1
    return fma_bits(form, a, b, sign << (form.width - 1), way)


def signed(x, width=32):
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x
