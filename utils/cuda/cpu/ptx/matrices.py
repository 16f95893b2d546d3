"""The tensor cores' instructions: rows of the instruction table (mma.h, wmma.h and matrices.h)."""

from utils.cuda.cpu.ptx.parse import Vector
from utils.cuda.cpu.ptx.use import PTX

__all__ = ["ROWS"]

_HEAD = "mma sync aligned"
_SHARED = "ss=shared|shared::cta?"


def _count(use):
    return int(use["count"][1:])


def _array(use, name, operand, kind):
    """The C++ array of an operand's registers."""
    elements = operand.elements if isinstance(operand, Vector) else [operand]
    values = ", ".join(use.value(element, kind) for element in elements)
    return f"const {use.type(kind)} cuda_on_cpu_{name}[] = {{{values}}};"


def _truth(value):
    return "true" if value else "false"


def _kind(kind):
    """The registers that hold elements of a type."""
    return "b64" if kind == "f64" else "b32"


def _numbers(use):
    """M, N and K."""
    return use["shape"].replace("m", "").replace("n", " ").replace("k", " ").split()


def _product(use, function):
    use.count(4)
    kind = _kind(use["d"])
    to = use.operands[0].elements if isinstance(use.operands[0], Vector) else [use.operands[0]]
    arrays = [_array(use, name, use.operands[k], kind) for k, name in enumerate("abc", 1)]
    results = [use.into(register, f"cuda_on_cpu_d[{k}]") for k, register in enumerate(to)]
    call = f"{PTX}{function}(cuda_on_cpu_d, cuda_on_cpu_a, cuda_on_cpu_b, cuda_on_cpu_c);"
    return f"{{ {use.type(kind)} cuda_on_cpu_d[{len(to)}]; {' '.join(arrays)} {call} {' '.join(results)} }}"


def _types(use):
    """The tags of D, A, B and C."""
    factors = ["b1_and"] * 2 if use["bits"] == "and" else [use["a"] or "f16", use["b"] or "f16"]
    return [f"{PTX}{name}" for name in (use["d"], *factors, use["c"])]


def _mma(use):
    return _product(use, f"mma<{', '.join([*_numbers(use), *_types(use), _truth(use['satfinite'])])}>")


def _mma_of_quads(use):
    layouts = [_truth(use["a_layout"] == "col"), _truth(use["b_layout"] == "row")]
    return _product(use, f"mma_of_quads<{', '.join([*layouts, PTX + use['d'], PTX + use['c']])}>")


def _vector(use, at):
    """The registers of a fragment: in braces, even if there is only one."""
    if not isinstance(use.operands[at], Vector):
        raise use.refused(f"operand {at + 1} is not a vector of registers")
    return use.operands[at].elements


def _wmma(use):
    use.count(4)
    for at in range(4):
        _vector(use, at)
    layouts = [_truth(use[name] == "col") for name in ("a_layout", "b_layout")]
    return _product(use, f"wmma_mma<{', '.join([*_numbers(use), *layouts, *_types(use), _truth(use['satfinite'])])}>")


def _tile(use):
    """The type, shape and layout of a tile in memory, and its stride: its leading dimension if none is given."""
    use.count(2, 3)
    m, n, k = _numbers(use)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(use["use"], (m, n))
    stride = use.read(2, "u32") if len(use.operands) == 3 else columns if use["layout"] == "row" else rows
    return ", ".join([PTX + use["t"], m, n, k, _truth(use["layout"] == "col")]), stride


def _wmma_load(use):
    tile, stride = _tile(use)
    to, kind = _vector(use, 0), _kind(use["t"])
    results = [use.into(register, f"cuda_on_cpu_d[{k}]") for k, register in enumerate(to)]
    place = f"::cuda_on_cpu::Tile::{use['use']}"
    call = f"{PTX}wmma_load<{place}, {tile}>(cuda_on_cpu_d, {use.address(1, use['ss'])}, {stride});"
    return f"{{ {use.type(kind)} cuda_on_cpu_d[{len(to)}]; {call} {' '.join(results)} }}"


def _wmma_store(use):
    tile, stride = _tile(use)
    _vector(use, 1)
    array = _array(use, "d", use.operands[1], _kind(use["t"]))
    return f"{{ {array} {PTX}wmma_store<{tile}>({use.address(0, use['ss'])}, cuda_on_cpu_d, {stride}); }}"


def _shared_at(use, at):
    address = use.address(at, use["ss"] or "generic")
    return f"(uint32_t){PTX}to_shared((uint64_t){address})"


def _ldmatrix(use):
    use.count(2)
    count, parts = _count(use), use.elements(use.operands[0], _count(use))
    results = [use.into(part, f"cuda_on_cpu_d[{k}]") for k, part in enumerate(parts)]
    call = f"{PTX}ldmatrix<{count}, {_truth(use['trans'])}>(cuda_on_cpu_d, {_shared_at(use, 1)});"
    return f"{{ uint32_t cuda_on_cpu_d[{count}]; {call} {' '.join(results)} }}"


