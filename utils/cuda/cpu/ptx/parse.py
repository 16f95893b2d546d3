"""PTX text in, its parts out: declarations, labels, predicates, instructions and their operands ("PTX ISA", Syntax).

The text is that of an `asm` statement, so `%0` and `%[name]` are the statement's operands, and `%%` is a percent sign.
"""

import re
import struct
from typing import NamedTuple

__all__ = ["Declaration", "Immediate", "Instruction", "Label", "Memory", "Pair", "Place", "Refused", "Register"]
__all__ += ["Scope", "Sink", "Vector", "parse"]


class Refused(Exception):
    """PTX that cannot be read, or that the engine lacks; `needs_gpu` if a GPU of this architecture could run it."""

    def __init__(self, message, line=None, needs_gpu=False):
        super().__init__(message)
        self.line, self.needs_gpu = line, needs_gpu


# ---- operands -------------------------------------------------------------------------------------------------------


class Register(NamedTuple):
    """A register of a `.reg` declaration, or a special one: '%tid.x'."""

    name: str
    negated: bool = False  # `!p`


class Place(NamedTuple):
    """An operand of the statement, `%0` or `%[name]`."""

    name: str
    negated: bool = False


class Immediate(NamedTuple):
    """A constant: an int, or a float with its bits as they were written in `0f...` (32) or `0d...` (64)."""

    value: int | float
    bits: int = 0  # how many were written; 0 for any other constant
    raw: int = 0  # these

    def as_bits(self, width) -> int:
        """The bits of a number of `width` bits that has this value."""
        if self.bits == width:
            return self.raw
        if isinstance(self.value, int):
            return self.value & ((1 << width) - 1)
        code, size = {16: ("<e", "<H"), 32: ("<f", "<I")}.get(width, ("<d", "<Q"))
        try:
            return struct.unpack(size, struct.pack(code, self.value))[0]
        except OverflowError:
            return struct.unpack(size, struct.pack(code, float("inf") if self.value > 0 else float("-inf")))[0]


class Vector(NamedTuple):
    """`{a, b, c, d}`."""

    elements: list


class Memory(NamedTuple):
    """`[base + offset]`; further operands in the brackets, such as a tensor's coordinates, are in `more`."""

    base: object
    offset: list  # of terms to add: Immediate or Place
    more: list


class Sink(NamedTuple):
    """`_`, a result that is not wanted."""


class Pair(NamedTuple):
    """`p|q`: two results."""

    first: object
    second: object


# ---- statements -----------------------------------------------------------------------------------------------------


class Declaration(NamedTuple):
    type: str  # 'b32'
    names: list[str]
    line: int


class Label(NamedTuple):
    name: str
    line: int


class Scope(NamedTuple):
    """`{` or `}`."""

    opens: bool
    line: int


class Instruction(NamedTuple):
    name: str  # with its modifiers: 'ld.global.v4.f32'
    operands: list
    predicate: Register | Place | None
    line: int
    text: str  # all of it


_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<place>%\d+|%\[\w+\])
      | (?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
                  |\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
      | (?P<word>(?:%{1,2}|[A-Za-z_$])(?:[\w$]|%=)*(?:(?:\.|::)[\w$]+)*)
      | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
      | (?P<mark>[][{}(),;:@!|+*<>-])""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text, lines):
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise Refused(f"cannot read `{text[at:].split()[0]}` in this PTX", lines[at])
        if match.lastgroup != "skip":
            found.append(_Token(match.lastgroup, match[0], lines[at]))
        at = match.end()
    return found


def parse(text, lines) -> list[Declaration | Label | Scope | Instruction]:
    """The statements of PTX text, of whose characters `lines` has the line of each. Raises Refused."""
    return _Reader(_tokens(text, lines), lines[-1] if lines else 0).statements()


