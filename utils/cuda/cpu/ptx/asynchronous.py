"""Barriers in shared memory, the bulk copy engine, and fences between proxies: rows of the instruction table
(include/cuda_on_cpu/ptx/asynchronous.h)."""

from utils.cuda.cpu.ptx.parse import Immediate, Place, Sink
from utils.cuda.cpu.ptx.use import PTX

__all__ = ["OPERATIONS", "ROWS", "TYPES"]

_OWN = "ss=shared|shared::cta?"
_ANY = "ss=shared|shared::cta|shared::cluster?"
_SCOPE = "scope=cta|cluster?"
_BYTES = "mbarrier::complete_tx::bytes"
TYPES = ["u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64"]  # as in BulkType
OPERATIONS = ["add", "min", "max", "inc", "dec", "and", "or", "xor"]  # as in BulkOp


def _name(use):
    """The instruction as messages name it: 'mbarrier.try_wait.parity'."""
    words = use.instruction.name.split(".")
    kept = [word for word in words if word in _SPOKEN]
    return '"' + ".".join(kept) + '"'


_SPOKEN = """mbarrier init inval arrive arrive_drop expect_tx complete_tx noComplete test_wait try_wait parity cp reduce
async bulk prefetch setmaxnreg inc dec""".split()


def _init(use):
    use.count(2)
    return f"{PTX}mbarrier_init({use.address(0, use['ss'])}, {use.read(1, 'u32')});"


def _inval(use):
    use.count(1)
    return f"{PTX}mbarrier_inval({use.address(0, use['ss'])});"


def _bytes(use):
    use.count(2)
    return f"{PTX}mbarrier_{use['what']}({use.address(0, use['ss'])}, {use.read(1, 'u32')});"


def _arrive(use):
    """`state` is left out, or `_`, where the barrier may be a peer's."""
    expects, partly = use["expect_tx"], use["noComplete"]
    has_state = not hasattr(use.operands[0], "base")
    use.count(*((2 + has_state,) if expects or partly else (1 + has_state, 2 + has_state)))
    at = use.address(int(has_state), use["ss"])
    last = use.read(1 + has_state, "u32") if len(use.operands) > 1 + has_state else "1u"
    times, bytes_ = ("1u", last) if expects else (last, "0u")
    drops, completes = ("true" if use["what"] == "arrive_drop" else "false"), ("false" if partly else "true")
    releases = "false" if use["sem"] == "relaxed" else "true"
    call = f"{PTX}mbarrier_arrive({at}, {times}, {bytes_}, {drops}, {completes}, {releases}, {_name(use)})"
    if not has_state or isinstance(use.operands[0], Sink):
        return f"{call};"
    if use["ss"] == "shared::cluster":
        raise use.refused("gives no state for a barrier of another block: write `_`")
    return use.set(call)


def _wait(use):
    hint = use["what"] == "try_wait"
    use.count(3, *([4] if hint else []))
    acquires = "false" if use["sem"] == "relaxed" else "true"
    function = "mbarrier_wait_parity" if use["parity"] else "mbarrier_wait"
    given = use.read(2, "u32" if use["parity"] else "b64")
    return use.set(f"{PTX}{function}({use.address(1, use['ss'])}, {given}, {acquires}, {_name(use)})")


def _copies_arrive(use):
    use.count(1)
    counted = "true" if use["noinc"] else "false"
    return f"{PTX}cp_async_mbarrier_arrive({use.address(0, use['ss'])}, {counted});"


def _bulk_load(use):
    """To shared memory; the barrier counts the bytes."""
    hinted, several = bool(use["hint"]), bool(use["several"])
    use.count(4 + hinted + several)
    to, source = use.address(0, use["to"]), use.address(1, use["from"])
    mask = use.read(4, "b16") if several else "0u"
    barrier = use.address(3, use["to"])
    return f"{PTX}bulk_load({to}, {source}, {use.read(2, 'u32')}, {barrier}, {mask}, {_name(use)});"


def _bulk_store(use):
    use.count(3 + bool(use["hint"]))
    to, source = use.address(0, "global"), use.address(1, "shared")
    return f"{PTX}bulk_store({to}, {source}, {use.read(2, 'u32')}, {_name(use)});"


def _bulk_reduce(use):
    """To global memory, where the thread's group counts it, or to shared memory, where a barrier does."""
    to_shared = use["to"] == "shared::cluster"
    use.count(4 if to_shared else 3 + bool(use["hint"]))
    to, source = use.address(0, use["to"]), use.address(1, "shared::cta")
    barrier = use.address(3, use["to"]) if to_shared else "nullptr"
    op, kind = OPERATIONS.index(use["op"]), TYPES.index(use["t"])
    return f"{PTX}bulk_reduce({to}, {source}, {use.read(2, 'u32')}, {barrier}, {op}, {kind}, {_name(use)});"


