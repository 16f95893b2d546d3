"""What threads do together, and fences: rows of the instruction table (include/cuda_on_cpu/ptx/warps.h)."""

from utils.cuda.cpu.ptx.parse import Immediate, Refused

__all__ = ["ROWS"]

_SCOPE = "scope=cta|cluster|gpu|sys"


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
    """Barrier 0 with all threads of the block is __syncthreads."""
    reduces = use["op"]
    use.count(3 if reduces else 1)
    at = 1 if reduces else 0
    first = use.operands[at]
    if not isinstance(first, Immediate) or first.value != 0:
        raise Refused(
            f"`{use.instruction.name}`: the CPU engine has barrier 0 of the whole block, and no other yet",
            use.instruction.line,
            needs_gpu=True,
        )
    if not reduces:
        return f'::cuda_on_cpu::barrier("{use.instruction.name}");'
    vote = use.read(2, "pred")
    name = f'"{use.instruction.name}"'
    return use.set(
        {
            "popc": f"(uint32_t)::cuda_on_cpu::barrier_sum({vote}, {name})",
            "or": f"::cuda_on_cpu::barrier_sum({vote}, {name}) != 0",
            "and": f"::cuda_on_cpu::barrier_sum(!({vote}), {name}) == 0",
        }[reduces]
    )


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
    ("bar cta? sync", _bar, ""),
    ("barrier cta? sync aligned?", _bar, ""),
    ("bar cta? red op=popc u32", _bar, ""),
    ("bar cta? red op=and|or pred", _bar, ""),
    ("barrier cta? red op=popc aligned? u32", _bar, ""),
    ("barrier cta? red op=and|or aligned? pred", _bar, ""),
    (f"fence sem=sc|acq_rel|acquire|release? {_SCOPE}", "fence", "-"),
    ("membar level=cta|gl|sys", "fence", "-"),
    ("nanosleep u32", "nanosleep", "- u32"),
    ("trap", "trap", "-"),
    ("brkpt", "trap", "-"),
    ("pmevent mask?", _pmevent, ""),
]
