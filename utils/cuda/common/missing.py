"""What a source lacks: a semicolon, a bracket. Compilers notice it only where the source goes on."""

import re
from itertools import pairwise
from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.common.lexer import lines_of

__all__ = [
    "NO_SEMICOLON",
    "Place",
    "body",
    "brackets",
    "declared_line",
    "declared_names",
    "division",
    "indentation",
    "is_floor_division",
    "line_at_fault",
    "line_of",
    "parameters",
    "semicolon",
]
__all__ += ["RULES", "tokens", "unclosed_brace"]


class Place(NamedTuple):
    """A line of a source about which a compiler has something to say."""

    source: str
    line: int
    message: str

    @property
    def text(self) -> str:
        """The line as written."""
        return line_of(self.source, self.line)

    @property
    def code(self) -> str:
        """The line with comments and strings blanked out."""
        return line_of(cxx.code(self.source), self.line)

    @property
    def in_device_code(self) -> bool:
        """Whether the line is in a kernel or in a function for kernels."""
        return any({"__global__", "__device__"} & {*function.words} for function in self.functions)

    @property
    def in_host_code(self) -> bool:
        """Whether the line is in a function that only the host has."""
        return any(not {"__global__", "__device__"} & {*function.words} for function in self.functions)

    @property
    def functions(self) -> list[cxx.Declaration]:
        """The functions that the line is in."""
        return [f for f in cxx.functions(self.source) if f.line <= self.line <= f.tokens[-1].line]


def line_of(source, number) -> str:
    lines = lines_of(source)
    return lines[number - 1] if 0 < number <= len(lines) else ""


def tokens(source) -> list[cxx.Token]:
    return [token for token in cxx.tokens(source) if not token.directive]


def declared_names(source) -> set[int]:
    """Where the functions' names are in their declarations: the offsets, by which calls are told from them."""
    heads = ((function, function.tokens[: function.head]) for function in cxx.functions(source))
    return {a.start for function, head in heads for a, b in pairwise(head) if a.text == function.name and b.text == "("}


def declared_line(source, name, line) -> int:
    """Where else the source declares, outside functions, a name that it declares in this line; 0 if nowhere."""
    part = tokens(source)
    places = [(a.line, a.line) for a, b in pairwise(part) if a.text == "namespace" and b.text == name]
    places += [(each.line, each.tokens[-1].line) for each in cxx.declarations(source) if name in each.names]
    here = [place for place in places if place[0] <= line <= place[1]]
    others = [first for first, last in places if not first <= line <= last] + [line] * (len(here) > 1)
    return min(others, default=0) if here else 0


NO_SEMICOLON = re.compile(
    r"""expected (?:a )?(?:["'‘],["'’] or )?["'‘];["'’]|expected initializer before|attributes are not permitted"""
)
_RETURNED = re.compile(r"return value type|return-statement with a value|should not return")
_HEADS = {"if", "while", "for", "switch", "constexpr"}


def line_at_fault(source, line, message) -> int:
    """The line that lacks a `;` or has Python's `//`, where compilers report the next line that has code, or the `{`
    that is not closed."""
    if "expected" in message:
        above = [token.line for token in tokens(source) if token.line < line]
        if above and is_floor_division(source, above[-1]):
            return above[-1]
    if re.search(r'expected a "}"', message):
        return unclosed_brace(source) or line
    if not NO_SEMICOLON.search(message) and not _RETURNED.search(message):
        return line
    before = [token for token in tokens(source) if token.line < line]
    if not before:
        return line
    last = before[-1]
    if _RETURNED.search(message):
        return last.line if last.text == "return" else line
    if last.text in ("else", "do") or last.text[-1] not in "_)]}\"'" and not last.text[-1].isalnum():
        return line
    opens = cxx.matching(before, len(before) - 1) if last.text == ")" else 0
    if opens is None or last.text == ")" and cxx.text_at(before, opens - 1) in _HEADS:
        return line
    return line if last.text == "}" and not _needs_semicolon(before, len(before) - 1) else last.line


def _needs_semicolon(part, at) -> bool:
    """Whether the `}` at an index ends a type, a value or a lambda, after which comes a `;`, and no block."""
    head = _head(part, at)
    is_function = head[:1] == [")"] and head[1:2] != ["]"]
    return not is_function and bool({"struct", "class", "union", "enum", "="} & set(head))


def _holds_statements(part, at) -> bool:
    """Whether what the `}` at an index ends has a `;` after each of its parts."""
    head = _head(part, at)
    return head[:1] in ([")"], ["else"], ["do"]) or "=" not in head and bool({"struct", "class", "union"} & set(head))


def _head(part, at) -> list[str]:
    """The words before the braces that end at an index, the nearest first, without what is in brackets."""
    head, k = [], (cxx.matching(part, at) or 0) - 1
    while k >= 0 and part[k].text not in (";", "{", "}"):
        head.append(part[k].text)
        k = (cxx.matching(part, k) or 0 if head[-1] in (")", "]") else k) - 1
    return head


