"""Bytes of memory as numbers, for a recording."""

import numpy as np

from utils.cuda.player.numbers import shortest

__all__ = ["KINDS", "decoded", "kind_of"]

#: The kinds of numbers in memory, by the types of C++ and torch; other types are shown as hexadecimal digits.
KINDS = {
    "float": "f4", "double": "f8", "__half": "f2", "__nv_bfloat16": "bf16", "bool": "u1",
    "char": "i1", "signed char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2",
    "int": "i4", "unsigned int": "u4", "long": "i8", "unsigned long": "u8",
    "long long": "i8", "unsigned long long": "u8",
    "float32": "f4", "float64": "f8", "float16": "f2", "bfloat16": "bf16",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8",
    "uint64": "u8",
}  # fmt: skip
_VECTORS = {"float": "float", "double": "double", "int": "int", "uint": "unsigned int", "short": "short",
            "ushort": "unsigned short", "char": "signed char", "uchar": "unsigned char", "longlong": "long long",
            "ulonglong": "unsigned long long"}  # fmt: skip
_PAIRS = {"__half2": "__half", "__nv_bfloat162": "__nv_bfloat16"}


def kind_of(type_name) -> tuple[str, str, int]:
    """How a C++ type is shown: the type of its numbers, their kind, and how many it has.

    float4 is ('float', 'f4', 4). A type that is not made of numbers has an empty kind.
    """
    name = type_name.strip()
    if name in KINDS:
        return name, KINDS[name], 1
    if name in _PAIRS:
        return _PAIRS[name], KINDS[_PAIRS[name]], 2
    if name[-1:] in ("1", "2", "3", "4") and name[:-1] in _VECTORS:
        element = _VECTORS[name[:-1]]
        return element, KINDS[element], int(name[-1])
    return name, "", 1


def decoded(raw, kind, size) -> list:
    """The numbers in `raw`, a NumPy array of bytes, `size` bytes each: whole numbers as int, others as float.

    A float is the shortest decimal for the same number of its type. Without a kind: hexadecimal digits.
    """
    raw = np.ascontiguousarray(raw, np.uint8).reshape(-1)
    if not kind:
        return ["0x" + raw[k : k + size][::-1].tobytes().hex() for k in range(0, len(raw), size)]
    if kind == "bf16":
        wide = raw.view("<u2").astype("<u4") << 16
        return [shortest(x, "bf16") for x in wide.view("<f4").tolist()]
    numbers = raw.view(f"<{kind}")
    if kind in ("f4", "f2"):
        return [shortest(x, kind) for x in numbers.astype("<f8").tolist()]
    return numbers.tolist()
