"""What to do about a call with numbers of several types, where the function takes one, in the way of advice.py."""

import re

from utils.cuda.common import cxx
from utils.cuda.common.missing import tokens

__all__ = ["OF_FLOATS"]  # and the functions that word a hint

#: CUDA's functions that take floats or doubles.
OF_FLOATS = """acos asin atan atan2 cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin
fmod hypot log log10 log1p log2 lround nextafter pow remainder rint round sin sinh sqrt tan tanh trunc""".split()
_TESTS = ["isfinite", "isinf", "isnan", "signbit"]
OF_FLOATS += _TESTS
# From the narrowest to the widest: how a compiler calls them, and the end of a number of that type.
_TYPES = ["bool", "char", "signed char", "unsigned char", "short", "unsigned short"]
_ENDS = {"int": "", "unsigned int": "u", "long": "L", "unsigned long": "UL", "long long": "LL"}
_ENDS |= {"unsigned long long": "ULL", "float": ".0f", "double": ".0"}
_TYPES += _ENDS


def two_types(place, name):
    """`min(x[i] + 60, 255.0)`, and `max` of two halves."""
    given = place.message.partition("argument types are: (")[2].rstrip(")")
    if "__int128" in given:
        return f"There is no `{name}` for `__int128`: write `a {'<' if name == 'min' else '>'} b ? a : b`."
    if "half" in given or "bfloat16" in given:
        to_float = "__bfloat162float" if "bfloat16" in given else "__half2float"
        return f"For these there is `__h{name}`; or compute with floats, `{name}({to_float}(a), {to_float}(b))`."
    kinds = [re.sub(r"\bconst ", "", kind).strip() for kind in given.replace("__nv_bool", "bool").split(",")]
    numbers = len(kinds) == 2 and set(kinds) <= {*_TYPES}
    if "no instance" in place.message and not numbers:
        return ""
    same = f"Both arguments of `{name}` must have the same type"
    wide = max(kinds, key=_TYPES.index) if numbers else ""
    fit = [each for each in _calls(place, name) if _may_be(place, each, kinds)] if numbers else []
    written = _converted(place, fit[0][kinds[0] == wide], wide) if len(fit) == 1 else ""
    if not numbers or "unsigned" in (written or wide) and not written[:1].isdigit():
        return f"{same}: convert one, as in `{name}(a, ({kinds[0] or 'int'})b)`."
    if not written:
        return f"{same}: convert one, as in `{name}({f'a, ({wide})b' if kinds[0] == wide else f'({wide})a, b'})`."
    return f"{same}: write `{written}`."


def all_of_one_type(place, name):
    """`fma(x, y, 1)`, `isnan(n)`"""
    one = name in _TESTS
    takes = f"`{name}` takes {'a float or a double' if one else 'floats or doubles, all of one type'}"
    calls = [(each, [_kind(place, argument) for argument in each]) for each in _calls(place, name)]
    wrong = [call for call in calls if set(call[1]) not in ({"float"}, {"double"})]
    large = re.search(r"\b(?:long|u?int64_t|size_t|double)\b", cxx.code(place.source))
    if len(wrong) == 1 and "" not in wrong[0][1]:
        kinds = wrong[0][1]
        wide = any(kind == "double" or "long" in kind for kind in kinds) or large and "float" not in kinds
        wide = "double" if wide else "float"
        others = [argument for argument, kind in zip(wrong[0][0], kinds, strict=True) if kind != wide]
        write = " and ".join(dict.fromkeys(f"`{_converted(place, argument, wide)}`" for argument in others))
    else:
        wide = "double" if large else "float"
        write = "`(double)n` for an `n` of another type" if wide == "double" else "`(float)n` for an int `n`"
    also = "" if one or wide == "double" else f"`{name}f`, or "
    return f"{takes}: write {also}{write}."


def _calls(place, name):
    """The arguments of each call of a function in the line."""
    part = tokens(place.source)
    for k, token in enumerate(part[:-1]):
        closes = cxx.matching(part, k + 1) if token.text == name and part[k + 1].text == "(" else None
        if closes and token.line == place.line:
            yield [argument for argument in cxx.at_commas(part[k + 2 : closes]) if argument]


def _may_be(place, arguments, kinds) -> bool:
    found = [_kind(place, argument) for argument in arguments]
    return len(found) == len(kinds) and all(one in ("", other) for one, other in zip(found, kinds, strict=True))


def _converted(place, part, kind):
    """`(float)n`, `1.0f`"""
    text = " ".join(place.source[part[0].start : part[-1].end].split())
    if kind in _ENDS and re.fullmatch(r"-?\d+", text):
        return text + _ENDS[kind]
    if kind == "double" and re.fullmatch(r"-?(?:\d+\.\d*|\.\d+)f", text):
        return text[:-1]
    alone = re.fullmatch(r"[\w.:]+", re.sub(r"\s", "", "".join(token.text for token in _outside(part))))
    return f"({kind}){text}" if alone else f"({kind})({text})"


def _outside(part):
    """What is outside brackets: x of `x[i + 1]`."""
    k, found = 0, []
    while k < len(part):
        closes = cxx.matching(part, k) if part[k].text in ("[", "(") and k else None
        if closes:
            k = closes
        else:
            found.append(part[k])
        k += 1
    return found


def _kind(place, part) -> str:
    """The type of an expression of numbers, as far as the source shows it; otherwise empty."""
    texts = [token.text for token in _outside(part) if token.text not in "+-*/%"]
    kinds = [_kind_of_number(text) or _declared(place, text) for text in texts]
    if "" in kinds or not kinds:
        return ""
    return max([*kinds, "int"] if kinds[1:] else kinds, key=_TYPES.index)  # a sum of bytes is an int


def _kind_of_number(text) -> str:
    if re.fullmatch(r"\d+", text):
        return "int"
    if number := re.fullmatch(r"(?:\d+\.\d*|\.\d+)(?:e[-+]?\d+)?(f?)", text):
        return "float" if number[1] else "double"
    return ""


_TYPE = re.compile(r"\b(?:(?:un)?signed\s+)?(?:long\s+long|long|int|short|char)\b|\b(?:unsigned|float|double|bool)\b")


def _declared(place, name) -> str:
    """The type of a variable of the line's function, or of its elements; empty if it cannot be told."""
    if not name.isidentifier() or len(place.functions) != 1:
        return ""
    part = place.functions[0].tokens
    code, kind = cxx.code(place.source)[part[0].start : part[-1].end], _TYPE.pattern
    found = re.findall(rf"({kind})(?:(?!{kind})[^;(){{}}=])*?\b{name}\b\s*[,;=)\[{{]", code)
    kinds = {" ".join(each.split()) for each in found}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return "unsigned int" if kind == "unsigned" else kind if kind in _TYPES else ""
