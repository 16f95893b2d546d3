"""Bits, comparisons, choices, jumps and conversions of inline PTX against references."""

from fractions import Fraction

import torch

from tests.cuda.cpu.ptx.single import (
    B16,
    BFLOAT,
    DOUBLE,
    F16,
    F32,
    F64,
    HALF,
    INT,
    NAN,
    SINGLE,
    WIDE,
    Case,
    check,
    signed,
)

M = 0xFFFFFFFF
SHIFTS = [0, 1, 5, 31, 32, 33, 63, 64, 255, 256, M]


def _prmt(a, b, select):
    data, out = (b << 32 | a).to_bytes(8, "little"), 0
    for k in range(4):
        digit = select >> 4 * k & 15
        byte = data[digit & 7]
        out |= ((255 if byte >> 7 else 0) if digit & 8 else byte) << 8 * k
    return out


def _lop3(a, b, c, table):
    bits = (table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1 for k in range(32))
    return sum(bit << k for k, bit in enumerate(bits))


def _bfe(a, at, length, is_signed=False):
    at, length = at & 255, length & 255
    if not length:
        return 0
    sign = is_signed and a >> min(at + length - 1, 31) & 1
    taken = a >> at & ((1 << length) - 1)
    have = min(length, max(0, 32 - at))
    return taken | (-1 << have if sign else 0)


def _bfi(a, b, at, length):
    at, length = at & 255, length & 255
    mask = (((1 << length) - 1) << at) & M
    return b & ~mask | (a << at) & mask


def _bfind(a):
    a = a ^ M if a >> 31 else a
    return a.bit_length() - 1 if a else M


def _funnel(lo, hi, n, left, clamp):
    n = min(n, 32) if clamp else n & 31
    both = hi << 32 | lo
    return both << n >> 32 if left else both >> n


