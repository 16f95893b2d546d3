"""Copies through a tensor map: rows of the instruction table (include/cuda_on_cpu/ptx/tensors.h)."""

from utils.cuda.cpu.ptx.parse import Memory, Refused, Vector
from utils.cuda.cpu.ptx.use import PTX

__all__ = ["ROWS"]

_OPS = ["add", "min", "max", "inc", "dec", "and", "or", "xor"]  # as in BulkOp (runtime/bulk.h)


def _box(use, at):
    """The statement and the arguments for `[map, {coordinates}]`: where the map is, the coordinates, and how many."""
    memory, rank = use.operands[at], int(use["dim"][0])
    parts = memory.more if isinstance(memory, Memory) else []
    if len(parts) != 1 or not isinstance(parts[0], Vector) or len(parts[0].elements) != rank:
        many = f"{rank} coordinates" if rank > 1 else "1 coordinate"
        raise use.refused(f"takes the tensor map and {many} in brackets, as in `[map, {{x, y}}]`")
    coordinates = ", ".join(f"(int32_t){use.value(element, 'b32')}" for element in parts[0].elements)
    use.operands = [*use.operands[:at], memory._replace(more=[]), *use.operands[at + 1 :]]
    return f"const int32_t cuda_on_cpu_at[] = {{{coordinates}}};", f"{use.address(at)}, cuda_on_cpu_at, {rank}"


def _name(use):
    kept = [word for word in use.instruction.name.split(".") if word in ("cp", "reduce", "async", "bulk", "prefetch")]
    return f'"{".".join([*kept, "tensor"])}"'


def _load(use):
    several = bool(use["several"])
    use.count(3 + several + bool(use["hint"]))
    statement, box = _box(use, 1)
    to, barrier, mask = use.address(0, "shared"), use.address(2, "shared"), use.read(3, "b16") if several else "0u"
    return f"{{ {statement} {PTX}tensor_load({to}, {box}, {barrier}, {mask}, {_name(use)}); }}"


def _store(use):
    use.count(2 + bool(use["hint"]))
    statement, box = _box(use, 0)
    return f"{{ {statement} {PTX}tensor_store({box}, {use.address(1, 'shared')}, {_name(use)}); }}"


def _reduce(use):
    use.count(2 + bool(use["hint"]))
    statement, box = _box(use, 0)
    source, op = use.address(1, "shared"), _OPS.index(use["op"])
    return f"{{ {statement} {PTX}tensor_reduce({box}, {source}, {op}, {_name(use)}); }}"


def _prefetch(use):
    use.count(1 + bool(use["hint"]))
    statement, box = _box(use, 0)
    return f"{{ {statement} {PTX}tensor_prefetch({box}, {_name(use)}); }}"


def _prefetch_map(use):
    use.count(1)
    return f"{PTX}tensor_map_prefetch({use.address(0)});"


def _not_a_tile(use):
    what = "on an sm_100 only" if "tile" in use["mode"] or use["pair"] else "on a GPU only: the CPU engine copies tiles"
    raise Refused(f"`{use.instruction.name}` runs {what}", use.instruction.line, needs_gpu=True)


_DIM = "dim=1d|2d|3d|4d|5d"
_HINT = "hint=L2::cache_hint?"
_TO_SHARED = f"cp async bulk tensor {_DIM} to=shared::cluster|shared::cta global"
_COUNTED = "mbarrier::complete_tx::bytes"
_TO_GLOBAL = f"tensor {_DIM} global shared::cta"
_PAIR = "pair=cta_group::1|cta_group::2"
_OTHER = "mode=im2col|im2col::w|im2col::w::128|im2col_no_offs|tile::gather4|tile::scatter4"

ROWS = [
    (f"{_TO_SHARED} tile? {_COUNTED} several=multicast::cluster? {_HINT}", _load, ""),
    (f"cp async bulk {_TO_GLOBAL} tile? bulk_group {_HINT}", _store, ""),
    (f"cp reduce async bulk {_TO_GLOBAL} op={'|'.join(_OPS)} tile? bulk_group {_HINT}", _reduce, ""),
    (f"cp async bulk prefetch tensor {_DIM} L2 global tile? {_HINT}", _prefetch, ""),
    ("prefetch tensormap", _prefetch_map, ""),
    ("prefetch space=const|param tensormap", _prefetch_map, ""),
    (f"{_TO_SHARED} tile? {_COUNTED} several=multicast::cluster? {_PAIR} {_HINT}", _not_a_tile, ""),
    (f"{_TO_SHARED} {_OTHER} {_COUNTED} several=multicast::cluster? {_PAIR}? {_HINT}", _not_a_tile, ""),
    (f"cp async bulk {_TO_GLOBAL} {_OTHER} bulk_group {_HINT}", _not_a_tile, ""),
    (f"cp reduce async bulk {_TO_GLOBAL} op={'|'.join(_OPS)} {_OTHER} bulk_group {_HINT}", _not_a_tile, ""),
    (f"cp async bulk prefetch tensor {_DIM} L2 global {_OTHER} {_HINT}", _not_a_tile, ""),
]
