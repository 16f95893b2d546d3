"""cvt: rows of the instruction table (include/cuda_on_cpu/ptx/conversions.h)."""

from utils.cuda.cpu.ptx.parse import Vector

__all__ = ["ROWS"]

_INTEGERS = "u8|s8|u16|s16|u32|s32|u64|s64"
_NEAR, _WHOLE = "r=rn|rz|rm|rp", "r=rni|rzi|rmi|rpi"
_WIDER = {("f16", "f32"), ("f16", "f64"), ("f32", "f64"), ("bf16", "f32"), ("bf16", "f64")}


def _of_floats(use):
    """Between formats: a wider one takes no rounding, a narrower one needs it."""
    use.count(2)
    a, d, rounded = use["a"], use["d"], use["r"]
    if a != d and ((a, d) in _WIDER) == bool(rounded):
        raise use.refused("takes no rounding" if rounded else "needs a rounding, such as `.rn`")
    if a == d and rounded and not rounded.endswith("i"):
        raise use.refused("rounds to whole numbers with `.rni`, `.rzi`, `.rmi` or `.rpi`")
    function = "whole<{d}, {r}, {ftz}, {sat}>" if a == d else "to_float<{d}, {a}, {r}, {ftz}, {sat}, {relu}>"
    if a == d and not rounded:
        function = "same<{d}, {ftz}, {sat}>"
    return use.set(use.call(function, use.read(1, a)))


def _pair(use):
    """Two floats become a pair, the first of them its upper half."""
    use.count(3)
    function = "to_pair<{d}, {r}, {relu}>" if use["d"] in ("f16x2", "bf16x2") else "to_{d}<{relu}>"
    return use.set(use.call(function, use.read(1, "f32"), use.read(2, "f32")))


def _unpacked(use):
    use.count(2)
    if isinstance(use.operands[0], Vector):
        raise use.refused("the result is one register")
    return use.set(use.call("from_{a}<{relu}>", use.read(1, "b16")))


def _packed(kind):
    return f"to_packed<{{a}}, {kind[1:]}, {str(kind[0] == 's').lower()}>"


ROWS = [
    (f"cvt sat? d={_INTEGERS} a={_INTEGERS}", "to_integer_of<{d}, {a}, {sat}>", "d a"),
    (f"cvt {_NEAR} d=f32|f64|f16|bf16 a={_INTEGERS}", "from_integer<{d}, {a}, {r}, false>", "d a"),
    (f"cvt {_NEAR} sat d=f32|f64|f16 a={_INTEGERS}", "from_integer<{d}, {a}, {r}, true>", "d a"),
    (f"cvt {_WHOLE} ftz? sat? d={_INTEGERS} a=f32|f64|f16|bf16", "to_integer_from<{d}, {a}, {r}, {ftz}>", "d a"),
    (f"cvt {_NEAR} ftz? sat? d=f32|f64|f16 a=f32|f64|f16", _of_floats, ""),
    (f"cvt {_WHOLE} ftz? sat? d=f32|f64|f16 a=f32|f64|f16", _of_floats, ""),
    ("cvt ftz? sat? d=f32|f64|f16 a=f32|f64|f16|bf16", _of_floats, ""),
    ("cvt r=rn|rz relu? d=f16|bf16 a=f32", _of_floats, ""),
    (f"cvt {_NEAR} d=bf16 a=f16|f64", _of_floats, ""),
    (f"cvt {_NEAR} d=f16 a=bf16", _of_floats, ""),
    ("cvt r=rn|rz relu? d=f16x2|bf16x2 f32", _pair, ""),
    ("cvt rn satfinite relu? d=e4m3x2|e5m2x2 f32", _pair, ""),
    ("cvt rn satfinite relu? d=e4m3x2|e5m2x2 f16x2", "to_{d}_from_halves<{relu}>", "b16 b32"),
    ("cvt rn relu? f16x2 a=e4m3x2|e5m2x2", _unpacked, ""),
    *((f"cvt pack sat {d} a=s32", _packed(d), "b32 a a") for d in ("u16", "s16")),
    *((f"cvt pack sat {d} a=s32 b32", _packed(d), "b32 a a b32") for d in ("u8", "s8", "u4", "s4", "u2", "s2")),
    ("cvt r=rna tf32 f32", "to_tf32_away", "b32 f32"),
    ("cvt r=rn|rz relu? tf32 f32", "to_tf32<{r}, {relu}>", "b32 f32"),
]
