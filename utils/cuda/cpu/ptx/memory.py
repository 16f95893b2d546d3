"""Loads, stores, atomics and copies: rows of the instruction table (include/cuda_on_cpu/ptx/memory.h)."""

from utils.cuda.cpu.ptx.parse import Immediate
from utils.cuda.cpu.ptx.use import BITS, PTX

__all__ = ["ROWS"]

_TYPES = "b8|u8|s8|b16|u16|s16|b32|u32|s32|b64|u64|s64|f32|f64|b128"
_SPACE = "ss=global|shared|shared::cta|shared::cluster|local"
_EVICT = "L1=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?"
_L2 = "L2=L2::evict_normal|L2::evict_first|L2::evict_last?"
_HINT = "hint=L2::cache_hint?"
_AHEAD = "ahead=L2::64B|L2::128B|L2::256B?"
_SCOPE = "scope=cta|cluster|gpu|sys"


def _size(use):
    """How many elements a vector has. Refuses more than 16 bytes."""
    count = int(use["v"].removeprefix("v") or 1)
    if BITS[use["t"]] * count > 128:
        raise use.refused("accesses 16 bytes at most before sm_100")
    return count


def _with_policy(use, *counts):
    hinted = bool(use["hint"])
    use.count(*(n + hinted for n in counts))


def _of_block(use):
    """Whether it is for the threads of one block, as C++ writes it."""
    return "true" if use["scope"] == "cta" else "false"


def _fences(use):
    """What comes before and behind an access with the order `use["sem"]`."""
    fence, sem = f"::cuda_on_cpu::fence({_of_block(use)});", use["sem"]
    return [fence * (sem in orders) for orders in (("release", "acq_rel"), ("acquire", "acq_rel"))]


def _ld(use):
    _with_policy(use, 2)
    count = _size(use)
    element = use.type("t") if use["t"][0] in "su" else use.type(f"b{BITS[use['t']]}")
    strong = use["sem"] in ("volatile", "relaxed", "acquire")
    if strong and use["sem"] == "acquire" and not use["scope"]:
        raise use.refused("needs a scope, such as `.gpu`")
    function = f"load_strong<{element}, {count}, {_of_block(use)}>" if strong else f"load<{element}, {count}>"
    text = f"{PTX}{function}({use.address(1, use['ss'])})"
    results = [
        use.into(part, f"cuda_on_cpu_loaded.of[{k}]") for k, part in enumerate(use.elements(use.operands[0], count))
    ]
    _, after = _fences(use)
    return f"{{ const auto cuda_on_cpu_loaded = {text}; {after} {' '.join(results)} }}"


def _ld_nc(use):
    return f"{PTX}look_at_nc({use.address(1, use['ss'])}, {BITS[use['t']] // 8 * _size(use)}); {_ld(use)}"


def _st(use):
    _with_policy(use, 2)
    count = _size(use)
    element = use.type(f"b{BITS[use['t']]}")
    strong = use["sem"] in ("volatile", "relaxed", "release")
    values = [f"({element})({use.value(part, use['t'])})" for part in use.elements(use.operands[1], count)]
    before, _ = _fences(use)
    function = f"store_strong<{element}, {count}, {_of_block(use)}>" if strong else f"store<{element}, {count}>"
    vector = f"{PTX}Elements<{element}, {count}>{{{{{', '.join(values)}}}}}"
    text = f"{PTX}{function}({use.address(0, use['ss'])}, {vector});"
    return f"{{ {before} {text} }}" if before else text


