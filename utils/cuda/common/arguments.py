"""A kernel's parameters, and Python's arguments checked against them."""

import ctypes
import math
import re
import struct
from collections.abc import Sequence
from numbers import Integral, Real
from typing import NamedTuple

import torch

from utils.cuda.common import cxx
from utils.cuda.common.tensor_map import TensorMap

__all__ = ["Parameter", "packed", "parameters", "tensor_of"]


# ---- parameters -----------------------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """A parameter of a kernel."""

    name: str  # as in the source; empty if it cannot be read
    type: str  # as the compiler writes it, without const: 'float*', 'int'
    text: str  # for messages: 'const float* x'
    size: int  # bytes
    alignment: int  # of what a pointer points to, in bytes; 0 if unknown
    pointee_size: int  # bytes of what a pointer points to; 0 if unknown

    @property
    def pointee(self):
        """What a pointer points to, or its element if that is an array; None if this is not a pointer."""
        if "(*)" in self.type:  # 'float (*) [16]'
            return self.type.split("(*)")[0].strip()
        return self.type[:-1].strip() if self.type.endswith("*") else None


def parameters(signature, sizes, names) -> list[Parameter]:
    """A kernel's parameters from the type of its pointer, 'void (*)(float const*, int)', and their `sizes`."""
    listed = signature[signature.index("(*)(") + 4 : signature.rindex(")")].replace("CUtensorMap_st", _MAP)
    types = [cxx.written(part) for part in cxx.at_commas(cxx.tokens(listed))]
    if len(names) != len(types):  # macros, or a template's pack
        names = [""] * len(types)
    found = []
    for kind, size, name in zip(types, sizes, names, strict=True):
        readable = re.sub(r"^(.*?) const(\W*)$", r"const \1\2", kind)
        plain = re.sub(r"\s*\b(?:const|volatile|__restrict(?:__)?)\b", "", kind).strip()
        plain = re.sub(r"^(?:\w+::)+(?=\w+\**$)", "", plain)
        found.append(Parameter(name, plain, f"{readable} {name}".strip(), *size))
    return found


# ---- arguments ------------------------------------------------------------------------------------------------------

# Which tensors a pointer takes. torch hardly supports unsigned arithmetic, so a signed tensor of the same size passes
# for an unsigned one; a pointer to anything not named here (float4, a struct, void) takes any tensor.
_BYTE = ("uint8", "int8", "bool")
_TENSORS = {
    "float": ("float32",),
    "double": ("float64",),
    "int": ("int32", "uint32"),
    "unsigned int": ("uint32", "int32"),
    "long": ("int64", "uint64"),
    "unsigned long": ("uint64", "int64"),
    "long long": ("int64", "uint64"),
    "unsigned long long": ("uint64", "int64"),
    "short": ("int16", "uint16"),
    "unsigned short": ("uint16", "int16"),
    "char": _BYTE,
    "signed char": _BYTE,
    "unsigned char": _BYTE,
    "bool": ("bool",),
    "__half": ("float16",),
    "__nv_bfloat16": ("bfloat16",),
    "__nv_fp8_e4m3": ("float8_e4m3fn",),
    "__nv_fp8_e5m2": ("float8_e5m2",),
}
_INTEGERS = {"char", "signed char", "short", "int", "long", "long long"}
_INTEGERS |= {"unsigned char", "unsigned short", "unsigned int", "unsigned long", "unsigned long long"}
_FLOATS = {"float": "<f", "double": "<d", "__half": "<e", "__nv_bfloat16": None}  # as struct writes them


_MAP, _ALIGNMENT = "CUtensorMap", 128


class Packed(NamedTuple):
    """Arguments in the form a launch takes them."""

    pointers: ctypes.Array  # of pointers to the values
    values: Sequence  # the values themselves, kept alive
    device: torch.device | None  # of the tensors


def tensor_of(arg) -> torch.Tensor | None:
    """The tensor that an argument is or is a map of; None for any other argument."""
    return arg.tensor if isinstance(arg, TensorMap) else arg if isinstance(arg, torch.Tensor) else None


