"""Clusters of blocks: rows of the instruction table (include/cuda_on_cpu/ptx/clusters.h)."""

from utils.cuda.cpu.ptx.asynchronous import OPERATIONS, TYPES
from utils.cuda.cpu.ptx.use import BITS, PTX

__all__ = ["ROWS"]


def _arrive(use):
    use.count(0)
    releases = "false" if use["sem"] == "relaxed" else "true"
    return f'::cuda_on_cpu::cluster_arrive("{use.instruction.name}", {releases});'


def _wait(use):
    use.count(0)
    return f'::cuda_on_cpu::cluster_wait("{use.instruction.name}");'


def _mapa(use):
    """Without a space, the address and the result are generic ones."""
    use.count(3)
    kind = "number" if use["ss"] else "pointer"
    return use.set(f"{PTX}map_{kind}({use.read(1, use['t'])}, {use.read(2)})")


def _getctarank(use):
    use.count(2)
    kind = "number" if use["ss"] else "pointer"
    return use.set(f"{PTX}rank_of_{kind}({use.read(1, use['t'])})")


def _name(use):
    """The instruction as messages name it."""
    return '"' + ".".join(use.instruction.name.split(".")[:2]) + '"'


def _st_async(use):
    use.count(3)
    kind = use["t"]
    bits = use.type(f"b{BITS[kind]}")
    parts = use.elements(use.operands[1], int(use["v"].removeprefix("v") or 1))
    values = ", ".join(f"({bits})({use.value(part, kind)})" for part in parts)
    given = f"{PTX}Elements<{bits}, {len(parts)}>{{{{{values}}}}}"
    to, barrier = use.address(0, use["ss"]), use.address(2, use["ss"])
    return f"{PTX}st_async({to}, {given}, {barrier}, {_name(use)});"


def _red_async(use):
    use.count(3)
    op, kind = OPERATIONS.index(use["op"]), TYPES.index(use["t"])
    to, barrier = use.address(0, use["ss"]), use.address(2, use["ss"])
    bits = use.type(f"b{BITS[use['t']]}")
    value = f"({bits})({use.read(1, use['t'])})"
    return f"{PTX}red_async({to}, {value}, {op}, {kind}, {barrier}, {_name(use)});"


_SPACE = "ss=shared::cluster?"
_COUNTS = "mbarrier::complete_tx::bytes"
_RED = f"red async relaxed cluster {_SPACE} {_COUNTS}"

ROWS = [
    ("barrier cluster arrive sem=release|relaxed? aligned?", _arrive, ""),
    ("barrier cluster wait acquire? aligned?", _wait, ""),
    (f"mapa {_SPACE} t=u32|u64", _mapa, ""),
    (f"getctarank {_SPACE} t=u32|u64", _getctarank, ""),
    (f"st async weak? {_SPACE} {_COUNTS} v=v2|v4? t=b32|u32|s32|f32|b64|u64|s64|f64", _st_async, ""),
    (f"{_RED} op=inc|dec t=u32", _red_async, ""),
    (f"{_RED} op=min|max t=u32|s32", _red_async, ""),
    (f"{_RED} op=add t=u32|s32|u64", _red_async, ""),
    (f"{_RED} op=and|or|xor t=b32", _red_async, ""),
]
