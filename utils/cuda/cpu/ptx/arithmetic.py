"""Arithmetic of integers, floats and packed halves: rows of the instruction table (include/cuda_on_cpu/ptx/)."""

from utils.cuda.cpu.ptx.use import INTEGERS

__all__ = ["ROWS"]

_SMALL = "f16|f16x2|bf16|bf16x2"
_PACKED = "f16|f16x2"
_BFLOATS = "bf16|bf16x2"
_R = "r=rn|rz|rm|rp"
_VIDEO = "t=s32|u32 ta=s32|u32 tb=s32|u32"


def _carry(use):
    """add.cc, addc and the like: the carry is a variable of the statement."""
    use.count(4 if use.instruction.name.startswith("mad") else 3)
    base, *modifiers = use.instruction.name.split(".")
    takes, gives = base in ("addc", "subc", "madc"), "cc" in modifiers
    carry = use.statement.carry(use, takes)
    kind = use["t"]
    arguments = [use.read(at, kind) for at in range(1, len(use.operands))]
    name = base.removesuffix("c") if takes else base
    high = "_hi" if use["half"] == "hi" else ""
    function = f"{name}{high}_with_carry<{{t}}, {str(takes).lower()}, {str(gives).lower()}>"
    return use.set(use.call(function, carry, *arguments))


