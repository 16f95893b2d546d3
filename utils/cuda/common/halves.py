"""What to do about a compile error that is about numbers of 16 bits, half and bfloat16, in the way of advice.py."""

import re

__all__ = ["RULES"]  # and the functions that word a hint


def pairs(place):
    """Two halves where two floats are needed, or the other way round."""
    message = re.sub(r"\(aka [^)]*\)", "", place.message)
    kinds = re.findall(r"\b(?:__)?(?:nv_)?(half2|bfloat162|float2)\b", message)
    if len(kinds) != 2 or kinds.count("float2") != 1:
        return ""
    given, wanted = kinds if " to " in message else reversed(kinds)
    return f"Both numbers are converted by `__{given}2{wanted}{'_rn' * (given == 'float2')}(v)`."


def halves(place):
    """Arithmetic of a half with another type, or where torch's flags leave out half's operators."""
    kinds = place.message.partition("operand types are: ")[2]
    if "half" not in kinds and "bfloat16" not in kinds:
        return ""
    sides = re.split(r"\s(?:=|\S=?)\s", kinds, maxsplit=1)
    left, right = (re.sub(r"\b(?:const\b|__nv_|nv_|__)", "", sides[at]).strip() for at in (0, -1))
    kind, pair = ("bfloat16", "bfloat162") if "bfloat16" in kinds else ("half", "half2")
    if {left, right} == {"half", "bfloat16"} and 'operator "="' in place.message:
        return from_the_other(place, left)
    if left != right and pair in (left, right):
        if left == kind and re.search(r'operator "[-+*/]?="', place.message):
            return f"A `{pair}` has two numbers: take one, `__low2{kind}(v)` or `__high2{kind}(v)`."
        made = f"__{kind}2{pair}(v)" if kind in (left, right) else f"__float2{pair}_rn(v)"
        return f"`{made}` makes a `{pair}` whose numbers are both `v`."
    if 'operator "="' in place.message and left == kind:
        return f"Convert it: `__float2{kind}((float)v)`."
    if compared := re.search(r'more than one operator "([<>]=?|[=!]=)"', place.message):
        return f"Both sides need one type: compare floats, `__{kind}2float(h) {compared[1]} f`."
    if "more than one" in place.message:
        return f"Both sides need one type: `__{kind}2float(h) * f` is a float, `h * __float2{kind}(f)` a {kind}."
    return "Without operators for half: compute with floats, `__half2float(x)`, or with `__hadd`, `__hmul`, `__hfma`."


def from_the_other(place, wanted):
    """A half of a bfloat16, or the other way round."""
    value = re.search(r"(?<![=!<>])=\s*([\w.]+(?:\[[^\[\]]*\])?)\s*;", place.code)
    to_float = "__half2float" if wanted == "bfloat16" else "__bfloat162float"
    return f"Convert it: `__float2{wanted}({to_float}({value[1] if value else 'v'}))`."


def to_number(place):
    """A half where C++ needs a number: `h << 1`, `float v = h;`"""
    bits, kind = ("__bfloat16_as_ushort", "bfloat16") if "bfloat16" in place.message else ("__half_as_ushort", "half")
    if re.search(r"\basm\b", place.code):
        back = bits.replace("_as_ushort", "").replace("__", "__ushort_as_")
        return f"A 16-bit operand is an `unsigned short`: `{bits}(x)` has the bits of a {kind}, `{back}(u)` makes one."
    if re.search(r"<<(?!<)|(?<!>)>>(?!>)|[\w\]]\s*[&|^]=?\s*\w|~", place.code):
        return f"`<<`, `>>`, `&`, `|` and `^` take whole numbers: `{bits}(x)` has the bits of a {kind}."
    if "%" in place.code:
        return f"`%` takes whole numbers: write `__float2{kind}(fmodf(__{kind}2float(a), __{kind}2float(b)))`."
    return "Convert it: `__half2float(x)`, `__float2half(x)`; for bfloat16, `__bfloat162float(x)`."


def of_16_bits(place, name):
    """`_Float16`, which the host's compiler has."""
    instead = "`__nv_bfloat16`, of `cuda_bf16.h`" if "b" in name else "`__half`, of `cuda_fp16.h`"
    return f"CUDA's type of 16 bits is {instead}."


# What the compilers say of them, in the way of hints.py.
RULES = [
    (
        "literal operator",
        r"(?P<number>\d+\.\d*)h\b",
        "C++ has no halves of its own: write `__float2half({number}f)`, of `cuda_fp16.h`.",
    ),
    (r"nvcc does not compile `(?P<name>\w+)`", "", of_16_bits),
    (r'no suitable .*conversion|no operator "="', "", pairs),
    (
        r'no suitable user-defined conversion from "(?:const )?(?:half|(?:__)?nv_bfloat16|__half)" .*'
        r'to "(?:__)?(?:nv_)?(?P<wanted>half|bfloat16)"',
        "",
        from_the_other,
    ),
    (r"more than one operator|no operator", "", halves),
    (
        r'overloaded function "(?P<name>sqrt|exp|log|sin|cos|floor|ceil)" .*\(.*half',
        "",
        "For half there is `h{name}`, of `cuda_fp16.h`; or compute with a float, `{name}f(__half2float(x))`.",
    ),
    (r"(?:no suitable|more than one) conversion function .*(?:half|bfloat16)", "", to_number),
]