class _Reader:
    def __init__(self, tokens, last):
        self.tokens, self.at, self.last = tokens, 0, last

    def statements(self):
        found = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.text in ("{", "}"):
                found.append(Scope(token.text == "{", token.line))
                self.at += 1
            elif token.text == ";":
                self.at += 1
            elif token.kind == "directive":
                found += self._declared()
            elif token.kind == "word" and self._text(1) == ":":
                found.append(Label(token.text, token.line))
                self.at += 2
            else:
                found.append(self._instruction())
        return found

    def _text(self, ahead=0):
        at = self.at + ahead
        return self.tokens[at].text if at < len(self.tokens) else ""

    def _line(self):
        return self.tokens[self.at].line if self.at < len(self.tokens) else self.last

    def _refused(self, message):
        return Refused(message, self._line())

    def _take(self, *texts):
        if self._text() not in texts:
            found = f"`{self._text()}`" if self._text() else "nothing"
            raise self._refused(f"this PTX has {found} where `{texts[0]}` belongs")
        self.at += 1
        return self.tokens[self.at - 1]

    def _declared(self):
        line, directive = self._line(), self._text()
        if directive != ".reg":
            raise self._refused(f"`{directive}` in inline PTX: the CPU engine has only `.reg`")
        self.at += 1
        kind = self._text()
        if self.tokens[self.at : self.at + 1] and self.tokens[self.at].kind != "directive":
            raise self._refused("`.reg` needs a type")
        self.at += 1
        names = []
        while True:
            name = self._name()
            if self._text() == "<":
                self.at += 1
                count = int(self._text(), 0)
                self.at += 1
                self._take(">")
                names += [f"{name}{i}" for i in range(count)]
            else:
                names.append(name)
            if self._take(";", ",").text == ";":
                return [Declaration(kind[1:], names, line)]

    def _name(self):
        if self.at >= len(self.tokens) or self.tokens[self.at].kind != "word":
            raise self._refused("this PTX has no name where one belongs")
        self.at += 1
        return self.tokens[self.at - 1].text.replace("%%", "%")

    def _instruction(self):
        line, predicate, begins = self._line(), None, self.at
        if self._text() == "@":
            self.at += 1
            predicate = self._operand()
            if not isinstance(predicate, Register | Place):
                raise Refused("`@` needs a predicate", line)
        if self.at >= len(self.tokens) or self.tokens[self.at].kind != "word":
            raise self._refused(f"cannot read this PTX at `{self._text()}`")
        token, operands = self.tokens[self.at], []
        self.at += 1
        while self._text() not in (";", "}", ""):
            operands.append(self._operand())
            if self._text() == ",":
                self.at += 1
            elif self._text() not in (";", "}", ""):
                raise self._refused(f"cannot read the operands of `{token.text}` at `{self._text()}`")
        if self._text() != ";":
            raise Refused(f"`{token.text}` has no `;` behind it", token.line)
        self.at += 1
        text = " ".join(part.text for part in self.tokens[begins : self.at])
        return Instruction(token.text, operands, predicate, token.line, text)

    def _operand(self):
        text = self._text()
        if text == "{":
            return Vector(self._listed("}"))
        if text == "[":
            return self._memory()
        if text == "!":
            self.at += 1
            return self._operand()._replace(negated=True)
        first = self._term()
        if self._text() == "|":
            self.at += 1
            return Pair(first, self._term())
        return first

    def _listed(self, closes):
        self.at += 1
        found = []
        while self._text() != closes:
            found.append(self._operand())
            if self._text() == ",":
                self.at += 1
            elif self._text() != closes:
                raise self._refused(f"this PTX has no `{closes}`")
        self.at += 1
        return found

    def _memory(self):
        self.at += 1
        base, offset, more = self._operand(), [], []
        while self._text() in ("+", "-"):
            negative = self._take("+", "-").text == "-"
            term = self._term()
            if negative and not isinstance(term, Immediate):
                raise self._refused("an address may have a constant subtracted, but nothing else")
            offset.append(term._replace(value=-term.value) if negative else term)
        while self._text() == ",":
            self.at += 1
            more.append(self._operand())
        self._take("]")
        return Memory(base, offset, more)

    def _term(self):
        if self.at >= len(self.tokens):
            raise self._refused("this PTX ends in the middle of an instruction")
        token = self.tokens[self.at]
        self.at += 1
        if token.text == "-":
            number = self._term()
            if not isinstance(number, Immediate):
                raise self._refused("a minus sign comes before a constant")
            return number._replace(value=-number.value, raw=number.raw ^ (1 << number.bits >> 1))
        if token.text == "+":
            return self._term()
        if token.kind == "place":
            return Place(token.text[1:].strip("[]"))
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "word":
            name = token.text.replace("%%", "%")
            if name == "_":
                return Sink()
            return Register(name)
        raise Refused(f"cannot read this PTX at `{token.text}`", token.line)


def _number(text):
    kind = text[:2].lower()
    if kind == "0f":
        return Immediate(struct.unpack("<f", struct.pack("<I", int(text[2:], 16)))[0], 32, int(text[2:], 16))
    if kind == "0d":
        return Immediate(struct.unpack("<d", struct.pack("<Q", int(text[2:], 16)))[0], 64, int(text[2:], 16))
    digits = text.rstrip("U")
    if kind in ("0x", "0b"):
        return Immediate(int(digits, 0))
    if digits.isdigit():
        return Immediate(int(digits, 8) if digits.startswith("0") and digits.strip("0") else int(digits))
    return Immediate(float(text))
