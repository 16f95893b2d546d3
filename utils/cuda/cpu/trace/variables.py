"""Where the variables of the learner's functions are while a kernel that was compiled as written runs (-O0, DWARF 4).

Each variable is at a fixed distance from its function's frame. So the recorder (recorder.h) copies those bytes at each
event of a thread, and `Debug.visible` says which variables exist there, and what the bytes mean.
"""

import math
import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from elftools.elf.elffile import ELFFile

__all__ = ["Debug", "Function", "Scalar"]

_FBREG, _FRAME_ADDRESS, _FRAME_POINTER = 0x91, 0x9C, 0x56  # DW_OP_fbreg, DW_OP_call_frame_cfa, DW_OP_reg6
_PLUS = 0x23  # DW_OP_plus_uconst
_ARGUMENT_BYTES = 0x2E  # DW_CFA_GNU_args_size, which says nothing about the frame, and which pyelftools refuses
_MOST_ELEMENTS = 8  # of a local array; "…" stands for the others
_NUMBERS = {  # by DW_ATE_...: boolean, float, signed, signed_char, unsigned, unsigned_char
    (2, 1): "u1", (4, 4): "f4", (4, 8): "f8",
    **{(5, n): f"i{n}" for n in (1, 2, 4, 8)}, **{(7, n): f"u{n}" for n in (1, 2, 4, 8)}, (6, 1): "i1", (8, 1): "u1",
}  # fmt: skip
_SIXTEEN_BITS = {"__half": "f2", "__nv_bfloat16": "bf16"}
_TYPE_WORDS = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")


@dataclass(frozen=True)
class Scalar:
    """A number or a pointer among the copied bytes of a frame."""

    name: str  # as the source writes it: 'i', 'p.x', 'sum[2]'
    at: int  # in the copied bytes
    size: int
    kind: str  # 'f4', 'i4', 'bf16', ...; 'pointer'; '…' for the rest of an array
    reference: int | None = None  # in the copied bytes; then `at` counts from where this reference refers to


@dataclass
class _Variable:
    name: str
    offset: int  # from the frame's address
    size: int
    type: object  # its DIE
    scopes: list  # of (begin, end) in the code
    is_parameter: bool
    line: int
    column: int
    at: int = 0  # in the copied bytes


@dataclass
class Function:
    """One of the learner's functions. `slots` are (offset from the frame's address, bytes, is a parameter)."""

    name: str
    begin: int
    end: int
    is_kernel: bool
    slots: list = field(default_factory=list)
    variables: list = field(default_factory=list)
    calls: list = field(default_factory=list)  # (begin, end, line, column) of inlined code that is not the learner's
    own_calls: list = field(default_factory=list)  # (begin, end, line) of inlined code that is
    exchanged: list = field(default_factory=list)  # (begin, end, type) of shuffles

    @property
    def bytes(self) -> int:
        """How many bytes of a frame are copied."""
        return sum(size for _, size, _ in self.slots)