ROWS = [
    # integers
    (f"add t={INTEGERS}", "add<{t}>", "t t t"),
    (f"sub t={INTEGERS}", "sub<{t}>", "t t t"),
    ("add sat t=s32", "add_saturated", "t t t"),
    ("sub sat t=s32", "sub_saturated", "t t t"),
    ("add t=u16x2|s16x2", "add_pairs", "b32 b32 b32"),
    ("add cc t=s32|u32|s64|u64", _carry, ""),
    ("addc cc? t=s32|u32|s64|u64", _carry, ""),
    ("sub cc t=s32|u32|s64|u64", _carry, ""),
    ("subc cc? t=s32|u32|s64|u64", _carry, ""),
    ("mad half=lo|hi cc t=s32|u32|s64|u64", _carry, ""),
    ("madc half=lo|hi cc? t=s32|u32|s64|u64", _carry, ""),
    (f"mul half=lo|hi t={INTEGERS}", "mul_{half}<{t}>", "t t t"),
    ("mul wide t=s16|u16|s32|u32", "mul_wide<{t}>", "wide t t"),
    (f"mad half=lo|hi t={INTEGERS}", "mad_{half}<{t}>", "t t t t"),
    ("mad wide t=s16|u16|s32|u32", "mad_wide<{t}>", "wide t t wide"),
    ("mad hi sat t=s32", "mad_hi_saturated", "t t t t"),
    ("mul24 half=lo|hi t=s32|u32", "mul24_{half}<{t}>", "t t t"),
    ("mad24 half=lo|hi t=s32|u32", "mad24_{half}<{t}>", "t t t t"),
    (f"sad t={INTEGERS}", "sad<{t}>", "t t t t"),
    (f"vabsdiff {_VIDEO} sat?", "vabsdiff<{t}, {ta}, {tb}, {sat}>", "t ta tb"),
    (f"vabsdiff {_VIDEO} sat? op=add|min|max", "vabsdiff_{op}<{t}, {ta}, {tb}, {sat}>", "t ta tb t"),
    *(
        row
        for op in ("add", "sub", "avrg", "absdiff", "min", "max")
        for n in (2, 4)
        for row in (
            (f"v{op}{n} {_VIDEO} sat?", f"v{op}_parts<{{t}}, {{ta}}, {{tb}}, {n}, {{sat}}, false>", "t ta tb t"),
            (f"v{op}{n} {_VIDEO} add", f"v{op}_parts<{{t}}, {{ta}}, {{tb}}, {n}, false, true>", "t ta tb t"),
        )
    ),
    (f"div t={INTEGERS}", "div<{t}>", "t t t"),
    (f"rem t={INTEGERS}", "rem<{t}>", "t t t"),
    ("abs t=s16|s32|s64", "abs<{t}>", "t t"),
    ("neg t=s16|s32|s64", "neg<{t}>", "t t"),
    (f"min t={INTEGERS}", "min<{t}>", "t t t"),
    (f"max t={INTEGERS}", "max<{t}>", "t t t"),
    *((f"{op} relu t=s32", f"{op}_relu", "t t t") for op in ("min", "max")),
    *((f"{op} u16x2", f"{op}_pairs<uint16_t>", "b32 b32 b32") for op in ("min", "max")),
    *((f"{op} s16x2", f"{op}_pairs<int16_t>", "b32 b32 b32") for op in ("min", "max")),
    *((f"{op} relu s16x2", f"{op}_pairs_relu", "b32 b32 b32") for op in ("min", "max")),
    ("dp4a ta=s32|u32 tb=s32|u32", "dp4a<{ta}, {tb}>", "b32 b32 b32 b32"),
    ("dp2a half=lo|hi ta=s32|u32 tb=s32|u32", "dp2a_{half}<{ta}, {tb}>", "b32 b32 b32 b32"),
    # float and double
    *(
        row
        for op in ("add", "sub", "mul")
        for row in (
            (f"{op} {_R}? ftz? sat? t=f32", f"{op}<{{t}}, {{r}}, {{ftz}}, {{sat}}>", "t t t"),
            (f"{op} {_R}? t=f64", f"{op}<{{t}}, {{r}}, false, false>", "t t t"),
            (f"{op} rn? ftz? sat? t={_PACKED}", f"{op}<{{t}}, {{r}}, {{ftz}}, {{sat}}>", "t t t"),
            (f"{op} rn? t={_BFLOATS}", f"{op}<{{t}}, {{r}}, false, false>", "t t t"),
        )
    ),
    *(
        row
        for op in ("fma", "mad")
        for row in (
            (f"{op} {_R} ftz? sat? t=f32", "fma<{t}, {r}, {ftz}, {sat}, false>", "t t t t"),
            (f"{op} {_R} t=f64", "fma<{t}, {r}, false, false, false>", "t t t t"),
        )
    ),
    (f"fma rn ftz? sat? t={_PACKED}", "fma<{t}, {r}, {ftz}, {sat}, false>", "t t t t"),
    (f"fma rn ftz? relu t={_PACKED}", "fma<{t}, {r}, {ftz}, false, true>", "t t t t"),
    (f"fma rn relu? t={_BFLOATS}", "fma<{t}, {r}, false, false, {relu}>", "t t t t"),
    (f"div {_R} ftz? t=f32", "div<{t}, {r}, {ftz}>", "t t t"),
    (f"div {_R} t=f64", "div<{t}, {r}, false>", "t t t"),
    ("div approx ftz? t=f32", "div_approx<{ftz}>", "t t t"),
    ("div full ftz? t=f32", "div_full<{ftz}>", "t t t"),
    (f"rcp {_R} ftz? t=f32", "rcp<{t}, {r}, {ftz}>", "t t"),
    (f"rcp {_R} t=f64", "rcp<{t}, {r}, false>", "t t"),
    (f"sqrt {_R} ftz? t=f32", "sqrt<{t}, {r}, {ftz}>", "t t"),
    (f"sqrt {_R} t=f64", "sqrt<{t}, {r}, false>", "t t"),
    *((f"{op} approx ftz? t=f32", f"{op}_approx<{{t}}, {{ftz}}>", "t t") for op in ("rcp", "sqrt", "rsqrt")),
    *((f"{op} approx ftz? t=f32", f"{op}_approx<{{t}}, {{ftz}}>", "t t") for op in ("sin", "cos", "lg2", "ex2")),
    (f"ex2 approx t={_PACKED}", "ex2_approx<{t}, false>", "t t"),
    (f"ex2 approx ftz t={_BFLOATS}", "ex2_approx<{t}, true>", "t t"),
    (f"tanh approx t=f32|{_SMALL}", "tanh_approx<{t}, false>", "t t"),
    *((f"{op} ftz? t=f32|f64|{_SMALL}", f"{op}<{{t}}, {{ftz}}>", "t t") for op in ("abs", "neg")),
    *(
        row
        for op in ("min", "max")
        for row in (
            (f"{op} ftz? NaN? xorsign? abs? t=f32", f"{op}<{{t}}, {{ftz}}, {{NaN}}, {{xorsign}}>", "t t t"),
            (f"{op} t=f64", f"{op}<{{t}}, false, false, false>", "t t t"),
            (f"{op} ftz? NaN? xorsign? abs? t={_SMALL}", f"{op}<{{t}}, {{ftz}}, {{NaN}}, {{xorsign}}>", "t t t"),
        )
    ),
    ("copysign t=f32|f64", "copysign<{t}>", "t t t"),
    ("testp p=finite|infinite|number|notanumber|normal|subnormal t=f32|f64", "testp_{p}<{t}>", "pred t"),
]