def _stmatrix(use):
    use.count(2)
    count = _count(use)
    values = ", ".join(use.value(part, "b32") for part in use.elements(use.operands[1], count))
    call = f"{PTX}stmatrix<{count}, {_truth(use['trans'])}>({_shared_at(use, 0)}, cuda_on_cpu_s);"
    return f"{{ const uint32_t cuda_on_cpu_s[{count}] = {{{values}}}; {call} }}"


def _of_8_by_8(name, function):
    tail = f"{_SHARED} b16"
    return [
        (f"{name} sync aligned m8n8 count=x1|x2|x4 trans? {tail}", function, ""),
        (f"{name} sync aligned count=x1|x2|x4 m8n8 trans? {tail}", function, ""),
        (f"{name} sync aligned count=x1|x2|x4 trans? m8n8 {tail}", function, ""),
    ]


def _of_tiles(shapes, types, bits=""):
    """wmma.mma, with its shape behind the layouts or before them."""
    layouts, shape = "a_layout=row|col b_layout=row|col", f"shape={shapes}"
    orders = (f"{layouts} {shape}", f"{shape} {layouts}")
    return [(f"wmma mma {bits} sync aligned {order} {types}", _wmma, "") for order in orders]


def _in_memory(operation, types, function):
    """wmma.load and wmma.store, with the three orders of layout, shape and state space that ptxas takes."""
    layout, shape, space = "layout=row|col", f"shape={_LARGE}|m16n16k8|m8n8k4|m8n8k32|m8n8k128", f"{_SPACE}?"
    orders = (f"{layout} {shape} {space}", f"{shape} {layout} {space}", f"{shape} {space} {layout}")
    return [(f"wmma {operation} sync aligned {order} t={types}", function, "") for order in orders]


_LARGE = "m16n16k16|m32n8k16|m8n32k16"
_SPACE = "ss=global|shared|shared::cta"
_8_BITS, _4_BITS, _FP8 = "s8|u8", "s4|u4", "e4m3|e5m2"
ROWS = [
    (f"{_HEAD} shape=m16n8k8|m16n8k16 row col d=f16|f32 a=f16 b=f16 c=f16|f32", _mma, ""),
    (f"{_HEAD} shape=m16n8k8|m16n8k16 row col d=f32 a=bf16 b=bf16 c=f32", _mma, ""),
    (f"{_HEAD} shape=m16n8k4|m16n8k8 row col d=f32 a=tf32 b=tf32 c=f32", _mma, ""),
    (f"{_HEAD} shape=m16n8k16|m16n8k32 row col d=f16|f32 a={_FP8} b={_FP8} c=f16|f32", _mma, ""),
    (f"{_HEAD} shape=m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col d=f64 a=f64 b=f64 c=f64", _mma, ""),
    (f"{_HEAD} shape=m8n8k16|m16n8k16|m16n8k32 row col satfinite? d=s32 a={_8_BITS} b={_8_BITS} c=s32", _mma, ""),
    (f"{_HEAD} shape=m8n8k32|m16n8k32|m16n8k64 row col satfinite? d=s32 a={_4_BITS} b={_4_BITS} c=s32", _mma, ""),
    (f"{_HEAD} shape=m8n8k128|m16n8k128|m16n8k256 row col d=s32 a=b1 b=b1 c=s32 bits=and|xor popc", _mma, ""),
    (f"{_HEAD} shape=m8n8k4 a_layout=row|col b_layout=row|col d=f16|f32 a=f16 b=f16 c=f16|f32", _mma_of_quads, ""),
    *_of_tiles(_LARGE, "d=f16|f32 c=f16|f32"),
    *_of_tiles(_LARGE, "d=f32 a=bf16 b=bf16 c=f32"),
    *_of_tiles("m16n16k8", "d=f32 a=tf32 b=tf32 c=f32"),
    *_of_tiles("m8n8k4", "rn? d=f64 a=f64 b=f64 c=f64"),
    *_of_tiles(_LARGE, f"d=s32 a={_8_BITS} b={_8_BITS} c=s32 satfinite?"),
    *_of_tiles("m8n8k32", f"d=s32 a={_4_BITS} b={_4_BITS} c=s32 satfinite?"),
    *_of_tiles("m8n8k128", "d=s32 a=b1 b=b1 c=s32", "bits=and|xor popc"),
    *_in_memory("load use=a|b", "f16|bf16|tf32|f64|s8|u8|s4|u4|b1", _wmma_load),
    *_in_memory("load use=c", "f16|f32|f64|s32", _wmma_load),
    *_in_memory("store d", "f16|f32|f64|s32", _wmma_store),
    *_of_8_by_8("ldmatrix", _ldmatrix),
    *_of_8_by_8("stmatrix", _stmatrix),
    ("movmatrix sync aligned m8n8 trans b16", "movmatrix_trans", "b32 b32"),
]