class Debug:
    """The debug information of a library: the functions that the source `cuda_src` defines, and the source line and
    column of each address in them. `kernels` are the names of the kernels among them."""

    def __init__(self, library, source, kernels):
        self._text = source.splitlines()
        with open(library, "rb") as file:
            elf = ELFFile(file)
            self._dwarf = elf.get_dwarf_info()  # it holds copies of the sections
            self._framed = elf.get_machine_arch() == "x64"
        self.functions, self._rows = [], []
        for unit in self._dwarf.iter_CUs():
            self._read_unit(unit, kernels)
        self.functions.sort(key=lambda function: function.begin)
        self._rows.sort(key=lambda row: row[0])
        self._starts = [row[0] for row in self._rows]
        self._places, self._visible = {}, {}

    def place(self, function, pc) -> tuple[int, int] | None:
        """Line and column in the source of a return address in `function`; None if it is not from the source."""
        if (function.begin, pc) not in self._places:
            self._places[function.begin, pc] = self._look_up(function, pc - 1)
        return self._places[function.begin, pc]

    def lines(self, function, pc) -> list[int]:
        """The line of a return address in `function`, and those where inlined functions around it are called."""
        place = self.place(function, pc)
        calls = sorted((end - begin, line) for begin, end, line in function.own_calls if begin <= pc - 1 < end)
        return [*place[:1], *(line for _, line in calls)] if place else []

    def is_own(self, function, pc) -> bool:
        """Whether the code at a return address in `function` is the learner's own, not that of an inlined call."""
        return not any(begin <= pc - 1 < end for begin, end, *_ in function.calls)

    def exchanged(self, function, pc) -> str:
        """The type of what a shuffle at a return address in `function` exchanges; empty if it is unknown."""
        return next((name for begin, end, name in function.exchanged if begin <= pc - 1 < end), "")

    def visible(self, function, pc) -> list[Scalar]:
        """The variables in scope at a return address in `function`, by their names there."""
        key = function.begin, pc
        if key not in self._visible:
            place, found = self.place(function, pc), {}
            for variable in function.variables:
                inside = any(begin <= pc - 1 < end for begin, end in variable.scopes)
                if inside and (variable.is_parameter or self._is_declared(variable, place)):
                    found |= {scalar.name: scalar for scalar in _scalars(variable.name, variable.type, variable.at)}
            self._visible[key] = list(found.values())
        return self._visible[key]

    def _is_declared(self, variable, place) -> bool:
        """Whether a variable's declaration ends before a place: whether a `;` is between them."""
        if place is None or not variable.line:
            return True
        first, last = (variable.line, variable.column), place
        if last <= first:
            return False
        lines = self._text[first[0] - 1 : last[0]]
        if not lines:
            return True
        if last[1]:
            lines[-1] = lines[-1][: last[1] - 1]
        lines[0] = lines[0][first[1] - 1 :]
        return ";" in "".join(lines)

    def _look_up(self, function, pc):
        inlined = [call for call in function.calls if call[0] <= pc < call[1]]
        if inlined:
            return inlined[0][2:]
        k = bisect_right(self._starts, pc) - 1
        while k >= 0 and self._rows[k][0] >= function.begin:
            if self._rows[k][1]:
                return self._rows[k][1:]
            k -= 1
        return None

    def _read_unit(self, unit, kernels):
        program = self._dwarf.line_program_for_CU(unit)
        files = program["file_entry"] if program else []
        self._own = {number for number, entry in enumerate(files, 1) if entry.name == b"cuda_src"}
        if not self._own:
            return
        for die in unit.get_top_DIE().iter_children():
            if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes and self._is_own(die):
                self.functions.append(self._function(die, kernels))
        for entry in program.get_entries():
            row = entry.state
            if row is not None:
                own = row.file in self._own and not row.end_sequence
                self._rows.append((row.address, row.line if own else 0, row.column))

    def _is_own(self, die):
        return _attribute(die, "DW_AT_decl_file") in self._own

    def _function(self, die, kernels):
        name = (_attribute(die, "DW_AT_name") or b"").decode()
        begin, end = _ranges(die, self._dwarf)[0]
        made = Function(name, begin, end, name.partition("<")[0] in kernels)
        shift = {_FRAME_ADDRESS: 0, _FRAME_POINTER: -16}.get(next(iter(_attribute(die, "DW_AT_frame_base") or [0])))
        if not self._framed or shift is None or not self._is_plain(begin, end):
            shift = None
        self._collect(die, made, [(begin, end)], shift)
        at = 0
        for variable in made.variables:
            variable.at = at
            made.slots.append((variable.offset, variable.size, variable.is_parameter))
            at += variable.size
        return made

    @cached_property
    def _frames(self):
        entries = self._dwarf.EH_CFI_entries() if self._dwarf.has_EH_CFI() else []
        return [entry for entry in entries if hasattr(entry, "get_decoded") and "initial_location" in entry.header]

    def _is_plain(self, begin, end):
        """Whether a function's frame is 16 bytes below what DWARF calls its address. Most are, but not if a variable
        asks for an alignment of its own."""
        for entry in self._frames:
            if entry.header["initial_location"] == begin:
                entry.instructions = [each for each in entry.instructions if int(each.opcode) != _ARGUMENT_BYTES]
                rules = [row["cfa"] for row in entry.get_decoded().table]
                return any(rule.reg == 6 and rule.offset == 16 for rule in rules)
        return False

    def _collect(self, die, made, scopes, shift):
        for child in die.iter_children():
            if child.tag in ("DW_TAG_variable", "DW_TAG_formal_parameter"):
                self._variable(child, made, scopes, shift)
            elif child.tag == "DW_TAG_lexical_block":
                self._collect(child, made, _ranges(child, self._dwarf) or scopes, shift)
            elif child.tag == "DW_TAG_inlined_subroutine":
                ranges = _ranges(child, self._dwarf)
                if self._is_own(child):
                    made.own_calls += [(begin, end, _attribute(child, "DW_AT_call_line")) for begin, end in ranges]
                    self._collect(child, made, ranges, shift)
                elif _attribute(child, "DW_AT_call_file") in self._own:
                    place = _attribute(child, "DW_AT_call_line"), _attribute(child, "DW_AT_call_column") or 0
                    made.calls += [(begin, end, *place) for begin, end in ranges]
                    self._exchanges(child, made)

    def _exchanges(self, die, made):
        """Note the type T of each `from_lane<T>` (warp.h), the engine's function behind every shuffle."""
        if name := re.fullmatch(r"from_lane<(.*)>", _name(die)):
            made.exchanged += [(begin, end, name[1]) for begin, end in _ranges(die, self._dwarf)]
        for child in die.iter_children():
            if child.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
                self._exchanges(child, made)

    def _variable(self, die, made, scopes, shift):
        name, where = _attribute(die, "DW_AT_name"), die.attributes.get("DW_AT_location")
        if shift is None or not name or where is None or not isinstance(where.value, list):
            return
        kind = _type(die)
        size = _size(kind)
        scalars = list(_scalars("", kind, 0))
        distance = _distance(where.value)
        if distance is None or not size or not scalars:
            return
        size = max(s.at + s.size if s.reference is None else s.reference + 8 for s in scalars)  # no more is copied
        is_parameter = die.tag == "DW_TAG_formal_parameter" and die.get_parent().tag == "DW_TAG_subprogram"
        place = _attribute(die, "DW_AT_decl_line") or 0, _attribute(die, "DW_AT_decl_column") or 0
        made.variables.append(_Variable(name.decode(), distance + shift, size, kind, scopes, is_parameter, *place))