def packed(kernel_name, wanted: Sequence[Parameter], args, device_type, encode, addresses=None) -> Packed:
    """Check `args` against the parameters and lay them out for a launch.

    Tensors must be on `device_type` ('cpu', 'cuda', None for any). `encode(map, address)` makes CUDA's tensor map.
    `addresses` maps argument numbers to other addresses for their tensors. Raises TypeError for a wrong count or type,
    ValueError for a value or a tensor that cannot be passed.
    """
    __tracebackhide__ = True
    if len(args) != len(wanted):
        takes = ", ".join(p.text for p in wanted)
        raise TypeError(f"{kernel_name} takes {_count(len(wanted))} ({takes}), but got {len(args)}")
    values, device = [], None
    for number, (parameter, arg) in enumerate(zip(wanted, args, strict=True)):
        where = f"argument {number + 1} of {kernel_name} ({parameter.text})"
        by_address, tensor = parameter.pointee is not None, tensor_of(arg)
        if by_address:
            _check_pointer(where, parameter, arg, device_type)
        elif isinstance(arg, TensorMap):
            _check_map(where, parameter, arg, device_type)
        if tensor is not None and (by_address or isinstance(arg, TensorMap)):
            if device is not None and tensor.device != device and device_type:
                raise ValueError(f"{where} is on {tensor.device}, but a tensor before it is on {device}")
            device = tensor.device
        address = (addresses or {}).get(number, tensor.data_ptr() if tensor is not None else 0)
        if by_address:
            values.append(ctypes.c_void_p(address))
        else:
            raw = arg.encoded(encode, address) if isinstance(arg, TensorMap) else _scalar(where, parameter, arg)
            values.append(_aligned(raw))
    pointers = (ctypes.c_void_p * max(1, len(values)))(*[ctypes.addressof(v) for v in values])
    return Packed(pointers, values, device)


def _aligned(raw):
    """The bytes of a value at an address that suits any type: a tensor map needs a multiple of 128."""
    buffer = ctypes.create_string_buffer(len(raw) + _ALIGNMENT)
    value = (ctypes.c_char * len(raw)).from_buffer(buffer, -ctypes.addressof(buffer) % _ALIGNMENT)
    value.raw = raw
    return value


def _count(n):
    return f"{n} argument" + "s" * (n != 1)


def _check_pointer(where, parameter, arg, device_type):
    __tracebackhide__ = True
    name = parameter.name or "x"
    if arg is None:
        return
    dtypes = _TENSORS.get(parameter.pointee)
    if not isinstance(arg, torch.Tensor):
        hint = ": torch.from_numpy(...) turns an array into one" if hasattr(arg, "__array_interface__") else ""
        if isinstance(arg, list | tuple | range):
            kind = f", dtype=torch.{dtypes[0]}" if dtypes else ""
            hint = f": torch.tensor(...{kind}) turns a {type(arg).__name__} into one"
        raise TypeError(f"{where} takes a tensor, but got {_shown(arg)}{hint}")
    dtype = str(arg.dtype).removeprefix("torch.")
    if dtypes and dtype not in dtypes:
        instead = _kept(parameter, _converted(arg, name, dtypes[0]))
        raise TypeError(f"{where} takes a tensor of {' or '.join(dtypes)}, but this one is {dtype}{instead}")
    if device_type and arg.device.type != device_type:
        instead = _kept(parameter, f": {name}.to({device_type!r}) makes a copy there")
        raise ValueError(f"{where} is on {arg.device}, but the kernel was compiled for {device_type}{instead}")
    if not _has_memory(arg):
        values = "pass a tensor with values"
        kind = "a meta tensor" if arg.is_meta else "a nested tensor" if arg.is_nested else f"a {type(arg).__name__}"
        kind = "a tensor within torch.vmap or torch.func" if kind == "a Tensor" else kind
        if arg._is_zerotensor():
            kind, values = "a tensor of zeros that torch does not store", f"{name}.clone() has memory"
        raise TypeError(f"{where} is {kind}, which has no memory of its own: {values}")
    if arg.layout != torch.strided:
        instead = _kept(parameter, f": {name}.to_dense() makes a copy that a kernel can read")
        raise ValueError(f"{where} has layout {arg.layout}{instead}")
    if not arg.is_contiguous():
        instead = _kept(parameter, f": {name}.contiguous() makes a contiguous copy")
        raise ValueError(f"{where} is not contiguous (shape {tuple(arg.shape)}, strides {arg.stride()}){instead}")
    needed = arg.nbytes and arg.nbytes + arg.storage_offset() * arg.element_size()
    if arg.untyped_storage().nbytes() < needed:
        raise ValueError(
            f"{where} has a storage of {arg.untyped_storage().nbytes():,} bytes, but its shape needs {needed:,}: the "
            "storage was resized, and the tensor's values are gone"
        )
    if arg.is_conj() or arg.is_neg():
        raise ValueError(
            f"{where} is a view that torch conjugates or negates when read: {name}.resolve_conj().resolve_neg() "
            "makes a copy that holds the values"
        )


def _kept(parameter, advice) -> str:
    """The advice on what to pass; if that is a copy, and the kernel may write to it, with what becomes of that."""
    if "copy" not in advice or "const" in parameter.text.split("*")[0].split():
        return advice
    return f"{advice}; what the kernel writes is in that copy alone, so keep it in a variable"