def is_floor_division(source, number) -> bool:
    """Whether a line ends in `i // 2];`: what follows `//` is code, and what precedes it is incomplete."""
    ends = len(line_of(cxx.code(source), number).rstrip())
    text = line_of(source, number)
    comment = re.match(r"\s*//=?(.*)", text[ends:])
    if not comment or not ends or not (text[ends - 1].isalnum() or text[ends - 1] in "_)]"):
        return False
    if re.search(r"\b(?:return|else|do|break|continue)$", text[:ends]):
        return False
    inside = comment[1].strip()
    return bool(re.search(r"[;\]{]$", inside)) or inside.count("(") < inside.count(")")


def division(place):
    """`int r = i // w;`: what follows `//` is a comment, so the statement goes on in the next line."""
    divides = is_floor_division(place.source, place.line)
    return "`//` begins a comment in C++. Whole numbers are divided by `/`." if divides else ""


def semicolon(place):
    """A statement without its end, on the line that `line_at_fault` found."""
    part = tokens(place.source)
    here = [k for k, token in enumerate(part) if token.line == place.line]
    if any(_is_nested(part, k) for k in here):
        return "A function cannot be inside another one: move it above, and mark it with `__device__`."
    for k in here:
        if part[k].text == "}" and part[k - 1].text not in (";", "{", "}") and _holds_statements(part, k):
            return "Put a `;` before the `}`."
    last = part[here[-1]].text[-1] if here else ""
    lacks = last.isalnum() or last in (*"_)]\"'",) or last == "}" and _needs_semicolon(part, here[-1])
    comment = re.match(r"\s*(?://|/\*)", line_of(place.source, place.line)[len(place.code.rstrip()) :])
    return f"Put a `;` at the end of this line{', before the comment' if comment else ''}." if lacks else ""


def _is_nested(part, at) -> bool:
    """Whether the `{` at an index begins a function, `int f(int x) {`, inside another one."""
    closes = at - 1 if part[at].text == "{" and cxx.text_at(part, at - 1) == ")" else None
    name = (cxx.matching(part, closes) or 0) - 1 if closes else 0
    if name < 1 or not part[name].text.isidentifier() or part[name].text in _HEADS:
        return False
    around = [k for k in range(name) if part[k].text == "{" and (cxx.matching(part, k) or len(part)) > at]
    returns = part[name - 1].text.isidentifier() or part[name - 1].text in ("*", "&", ">")
    return returns and bool(around) and part[around[-1] - 1].text in (")", "else", "do")


_TYPES = {"bool", "char", "short", "int", "long", "unsigned", "signed", "size_t", "float", "double", "half", "__half"}
_QUALIFIERS = {"const", "volatile", "__restrict__", "struct", "typename"}


def parameters(place):
    """What is wrong with the parameters of the function whose head the line is in."""
    part = tokens(place.source)
    above = [k for k, token in enumerate(part) if token.line <= place.line]
    mark = next((k for k in reversed(above) if part[k].text in ("__global__", "__device__")), len(part))
    heads = (k for k in range(mark, len(part)) if part[k].text in "({;" and part[k - 1].text != "__launch_bounds__")
    opens = next(heads, None)
    closes = cxx.matching(part, opens) if opens and part[opens].text == "(" else None
    if closes is None or part[closes].line < place.line:
        return ""
    for each in cxx.at_commas(part[opens + 1 : closes]):
        words = [token.text for token in each]
        for k, (before, word) in enumerate(pairwise(words), 1):
            begins = word in _TYPES or word == "const" and cxx.text_at(each, k + 1) in _TYPES
            if begins and before.isidentifier() and before not in _TYPES | _QUALIFIERS:
                return f"Put a `,` before `{cxx.written(each[k:])}`."
        of = next((k for k, word in enumerate(words) if word in _TYPES), None)
        if of is None:
            continue
        kind, after = cxx.written(each[: of + 1]), words[of + 1 :]
        if after[:2] == ["[", "]"] and len(after) == 3:
            return f"A pointer stands for an array: `{kind}* {after[2]}`."
        if len(after) == 2 and after[1] == "*":
            return f"The `*` belongs to the type: `{kind}* {after[0]}`."
        if len(after) == 4 and after[1] == "[" and after[2].isidentifier():
            return f"A parameter does not say how long an array is: `{kind}* {after[0]}`."
    return ""


def body(place):
    """A function without its `{`; "" if the line is a declaration without its `;`, with nothing indented below it."""
    below = next((token for token in tokens(place.source) if token.line > place.line), None)
    indented = below and indentation(place.source, below.line) > indentation(place.source, place.line)
    if not indented and not place.code.rstrip().endswith(":"):
        return ""
    return "After the parentheses comes `{`, then the body of the function, then `}`."