def _attribute(die, name):
    """An attribute of a DIE, or of the one that it is an instance of; None if there is none."""
    for _ in range(4):
        if name in die.attributes:
            return die.attributes[name].value
        origin = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in die.attributes), None)
        if origin is None:
            return None
        die = die.get_DIE_from_attribute(origin)
    return None


def _ranges(die, dwarf):
    low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
        return [(low.value, end)]
    if "DW_AT_ranges" not in die.attributes:
        return []
    base = _attribute(die.cu.get_top_DIE(), "DW_AT_low_pc") or 0
    listed = dwarf.range_lists().get_range_list_at_offset(die.attributes["DW_AT_ranges"].value, cu=die.cu)
    found = []
    for entry in listed:
        if hasattr(entry, "base_address"):
            base = entry.base_address
        else:
            found.append((base + entry.begin_offset, base + entry.end_offset))
    return found


def _type(die):
    """The type of a variable or member, without typedefs and qualifiers such as `const`; None for void."""
    for _ in range(16):
        source = die
        while "DW_AT_type" not in source.attributes and "DW_AT_abstract_origin" in source.attributes:
            source = source.get_DIE_from_attribute("DW_AT_abstract_origin")
        if "DW_AT_type" not in source.attributes:
            return None
        die = source.get_DIE_from_attribute("DW_AT_type")
        if die.tag not in _TYPE_WORDS:
            return die
    return None