def _converted(tensor, name, wanted) -> str:
    """How to make a tensor of the type `wanted` from one of another type, without losing any of its values."""
    if tensor.is_quantized:
        if not wanted.startswith(("float", "bfloat")):
            return f": {name}.int_repr() makes a copy of the whole numbers that it stores"
        more = "" if wanted == "float32" else f".to(torch.{wanted})"
        return f": {name}.dequantize(){more} makes a copy of the values that they stand for"
    if tensor.is_complex():
        if wanted not in ("float32", "float64"):
            return ""
        parts = {"float32": "complex64", "float64": "complex128"}[wanted]
        same = name if tensor.dtype == getattr(torch, parts) else f"{name}.to(torch.{parts})"
        resolved = ".resolve_conj()" if tensor.is_conj() else ""
        return f": torch.view_as_real({same}{resolved}) has the real and the imaginary parts, one after the other"
    return f": {name}.to(torch.{wanted}) makes a converted copy"


def _has_memory(tensor) -> bool:
    """Whether a kernel can use it, as far as torch shows: not a meta, fake or nested tensor, or one in `torch.vmap`."""
    try:
        if tensor.is_nested or tensor.is_meta:
            return False
        return tensor.layout != torch.strided or not tensor.untyped_storage().nbytes() or tensor.data_ptr() != 0
    except RuntimeError:
        return False


def _check_map(where, parameter, arg, device_type):
    __tracebackhide__ = True
    if parameter.type != _MAP:
        raise TypeError(f"{where} takes no tensor map, but got {arg!r}: pass what it is a map of, or declare it so")
    if what := arg.changed():
        raise ValueError(f"{where}: the map {what}: make a new one with tensor_map(...)")
    if device_type and arg.tensor.device.type != device_type:
        raise ValueError(
            f"{where} is a map of a tensor on {arg.tensor.device}, but the kernel was compiled for {device_type}: "
            f"make the map of a copy there, x.to({device_type!r})"
        )


def _scalar(where, parameter, arg) -> bytes:
    """The bytes of a value that is passed by value."""
    __tracebackhide__ = True
    kind = parameter.type
    if kind.endswith("&") or "(&" in kind:  # 'float (&) [4]'
        raise TypeError(f"{where} is a reference, and a GPU cannot reach what it refers to: take a pointer or a value")
    if isinstance(arg, torch.Tensor) and kind == _MAP:
        raise TypeError(f"{where} takes a tensor map, but got a tensor: tensor_map(x, box) makes one")
    if isinstance(arg, torch.Tensor):
        advice = f"pass {parameter.name}.item()" if parameter.name and arg.numel() == 1 else "pass a number"
        raise TypeError(f"{where} takes a number, but got a tensor of shape {tuple(arg.shape)}: {advice}")
    if kind == "bool":
        if isinstance(arg, bool) or arg in (0, 1) and isinstance(arg, Integral):
            return struct.pack("?", arg)
        raise TypeError(f"{where} takes True or False, but got {_shown(arg)}")
    if kind in _INTEGERS:
        if not isinstance(arg, Integral):
            hint = ": int(...) or a division by // gives a whole number" if isinstance(arg, Real) else ""
            raise TypeError(f"{where} takes a whole number, but got {_shown(arg)}{hint}")
        bits = 8 * parameter.size
        low = 0 if kind.startswith("unsigned") else -(2 ** (bits - 1))
        high = (
            2 ** (bits - 1) - 1 if low and kind != "char" else 2**bits - 1
        )  # C++ does not define whether char is signed
        if not low <= arg <= high:
            raise ValueError(f"{where} holds {low:,} to {high:,}, but got {int(arg):,}")
        return (int(arg) % 2**bits).to_bytes(parameter.size, "little")
    if kind in _FLOATS:
        if not isinstance(arg, Real):
            raise TypeError(f"{where} takes a number, but got {_shown(arg)}")
        try:
            return _float_bytes(_FLOATS[kind], float(arg))
        except OverflowError:
            raise ValueError(f"{where} cannot hold {arg!r}: it is too large") from None
    if isinstance(arg, ctypes.Structure) or isinstance(arg, (bytes, bytearray)):
        raw = bytes(arg)
        if len(raw) != parameter.size:
            raise ValueError(f"{where} has {parameter.size} bytes, but got {len(raw)}")
        return raw
    if kind == _MAP:
        raise TypeError(f"{where} takes a tensor map, which tensor_map(x, box) makes, but got {_shown(arg)}")
    raise TypeError(
        f"{where} is a {kind} passed by value: give it as a ctypes.Structure or as {parameter.size} bytes, "
        f"but got {_shown(arg)}"
    )


def _float_bytes(form, value) -> bytes:
    if form:
        return struct.pack(form, value)
    rounded = torch.tensor(value, dtype=torch.bfloat16)
    if math.isinf(rounded) and not math.isinf(value):
        raise OverflowError
    return struct.pack("h", rounded.view(torch.int16).item())


def _shown(value):
    if value is None:
        return "None"
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:56].rsplit(' ', 1)[0] + ' ...'}"
