"""Matrices as the lanes of a warp hold them, after the tables of the PTX ISA, and numbers as their bits."""

import torch

FLOATS = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "f32": torch.float32,
    "f64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
BITS |= {"s4": 4, "u4": 4, "b1": 1}


def a_of_16_rows(width, lane, i):
    """Row and column of element i of A, of 16 x k, if a register holds `width` elements."""
    register, inside = divmod(i, width)
    row = lane >> 2 if register in (0, 2, 4, 6) else (lane >> 2) + 8
    return row, (lane % 4) * width + inside + (register // 2) * 4 * width


def a_of_8_rows(width, lane, i):
    return lane >> 2, (lane % 4) * width + i


def b(width, lane, i):
    """Row and column of element i of B, of k x 8."""
    return (lane % 4) * width + i % width + i // width * 4 * width, lane >> 2


def sums(lane, i):
    """Row and column of element i of an accumulator of 16 x 8 or 8 x 8."""
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def places(operand, m, k, kind):
    """For each lane, the places of its elements, as two index tensors of 32 x elements."""
    width = max(1, 32 // BITS[kind])
    n = 8
    elements = {"a": m * k, "b": k * n, "c": m * n}[operand] // 32
    of = {
        "a": lambda lane, i: (a_of_16_rows if m == 16 else a_of_8_rows)(width, lane, i),
        "b": lambda lane, i: b(width, lane, i),
        "c": sums,
    }[operand]
    at = torch.tensor([[of(lane, i) for i in range(elements)] for lane in range(32)])
    return at[..., 0], at[..., 1]


def as_bits(x, kind):
    """The bits of each number, as int64."""
    if kind in FLOATS:
        x = x.to(FLOATS[kind]).contiguous()
        bits = x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
        return bits.to(torch.int64) & ((1 << min(BITS[kind], 63)) - 1 if BITS[kind] < 64 else -1)
    return x.to(torch.int64) & ((1 << BITS[kind]) - 1)


def from_bits(bits, kind):
    """The numbers with these bits: as float64, or as int64."""
    if kind == "f64":
        return bits.view(torch.float64)
    if kind in ("f32", "tf32", "s32"):
        whole = bits.to(torch.int32)
        return whole.to(torch.int64) if kind == "s32" else whole.view(torch.float32).double()
    return bits.to(torch.int16).view(FLOATS[kind]).double()


def packed(bits, kind):
    """Registers that hold these elements: 32 x registers, of int32, or of int64 for f64."""
    if kind == "f64":
        return bits.contiguous()
    width = 32 // BITS[kind]
    shifts = torch.arange(width) * BITS[kind]
    words = (bits.view(32, -1, width) << shifts).sum(-1)
    return words.to(torch.int32)


def unpacked(registers, kind):
    if kind == "f64":
        return registers
    width = 32 // BITS[kind]
    words = registers.to(torch.int64) & 0xFFFFFFFF
    return (words[..., None] >> (torch.arange(width) * BITS[kind]) & ((1 << BITS[kind]) - 1)).reshape(32, -1)


def to_registers(matrix, operand, kind, m, k):
    """A matrix of numbers as the registers of 32 lanes."""
    rows, columns = places(operand, m, k, kind)
    return packed(as_bits(matrix, kind)[rows, columns], kind)


def to_matrix(registers, kind, m):
    """The accumulator that the registers of 32 lanes hold."""
    rows, columns = places("c", m, 0, kind)
    bits = torch.zeros(m, 8, dtype=torch.int64)
    bits[rows, columns] = unpacked(registers, kind)
    return from_bits(bits, kind)


def rounded(x, kind):
    """Random numbers as the type holds them, in float64 or int64."""
    if kind not in FLOATS:
        return x
    if kind == "tf32":
        return (x.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()
    return x.to(FLOATS[kind]).double()


def random(shape, kind, small=False):
    """Random numbers of a type; if `small`, whole numbers whose sums are exact in every type."""
    if kind in FLOATS:
        return torch.randint(-3, 4, shape).double() if small else rounded(torch.randn(shape), kind)
    if kind == "s32":
        return torch.randint(-(2**31), 2**31, shape)
    bits, signed = BITS[kind], kind in ("s8", "s4")
    return torch.randint(-(1 << bits - 1), 1 << bits - 1, shape) if signed else torch.randint(0, 1 << bits, shape)
