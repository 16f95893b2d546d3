"""Products of warpgroups: rows of the instruction table (include/cuda_on_cpu/ptx/wgmma.h)."""

from utils.cuda.cpu.ptx.parse import Vector
from utils.cuda.cpu.ptx.use import PTX

__all__ = ["ROWS"]


def _truth(value):
    return "true" if value else "false"


def _wgmma(use):
    to, a = use.operands[0], use.operands[1]
    if not isinstance(to, Vector):
        raise use.refused("the first operand is not a vector of registers")
    in_registers = isinstance(a, Vector)
    scales = 2 if use["d"] != "s32" else 0
    transposes = (1 if in_registers else 2) if use["a"] in ("f16", "bf16") else 0
    use.count(4 + scales + transposes)
    extra = [use.constant(4 + k) for k in range(scales + transposes)]
    negates = [f"({text}) < 0" for text in extra[:scales]] or ["false"] * 2
    across = [f"({text}) != 0" for text in extra[scales:]]
    across = ["false"] * (2 - len(across)) + across
    n, k = use["shape"].removeprefix("m64n").split("k")
    names = [f"{PTX}{use[name]}" for name in "dab"]
    types = ", ".join([n, k, *names, _truth(use["satfinite"]), *negates, *across])
    places = ", ".join(use.statement.place_of(element, use) for element in to.elements)
    first = use.read(1, "b64") if not in_registers else _registers(use, a)
    last = f"{use.read(2, 'b64')}, {use.read(3, 'pred')}"
    return f"{{ void* const cuda_on_cpu_d[] = {{{places}}}; {PTX}wgmma<{types}>(cuda_on_cpu_d, {first}, {last}); }}"


def _registers(use, vector):
    """A in registers: their values and where these are from."""
    elements = use.elements(vector, 4)
    values = ", ".join(use.value(element, "b32") for element in elements)
    sources = ", ".join(use.statement.source_of(element, use) for element in elements)
    return f"::cuda_on_cpu::RegistersOfA{{{{{values}}}, {{{sources}}}}}"


_HEAD = "wgmma mma_async sync aligned"
_FLOATS = [f"m64n{n}" for n in range(8, 257, 8)]
_WHOLE = [f"m64n{n}" for n in (8, 24, *range(16, 257, 16))]


def _shapes(sizes, k):
    return "shape=" + "|".join(f"{size}k{k}" for size in sizes)


_16, _8, _FP8 = _shapes(_FLOATS, 16), "s8|u8", "e4m3|e5m2"
ROWS = [
    (f"{_HEAD} {_16} d=f16|f32 a=f16 b=f16", _wgmma, ""),
    (f"{_HEAD} {_16} d=f32 a=bf16 b=bf16", _wgmma, ""),
    (f"{_HEAD} {_shapes(_FLOATS, 8)} d=f32 a=tf32 b=tf32", _wgmma, ""),
    (f"{_HEAD} {_shapes(_FLOATS, 32)} d=f16|f32 a={_FP8} b={_FP8}", _wgmma, ""),
    (f"{_HEAD} {_shapes(_WHOLE, 32)} satfinite? d=s32 a={_8} b={_8}", _wgmma, ""),
    (f"{_HEAD} {_shapes(_WHOLE, 32)} d=s32 a={_8} b={_8} satfinite?", _wgmma, ""),
    (f"{_HEAD} {_shapes(_WHOLE, 256)} d=s32 a=b1 b=b1 op=and popc", _wgmma, ""),
    ("wgmma fence sync aligned", "wgmma_fence", "-"),
    ("wgmma commit_group sync aligned", "wgmma_commit", "-"),
    ("wgmma wait_group sync aligned", "wgmma_wait", "- u32"),
]
