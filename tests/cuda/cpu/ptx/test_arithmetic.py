"""Arithmetic of inline PTX against exact references."""

from fractions import Fraction
from functools import partial

import numpy as np

from tests.cuda.cpu.ptx.single import (
    B16,
    BFLOAT,
    F16,
    F32,
    HALF,
    INT,
    NAN,
    SINGLE,
    WIDE,
    Case,
    add_bits,
    check,
    fma_bits,
    mul_bits,
    signed,
)

_SIGNED = (signed, lambda x, width=32: x & ((1 << width) - 1))
_TOP, _LOW = (1 << 31) - 1, -(1 << 31)


def _clamp(x):
    return max(_LOW, min(_TOP, x))


def _bytes(x, as_signed):
    return [signed(x >> 8 * k, 8) if as_signed else x >> 8 * k & 255 for k in range(4)]


def _parts(x, bits, as_signed):
    parts = [x >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(part, bits) for part in parts] if as_signed else parts


def _put_together(parts, bits):
    return sum((part & ((1 << bits) - 1)) << k * bits for k, part in enumerate(parts))


def _video(operation, bits, kinds="uu", clamp=None):
    """What `operation` makes of each part of two registers; `clamp` is "s" or "u" for .sat."""

    def reference(a, b, _=0):
        pairs = zip(_parts(a, bits, kinds[0] == "s"), _parts(b, bits, kinds[1] == "s"), strict=True)
        least = {"u": 0, "s": -(1 << bits - 1), None: -(1 << 40)}[clamp]
        most = least + (1 << bits) - 1 if clamp else 1 << 40
        return _put_together([max(least, min(most, operation(x, y))) for x, y in pairs], bits)

    return reference


def _rounded_up(x, y):
    return (x + y + (x + y >= 0)) >> 1


def _pack(bits, kind):
    least = -(1 << bits - 1) if kind == "s" else 0
    part = lambda x: max(least, min(least + (1 << bits) - 1, signed(x))) & ((1 << bits) - 1)  # noqa: E731
    return lambda a, b, c=0: (c << 2 * bits) | part(a) << bits | part(b)


