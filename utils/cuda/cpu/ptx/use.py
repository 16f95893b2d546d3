"""One instruction of an asm statement: C++ for its operands, and what the families' rows are written with."""

from utils.cuda.cpu.ptx.parse import Immediate, Instruction, Memory, Pair, Place, Refused, Register, Sink, Vector

__all__ = ["BITS", "INTEGERS", "PTX", "WIDE", "Use"]

PTX = "::cuda_on_cpu::ptx::"
_TYPES = {f"{kind}{n}": f"{u}int{n}_t" for n in (8, 16, 32, 64) for kind, u in (("s", ""), ("u", "u"), ("b", "u"))}
_TYPES |= {"f32": "float", "f64": "double", "b128": "unsigned __int128", "pred": "bool"}
_TYPES |= {"f16": f"{PTX}Half", "bf16": f"{PTX}Bfloat"}
_TYPES |= {"f16x2": f"{PTX}Pair<{PTX}Half>", "bf16x2": f"{PTX}Pair<{PTX}Bfloat>"}
_ROUNDINGS = {"rn": "nearest", "rna": "nearest", "rz": "zero", "rp": "up", "rm": "down"}
_ROUNDINGS |= {f"{name}i": direction for name, direction in _ROUNDINGS.items()}

#: How many bits a register of each type has.
BITS = {name: int(name.lstrip("subf")) for name in _TYPES if name[-1] in "2468" and "x" not in name}
BITS |= {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "pred": 1}
#: The integer types of 16 to 64 bits, as an alternative of a pattern.
INTEGERS = "s16|u16|s32|u32|s64|u64"
#: The type of a product of two numbers of a type.
WIDE = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


class Use:
    """One instruction of a statement: what its pattern matched, and C++ for its operands.

    `statement` knows the registers and the operands of the `asm` statement (statements.py).
    """

    def __init__(self, instruction: Instruction, matched: dict, statement):
        self.instruction, self.matched, self.statement = instruction, matched, statement
        self.operands = instruction.operands

    def refused(self, message):
        return Refused(f"`{self.instruction.name}`: {message}", self.instruction.line)

    def __getitem__(self, name) -> str:
        return self.matched.get(name) or ""

    def type(self, name) -> str:
        """The C++ type of what `name` matched, or of a type's own name."""
        return _TYPES[self.matched.get(name) or name]

    def count(self, *allowed):
        """Refuse any other number of operands."""
        if len(self.operands) not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise self.refused(f"has {len(self.operands)} operands and takes {wanted}")

    def read(self, at, kind="b32") -> str:
        """The C++ expression for the bits of an operand of a type."""
        return self.value(self.operands[at], kind)

    def constant(self, at) -> str:
        """The C++ of an operand that is part of the instruction: a number, or one that the compiler knows ("n")."""
        operand = self.operands[at]
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            return str(operand.value)
        if isinstance(operand, Place) and self.statement.is_constant(operand, self):
            return f"(int64_t){self.read(at, 'b64')}"
        raise self.refused(f"operand {at + 1} is not a constant")

    def value(self, operand, kind) -> str:
        """The same of an operand that is given itself."""
        if isinstance(operand, Immediate):
            if kind == "pred":
                return "true" if operand.value else "false"
            width = min(BITS[kind], 64)  # ptxas fills the upper half of 128 bits with zeros
            if isinstance(operand.value, int) == (kind[0] in "f" or kind[:2] == "bf") and not operand.bits:
                raise self.refused(f"the constant {operand.value} is not a {kind}")
            suffix = "ull" if width == 64 else "u"
            return f"{operand.as_bits(width):#x}{suffix}"
        if isinstance(operand, Place | Register):
            text = self.statement.read(operand, kind, self)
            return f"!{text}" if operand.negated else text
        if isinstance(operand, Vector) and kind in BITS:
            each = BITS[kind] // max(len(operand.elements), 1)
            if each * len(operand.elements) != BITS[kind] or each < 8:
                raise self.refused(f"{len(operand.elements)} registers do not make a {kind}")
            parts = ", ".join(self.value(element, f"b{each}") for element in operand.elements)
            return f"{PTX}packed<{_TYPES[f'b{each}']}, {_TYPES[f'b{BITS[kind]}']}>({parts})"
        raise self.refused("this operand is not a register or a constant")

    def into(self, operand, expression) -> str:
        """The C++ statement that writes an expression to a register."""
        if isinstance(operand, Sink):
            return f"(void)({expression});"
        if not isinstance(operand, Place | Register):
            raise self.refused("this operand is not a register, and it is written")
        return f"{self.statement.written(operand, self)} = {expression};"

    def set(self, expression) -> str:
        """The C++ statement that writes the first operand."""
        return self.into(self.operands[0], expression)

    def call(self, function, *arguments) -> str:
        return f"{PTX}{self.filled(function)}({', '.join(arguments)})"

    def filled(self, text) -> str:
        """`add<{t}, {ftz}>` with the C++ of what these names matched."""
        return text.format_map(_Filled(self.matched))

    def address(self, at, space="") -> str:
        """A C++ expression of type `char*` for the operand `[base + offset]` in a state space."""
        memory = self.operands[at]
        if not isinstance(memory, Memory) or memory.more:
            raise self.refused("this operand is not an address in brackets")
        shared = space.startswith("shared")
        base = self.value(memory.base, "b32" if shared and not isinstance(memory.base, Immediate) else "b64")
        for term in memory.offset:
            if not isinstance(term, Immediate | Place):
                raise self.refused("the offset of an address is a constant")
            base += f" + {self.value(term, 'b64')}"
        where = "cluster" if space == "shared::cluster" else "shared" if shared else "generic"
        return f"{PTX}{where}_address({base})"

    def elements(self, operand, count) -> list:
        """The operands of a vector of `count`; of one, the operand itself."""
        if count == 1 and not isinstance(operand, Vector):
            return [operand]
        if not isinstance(operand, Vector) or len(operand.elements) != count:
            raise self.refused(f"this operand is not a vector of {count}")
        return operand.elements

    def pair(self, operand) -> tuple:
        """The results of `p|q`; the second is None if there is one only."""
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


class _Filled(dict):
    def __missing__(self, name):
        return "::cuda_on_cpu::Rounding::nearest" if name == "r" else "false"

    def __getitem__(self, name):
        value = self.get(name)
        if value is None:
            return self.__missing__(name)
        if name == "r":
            return f"::cuda_on_cpu::Rounding::{_ROUNDINGS[value]}"
        if value in _TYPES:
            return _TYPES[value]
        return "true" if value == name else value
