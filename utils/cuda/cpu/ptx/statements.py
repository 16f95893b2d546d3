"""`asm` statements in CUDA C++: each becomes C++ that does what its PTX says, on the lines that it had.

    asm volatile("add.s32 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));

becomes a block: the inputs are read into variables, the instructions change them, and the outputs are written:

    do { uint32_t cuda_on_cpu_0; ... cuda_on_cpu_1 = ...take<uint32_t>(a); ... cuda_on_cpu_0 = ...add<int32_t>(...);
    ...give(sum, cuda_on_cpu_0); } while (0);

Each instruction stays on its own line of the template, so a trace names that line. Registers of `.reg` are variables
too, labels are C++ labels, and a predicate is an `if`.
"""

from typing import NamedTuple

from utils.cuda.common import cxx
from utils.cuda.cpu.ptx.compiled import in_host_function, in_unused_function, lacking, surely_compiled
from utils.cuda.cpu.ptx.headers import WORDS, has_statements
from utils.cuda.cpu.ptx.instructions import translated
from utils.cuda.cpu.ptx.macros import with_macros
from utils.cuda.cpu.ptx.parse import Declaration, Instruction, Label, Place, Refused, Register, Scope, parse
from utils.cuda.cpu.ptx.texts import chosen, has_marks, template, with_constexpr_arrays, with_marks, without_marks
from utils.cuda.cpu.ptx.use import BITS, PTX, Use

__all__ = ["with_statements"]

