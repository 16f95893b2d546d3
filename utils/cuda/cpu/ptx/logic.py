"""Bits, comparisons, choices and jumps: rows of the instruction table (include/cuda_on_cpu/ptx/logic.h)."""

from utils.cuda.cpu.ptx.parse import Register, Vector
from utils.cuda.cpu.ptx.use import BITS, INTEGERS, PTX

__all__ = ["ROWS"]

_ALL = f"b16|b32|b64|{INTEGERS}|f32|f64"
_ORDERED = "c=eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
_OF_INTEGERS = "c=eq|ne|lt|le|gt|ge|lo|ls|hi|hs"
_BOOLEAN = {"and": "&", "or": "|", "xor": "^"}


def _mov(use):
    use.count(2)
    to, kind = use.operands[0], use["t"]
    if not isinstance(to, Vector):
        return use.set(use.read(1, kind))
    each = BITS[kind] // max(len(to.elements), 1)
    if each < 8 or each * len(to.elements) != BITS[kind]:
        raise use.refused(f"{len(to.elements)} registers do not make a {kind}")
    whole = "cuda_on_cpu_whole"
    parts = [use.into(part, f"{PTX}part<{each}>({whole}, {k})") for k, part in enumerate(to.elements)]
    return f"{{ const {use.type(f'b{BITS[kind]}')} {whole} = {use.read(1, kind)}; {' '.join(parts)} }}"


def _setp(use):
    boolean = use["bool"]
    use.count(4 if boolean else 3)
    kind = use["t"]
    first, second = use.pair(use.operands[0])
    a, b = use.read(1, kind), use.read(2, kind)
    with_third = f" {_BOOLEAN[boolean]} cuda_on_cpu_c" if boolean else ""
    third = f"const bool cuda_on_cpu_c = {use.read(3, 'pred')}; " if boolean else ""
    if kind.endswith("x2"):
        if second is None:
            raise use.refused("a comparison of pairs has two results, p|q")
        low, high = (f"{PTX}compare_half<{use.type('t')}, {n}, {PTX}{_comparison(use)}, {_ftz(use)}>" for n in (0, 1))
        text = f"const bool cuda_on_cpu_p = {low}({a}, {b}), cuda_on_cpu_q = {high}({a}, {b});"
    else:
        text = f"const bool cuda_on_cpu_p = {_compared(use, kind, a, b)}, cuda_on_cpu_q = !cuda_on_cpu_p;"
    if second is not None and kind in ("f16", "bf16"):
        raise use.refused("has one result only")
    results = use.into(first, f"cuda_on_cpu_p{with_third}")
    results += f" {use.into(second, f'cuda_on_cpu_q{with_third}')}" if second is not None else ""
    return f"{{ {third}{text} (void)cuda_on_cpu_q; {results} }}"


def _comparison(use):
    return use["c"].upper().replace("NAN", "NAN_")  # NAN is a macro of C


def _ftz(use):
    return "true" if use["ftz"] else "false"


def _compared(use, kind, a, b):
    return f"{PTX}compare<{use.type(kind)}, {PTX}{_comparison(use)}, {_ftz(use)}>({a}, {b})"


def _set(use):
    boolean = use["bool"]
    use.count(4 if boolean else 3)
    kind, to = use["t"], use["d"]
    text = _compared(use, kind, use.read(1, kind), use.read(2, kind))
    text = f"({text} {_BOOLEAN[boolean]} {use.read(3, 'pred')})" if boolean else text
    return use.set(f"{text} ? {'0x3f800000u' if to == 'f32' else '~0u'} : 0u")


def _bra(use):
    use.count(1)
    (label,) = use.operands
    if not isinstance(label, Register):
        raise use.refused("the operand is a label of the same asm statement")
    return f"goto {use.statement.label(label.name, use)};"


def _lop3(use):
    boolean = use["bool"]
    use.count(6 if boolean else 5)
    to, predicate = use.pair(use.operands[0])
    if bool(boolean) != (predicate is not None):
        raise use.refused("a predicate as second result goes with `.or` or `.and`")
    expression = f"{PTX}lop3({', '.join(use.read(k) for k in range(1, 5))})"
    if not boolean:
        return use.into(to, expression)
    combined = f"(cuda_on_cpu_d != 0) {_BOOLEAN[boolean]} {use.read(5, 'pred')}"
    results = f"{use.into(predicate, combined)} {use.into(to, 'cuda_on_cpu_d')}"
    return f"{{ const uint32_t cuda_on_cpu_d = {expression}; {results} }}"


ROWS = [
    (f"mov t=pred|b8|b128|{_ALL}|f16|bf16|f16x2|bf16x2", _mov, ""),
    *((f"{op} t=b16|b32|b64|pred", f"bit_{op}<{{t}}>", "t t t") for op in ("and", "or", "xor")),
    ("not t=b16|b32|b64|pred", "bit_not<{t}>", "t t"),
    ("cnot t=b16|b32|b64", "cnot<{t}>", "t t"),
    ("shl t=b16|b32|b64", "shl<{t}>", "t t u32"),
    (f"shr t=b16|b32|b64|{INTEGERS}", "shr<{t}>", "t t u32"),
    ("shf way=l|r mode=clamp|wrap b32", "shf_{way}_{mode}", "b32 b32 b32 b32"),
    ("lop3 bool=or|and? b32", _lop3, ""),
    ("prmt b32", "prmt", "b32 b32 b32 b32"),
    ("prmt b32 mode=f4e|b4e|rc8|ecl|ecr|rc16", "prmt_{mode}", "b32 b32 b32 b32"),
    ("bfe t=u32|s32|u64|s64", "bfe<{t}>", "t t u32 u32"),
    ("bfi t=b32|b64", "bfi<{t}>", "t t t u32 u32"),
    ("bfind t=u32|s32|u64|s64", "bfind<{t}, false>", "u32 t"),
    ("bfind shiftamt t=u32|s32|u64|s64", "bfind<{t}, true>", "u32 t"),
    ("brev t=b32|b64", "brev<{t}>", "t t"),
    ("clz t=b32|b64", "clz<{t}>", "u32 t"),
    ("popc t=b32|b64", "popc<{t}>", "u32 t"),
    ("fns b32", "fns", "b32 b32 b32 b32"),
    ("bmsk mode=clamp|wrap b32", "bmsk_{mode}", "b32 b32 b32"),
    ("szext mode=clamp|wrap t=u32|s32", "szext_{mode}<{t}>", "t t u32"),
    (f"selp t={_ALL}", "selp<{t}>", "t t t pred"),
    (f"slct ftz? t={_ALL} s=f32", "slct<{t}, {s}, {ftz}>", "t t t s"),
    (f"slct t={_ALL} s=s32", "slct<{t}, {s}, false>", "t t t s"),
    *(
        row
        for bools in ("", "bool=and|or|xor ")
        for row in (
            (f"setp {_OF_INTEGERS} {bools}t=b16|b32|b64|{INTEGERS}", _setp, ""),
            (f"setp {_ORDERED} {bools}ftz? t=f32|f64|f16|f16x2", _setp, ""),
            (f"setp {_ORDERED} {bools}t=bf16|bf16x2", _setp, ""),
            (f"set {_OF_INTEGERS} {bools}d=u32|s32|f32 t=b16|b32|b64|{INTEGERS}", _set, ""),
            (f"set {_ORDERED} {bools}ftz? d=u32|s32|f32 t=f32|f64|f16", _set, ""),
        )
    ),
    ("bra uni?", _bra, ""),
    ("exit", "exit_thread", "-"),
]
