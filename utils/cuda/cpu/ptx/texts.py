"""Texts in the PTX of an asm statement: its strings, and what its "C" operands insert.

A "C" operand is a constant array of characters that nvcc inserts into the PTX. Which array it is may depend on template
arguments. So an instruction with such an operand is translated for each text of the source with which the engine knows
it, and the C++ compiler chooses:

    if constexpr (...is_text(Mode<n>::text, ".rn")) { ... } else if constexpr (...is_text(Mode<n>::text, ".rz")) { ... }

A text is a string or a list of characters, of nothing but letters, digits and `_.:%+-`: modifiers, registers, numbers.
"""

import ast
import re
from functools import lru_cache

from utils.cuda.common import cxx
from utils.cuda.cpu.ptx.compiled import lacking
from utils.cuda.cpu.ptx.instructions import check_gpu, may_be
from utils.cuda.cpu.ptx.macros import template_tokens
from utils.cuda.cpu.ptx.parse import Instruction, Refused, parse
from utils.cuda.cpu.ptx.use import PTX

__all__ = ["chosen", "has_marks", "template", "with_constexpr_arrays", "with_marks", "without_marks"]


def template(part, macros, line):
    """The PTX text of a statement, and for each of its characters the line of the source."""
    text, lines = "", []
    for token in template_tokens(part, macros):
        quoted = token.text
        if '"' not in quoted:
            raise Refused(f"`{quoted}` in the PTX of this asm statement is not a string", token.line or line)
        if "R" in quoted[: quoted.index('"')]:
            body = re.fullmatch(r'.*?R"(.*?)\((.*)\)\1"', quoted, re.DOTALL)[2]
            text += body
            numbers = []
            number = token.line
            for character in body:
                numbers.append(number)
                number += character == "\n"
            lines += numbers
            continue
        try:
            body = ast.literal_eval(quoted[quoted.index('"') :].replace("\\\n", ""))
        except (SyntaxError, ValueError):
            raise Refused(f"cannot read the string {quoted}", token.line) from None
        text += body
        lines += [token.line] * len(body)
    return text, lines


# ---- "C" operands ---------------------------------------------------------------------------------------------------

_MARK = re.compile(r"cuda_on_cpu_C(\d+)_")  # stands for one in the PTX: a word, or a part of one
_TEXT = re.compile(r"[\w.:%+-]*")
_MOST = 256  # instructions that texts make of one


def with_marks(text, lines, index):
    """The PTX with marks in place of its "C" operands; `index` gives the number of one by its name, otherwise None."""
    pieces, numbers, at = [], [], 0
    for match in re.finditer(r"%%|%(\d+)|%\[(\w+)\]", text):
        number = index(match[1] or match[2] or "")
        if number is not None:
            mark = f"cuda_on_cpu_C{number}_"
            pieces += [text[at : match.start()], mark]
            numbers += [*lines[at : match.start()], *[lines[match.start()]] * len(mark)]
            at = match.end()
    return "".join(pieces) + text[at:], [*numbers, *lines[at:]]


def without_marks(text) -> str:
    """The text, a message for instance, as the source has it: `%3`."""
    return _MARK.sub(r"%\1", text)


def has_marks(instruction: Instruction) -> bool:
    return bool(_MARK.search(instruction.text))


def chosen(instruction: Instruction, source, operands, translated) -> str:
    """C++ that chooses between what texts of the source make of an instruction with marks.

    `operands` are the C++ of the statement's operands, and `translated` gives that of an instruction, or None.
    Raises Refused.
    """
    check_gpu(instruction)
    named, line = without_marks(instruction.name), instruction.line
    made = [("", instruction)]  # instructions, each behind the condition for it
    for mark in dict.fromkeys(match[0] for match in _MARK.finditer(instruction.text)):
        operand = operands[int(_MARK.fullmatch(mark)[1])]
        made = [
            (f'{condition}{" && " if condition else ""}{PTX}is_text({operand}, "{text}")', inserted)
            for condition, before in made
            for text in _texts(source)
            if (inserted := _inserted(before, mark, text))
        ]
        if len(made) > _MOST:
            raise Refused(f"`{named}`: the strings of this source make more than {_MOST} instructions of it", line)
    pairs = ((condition, translated(one)) for condition, one in made)
    choices = [f"if constexpr ({condition}) {{ {text} }} else " for condition, text in pairs if text]
    if not choices:
        raise Refused(f"`{named}`: no string of this source makes it an instruction that the CPU engine knows", line)
    return "".join(choices) + f"{{ {lacking(_NOT_CHOSEN.format(named))}; }}"


_NOT_CHOSEN = "`{}`: the text inserted here is not in this source, or makes no instruction that the CPU engine knows"


def _inserted(instruction, mark, text):
    """The instruction with a text in place of a mark; None if that cannot be one."""
    try:
        whole = instruction.text.replace(mark, text)
        made = parse(whole, [instruction.line] * len(whole))
    except Refused:
        return None
    if len(made) != 1 or not isinstance(made[0], Instruction):
        return None
    known, *rest = _MARK.split(made[0].name)
    return made[0] if may_be(known, whole=not rest) else None


@lru_cache(16)
def _texts(source) -> list[str]:
    """The texts of the source: its strings, and characters with commas between them as in `{'.', 'r', 'n', '\\0'}`."""
    found, run = [""], ""  # the quotes of the last text, if it may go on
    for token in cxx.tokens(source):
        quote = token.text[-1]
        if quote in "\"'":
            found += [""] if quote != run else []
            found[-1] += token.text[token.text.index(quote) + 1 : -1].removesuffix("\\0")
            run = quote
        elif run != "'" or token.text != ",":
            run = ""
    return sorted({text for text in found if _TEXT.fullmatch(text)})


_ARRAY = re.compile(r"""\bconst(?=\s+(?:char\s+)?\w+\s*\[[^][]*\]\s*=?\s*(?:"|\{\s*'))""")


def with_constexpr_arrays(source) -> str:
    """The source with `constexpr` in place of `const` where it defines arrays of characters, if it has "C" operands.

    nvcc knows what is in such an array either way.
    """

    def replaced(match):
        begins = max(source.rfind(mark, 0, match.start()) for mark in ";{}")
        before = source[begins + 1 : match.start()].rstrip()
        return "const" if "constexpr" in before or before.endswith(("(", ",")) else "constexpr"  # a parameter

    return _ARRAY.sub(replaced, source) if re.search(r'"C"\s*\(', source) else source
