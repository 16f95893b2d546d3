"""What to write where g++ refuses what nvcc accepts: words that both take. In the way of hints.py."""

import re

from utils.cuda.common import cxx

__all__ = ["RULES"]


def typed_braces(place):
    """`scale<<<1, 32>>>(y, {1.0f, 2.0f})` of a template."""
    part = cxx.tokens(place.source)
    declared = {kernel.name: kernel.parameters for kernel in cxx.declared_kernels(place.source)}
    for launch in cxx.launches(place.source):
        if launch.problem or launch.kernel not in declared or part[launch.opens].line != place.line:
            continue
        opens = launch.closes + 1
        given = cxx.at_commas(part[opens + 1 : cxx.matching(part, opens)])
        for argument, parameter in zip(given, declared[launch.kernel], strict=False):
            if cxx.text_at(argument, 0) == "{":
                kind = cxx.parameter_type(parameter)
                braces = place.source[argument[0].start : argument[-1].end]
                return f"Name the type in front of the braces: `{kind}{braces}`."
    return ""


def member_template(place):
    """`Caster<T>::cast<2>(x)`, of which g++ takes `<` for a comparison."""
    called = r"(?P<of>\w+(?:\s*<[^<>]*>)?\s*(?:::|\.|->))\s*(?!template\b)(?P<name>\w+)\s*<(?P<given>[^<>()]*)>\s*\("
    if used := re.search(called, place.code):
        return f"C++ wants the word `template` there: `{used['of']}template {used['name']}<{used['given']}>(...)`."
    return ""


RULES = [
    ("invalid operands of types .<unresolved overloaded function type>.", "", member_template),
    ("passes braces without a type", "", typed_braces),
    (
        "taking address of temporary array",
        "",
        "Give the array a name, `const float weights[] = {{1.0f, 2.0f}};`, and pass that.",
    ),
    (
        r"cannot bind packed field ['‘](?P<field>[^'’]*)",
        "",
        "A reference must be aligned, which `{field}` of a packed struct may not be: pass a copy, or a pointer to it.",
    ),
    (
        "ordered comparison of pointer with integer zero",
        r"\b(?P<name>\w+)\s*>\s*0",
        "To ask whether a pointer is set, write `{name} != nullptr`.",
    ),
    ("assignment of read-only reference", r"\basm\b", "What `asm` writes to must be a variable without `const`."),
]
