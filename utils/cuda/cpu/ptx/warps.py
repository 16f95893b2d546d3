"""What threads do together, and fences: rows of the instruction table (include/cuda_on_cpu/ptx/warps.h)."""

from utils.cuda.cpu.ptx.parse import Immediate

__all__ = ["ROWS"]

_BEYOND_BLOCK = "scope=cluster|gpu|sys"


def _two_results(use, expression):
    """`d|p = ...` of a function that returns both."""
    first, second = use.pair(use.operands[0])
    text = f"const auto cuda_on_cpu_both = {expression};"
    results = use.into(first, "cuda_on_cpu_both.first")
    results += " " + use.into(second, "cuda_on_cpu_both.second") if second is not None else ""
    return f"{{ {text} {results} }}"


def _shfl(use):
    use.count(5)
    arguments = [use.read(k) for k in (4, 1, 2, 3)]
    return _two_results(use, use.call("shfl_{mode}", *arguments))


def _match_all(use):
    use.count(3)
    return _two_results(use, use.call("match_all<{t}>", use.read(2), use.read(1, use["t"])))


def _elect(use):
    use.count(2)
    return _two_results(use, use.call("elect", use.read(1)))


def _bar(use):
    """`bar.sync a{, b}`, `bar.arrive a, b` and `bar.red p, a{, b}, c`: barrier a, for b threads or all of the block."""
    op, arrives = use["op"], use["how"] == "arrive"
    use.count(*((3, 4) if op else (2,) if arrives else (1, 2)))
    at = 1 if op else 0
    counts = len(use.operands) == (4 if op else 2)
    number, count = use.operands[at], use.operands[at + 1] if counts else Immediate(0)
    if isinstance(number, Immediate) and number.value not in range(16):
        raise use.refused(f"a block has barriers 0 to 15, and no barrier {number.value}")
    if isinstance(count, Immediate) and (count.value % 32 or arrives and not count.value):
        raise use.refused(f"waits for a multiple of 32 threads, not for {count.value}")
    vote = use.read(len(use.operands) - 1, "pred") if op else "false"
    how = "::cuda_on_cpu::BarrierUse::" + ("reduce" if op else use["how"])
    aligned = "true" if use["aligned"] or use.instruction.name.startswith("bar.") else "false"
    vote = f"!({vote})" if op == "and" else vote
    places = f"{use.value(number, 'b32')}, {use.value(count, 'b32')}"
    text = f'::cuda_on_cpu::named_barrier({places}, {how}, {aligned}, {vote}, "{use.instruction.name}")'
    if not op:
        return f"{text};"
    return use.set({"popc": text, "or": f"{text} != 0", "and": f"{text} == 0"}[op])


def _pmevent(use):
    """Counters of a profiler, which is not there."""
    use.count(1)
    use.constant(0)
    return ";"


ROWS = [
    ("shfl sync mode=up|down|bfly|idx b32", _shfl, ""),
    ("vote sync op=all|any|uni pred", "vote_{op}", "pred pred b32"),
    ("vote sync ballot b32", "vote_ballot", "b32 pred b32"),
    ("match any sync t=b32|b64", "match_any<{t}>", "b32 t b32"),
    ("match all sync t=b32|b64", _match_all, ""),
    ("redux sync op=add|min|max t=u32|s32", "redux_{op}<{t}>", "t t b32"),
    ("redux sync op=and|or|xor t=b32", "redux_{op}<{t}>", "t t b32"),
    ("elect sync", _elect, ""),
    ("activemask b32", "activemask", "b32"),
    ("bar warp sync", "warp_sync", "- b32"),
    ("bar cta? how=sync|arrive", _bar, ""),
    ("barrier cta? how=sync|arrive aligned?", _bar, ""),
    ("bar cta? red op=popc u32", _bar, ""),
    ("bar cta? red op=and|or pred", _bar, ""),
    ("barrier cta? red op=popc aligned? u32", _bar, ""),
    ("barrier cta? red op=and|or aligned? pred", _bar, ""),
    ("barrier cta? red aligned op=popc u32", _bar, ""),
    ("barrier cta? red aligned op=and|or pred", _bar, ""),
    ("fence sem=sc|acq_rel|acquire|release? cta", "fence<true>", "-"),
    (f"fence sem=sc|acq_rel|acquire|release? {_BEYOND_BLOCK}", "fence<false>", "-"),
    ("membar cta", "fence<true>", "-"),
    ("membar level=gl|sys", "fence<false>", "-"),
    ("nanosleep u32", "nanosleep", "- u32"),
    ("trap", "trap", "-"),
    ("brkpt", "trap", "-"),
    ("pmevent mask?", _pmevent, ""),
]
