"""Sentences on local variables that were never set."""

import re

from utils.cuda.cpu.trace.words import at, element, thread_of

__all__ = ["about_unset"]

_ALL = "Give each local variable a value where it is declared, as in `int sum = 0;` or `int bins[4] = {};`."

_PREDICATED = (
    "An instruction behind `@p` writes its register only where `p` is true. Write the register before it in the same "
    "asm, or let the operand keep its value with `+` in place of `=`."
)


def about_unset(p):
    """What a `Record` says of such a variable, and a hint."""
    if p.text:
        message = f"{thread_of(p)} calls {p.text} with elements of a fragment that were never set{at(p)}"
        return message, "Load every fragment that is multiplied, or fill it: the sums begin with zeros."
    if p.space == "local":
        message = f"{thread_of(p)} uses a part of a local array or object that was never set{at(p)}"
        return message, "Give every element and member a value before it is used, as in `float sums[4] = {};`."
    does = f"updates {element(p)} with" if p.op == "atomic" else f"writes to {element(p)}"
    if not p.depends:
        return f"{thread_of(p)} {does} what a variable holds that was never set{at(p)}", _ALL
    name = f"`{p.name}`" if p.name else "a local variable"
    hint = f"Give it a value where it is declared, in line {p.other.line}{_with_a_value(p)}." if p.name else _ALL
    never_set = f"{name}, which was never set"
    if p.name and p.set_by_one:
        hint = f"Does one thread set it for all? Then declare it `__shared__`. Otherwise g{hint[1:]}"
    if p.name and re.search(rf"\b{p.name}\s*[({{]\s*[^\s)}}]", p.other.source):  # `Sum s(3);`
        never_set, hint = f"a member of {name} that was never set", "Let the constructor give each member a value."
    if p.name == "asm":
        never_set, hint = f"what the `asm` in line {p.other.line} leaves unwritten", _PREDICATED
    if p.region and p.position:
        return f"{thread_of(p)} {does} what depends on {never_set}{at(p)}", hint
    what = f"what {element(p)} holds" if p.region else "what this launch does"
    return f"{what} depends on {never_set}{at(p.other)}", hint


def _with_a_value(p):
    """', as in `int c[4] = {};`', if the line has only that declaration."""
    found = re.fullmatch(rf"((?:\w|::|<.*>|\s)+\b{p.name}((?:\[.*\])*));.*", p.other.source)
    if not found or p.other.source.count(";") > 1:
        return ""
    number = re.match(r"(?:un)?signed\b|(bool|float|double|char|short|int|long)\b", found[1])
    value = {"bool": "false", "float": "0.0f", "double": "0.0"}.get(number[1], "0") if number else "{}"
    return f", as in `{found[1]} = {'{}' if found[2] else value};`"