def brackets(place):
    """The bracket that is missing above the message, or one too many, in the whole source."""
    opened, at_end = [], False
    for token in tokens(place.source):
        top = opened[-1].text if opened else ""
        if token.text in ("(", "[", "{"):
            opened.append(token)
        elif token.text == ";" and top in ("(", "[") and not re.search(r"\bfor\s*$", place.source[: opened[-1].start]):
            if _closes_later(place.source, token, opened[-1]):
                return f"A `;` ends a statement: within the brackets of line {token.line}, write a `,` instead."
            break
        elif token.text in (")", "]", "}"):
            if {"(": ")", "[": "]", "{": "}"}.get(top) == token.text:
                opened.pop()
            elif top in ("(", "["):
                break
            else:
                what = "is a `{` missing above it?" if token.text == "}" else "remove it."
                return f"The `{token.text}` in line {token.line} closes nothing: {what}"
    else:
        at_end = True
    opened = [token for token in opened if token.line <= place.line and (at_end or token.text != "{")]
    if not opened:
        return ""
    line = unclosed_brace(place.source) if opened[-1].text == "{" else opened[-1].line
    return f"The `{opened[-1].text}` in line {line} is never closed."


def _closes_later(source, semicolon, opens) -> bool:
    """Whether the bracket is closed in the line of a semicolon inside it, or seems so."""
    depth = 0
    for token in tokens(source):
        if token.line == semicolon.line and token.start > semicolon.start:
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            if depth < 0:
                return opens.line == semicolon.line
    return False


def unclosed_brace(source) -> int:
    """The line of the `{` that is never closed, as far as the indentation shows it; 0 if all are closed."""
    opened, suspect = [], 0
    for token in tokens(source):
        if token.text == "{":
            opened.append(token)
        elif token.text == "}" and opened:
            opener = opened.pop()
            if (
                not suspect
                and opener.line < token.line
                and indentation(source, token.line) < indentation(source, opener.line)
            ):
                suspect = opener.line  # this one belongs to a brace further out
    return (suspect or opened[-1].line) if opened else 0


def indentation(source, number) -> int:
    """How many characters the text of a line is indented by."""
    line = line_of(source, number)
    return len(line) - len(line.lstrip())


def _semicolon_above(place):
    """`int i = 3` and, in the next line, `*o = i;`: a product for the compilers."""
    before = [token for token in tokens(place.source) if token.line < place.line]
    last = before[-1] if before else None
    if not last or last.text in ("else", "do") or not (last.text[-1].isalnum() or last.text[-1] in "_)]\"'"):
        return ""
    opens = cxx.matching(before, len(before) - 1) if last.text == ")" else 0
    if opens is None or last.text == ")" and cxx.text_at(before, opens - 1) in _HEADS:
        return ""
    return f"Put a `;` at the end of line {last.line}: without it, the `*` of line {place.line} multiplies."


def _return(place):
    """`constexpr int a = f(0);`, where f may end without a `return`."""
    for function in cxx.functions(place.source):
        body = function.tokens[function.head :]
        if "constexpr" not in function.words or not re.search(rf"\b{function.name}\s*[<(]", place.code):
            continue
        if len(body) > 2 and not {"void", "auto"} & set(function.words) and _may_go_on(body[1:-1]):
            return f"`{function.name}` of line {function.line} can end without a value: put a `return` at its end."
    return ""


def _may_go_on(part) -> bool:
    """Whether the last of a function's statements is an `if` without `else`, or has no `return`."""
    last, depth = [], 0
    for k, token in enumerate(part):
        last.append(token.text)
        depth += (token.text in ("(", "{", "[")) - (token.text in (")", "}", "]"))
        after = cxx.text_at(part, k + 1)
        ends = token.text == ";" or token.text == "}" and after.isidentifier()  # not in `return S{1}.a;`
        if not depth and ends and after and after != "else":
            last = []
    if last[:1] == ["if"]:
        return not {"else", "constexpr"} & set(last)
    return not {"return", "while", "for", "switch", "do", "throw"} & set(last)


def _header_of_new(place):
    """`new (buffer) T` without its header."""
    included = any(cxx.included(line) == "new" for line in cxx.directives(place.source))
    return "" if included else "`new (address) T` needs `#include <new>` at the top of the source."


# What the compilers say of what is missing, in the way of hints.py.
RULES = [
    (
        "explicit type is missing|with no type|does not name a type|type specifier",
        r"\b(?P<word>static|const|constexpr|volatile|register)\s+(?P<name>\w+)\s*(?:;|=[^=]|\[)",
        "A variable needs a type: `{word} int {name}` or `{word} float {name}`.",
    ),
    (
        "must have arithmetic|must have integral|invalid operands|modifiable lvalue|lvalue required|not assignable",
        r"^\s*\*+\s*(?:\w+(?:\+\+|--|\[[^\]]*\])*|\([^;=]*\))\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)",
        _semicolon_above,
    ),
    ("expected", r"\*/", "Comments cannot be nested: the first `*/` ends the comment. Remove what follows it."),
    (r"constant[ -](?:value|expression)|not a constant|flows off the end", "", _return),
    (r"no (?:instance of overloaded|matching function).*operator new\b", r"\bnew\s*\(", _header_of_new),
]