LOGIC = [
    Case("and.b32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: a & b),
    Case("xor.b64 %0, %1, %2;", "lll", (WIDE, WIDE), lambda a, b: a ^ b),
    Case("not.b32 %0, %1;", "rr", (INT,), lambda a: ~a),
    Case("cnot.b32 %0, %1;", "rr", (INT,), lambda a: a == 0),
    Case("shl.b32 %0, %1, %2;", "rrr", (INT, SHIFTS), lambda a, n: a << n if n < 32 else 0),
    Case("shr.u32 %0, %1, %2;", "rrr", (INT, SHIFTS), lambda a, n: a >> min(n, 32)),
    Case("shr.s32 %0, %1, %2;", "rrr", (INT, SHIFTS), lambda a, n: signed(a) >> min(n, 31)),
    Case("shr.s64 %0, %1, %2;", "llr", (WIDE, SHIFTS), lambda a, n: signed(a, 64) >> min(n, 63)),
    *(
        Case(
            f"shf.{way}.{mode}.b32 %0, %1, %2, %3;",
            "rrrr",
            (INT, INT, SHIFTS),
            lambda a, b, n, way=way, mode=mode: _funnel(a, b, n, way == "l", mode == "clamp"),
        )
        for way in "lr"
        for mode in ("clamp", "wrap")
    ),
    *(
        Case(
            f"lop3.b32 %0, %1, %2, %3, {table:#x};",
            "rrrr",
            (INT, INT, INT),
            lambda a, b, c, table=table: _lop3(a, b, c, table),
        )
        for table in (0, 0x1B, 0x80, 0x96, 0xCA, 0xEA, 0xFE, 0xFF)
    ),
    Case("prmt.b32 %0, %1, %2, %3;", "rrrr", (INT, INT, [0x3210, 0x7531, 0xFEDC, 0x5410, 0x89AB]), _prmt),
    Case("prmt.b32.rc16 %0, %1, %2, %3;", "rrrr", (INT, INT, [0, 1]), lambda a, b, n: (a >> 16 * n & 0xFFFF) * 0x10001),
    Case("bfe.u32 %0, %1, %2, %3;", "rrrr", (INT, SHIFTS, SHIFTS), _bfe),
    Case("bfe.s32 %0, %1, %2, %3;", "rrrr", (INT, SHIFTS, SHIFTS), lambda *x: _bfe(*x, True)),
    Case("bfi.b32 %0, %1, %2, %3, %4;", "rrrrr", (INT, INT[:8], SHIFTS, SHIFTS), _bfi),
    Case("bfind.u32 %0, %1;", "rr", (INT,), lambda a: a.bit_length() - 1 if a else M),
    Case("bfind.s32 %0, %1;", "rr", (INT,), _bfind),
    Case("bfind.shiftamt.u32 %0, %1;", "rr", (INT,), lambda a: 32 - a.bit_length() if a else M),
    Case("brev.b32 %0, %1;", "rr", (INT,), lambda a: int(f"{a:032b}"[::-1], 2)),
    Case("clz.b64 %0, %1;", "rl", (WIDE,), lambda a: 64 - a.bit_length()),
    Case("popc.b32 %0, %1;", "rr", (INT,), lambda a: a.bit_count()),
    Case("bmsk.clamp.b32 %0, %1, %2;", "rrr", (SHIFTS, SHIFTS), lambda a, n: ((1 << min(n, 32)) - 1) << min(a, 32)),
    Case("mov.b64 %0, {%1, %2};", "lrr", (INT, INT), lambda a, b: b << 32 | a),
    Case("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }", "rr", (INT,), lambda a: a << 16 | a >> 16),
    Case("{ .reg .b32 x<2>; mov.b64 {x0, x1}, %1; mov.u32 %0, x1; }", "rl", (WIDE,), lambda a: a >> 32),
]

_ORDER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _chosen(compare, kind, letter, values, reference):
    """1 for the first of both results of `setp`, and 2 for the second, which halves lack."""
    both = ("p, %1, %2; not.pred q, p;") if "f16" in kind else "p|q, %1, %2;"
    ptx = f"{{ .reg .pred p, q; setp.{compare}.{kind} {both} selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }}"
    return Case(ptx, f"r{letter}{letter}", (values, values), reference)


def _compared(compare, to_number):
    def reference(a, b):
        x, y = to_number(a), to_number(b)
        unordered = "nan" in (x, y)
        if compare in ("num", "nan"):
            return unordered == (compare == "nan")
        true = not unordered and eval(f"x {_ORDER[compare.removesuffix('u')]} y", {"x": x, "y": y})
        return true or unordered and compare.endswith("u")

    return lambda a, b: 1 if reference(a, b) else 2


def _real(form):
    def number(bits):
        x, sign = form.parts(bits)
        return "nan" if x == "nan" else (-1 if sign else 1) * Fraction(2) ** 2000 if x == "inf" else x

    return number


COMPARISONS = [
    *(_chosen(c, "s32", "r", INT, _compared(c, signed)) for c in _ORDER),
    *(_chosen(c, "u64", "l", WIDE, _compared(c, int)) for c in ("lt", "ge")),
    *(
        _chosen(c, "u32", "r", INT, _compared(d, int))
        for c, d in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge"))
    ),
    *(
        _chosen(c, "f32", "f", F32, _compared(c, _real(SINGLE)))
        for c in (*_ORDER, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    ),
    *(_chosen(c, "f16", "h", F16, _compared(c, _real(HALF))) for c in ("eq", "lt", "neu")),
    *(_chosen(c, "bf16", "h", B16, _compared(c, _real(BFLOAT))) for c in ("gt", "geu")),
    Case(
        "{ .reg .pred p, q; setp.eq.u32 q, %2, 7; setp.lt.and.s32 p, %1, %2, !q; selp.s32 %0, 5, -5, p; }",
        "rrr",
        (INT, INT),
        lambda a, b: 5 if signed(a) < signed(b) and b != 7 else -5,
    ),
    Case("set.gt.u32.s32 %0, %1, %2;", "rrr", (INT, INT), lambda a, b: M if signed(a) > signed(b) else 0),
    Case("set.le.f32.u32 %0, %1, %2;", "frr", (INT, INT), lambda a, b: 0x3F800000 if a <= b else 0),
    Case("slct.s32.s32 %0, %1, %2, %3;", "rrrr", (INT, INT, INT), lambda a, b, c: a if signed(c) >= 0 else b),
    Case(
        "{ .reg .u32 n; mov.u32 n, 0; mov.u32 %0, 0;\\n LOOP: add.u32 n, n, 1; add.u32 %0, %0, n;"
        " .reg .pred p; setp.lt.u32 p, n, %1; @p bra LOOP; }",
        "rr",
        ([1, 2, 10, 100],),
        lambda n: n * (n + 1) // 2,
    ),
    Case(
        "{ .reg .pred p; setp.eq.u32 p, %1, 0; @!p bra.uni DONE_%=; mov.u32 %0, 7; bra END_%=;"
        " DONE_%=: mov.u32 %0, 9; END_%=: }",
        "rr",
        (INT,),
        lambda a: 9 if a else 7,
    ),
]


def _convert(a, d, way="rn", relu=False):
    def reference(bits):
        x, sign = a.parts(bits)
        if x == "nan":
            return NAN.get(d) or (lambda mine: d.parts(mine)[0] == "nan")
        if relu and sign:
            return 0
        return sign << (d.width - 1) | d.infinity if x == "inf" else d.round(x, way, sign)

    return reference


def _whole(x, way):
    near = x.numerator // x.denominator
    return {"rzi": int(x), "rmi": near, "rpi": -(-x.numerator // x.denominator), "rni": round(x)}[way]


def _to_integer(form, way, low, high, nan=0):
    def reference(bits):
        x, sign = form.parts(bits)
        if x == "nan":
            return nan
        return max(low, min(high, _whole(x, way))) if x != "inf" else low if sign else high

    return reference


def _fp8(digits, bias, largest):
    """The bits of every number of a format, by value."""
    table = {}
    for bits in range(largest + 1):
        exponent, mantissa = bits >> digits, bits & ((1 << digits) - 1)
        hidden = (1 << digits) if exponent else 0
        table[bits] = Fraction(mantissa + hidden) * Fraction(2) ** (max(exponent, 1) - bias - digits)
    return table


def _to_fp8(table):
    def reference(bits):
        x, sign = SINGLE.parts(bits)
        if x == "nan":
            return 0x7F
        if x == "inf":
            return sign << 7 | max(table)
        return sign << 7 | min(table, key=lambda b: (abs(table[b] - abs(x)), b & 1))

    return reference


_E4M3, _E5M2 = _fp8(3, 7, 0x7E), _fp8(2, 15, 0x7B)
_8_BITS = [x << 8 | x for x in range(256)]


def _from_fp8(table):
    def one(bits):
        size = bits & 127
        if size not in table:
            return (bits >> 7) << 15 | 0x7C00 if table is _E5M2 and size == 0x7C else 0x7FFF
        return HALF.round(table[size] * (-1 if bits >> 7 else 1), "rn", bits >> 7)

    return lambda x: one(x & 255) * 0x10001


def _tf32(way):
    def reference(bits):
        x, sign = SINGLE.parts(bits)
        if x == "nan":
            return 0x7FFFFFFF
        return bits if x == "inf" else sign << 31 | SINGLE._replace(digits=11, width=19).round(abs(x), way) << 13

    return reference


def _both(one, width):
    return lambda a, b: one(a) << width | one(b)


MORE = [
    *F32,
    0x477FE000,
    0x477FF000,
    0x33000000,
    0x43E00000,
    0x43E80001,
    0x3F801000,
    0x3F803000,
    0x47700000,
    0x3B000001,
]
CONVERSIONS = [
    *(Case(f"cvt.{w}.f16.f32 %0, %1;", "hf", (MORE,), _convert(SINGLE, HALF, w)) for w in ("rn", "rz")),
    *(Case(f"cvt.{w}.bf16.f32 %0, %1;", "hf", (MORE,), _convert(SINGLE, BFLOAT, w)) for w in ("rn", "rz")),
    Case("cvt.rn.relu.bf16.f32 %0, %1;", "hf", (MORE,), _convert(SINGLE, BFLOAT, relu=True)),
    Case("cvt.f32.f16 %0, %1;", "fh", (F16,), _convert(HALF, SINGLE)),
    Case("cvt.f32.bf16 %0, %1;", "fh", (B16,), _convert(BFLOAT, SINGLE)),
    *(Case(f"cvt.{w}.f32.f64 %0, %1;", "fd", (F64,), _convert(DOUBLE, SINGLE, w)) for w in ("rn", "rz", "rp", "rm")),
    Case("cvt.f64.f32 %0, %1;", "df", (F32,), _convert(SINGLE, DOUBLE)),
    *(
        Case(f"cvt.{w}.s32.f32 %0, %1;", "rf", (MORE,), _to_integer(SINGLE, w, -(1 << 31), (1 << 31) - 1))
        for w in ("rni", "rzi", "rmi", "rpi")
    ),
    Case("cvt.rzi.u32.f32 %0, %1;", "rf", (MORE,), _to_integer(SINGLE, "rzi", 0, M)),
    Case("cvt.rni.s64.f32 %0, %1;", "lf", (MORE,), _to_integer(SINGLE, "rni", -(1 << 63), (1 << 63) - 1, 1 << 63)),
    *(
        Case(f"cvt.{w}.f32.s32 %0, %1;", "fr", (INT,), lambda a, w=w: SINGLE.round(Fraction(signed(a)), w))
        for w in ("rn", "rz", "rp", "rm")
    ),
    Case("cvt.rn.f16.u32 %0, %1;", "hr", (INT,), lambda a: HALF.round(Fraction(a))),
    Case("cvt.s32.s8 %0, %1;", "rr", (INT,), lambda a: signed(a, 8)),
    Case("cvt.u32.u16 %0, %1;", "rh", (F16,), lambda a: a),
    Case("cvt.sat.u8.s32 %0, %1;", "rr", (INT,), lambda a: max(0, min(255, signed(a)))),
    Case("cvt.sat.s8.s32 %0, %1;", "rr", (INT,), lambda a: max(-128, min(127, signed(a)))),
    Case("cvt.s64.s32 %0, %1;", "lr", (INT,), signed),
    Case("cvt.u32.u64 %0, %1;", "rl", (WIDE,), lambda a: a),
    *(
        Case(
            f"cvt.rn{relu}.{name}x2.f32 %0, %1, %2;",
            "rff",
            (MORE, MORE),
            _both(_convert(SINGLE, form, relu=bool(relu)), 16),
        )
        for name, form in (("f16", HALF), ("bf16", BFLOAT))
        for relu in ("", ".relu")
    ),
    *(
        Case(
            f"cvt.rn.satfinite.{name}x2.f32 %0, %1, %2;",
            "hff",
            (MORE, MORE),
            _both(_to_fp8(table), 8),
        )
        for name, table in (("e4m3", _E4M3), ("e5m2", _E5M2))
    ),
    *(
        Case(f"cvt.rn.f16x2.{name}x2 %0, %1;", "rh", (_8_BITS,), _from_fp8(table))
        for name, table in (("e4m3", _E4M3), ("e5m2", _E5M2))
    ),
    Case("cvt.rna.tf32.f32 %0, %1;", "rf", (MORE,), _tf32("rna")),
    Case("cvt.rn.tf32.f32 %0, %1;", "rf", (MORE,), _tf32("rn")),
    Case("cvt.rz.tf32.f32 %0, %1;", "rf", (MORE,), _tf32("rz")),
]


def test_bits():
    check(LOGIC)


def test_comparisons_and_jumps():
    check(COMPARISONS)


def test_conversions():
    check(CONVERSIONS)


def test_the_table_of_8_bits_is_that_of_torch():
    for table, kind in ((_E4M3, torch.float8_e4m3fn), (_E5M2, torch.float8_e5m2)):
        values = torch.tensor(list(table), dtype=torch.uint8).view(kind).float().tolist()
        assert [float(x) for x in table.values()] == values