def _atomic(use):
    """atom and red: the operation is a function of the old value and the operand."""
    returns = use.instruction.name.startswith("atom")
    op, kind = use["op"], use["t"]
    _with_policy(use, (3 if op == "cas" else 2) + returns)
    address = use.address(int(returns), use["ss"])
    values = [use.read(k + 1 + returns, kind) for k in range(2 if op == "cas" else 1)]
    bits = use.type(f"b{BITS[kind]}")
    text = f"{PTX}atomic_{op}<{use.type('t')}, {_of_block(use)}>({', '.join([address, *values])})"
    before, after = _fences(use)
    if not returns:
        return f"{{ {before} {text}; {after} }}"
    sets = use.set("::cuda_on_cpu::asked(cuda_on_cpu_old)")
    return f"{{ {before} const {bits} cuda_on_cpu_old = {text}; {after} {sets} }}"


def _atomic_vector(use):
    returns = use.instruction.name.startswith("atom")
    _with_policy(use, 2 + returns)
    count, kind = int(use["v"][1:]), use["t"]
    if BITS[kind] * count > 128:
        raise use.refused("changes 16 bytes at most")
    bits = use.type(f"b{BITS[kind]}")
    values = [use.value(part, kind) for part in use.elements(use.operands[1 + returns], count)]
    address = use.address(int(returns), "global")
    before, after = _fences(use)
    given = f"{PTX}Elements<{bits}, {count}>{{{{{', '.join(values)}}}}}"
    function = f"atomic_{use['op']}_each<{use.type('t')}, {count}, {_of_block(use)}>"
    text = f"{before} const auto cuda_on_cpu_old = {PTX}{function}({address}, {given});"
    parts = use.elements(use.operands[0], count) if returns else []
    results = [use.into(part, f"::cuda_on_cpu::asked(cuda_on_cpu_old.of[{k}])") for k, part in enumerate(parts)]
    return f"{{ {text} {after} (void)cuda_on_cpu_old; {' '.join(results)} }}"


def _to_generic(use):
    """cvta: a shared address is counted from where the block's shared memory begins; all others are generic ones."""
    use.count(2)
    if not use["ss"].startswith("shared"):
        return use.set(use.read(1, use["t"]))
    to, of = ("to", "from"), "cluster" if use["ss"] == "shared::cluster" else "shared"
    way = f"{to[not use['to']]}_{of}"
    return use.set(f"{PTX}{way}({use.read(1, use['t'])})")


def _isspacep(use):
    use.count(2)
    space = "cluster_shared" if use["ss"] == "shared::cluster" else use["ss"].partition("::")[0]
    return use.set(f"{PTX}is_{space}({use.read(1, 'b64')})")


def _cp_async(use):
    hinted = bool(use["hint"])
    use.count(3 + hinted, 4 + hinted)
    size = use.operands[2]
    if isinstance(size, Immediate) and size.value not in ((16,) if use["cop"] == "cg" else (4, 8, 16)):
        raise use.refused(f"copies {'16' if use['cop'] == 'cg' else '4, 8 or 16'} bytes, not {size.value}")
    to, source, bytes_ = use.address(0, "shared"), use.address(1, "global"), use.read(2, "u32")
    if len(use.operands) == 3 + hinted:
        zeros = "0u"
    elif use.statement.is_predicate(use.operands[3], use):
        zeros = f"({use.read(3, 'pred')} ? {bytes_} : 0u)"
    else:
        zeros = f"({bytes_} - ({use.read(3, 'u32')}))"
    return f"{PTX}cp_async({to}, {source}, {bytes_}, {zeros});"


def _prefetch(use):
    use.count(1)
    use.address(0, use["ss"])
    return ";"


def _line_of_cache(use):
    """The address of discard and applypriority, which concern 128 bytes each."""
    use.count(2)
    size = use.operands[1]
    if not isinstance(size, Immediate) or size.value != 128:
        raise use.refused("takes 128 bytes, as a constant")
    return use.address(0, use["ss"])


def _discard(use):
    return f"{PTX}discard({_line_of_cache(use)});"


def _applypriority(use):
    _line_of_cache(use)
    return ";"


def _createpolicy(use):
    return use.set("0ull")


def _createpolicy_of_range(use):
    use.count(4)
    use.address(1, "global")
    return use.set("0ull")


