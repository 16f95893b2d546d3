"""The tensor cores' instructions: rows of the instruction table (include/cuda_on_cpu/ptx/mma.h and matrices.h)."""

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


def _mma(use):
    use.count(4)
    kind = "b64" if use["d"] == "f64" else "b32"
    to = use.operands[0].elements if isinstance(use.operands[0], Vector) else [use.operands[0]]
    arrays = [_array(use, name, use.operands[k], kind) for k, name in enumerate("abc", 1)]
    if use["layouts"]:
        a, b = use["a_layout"] == "col", use["b_layout"] == "row"
        types = f"{str(a).lower()}, {str(b).lower()}, {PTX}{use['d']}, {PTX}{use['c']}"
        function = f"{PTX}mma_of_quads<{types}>"
    else:
        shape = use["shape"].replace("m", "").replace("n", ", ").replace("k", ", ")
        names = [use["d"], use["a"], use["b"], use["c"]]
        names[1:3] = ["b1_and"] * 2 if use["bits"] == "and" else names[1:3]
        types = ", ".join(f"{PTX}{name}" for name in names)
        function = f"{PTX}mma<{shape}, {types}, {str(bool(use['satfinite'])).lower()}>"
    results = [use.into(register, f"cuda_on_cpu_d[{k}]") for k, register in enumerate(to)]
    call = f"{function}(cuda_on_cpu_d, cuda_on_cpu_a, cuda_on_cpu_b, cuda_on_cpu_c);"
    return f"{{ {use.type(kind)} cuda_on_cpu_d[{len(to)}]; {' '.join(arrays)} {call} {' '.join(results)} }}"


def _quads(use):
    use.matched["layouts"] = "quads"
    return _mma(use)


def _shared_at(use, at):
    address = use.address(at, use["ss"] or "generic")
    return f"(uint32_t){PTX}to_shared((uint64_t){address})"


def _trans(use):
    return "true" if use["trans"] else "false"


def _ldmatrix(use):
    use.count(2)
    count, parts = _count(use), use.elements(use.operands[0], _count(use))
    results = [use.into(part, f"cuda_on_cpu_d[{k}]") for k, part in enumerate(parts)]
    call = f"{PTX}ldmatrix<{count}, {_trans(use)}>(cuda_on_cpu_d, {_shared_at(use, 1)});"
    return f"{{ uint32_t cuda_on_cpu_d[{count}]; {call} {' '.join(results)} }}"


def _stmatrix(use):
    use.count(2)
    count = _count(use)
    values = ", ".join(use.value(part, "b32") for part in use.elements(use.operands[1], count))
    call = f"{PTX}stmatrix<{count}, {_trans(use)}>({_shared_at(use, 0)}, cuda_on_cpu_s);"
    return f"{{ const uint32_t cuda_on_cpu_s[{count}] = {{{values}}}; {call} }}"


def _of_8_by_8(name, function):
    tail = f"{_SHARED} b16"
    return [
        (f"{name} sync aligned m8n8 count=x1|x2|x4 trans? {tail}", function, ""),
        (f"{name} sync aligned count=x1|x2|x4 m8n8 trans? {tail}", function, ""),
        (f"{name} sync aligned count=x1|x2|x4 trans? m8n8 {tail}", function, ""),
    ]


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
    (f"{_HEAD} shape=m8n8k4 a_layout=row|col b_layout=row|col d=f16|f32 a=f16 b=f16 c=f16|f32", _quads, ""),
    *_of_8_by_8("ldmatrix", _ldmatrix),
    *_of_8_by_8("stmatrix", _stmatrix),
    ("movmatrix sync aligned m8n8 trans b16", "movmatrix_trans", "b32 b32"),
]