def _quotient(a, b):
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS = [
    Case("add.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: a + b),
    Case("sub.u64 %0, %1, %2;", "lll", (WIDE, WIDE), lambda a, b: a - b),
    Case("add.sat.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: _clamp(signed(a) + signed(b))),
    Case("sub.sat.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: _clamp(signed(a) - signed(b))),
    Case("mul.lo.u32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: a * b),
    Case("mul.hi.u32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: a * b >> 32),
    Case("mul.hi.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: signed(a) * signed(b) >> 32),
    Case("mul.hi.u64 %0, %1, %2;", "lll", (WIDE, WIDE), lambda a, b: a * b >> 64),
    Case("mul.wide.s32 %0, %1, %2;", "lrr", (INT, INT), lambda a, b: signed(a) * signed(b)),
    Case("mul.wide.u32 %0, %1, %2;", "lrr", (INT, INT), lambda a, b: a * b),
    Case("mul.wide.u16 %0, %1, %2;", "rhh", (F16, F16), lambda a, b: a * b),
    Case("mad.lo.s32 %0, %1, %2, %3;", "rrrr", (INT, INT, INT), lambda a, b, c: a * b + c),
    Case("mad.wide.s32 %0, %1, %2, %3;", "lrrl", (INT, INT, WIDE), lambda a, b, c: signed(a) * signed(b) + c),
    Case("mul24.lo.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: signed(a, 24) * signed(b, 24)),
    Case("mul24.hi.u32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16),
    Case("sad.s32 %0, %1, %2, %3;", "rrrr", (INT, INT, INT), lambda a, b, c: abs(signed(a) - signed(b)) + c),
    Case("sad.u32 %0, %1, %2, %3;", "rrrr", (INT, INT, INT), lambda a, b, c: abs(a - b) + c),
    Case("vabsdiff.u32.u32.u32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: abs(a - b)),
    Case("vabsdiff.u32.s32.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: abs(signed(a) - signed(b))),
    Case("vabsdiff.s32.s32.u32.sat %0, %1, %2;", "rrr", (INT, INT), lambda a, b: min(_TOP, abs(signed(a) - b))),
    Case("vabsdiff.u32.u32.u32.add %0, %1, %2, %3;", "rrrr", (INT, INT, INT), lambda a, b, c: abs(a - b) + c),
    Case(
        "vabsdiff.s32.u32.u32.sat.max %0, %1, %2, %3;",
        "rrrr",
        (INT, INT, INT),
        lambda a, b, c: max(min(_TOP, abs(a - b)), signed(c)),
    ),
    *(
        Case(f"{name}.{kind} %0, %1, %2;", "rrr", (INT, INT), _video(f, 16, kind[0] * 2))
        for name, f in (("min", min), ("max", max))
        for kind in ("s16x2", "u16x2")
    ),
    Case("max.relu.s16x2 %0, %1, %2;", "rrr", (INT, INT), _video(lambda x, y: max(x, y, 0), 16, "ss")),
    *(
        Case(f"{name}.{t}32.{a}32.{b}32{sat} %0, %1, %2, %3;", "rrrr", (INT, INT, INT), _video(f, bits, a + b, clamp))
        for name, f, bits, t, a, b, sat, clamp in (
            ("vadd4", lambda x, y: x + y, 8, "u", "u", "u", "", None),
            ("vadd2", lambda x, y: x + y, 16, "s", "s", "s", ".sat", "s"),
            ("vsub4", lambda x, y: x - y, 8, "u", "u", "u", ".sat", "u"),
            ("vavrg4", _rounded_up, 8, "s", "s", "s", "", None),
            ("vabsdiff4", lambda x, y: abs(x - y), 8, "u", "s", "u", "", None),
            ("vmin2", min, 16, "s", "s", "s", "", None),
            ("vmax4", max, 8, "s", "s", "s", "", None),
        )
    ),
    Case(
        "vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;",
        "rrrr",
        (INT, INT, INT),
        lambda a, b, c: c + sum(abs(x - y) for x, y in zip(_parts(a, 8, False), _parts(b, 8, False), strict=True)),
    ),
    Case("cvt.pack.sat.s16.s32 %0, %1, %2;", "rrr", (INT, INT), _pack(16, "s")),
    Case("cvt.pack.sat.u16.s32 %0, %1, %2;", "rrr", (INT, INT), _pack(16, "u")),
    Case("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;", "rrrr", (INT, INT, INT), _pack(8, "u")),
    Case("cvt.pack.sat.s4.s32.b32 %0, %1, %2, %3;", "rrrr", (INT, INT, INT), _pack(4, "s")),
    Case("div.s32 %0, %1, %2;", "rrr", (INT, INT[1:]), lambda a, b: _quotient(signed(a), signed(b))),
    Case("div.u64 %0, %1, %2;", "lll", (WIDE, WIDE[1:]), lambda a, b: a // b),
    Case("rem.u32 %0, %1, %2;", "rrr", (INT, INT[1:]), lambda a, b: a % b),
    Case(
        "rem.s32 %0, %1, %2;",
        "rrr",
        (INT, INT[1:]),
        lambda a, b: signed(a) - signed(b) * _quotient(signed(a), signed(b)),
    ),
    Case("abs.s32 %0, %1;", "rr", (INT,), lambda a: abs(signed(a))),
    Case("neg.s64 %0, %1;", "ll", (WIDE,), lambda a: -a),
    Case("min.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: min(signed(a), signed(b))),
    Case("max.u32 %0, %1, %2;", "rrr", (INT, INT), max),
    Case("max.s64 %0, %1, %2;", "lll", (WIDE, WIDE), lambda a, b: max(signed(a, 64), signed(b, 64))),
    Case(
        "dp4a.s32.u32 %0, %1, %2, %3;",
        "rrrr",
        (INT, INT, INT),
        lambda a, b, c: c + sum(x * y for x, y in zip(_bytes(a, True), _bytes(b, False), strict=True)),
    ),
    Case(
        "dp2a.hi.u32.s32 %0, %1, %2, %3;",
        "rrrr",
        (INT, INT, INT),
        lambda a, b, c: c + (a & 0xFFFF) * _bytes(b, True)[2] + (a >> 16) * _bytes(b, True)[3],
    ),
    Case(
        "{ .reg .u32 l, h; add.cc.u32 l, %1, %2; addc.u32 h, 0, 0; mov.b64 %0, {l, h}; }",
        "lrr",
        (INT, INT),
        lambda a, b: a + b,
    ),
    Case(
        "{ .reg .u32 l, h; sub.cc.u32 l, %1, %2; subc.u32 h, 0, 0; mov.b64 %0, {l, h}; }",
        "lrr",
        (INT, INT),
        lambda a, b: a - b,
    ),
    Case(
        "{ .reg .u32 l, h; mad.lo.cc.u32 l, %1, %2, %3; madc.hi.u32 h, %1, %2, 0; mov.b64 %0, {l, h}; }",
        "lrrr",
        (INT, INT, INT),
        lambda a, b, c: a * b + c,
    ),
]


def _flush(form, bits):
    size = bits & ((1 << (form.width - 1)) - 1)
    return bits & (1 << (form.width - 1)) if size < 1 << (form.digits - 1) else bits


def _float(bits):
    return np.array(bits, np.uint32).view(np.float32)[()]


def _minimum(a, b, nan=False, largest=False):
    numbers = [x for x in (a, b) if SINGLE.parts(x)[0] != "nan"]
    if len(numbers) < 2 and (nan or not numbers):
        return 0x7FFFFFFF
    key = lambda x: (float(_float(x)), -(x >> 31))  # noqa: E731
    return (max if largest else min)(numbers, key=key)


def _divided(a, b, way="rn"):
    (x, sx), (y, sy) = SINGLE.parts(a), SINGLE.parts(b)
    sign = (sx ^ sy) << 31
    if "nan" in (x, y) or (x == y == "inf") or (x == 0 and y == 0):
        return 0x7FFFFFFF
    if x == "inf" or y == 0:
        return sign | SINGLE.infinity
    if y == "inf" or x == 0:
        return sign
    return SINGLE.round(x / y, way)


def _saturated(bits):
    number, sign = SINGLE.parts(bits)
    if number == "nan" or sign:
        return 0
    return min(bits, 0x3F800000)


FLOATS = [
    *(
        Case(f"add.{way}.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b, way=way: add_bits(SINGLE, a, b, way))
        for way in ("rn", "rz", "rp", "rm")
    ),
    *(
        Case(f"mul.{way}.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b, way=way: mul_bits(SINGLE, a, b, way))
        for way in ("rn", "rz", "rp", "rm")
    ),
    *(
        Case(
            f"fma.{way}.f32 %0, %1, %2, %3;",
            "ffff",
            (F32, F32, F32),
            lambda a, b, c, way=way: fma_bits(SINGLE, a, b, c, way),
        )
        for way in ("rn", "rz", "rp", "rm")
    ),
    *(
        Case(f"div.{way}.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b, way=way: _divided(a, b, way))
        for way in ("rn", "rz", "rp", "rm")
    ),
    Case("rcp.rn.f32 %0, %1;", "ff", (F32,), lambda a: _divided(0x3F800000, a)),
    Case("sub.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b: add_bits(SINGLE, a, b ^ (1 << 31))),
    Case(
        "add.ftz.f32 %0, %1, %2;",
        "fff",
        (F32, F32),
        lambda a, b: _flush(SINGLE, add_bits(SINGLE, _flush(SINGLE, a), _flush(SINGLE, b))),
    ),
    Case("add.sat.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b: _saturated(add_bits(SINGLE, a, b))),
    Case("min.f32 %0, %1, %2;", "fff", (F32, F32), _minimum),
    Case("max.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b: _minimum(a, b, largest=True)),
    Case("max.NaN.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b: _minimum(a, b, True, True)),
    Case("neg.f32 %0, %1;", "ff", (F32[:-3],), lambda a: 0x7FC00000 if a == 0x7FC00000 else a ^ (1 << 31)),
    Case("abs.f32 %0, %1;", "ff", (F32,), lambda a: a & 0x7FFFFFFF),
    Case("copysign.f32 %0, %1, %2;", "fff", (F32, F32), lambda a, b: a & (1 << 31) | b & 0x7FFFFFFF),
    *(
        Case(
            f"{op}.{'rn.' * (op == 'fma')}{name} %0, %1, %2{', %3' * (op == 'fma')};",
            "hhhh"[: 3 + (op == "fma")],
            (values,) * (2 + (op == "fma")),
            partial({"add": add_bits, "mul": mul_bits, "fma": fma_bits}[op], form),
        )
        for name, form, values in (("f16", HALF, F16), ("bf16", BFLOAT, B16))
        for op in ("add", "mul", "fma")
    ),
    Case(
        "fma.rn.relu.f16 %0, %1, %2, %3;",
        "hhhh",
        (F16, F16, F16),
        lambda a, b, c: (lambda x: 0 if x >> 15 else x)(fma_bits(HALF, a, b, c)),
    ),
    Case(
        "add.f16x2 %0, %1, %2;",
        "rrr",
        [(a << 16 | b, b << 16 | c) for a in F16 for b in F16 for c in F16[:3]],
        lambda a, b: add_bits(HALF, a >> 16, b >> 16) << 16 | add_bits(HALF, a & 0xFFFF, b & 0xFFFF),
    ),
    Case("fma.rn.f32 %0, %1, 0f3F800000, 0.5;", "ff", (F32,), lambda a: add_bits(SINGLE, a, 0x3F000000)),
]


def _near(function):
    """Within 4 units of the last place of a function in double precision; the same infinity, or NaN."""

    def reference(bits):
        with np.errstate(all="ignore"):
            exact = np.float64(function(np.float64(_float(bits))))
        if np.isnan(exact):
            return 0x7FFFFFFF
        with np.errstate(over="ignore"):
            nearest = np.float32(exact)

        def close(mine):
            mine = _float(mine)
            if not np.isfinite(nearest):
                return mine == nearest
            return abs(float(mine) - exact) <= 4 * float(np.spacing(abs(nearest)))

        return close

    return reference


APPROXIMATE = [
    Case(f"{name}.approx.f32 %0, %1;", "ff", (F32,), _near(function))
    for name, function in {
        "ex2": np.exp2,
        "lg2": np.log2,
        "rcp": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "sin": np.sin,
        "cos": np.cos,
    }.items()
]


def test_integers():
    check(INTEGERS)


def test_floats():
    check(FLOATS)


def test_fast_functions():
    check(APPROXIMATE)


def test_references():
    assert SINGLE.round(Fraction(1, 3)) == 0x3EAAAAAB and HALF.round(Fraction(65520)) == 0x7C00
    assert SINGLE.round(Fraction(1, 1 << 149)) == 1 and NAN[HALF] == 0x7FFF