_LOADS = f"{_EVICT} {_L2} {_HINT} {_AHEAD} v=v2|v4? t={_TYPES}"
_STORES = f"{_EVICT} {_L2} {_HINT} v=v2|v4? t={_TYPES}"
_SEM = "sem=relaxed|acquire|release|acq_rel?"
_HALVES = "f16|f16x2|bf16|bf16x2"
_PLACE = f"{_SEM} {_SCOPE}? ss=global|shared|shared::cta|shared::cluster?"


def _atomics(name):
    return [
        (f"{name} {_PLACE} op=and|or|xor {_HINT} t=b32|b64", _atomic, ""),
        (f"{name} {_PLACE} op=add {_HINT} t=u32|s32|u64|f32|f64", _atomic, ""),
        (f"{name} {_PLACE} op=min|max {_HINT} t=u32|s32|u64|s64", _atomic, ""),
        (f"{name} {_PLACE} op=inc|dec {_HINT} t=u32", _atomic, ""),
        (f"{name} {_PLACE} op=add noftz {_HINT} t={_HALVES}", _atomic, ""),
        (f"{name} {_SEM} {_SCOPE}? global op=add {_HINT} v=v2|v4 t=f32", _atomic_vector, ""),
        (f"{name} {_SEM} {_SCOPE}? global op=add|min|max noftz {_HINT} v=v2|v4|v8 t={_HALVES}", _atomic_vector, ""),
    ]


ROWS = [
    (f"ld sem=weak? {_SPACE}|const? cop=ca|cg|cs|lu|cv? {_LOADS}", _ld, ""),
    (f"ld ss=global cop=ca|cg|cs? nc {_LOADS}", _ld_nc, ""),
    (f"ld sem=volatile {_SPACE}? {_AHEAD} v=v2|v4? t={_TYPES}", _ld, ""),
    (f"ld sem=relaxed|acquire {_SCOPE} {_SPACE}? {_LOADS}", _ld, ""),
    (f"ldu global? v=v2|v4? t={_TYPES}", _ld, ""),
    (f"st sem=weak? {_SPACE}? cop=wb|cg|cs|wt? {_STORES}", _st, ""),
    (f"st sem=volatile {_SPACE}? v=v2|v4? t={_TYPES}", _st, ""),
    (f"st sem=relaxed|release {_SCOPE} {_SPACE}? {_STORES}", _st, ""),
    *_atomics("atom"),
    *_atomics("red"),
    (f"atom {_PLACE} op=exch {_HINT} t=b32|b64|b128", _atomic, ""),
    (f"atom {_PLACE} op=cas t=b16|b32|b64|b128", _atomic, ""),
    (f"cvta to? {_SPACE}|const t=u32|u64", _to_generic, ""),
    ("isspacep ss=global|shared|shared::cta|shared::cluster|local", _isspacep, ""),
    (f"cp async cop=ca|cg ss=shared|shared::cta global {_HINT} {_AHEAD}", _cp_async, ""),
    ("cp async commit_group", "cp_async_commit_group", "-"),
    ("cp async wait_group", "cp_async_wait_group", "- u32"),
    ("cp async wait_all", "cp_async_wait_all", "-"),
    ("prefetch ss=global|local? level=L1|L2", _prefetch, ""),
    ("prefetch ss=global level=L2::evict_last|L2::evict_normal", _prefetch, ""),
    (
        "createpolicy fractional first=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
        "second=L2::evict_first|L2::evict_unchanged? b64",
        _createpolicy,
        "",
    ),
    (
        "createpolicy range ss=global? first=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged "
        "second=L2::evict_first|L2::evict_unchanged? b64",
        _createpolicy_of_range,
        "",
    ),
    ("createpolicy cvt L2 b64", _createpolicy, ""),
    ("prefetchu level=L1", _prefetch, ""),
    ("applypriority ss=global? level=L2::evict_normal", _applypriority, ""),
    ("discard ss=global? level=L2", _discard, ""),
]