_BITS_OF = {"h": 16, "r": 32, "l": 64, "f": 32, "d": 64, "q": 128}
_UNSET_TYPES = {"f16": "uint16_t", "f32": "float", "f64": "double"}  # of others, that of their bits
_C_TYPES = {1: "bool", 8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t", 128: "unsigned __int128"}

_THREAD, _BLOCK = "::cuda_on_cpu::place_of_thread()", "::cuda_on_cpu::place_of_block()"
_SPECIAL = {
    **{f"%{name}.{axis}": f"{place}.{axis}" for axis in "xyz" for name, place in (("tid", _THREAD), ("ctaid", _BLOCK))},
    **{f"%ntid.{axis}": f"::cuda_on_cpu::place_of_block_dim().{axis}" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"::cuda_on_cpu::place_of_grid_dim().{axis}" for axis in "xyz"},
    "%laneid": "::cuda_on_cpu::lane()",
    "%warpid": f"{PTX}warp_id()",
    "%nwarpid": f"{PTX}warps()",
    "%smid": f"{PTX}multiprocessor()",
    "%nsmid": "::cuda_on_cpu::multiprocessors()",
    "%clock": "(uint32_t)::cuda_on_cpu::device_clock()",
    "%clock64": "(uint64_t)::cuda_on_cpu::device_clock()",
    "%globaltimer": "(uint64_t)::cuda_on_cpu::nanoseconds()",
    "%globaltimer_lo": "(uint32_t)::cuda_on_cpu::nanoseconds()",
    "%globaltimer_hi": "(uint32_t)(::cuda_on_cpu::nanoseconds() >> 32)",
    "%clock_hi": "(uint32_t)(::cuda_on_cpu::device_clock() >> 32)",
    "%dynamic_smem_size": "(uint32_t)::cuda_on_cpu::dynamic_shared_bytes()",
    **{f"%lanemask_{which}": f"{PTX}lanemask_{which}()" for which in ("eq", "lt", "le", "gt", "ge")},
    **{
        f"%{name}.{axis}": f"::cuda_on_cpu::place_in_cluster().{part}.{axis}"
        for axis in "xyz"
        for name, part in (
            ("cluster_ctaid", "block"),
            ("cluster_nctaid", "dim"),
            ("clusterid", "cluster"),
            ("nclusterid", "grid"),
        )
    },
    "%cluster_ctarank": "::cuda_on_cpu::place_in_cluster().rank",
    "%cluster_nctarank": "::cuda_on_cpu::place_in_cluster().size",
    "%is_explicit_cluster": "::cuda_on_cpu::place_in_cluster().is_explicit",
    "WARP_SZ": "32u",
}


def with_statements(source) -> str:
    """The source with C++ in place of its `asm` statements, line for line.

    Raises Refused for PTX that cannot be read or that the engine lacks. Where it may well not be compiled (in a macro,
    in a template, inside an `#if`), the C++ fails to compile if it is. A function that nothing calls may have any PTX,
    as with nvcc, and a function of the host keeps its own assembly.
    """
    if not has_statements(source):
        return source
    source = with_macros(with_constexpr_arrays(source), WORDS)
    text, carries = _translated(source, False)
    return _translated(source, True)[0] if carries else text


def _translated(source, carries):
    """The source without `asm`, and whether a statement takes the carry of another; `carries`: some do."""
    tokens, macros = cxx.tokens(source), cxx.macros(source)
    conditional = _conditional(source)
    pieces, at, taken = [], 0, False
    for k, token in enumerate(tokens):
        if token.text not in WORDS or token.start < at or cxx.text_at(tokens, k - 1) == "#":
            continue
        opens = next((o for o in range(k + 1, min(k + 5, len(tokens))) if tokens[o].text == "("), None)
        closes = cxx.matching(tokens, opens) if opens else None
        if closes is None:
            raise Refused("this asm statement has no `(...)`", token.line)
        try:
            text, takes = _replacement(source, tokens, opens, closes, macros, carries)
            taken |= takes
        except Refused as refused:
            refused.line = refused.line or token.line
            refused.args = (without_marks(str(refused)),)
            if in_host_function(source, token.start):
                continue
            if in_unused_function(source, token.start):
                text = "(void)0"
            elif token.directive or conditional(token.line) or not surely_compiled(source, token.start):
                text = lacking(str(refused))
            else:
                raise
            text += _newline(token) * source.count("\n", token.start, tokens[closes].end)
        pieces += [source[at : token.start], text]
        at = tokens[closes].end
    return "".join(pieces) + source[at:], taken


def _conditional(source):
    """A function: whether a line is inside an `#if`."""
    spans, opened = [], []
    for line in cxx.directives(source):
        kind = cxx.text_at(line, 1)
        if kind in ("if", "ifdef", "ifndef"):
            opened.append(line[0].line)
        elif kind == "endif" and opened:
            spans.append((opened.pop(), line[0].line))
    return lambda number: any(first < number < last for first, last in spans)


def _newline(token):
    return "\\\n" if token.directive else "\n"


class _Operand(NamedTuple):
    variable: str  # of C++; of a constant, its expression
    letter: str
    written: bool
    expression: str


class _Register(NamedTuple):
    variable: str
    kind: str


def _replacement(source, tokens, opens, closes, macros, carries):
    """The C++ of a statement, and whether it takes the carry of another; `carries` if any statement does."""
    parts = _at_colons(tokens[opens + 1 : closes])
    word = tokens[opens - 1]
    statement = _Statement(parts[1:3], word.line, carries, source)
    pieces = statement.translated(parse(*statement.with_marks(*template(parts[0], macros, word.line))))
    first = _first_word(tokens, opens)
    text, line = "", first.line
    last = line + source.count("\n", first.start, tokens[closes].end)
    for at, piece in pieces:
        at = min(max(at or line, line), last)
        text += _newline(word) * (at - line) + piece + " "
        line = at
    text = f"do {{ {text}{_newline(word) * (last - line)}{statement.ends()} }} while (0)"
    return text, statement.takes_carry


def _first_word(tokens, opens):
    return next(tokens[k] for k in range(opens - 1, -1, -1) if tokens[k].text in WORDS)


def _at_colons(part):
    """The tokens, split at the colons outside brackets; `::` is two of them."""
    found, start, k = [], 0, 0
    while k < len(part):
        if part[k].text in (":", "::"):
            found.append(part[start:k])
            found += [()] if part[k].text == "::" else []
            start = k + 1
        k = cxx.step_over(part, k)
    return [*found, part[start:]]


class _Statement:
    """One asm statement: its operands, registers and labels, as `Use` asks for them."""

    def __init__(self, parts, line, carries, source):
        self._line, self._source = line, source
        self._places, self._names = [], {}
        self._head, self._reads, self._writes = [], {}, {}  # the last two by variable
        self._used, self._in_place = set(), set()  # variables of operands
        self._may_be_unset, self._written_if = {}, {}  # C++ types; the predicates under which an instruction writes
        self._guard = self._branched = None
        self._scopes, self._labels, self._carry = [{}], {}, False
        self._carries, self.takes_carry = carries, False
        outputs = parts[0] if parts else ()
        inputs = parts[1] if len(parts) > 1 else ()
        for operands, given in ((outputs, False), (inputs, True)):
            for operand in filter(None, cxx.at_commas(operands)):
                self._add(operand, given)

    def _add(self, operand, given):
        name, k = "", 0
        if cxx.text_at(operand, 0) == "[":
            name, k = cxx.text_at(operand, 1), 3
        opens = next((o for o in range(k, len(operand)) if operand[o].text == "("), k)
        constraint = '"' + "".join(token.text.strip('"') for token in operand[k:opens]) + '"'  # "+" "r" is one string
        if opens == k or not all(token.text.startswith('"') for token in operand[k:opens]):
            raise Refused(f"cannot read the operand `{cxx.written(operand)}` of this asm statement", self._line)
        expression = cxx.written(operand[opens + 1 : -1])
        letters = constraint.strip('"')
        letter, line = letters[-1:], operand[0].line
        known = [*_BITS_OF, "n", "C"] if given else _BITS_OF
        if letter not in known or letters[:-1] not in (("",) if given else ("=", "+", "=&", "+&")):
            raise Refused(f"an asm operand of a kernel has one of {', '.join(known)}, not {constraint}", line)
        variable = f"cuda_on_cpu_{len(self._places)}"
        if letter == "n":
            variable = f"((uint64_t)({expression}))"
        elif letter != "C":
            kind = _C_TYPES[_BITS_OF[letter]]
            self._head.append(f"{kind} {variable};")
            if given or "+" in letters:
                self._reads[variable] = f"{variable} = {PTX}take<{kind}>({expression});"
            if not given:
                self._writes[variable] = f"{PTX}give({expression}, {variable});"
            if not given and "+" not in letters:
                self._may_be_unset[variable] = f"::std::decay_t<decltype(({expression}))>"
        self._places.append(_Operand(variable, letter, not given, expression))
        if name:
            self._names[name] = len(self._places) - 1

    def with_marks(self, text, lines):
        """The PTX with marks in place of the "C" operands, which are parts of words."""
        inserted = {k for k, place in enumerate(self._places) if place.letter == "C"}
        return with_marks(text, lines, lambda name: k if (k := self._number(name)) in inserted else None)

    def translated(self, parts) -> list[tuple[int, str]]:
        """The C++ of the statement's parts, each with its line, but for the end."""
        self._labels = {part.name: f"cuda_on_cpu_l{k}" for k, part in enumerate(parts) if isinstance(part, Label)}
        body, count = [], 0
        for part in parts:
            if isinstance(part, Scope):
                if part.opens:
                    self._scopes.append({})
                elif len(self._scopes) == 1:
                    raise Refused("this PTX has a `}` without its `{`", part.line)
                else:
                    self._scopes.pop()
            elif isinstance(part, Declaration):
                count = self._declare(part, count)
            elif isinstance(part, Label):
                body.append((part.line, f"{self._labels[part.name]}:;"))
            elif has_marks(part):
                operands = [place.expression for place in self._places]
                body.append((part.line, chosen(part, self._source, operands, self._tried)))
            else:
                body.append((part.line, self._instruction(part)))
        if len(self._scopes) > 1:
            raise Refused("this PTX has a `{` without its `}`", parts[-1].line)
        labels = f"__label__ {', '.join(self._labels.values())}; " if self._labels else ""
        before = "::cuda_on_cpu::carry()" if self._carries else "false"
        carry = [f"bool cuda_on_cpu_carry = {before};"] if self._carry else []
        head = labels + " ".join([*self._head, *carry, *self._reads.values(), *self._unset()])
        return [(0, head), *body]

    def ends(self):
        kept = ["::cuda_on_cpu::set_carry(cuda_on_cpu_carry);"] if self._carry and self._carries else []
        return " ".join([*self._writes.values(), *kept])

    def _unset(self):
        """C++ that fills what a predicate or a branch may leave unwritten: on a GPU it holds anything."""
        return [
            f"{variable} = {PTX}take<decltype({variable})>({PTX}unwritten<{self._may_be_unset[variable]}>());"
            for variable, guards in self._written_if.items()
            if variable in self._may_be_unset and None not in guards
            if not any((name, not negated) in guards for name, negated in guards)
        ]

    def _declare(self, declaration, count):
        kind = declaration.type
        if kind not in BITS:
            raise Refused(f"`.{kind}` of a register: the CPU engine does not have it", declaration.line)
        for name in declaration.names:
            variable = f"cuda_on_cpu_r{count}"
            count += 1
            self._scopes[-1][name] = _Register(variable, kind)
            self._head.append(f"{_C_TYPES[BITS[kind]]} {variable};")
            self._may_be_unset[variable] = _UNSET_TYPES.get(kind, _C_TYPES[BITS[kind]])
        return count

    def _tried(self, part: Instruction):
        """The C++ of an instruction, or None; then everything is as if it had not been tried."""
        changed = (self._reads, self._writes, self._in_place, self._used, self._written_if)
        kept = [(each, each.copy()) for each in changed]
        flags = self._carry, self.takes_carry
        try:
            return self._instruction(part)
        except Refused:
            for each, before in kept:
                each.clear()
                each.update(before)
            self._carry, self.takes_carry = flags
            return None

    def _instruction(self, part: Instruction):
        of_branch = ("a branch", False) if self._branched else None
        self._guard = (part.predicate.name, part.predicate.negated) if part.predicate else of_branch
        text = translated(part, self)
        self._branched = self._branched or part.name.split(".")[0] == "bra"
        if part.predicate is None:
            return text
        condition = self.read(part.predicate, "pred", Use(part, {}, self))
        condition = f"!{condition}" if part.predicate.negated else condition
        return f"if ({condition}) {{ {text} }}"

    # ---- what `Use` asks for --------------------------------------------------------------------------------------

    def _number(self, name) -> int:
        return int(name) if name.isdigit() else self._names.get(name, -1)

    def _place(self, operand, use) -> _Operand:
        name, at = operand.name, self._number(operand.name)
        if not 0 <= at < len(self._places):
            raise use.refused(f"the asm statement has no operand %{name if name.isdigit() else f'[{name}]'}")
        return self._places[at]

    def _register(self, operand, use) -> _Register | None:
        for scope in reversed(self._scopes):
            if operand.name in scope:
                return scope[operand.name]
        return None

    def read(self, operand, kind, use) -> str:
        """The C++ for the bits of a register or of an operand of the statement."""
        if isinstance(operand, Place):
            found = self._place(operand, use)
            if kind == "pred" and found.letter != "n":
                raise use.refused(f"%{operand.name} is a number where a predicate belongs")
            self._use(found, use)
            return found.variable
        register = self._register(operand, use)
        if register:
            if (register.kind == "pred") != (kind == "pred"):
                wanted = "a predicate" if kind == "pred" else "a number"
                raise use.refused(f"{operand.name} is {register.kind} where {wanted} belongs")
            return register.variable
        if operand.name in _SPECIAL:
            return _SPECIAL[operand.name]
        if operand.name.startswith("%"):
            raise use.refused(f"the CPU engine does not have the special register {operand.name}")
        raise use.refused(f"`{operand.name}` is not declared in this asm statement")

    def written(self, operand, use) -> str:
        """The variable behind an operand that an instruction writes."""
        self._written_if.setdefault(variable := self._variable_of(operand, use), set()).add(self._guard)
        return variable

    def _variable_of(self, operand, use):
        if isinstance(operand, Place):
            found = self._place(operand, use)
            if not found.written:
                raise use.refused(f"%{operand.name} is an input of the asm statement, and is written")
            self._use(found, use)
            return found.variable
        register = self._register(operand, use)
        if not register:
            raise use.refused(f"`{operand.name}` is not a register of this asm statement")
        return register.variable

    def _use(self, place, use, in_place=False):
        """An operand is a variable that is read before the statement and written after it, or changes in place."""
        mine, other = (self._in_place, self._used) if in_place else (self._used, self._in_place)
        mine.add(place.variable)
        if place.variable in other:
            raise use.refused(f"`{place.expression}` is an accumulator, and another instruction of this asm uses it")

    def place_of(self, operand, use) -> str:
        """The C++ for the address of a register, or of the operand itself, which changes while the kernel goes on."""
        if not isinstance(operand, Place):
            return f"{PTX}place_of({self.written(operand, use)})"
        found = self._place(operand, use)
        if not found.written:
            raise use.refused(f"%{operand.name} is an input of the asm statement, and is written")
        self._use(found, use, in_place=True)
        self._reads.pop(found.variable, None)
        self._writes.pop(found.variable, None)
        return f"{PTX}place_of({found.expression})"

    def source_of(self, operand, use) -> str:
        """The C++ for the address of the variable that an input is read from; a null pointer if it is none."""
        if not isinstance(operand, Place):
            return "nullptr"
        return f"{PTX}place_if_any({self._place(operand, use).expression})"

    def is_constant(self, place, use) -> bool:
        return self._place(place, use).letter == "n"

    def is_predicate(self, operand, use) -> bool:
        register = self._register(operand, use) if isinstance(operand, Register) else None
        return bool(register and register.kind == "pred")

    def label(self, name, use) -> str:
        if name not in self._labels:
            raise use.refused(f"this asm statement has no label `{name}`")
        return self._labels[name]

    def carry(self, use, takes) -> str:
        """The variable that holds the carry; of another asm statement, if this one takes it first."""
        self.takes_carry |= takes and not self._carry
        self._carry = True
        return "cuda_on_cpu_carry"