def _bulk_prefetch(use):
    use.count(2 + bool(use["hint"]))
    return f"{PTX}bulk_prefetch({use.address(0, 'global')}, {use.read(1, 'u32')}, {_name(use)});"


def _bulk_wait(use):
    use.count(1)
    return f"{PTX}bulk_wait({use.read(0, 'u32')}, {'true' if use['read'] else 'false'});"


def _fence(use):
    which = {"": "all", "global": "global", "shared::cta": "shared", "shared::cluster": "shared"}[use["ss"]]
    return f"{PTX}fence_proxy_{use['kind'] + '_' + which if use['kind'] == 'async' else use['kind']}();"


def _tensormap_fence(use):
    """Before a tensor map is used that a kernel has written. It is read when it is used, so only a trace looks."""
    if use["sem"] == "release":
        use.count(0)
        return ";"
    use.count(2)
    return f"{PTX}tensor_map_fence({use.address(0)});"


def _setmaxnreg(use):
    use.count(1)
    if not isinstance(use.operands[0], Immediate | Place):  # "n", which nvcc checks
        raise use.refused("takes a constant")
    more = "true" if use["way"] == "inc" else "false"
    return f"{PTX}setmaxnreg({use.read(0, 'u32')}, {more}, {_name(use)});"


def _nothing(use):
    use.count(0)
    return ";"


_SEVERAL = "several=multicast::cluster?"
_HINT = "hint=L2::cache_hint?"
_TO_SHARED = f"cp reduce async bulk to=shared::cluster shared::cta {_BYTES}"
_TO_GLOBAL = f"cp reduce async bulk to=global shared::cta bulk_group {_HINT}"

ROWS = [
    (f"mbarrier init {_OWN} b64", _init, ""),
    (f"mbarrier inval {_OWN} b64", _inval, ""),
    (f"mbarrier what=expect_tx|complete_tx sem=relaxed? {_SCOPE} {_ANY} b64", _bytes, ""),
    (f"mbarrier what=arrive|arrive_drop expect_tx? sem=release|relaxed? {_SCOPE} {_ANY} b64", _arrive, ""),
    (f"mbarrier what=arrive|arrive_drop noComplete sem=release|relaxed? {_SCOPE} {_OWN} b64", _arrive, ""),
    (f"mbarrier what=test_wait|try_wait parity? sem=acquire|relaxed? {_SCOPE} {_OWN} b64", _wait, ""),
    ("mbarrier pending_count b64", "mbarrier_pending_count", "u32 b64"),
    (f"cp async mbarrier arrive noinc? {_OWN} b64", _copies_arrive, ""),
    (
        f"cp async bulk to=shared::cluster|shared::cta from=global {_BYTES} several=multicast::cluster? {_HINT}",
        _bulk_load,
        "",
    ),
    (f"cp async bulk to=shared::cluster from=shared::cta {_BYTES}", _bulk_load, ""),
    (f"cp async bulk global shared::cta bulk_group {_HINT}", _bulk_store, ""),
    (f"{_TO_SHARED} op=and|or|xor t=b32", _bulk_reduce, ""),
    (f"{_TO_SHARED} op=add t=u32|s32|u64", _bulk_reduce, ""),
    (f"{_TO_SHARED} op=min|max t=u32|s32", _bulk_reduce, ""),
    (f"{_TO_SHARED} op=inc|dec t=u32", _bulk_reduce, ""),
    (f"{_TO_GLOBAL} op=and|or|xor t=b32|b64", _bulk_reduce, ""),
    (f"{_TO_GLOBAL} op=add t=u32|s32|u64|f32|f64", _bulk_reduce, ""),
    (f"{_TO_GLOBAL} op=add noftz t=f16|bf16", _bulk_reduce, ""),
    (f"{_TO_GLOBAL} op=min|max t=u32|s32|u64|s64|f16|bf16", _bulk_reduce, ""),
    (f"{_TO_GLOBAL} op=inc|dec t=u32", _bulk_reduce, ""),
    (f"cp async bulk prefetch L2 global {_HINT}", _bulk_prefetch, ""),
    ("cp async bulk commit_group", "bulk_commit", "-"),
    ("cp async bulk wait_group read?", _bulk_wait, ""),
    ("fence proxy kind=async ss=global|shared::cta|shared::cluster?", _fence, ""),
    ("fence proxy kind=alias", _fence, ""),
    ("fence proxy tensormap::generic sem=release|acquire scope=cta|cluster|gpu|sys", _tensormap_fence, ""),
    ("fence mbarrier_init release cluster", "fence_mbarrier_init", "-"),
    ("setmaxnreg way=inc|dec sync aligned u32", _setmaxnreg, ""),
    ("griddepcontrol what=launch_dependents|wait", _nothing, ""),
]
