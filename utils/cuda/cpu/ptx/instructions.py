"""The table of PTX instructions: which modifiers each takes, and the C++ that replaces it.

A row is a pattern, a call and the operands' types. The pattern has the mnemonic, then its modifiers in order: `ftz` as
it is, `t=s32|u32` for one of several under a name, and a `?` behind what may be absent. The call is the name of a
function of `cuda_on_cpu::ptx` with template arguments, in which `{t}` is what `t` matched, in C++; or a Python function
that returns the C++ of the whole instruction. Of the operands, the first is what the instruction writes.
"""

from collections import defaultdict

from utils.cuda.cpu.ptx import (
    arithmetic,
    asynchronous,
    clusters,
    conversions,
    logic,
    matrices,
    memory,
    tensors,
    warpgroups,
    warps,
)
from utils.cuda.cpu.ptx.parse import Instruction, Refused
from utils.cuda.cpu.ptx.use import WIDE, Use

__all__ = ["check_gpu", "may_be", "translated"]

# ---- patterns -------------------------------------------------------------------------------------------------------


def _parsed(pattern):
    """[(name, alternatives, optional)] of a pattern's modifiers."""
    found = []
    for word in pattern.split()[1:]:
        optional = word.endswith("?")
        name, _, rest = word.rstrip("?").partition("=")
        found.append((name, (rest or name).split("|"), optional))
    return found


# Of an access: the memory order, its scope, the state space. ptxas takes these in any order ("ld.global.acquire.gpu").
_FIRST = "weak volatile relaxed acquire release acq_rel".split(), "cta cluster gpu sys".split()
_FIRST += ("global shared shared::cta shared::cluster local const".split(),)


def _in_order(base, modifiers) -> list[str]:
    """The modifiers of an instruction `base` in the order of the table."""
    if base not in ("ld", "st", "atom", "red") or "async" in modifiers:
        return modifiers
    return sorted(modifiers, key=lambda word: next((k for k, words in enumerate(_FIRST) if word in words), len(_FIRST)))


def _matched(slots, modifiers):
    """What each name of a pattern matched; None if the pattern does not fit."""
    found, at = {}, 0
    for name, alternatives, optional in slots:
        if at < len(modifiers) and modifiers[at] in alternatives:
            found[name] = modifiers[at]
            at += 1
        elif not optional:
            return None
    return found if at == len(modifiers) else None


def _begins(slots, modifiers):
    """Whether a pattern may fit modifiers that go on; of the last one, only the beginning is known."""
    at = 0
    for _, alternatives, optional in slots:
        if at == len(modifiers) - 1 and any(word.startswith(modifiers[at]) for word in alternatives):
            return True
        if at < len(modifiers) and modifiers[at] in alternatives:
            at += 1
        elif not optional:
            return False
    return False


def _table():
    table = defaultdict(list)
    families = (
        arithmetic,
        asynchronous,
        clusters,
        logic,
        conversions,
        matrices,
        memory,
        tensors,
        warpgroups,
        warps,
    )
    for family in families:
        for pattern, call, types in family.ROWS:
            table[pattern.split()[0]].append((_parsed(pattern), call, types))
    return table


_TABLE = _table()

# What exists, but not here: the word that begins its name, and what it needs.
_ON_HOPPER = """wgmma.mma_async.sp multimem tensormap tex tld4 txq suq sust suld st.bulk mma.sp stacksave
stackrestore alloca call ret cvta.param ld.param""".split()
_ON_BLACKWELL = """tcgen05 clusterlaunchcontrol add.f32x2 mul.f32x2 fma.rn.f32x2 ld.global.v8 st.global.v8""".split()


def may_be(name, whole) -> bool:
    """Whether an instruction in the table may have this name, or a name that begins so if it is not the `whole` one."""
    base, *modifiers = name.split(".")
    if not whole and not modifiers:
        return any(known.startswith(base) for known in _TABLE)
    fits, modifiers = (_matched, _in_order(base, modifiers)) if whole else (_begins, modifiers)
    return any(fits(slots, modifiers) not in (None, False) for slots, _, _ in _TABLE.get(base, ()))


def check_gpu(instruction: Instruction):
    """Refuse an instruction that exists, but not here."""
    name = instruction.name
    for family, gpu in ((_ON_BLACKWELL, "an sm_100"), (_ON_HOPPER, "a GPU")):
        if any(name == word or name.startswith((f"{word}.", f"{word}::")) for word in family):
            says = f"`{name}` needs {gpu}: the CPU engine does not have this instruction"
            raise Refused(says, instruction.line, needs_gpu=True)


def translated(instruction: Instruction, statement) -> str:
    """The C++ statement for an instruction without its predicate. Raises Refused."""
    check_gpu(instruction)
    name, line = instruction.name, instruction.line
    base, *modifiers = name.split(".")
    modifiers = _in_order(base, modifiers)
    rows = _TABLE.get(base)
    if not rows:
        raise Refused(f"`{name}`: the CPU engine knows no instruction `{base}`: is it spelled right?", line)
    for slots, call, types in rows:
        matched = _matched(slots, modifiers)
        if matched is None:
            continue
        use = Use(instruction, matched, statement)
        return call(use) if callable(call) else _called(use, call, types.split())
    known = {word for slots, _, _ in rows for _, alternatives, _ in slots for word in alternatives}
    unknown = next((word for word in modifiers if word not in known), None)
    what = f"no modifier `.{unknown}`" if unknown else "no such combination of modifiers"
    raise Refused(f"`{name}`: the CPU engine's `{base}` has {what}", line)


def _called(use, call, types):
    """The usual instruction: the first operand becomes what a function makes of the others."""
    writes = types[:1] != ["-"]
    use.count(len(types) - (not writes))
    kinds = [_kind(use, kind) for kind in types]
    offset = 0 if writes else -1
    arguments = [use.read(at + offset, kinds[at]) for at in range(1, len(kinds))]
    expression = use.call(call, *arguments)
    return use.set(expression) if writes else f"{expression};"


def _kind(use, kind):
    if kind == "wide":
        return WIDE[use["t"]]
    return use[kind] or kind