def _name(die):
    return (_attribute(die, "DW_AT_name") or b"").decode()


def _size(kind) -> int:
    if kind is None:
        return 0
    if kind.tag == "DW_TAG_array_type":
        return _size(_type(kind)) * _count(kind)
    return _attribute(kind, "DW_AT_byte_size") or 0


def _count(array) -> int:
    return math.prod(_sides(array))


def _sides(array) -> list[int]:
    """The number of elements in each dimension of an array, 0 where it is unknown."""
    bounds = [_attribute(c, "DW_AT_upper_bound") for c in array.iter_children() if c.tag == "DW_TAG_subrange_type"]
    return [upper + 1 if isinstance(upper, int) else 0 for upper in bounds]


def _scalars(name, kind, at, depth=0):
    """The numbers and pointers that a variable of a type consists of; nothing for a type that is not shown."""
    if kind is None or depth > 3:
        return
    size = _size(kind)
    if kind.tag == "DW_TAG_base_type":
        if number := _NUMBERS.get((_attribute(kind, "DW_AT_encoding"), size)):
            yield Scalar(name, at, size, number)
    elif kind.tag == "DW_TAG_enumeration_type":
        yield Scalar(name, at, size, f"i{size}")
    elif kind.tag == "DW_TAG_pointer_type":
        yield Scalar(name, at, size, "pointer")
    elif kind.tag in ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"):
        target = _type(kind)
        if target is None or target.tag == "DW_TAG_array_type":  # such as a shared array, which is shown as a memory
            return
        for scalar in _scalars(name, target, 0, depth + 1):
            if scalar.reference is None:
                yield replace(scalar, reference=at)
    elif kind.tag == "DW_TAG_array_type" and _count(kind):
        element, sides = _type(kind), _sides(kind)
        for k in range(min(_count(kind), _MOST_ELEMENTS)):
            index = "".join(f"[{i}]" for i in np.unravel_index(k, sides))
            yield from _scalars(name + index, element, at + k * _size(element), depth + 1)
        if _count(kind) > _MOST_ELEMENTS:
            yield Scalar(f"{name}[…]", at + _MOST_ELEMENTS * _size(element), _size(element), "…")
    elif kind.tag in ("DW_TAG_structure_type", "DW_TAG_class_type"):
        if number := _SIXTEEN_BITS.get(_name(kind)):
            yield Scalar(name, at, size, number)
            return
        if _name(kind) == "CUtensorMap_st":
            return
        for child in kind.iter_children():
            offset = _attribute(child, "DW_AT_data_member_location")
            if child.tag == "DW_TAG_inheritance" and isinstance(offset, int):
                yield from _scalars(name, _type(child), at + offset, depth + 1)
            elif child.tag == "DW_TAG_member" and isinstance(offset, int) and re.fullmatch(r"\w+", _name(child)):
                yield from _scalars(f"{name}.{_name(child)}", _type(child), at + offset, depth + 1)


def _distance(location) -> int | None:
    """How far from its function's frame a variable is; None if it is not in the frame, such as a shared variable, or
    what a structured binding refers to elsewhere."""
    if not location or location[0] != _FBREG:
        return None
    ends = next(k for k, byte in enumerate(location) if k and not byte & 0x80) + 1
    distance, more = _signed(location[1:ends]), location[ends:]
    if more[:1] == [_PLUS]:  # a later member of what a structured binding copies
        return distance + sum((byte & 0x7F) << 7 * k for k, byte in enumerate(more[1:]))
    return None if more else distance


def _signed(encoded) -> int:
    """A number in DWARF's signed LEB128."""
    value = shift = 0
    for byte in encoded:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value - (1 << shift) if byte & 0x40 else value
    return value
