"""mma.sync: every shape and type of sm_75 to sm_90, against float64, against exact sums, and bit for bit against a
model of the additions."""

import fractions
import functools

import numpy as np
import pytest
import torch

from tests.cuda.cpu.tensor import fragments
from utils.cuda.cpu.profile import behaving_like
from utils.cuda.kernel import compile_kernels

HALVES = [(16, k, "f32", kind, kind, "f32") for kind in ("f16", "bf16") for k in (8, 16)]
HALVES += [(16, k, "f16", "f16", "f16", "f16") for k in (8, 16)]
HALVES += [(16, k, "f32", "tf32", "tf32", "f32") for k in (4, 8)]
EIGHTS = [
    (16, k, d, a, b, d) for k in (16, 32) for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")
]
DOUBLES = [(m, k, "f64", "f64", "f64", "f64") for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))]
WHOLE = [
    (m, k, "s32", a, b, "s32") for m, k in ((8, 16), (16, 16), (16, 32)) for a in ("s8", "u8") for b in ("s8", "u8")
]
WHOLE += [
    (m, k, "s32", a, b, "s32") for m, k in ((8, 32), (16, 32), (16, 64)) for a in ("s4", "u4") for b in ("s4", "u4")
]
BITS = [(m, k, "s32", "b1", "b1", "s32") for m, k in ((8, 128), (16, 128), (16, 256))]
INSTRUCTIONS = [(*one, "") for one in HALVES + EIGHTS + DOUBLES + WHOLE]
INSTRUCTIONS += [(*one, "satfinite") for one in WHOLE] + [(*one, op) for one in BITS for op in ("xor", "and")]


def registers(operand, m, k, kind):
    elements = {"a": m * k, "b": k * 8, "c": m * 8, "d": m * 8}[operand]
    return elements * fragments.BITS[kind] // 32 // (64 if kind == "f64" else 32)


def name(m, k, d, a, b, c, variant):
    return f"m{m}n8k{k}_{d}_{a}_{b}_{c}{variant and '_' + variant}"


# The C++ type of a register, and its letter in an asm statement.
WORDS = {"f32": ("float", "f"), "f64": ("double", "d")}
WORD = ("unsigned int", "r")
TORCH = {"f32": torch.float32, "f64": torch.float64}


def text(name, instruction, kinds, counts):
    """A kernel of one warp that reads the registers of a, b and c from memory and writes those of d."""
    words = [WORDS.get(kind, WORD) for kind in kinds]
    lists, at = [], 0
    for count in counts:
        lists.append("{" + ", ".join(f"%{at + i}" for i in range(count)) + "}")
        at += count
    outputs = ", ".join(f'"={words[0][1]}"(rd[{i}])' for i in range(counts[0]))
    inputs = [f'"{words[x][1]}"(r{"dabc"[x]}[{i}])' for x in (1, 2, 3) for i in range(counts[x])]
    declared = " ".join(f"{words[x][0]} r{'dabc'[x]}[{counts[x]}];" for x in range(4))
    read = [
        f"for (int i = 0; i < {n}; i++) r{x}[i] = {x}[lane * {n} + i];" for x, n in zip("abc", counts[1:], strict=True)
    ]
    of = dict(zip("dabc", (word for word, _ in words), strict=True))
    return f"""
__global__ void {name}(const {of["a"]}* a, const {of["b"]}* b, const {of["c"]}* c, {of["d"]}* d) {{
    int lane = threadIdx.x;
    {declared}
    {" ".join(read)}
    asm volatile("{instruction} {", ".join(lists)};"
                 : {outputs} : {", ".join(inputs)});
    for (int i = 0; i < {counts[0]}; i++) d[lane * {counts[0]} + i] = rd[i];
}}"""


def kernel(m, k, d, a, b, c, variant):
    counts = [registers(operand, m, k, kind) for operand, kind in zip("dabc", (d, a, b, c), strict=True)]
    saturate, op = (".satfinite", "") if variant == "satfinite" else ("", f".{variant}.popc" if variant else "")
    instruction = f"mma.sync.aligned.m{m}n8k{k}.row.col{saturate}.{d}.{a}.{b}.{c}{op}"
    return text(name(m, k, d, a, b, c, variant), instruction, (d, a, b, c), counts)


# mma.m8n8k4 of f16: are the columns of A and the rows of B neighbours, and the types of d and c.
QUADS = [(a, b, d, c) for a in (False, True) for b in (False, True) for d in ("f16", "f32") for c in ("f16", "f32")]
QUADS = [(a, b, d, c) for a, b, d, c in QUADS if d == "f32" or c == "f16"]


def quads_name(a_columns, b_rows, d, c):
    return f"quads_{a_columns:d}{b_rows:d}_{d}_{c}"


def quads_kernel(a_columns, b_rows, d, c):
    layouts = f"{'col' if a_columns else 'row'}.{'row' if b_rows else 'col'}"
    counts = [4 if d == "f16" else 8, 2, 2, 4 if c == "f16" else 8]
    instruction = f"mma.sync.aligned.m8n8k4.{layouts}.{d}.f16.f16.{c}"
    return text(quads_name(a_columns, b_rows, d, c), instruction, (d, "f16", "f16", c), counts)


@functools.cache
def compiled(device_type):
    texts = [kernel(*one) for one in INSTRUCTIONS] + [quads_kernel(*one) for one in QUADS]
    names = [name(*one) for one in INSTRUCTIONS] + [quads_name(*one) for one in QUADS]
    return dict(zip(INSTRUCTIONS + QUADS, compile_kernels("".join(texts), names), strict=True))


@pytest.fixture
def launched(backend):
    """A function that launches the kernel of an instruction on registers; it returns those of d."""
    compiled(backend.type)  # for this machine, before a test chooses a GPU that lacks some instructions

    def launch(one, given, d, of_d):
        given = [x.view(TORCH.get(kind, torch.int32)).to(backend) for x, kind in given]
        d = d.view(TORCH.get(of_d, torch.int32)).to(backend)
        compiled(backend.type)[one][1, 32](*given, d)
        return d.cpu().view(torch.int64 if of_d == "f64" else torch.int32)

    launch.backend = backend
    return launch


def product(launched, one, a, b, c):
    """d, of m x 8, in float64 or int64."""
    m, k, of_d, of_a, of_b, of_c, _ = one
    given = [(fragments.to_registers(*x, m, k), x[2]) for x in ((a, "a", of_a), (b, "b", of_b), (c, "c", of_c))]
    word = torch.int64 if of_d == "f64" else torch.int32
    d = torch.full((32, registers("d", m, k, of_d)), -1, dtype=word)
    return fragments.to_matrix(launched(one, given, d, of_d), of_d, m)


def operands(one, small=False):
    m, k, _, of_a, of_b, of_c, _ = one
    shapes = (((m, k), of_a), ((k, 8), of_b), ((m, 8), of_c))
    return [fragments.random(shape, kind, small) for shape, kind in shapes]


@pytest.mark.parametrize("kinds", [HALVES, EIGHTS, DOUBLES], ids=["halves", "eights", "doubles"])
def test_floats_against_float64(launched, kinds):
    # A product and an accumulator are cut off below 2^-24 of the largest, and the sum below 2^-23 of itself; a sum of
    # f16 is rounded once for every 8 or 16 products.
    for one in [(*kind, "") for kind in kinds]:
        a, b, c = operands(one)
        within = {"f32": 2.0**-20, "f16": 2.0**-10, "f64": 2.0**-50}[one[2]]
        d = product(launched, one, a, b, c)
        assert ((d - (a @ b + c)).abs() <= within * (a.abs() @ b.abs() + c.abs())).all(), one


def test_sums_of_small_whole_numbers_are_exact(launched):
    for one in [(*kind, "") for kind in HALVES + EIGHTS + DOUBLES]:
        a, b, c = operands(one, small=True)
        assert torch.equal(product(launched, one, a, b, c), a @ b + c), one


def test_whole_numbers_wrap_around_or_saturate(launched):
    for one in INSTRUCTIONS:
        if one[2] != "s32" or one[3] == "b1":
            continue
        a, b, c = operands(one)
        c[0] = torch.tensor([2**31 - 1, -(2**31)] * 4)
        exact = a @ b + c
        if one[-1] == "satfinite":
            exact = exact.clamp(-(2**31), 2**31 - 1)
        assert torch.equal(product(launched, one, a, b, c), exact.to(torch.int32).to(torch.int64)), one


def test_single_bits(launched):
    for one in INSTRUCTIONS:
        if one[3] != "b1":
            continue
        a, b, c = operands(one)
        both = a[:, :, None] & b[None] if one[-1] == "and" else a[:, :, None] ^ b[None]
        exact = (both.sum(1) + c).to(torch.int32).to(torch.int64)
        assert torch.equal(product(launched, one, a, b, c), exact), one


# What is known of the GPUs' additions, written a second time: with fractions. Of each GPU, the bits that a term keeps
# and the bytes of A that are added at once.
GPUS = {"T4": (24, 16), "A100": (24, 16), "H200": (25, 32)}
SMALLEST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14}


def exponent(x, kind):
    """Of the number's leading bit, or of the smallest normal number."""
    return max(int(torch.tensor(x, dtype=torch.float64).frexp().exponent) - 1, SMALLEST[kind]) if x else SMALLEST[kind]


def dot(a, b, c, one, gpu):
    _, _, of_d, of_a, of_b, of_c, _ = one
    kept, count = GPUS[gpu][0], GPUS[gpu][1] * 8 // max(16, fragments.BITS[of_a])
    if by_halves := fragments.BITS[of_a] == 8:  # products of f16: of two of each four numbers, of the others, then c
        order = [k for first in (0, 2) for k in range(len(a)) if k % 4 // 2 * 2 == first]
        a, b, count, last, c = [a[k] for k in order], [b[k] for k in order], len(a) // 2, c, 0.0
    for first in range(0, len(a), count):
        terms = [(x * y, exponent(x, of_a) + exponent(y, of_b)) for x, y in zip(a[first:], b[first:], strict=True)]
        terms = [*terms[:count], (c, exponent(c, of_c if not first else of_d))]
        largest = max([e for x, e in terms if x], default=0)
        unit = fractions.Fraction(2) ** (largest - kept)
        whole = sum(int(fractions.Fraction(x) / unit) for x, _ in terms) * unit
        if of_d == "f16":
            c = float(np.float16(float(whole)))  # torch would round twice
            continue
        step = fractions.Fraction(2) ** (exponent(float(whole), "f32") - 23)
        c = float(int(whole / step) * step)
    return float((np.float16 if of_d == "f16" else np.float32)(last + c)) if by_halves else c


@pytest.mark.parametrize("gpu", GPUS)
def test_sums_are_cut_off_as_measured(launched, gpu):
    if launched.backend.type == "cuda" and gpu not in torch.cuda.get_device_name():
        pytest.skip(f"about the {gpu}")
    kinds = HALVES + (EIGHTS if gpu == "H200" else [])
    for one in [(*kind, "") for kind in kinds if gpu != "T4" or kind[3] == "f16"]:
        m, k, of_d, of_a, of_b, of_c, _ = one
        spread = 3 if of_d == "f16" else 6
        scales = [2.0 ** torch.randint(-spread, spread + 1, shape) for shape in ((m, k), (k, 8), (m, 8))]
        a, b, c = (fragments.rounded(x * s, t) for x, s, t in zip(operands(one), scales, one[3:6], strict=True))
        with behaving_like(gpu):
            d = product(launched, one, a, b, c)
        expected = [
            [dot(a[i].tolist(), b[:, j].tolist(), c[i, j].item(), one, gpu) for j in range(8)] for i in range(m)
        ]
        assert torch.equal(d, torch.tensor(expected, dtype=torch.float64)), one


def test_infinities_and_nan(launched):
    inf, nan = float("inf"), float("nan")
    for one in [(*kind, "") for kind in HALVES]:
        a, b, c = (torch.zeros_like(x) for x in operands(one))
        b[0], a[:, 0] = 1, torch.arange(16.0)
        a[0, 0], a[1, :2], a[3, 1] = inf, torch.tensor([inf, -inf]), nan
        b[1] = 1
        b[0, 5] = 0
        c[2, 2] = -inf
        d = product(launched, one, a, b, c)
        torch.testing.assert_close(d, a @ b + c, rtol=0, atol=0, equal_nan=True)


def test_a_sum_of_f32_beyond_its_range_is_infinite(launched):
    one = (16, 16, "f32", "bf16", "bf16", "f32", "")
    a, b, c = (torch.zeros_like(x) for x in operands(one))
    a[0, 0], b[0], c[1] = 2.0**64, 2.0**64, 2.0**127
    a[1, 0] = 2.0**60
    d = product(launched, one, a, b, c)
    assert (d[0] == float("inf")).all() and (d[1] == 2.0**127 + 2.0**124).all() and not d[2:].any()


def quad_places(operand, lines_are_k=False, kind="f16"):
    """For each lane, which of four products it takes part in, and the rows and columns of its elements."""
    found = []
    for lane in range(32):
        for i in range(8 if operand == "c" else 4):
            low, high = lane % 4, 4 if lane >= 16 else 0
            if operand == "c" and kind == "f16":
                place = (low + high, i)
            elif operand == "c":
                place = ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1))
            else:
                place = (i + high, low) if lines_are_k else (low + high, i)
            found.append((lane // 4 % 4, *(place if operand != "b" else place[::-1])))
    return torch.tensor(found).T.view(3, 32, -1).unbind()


def by_quads(a, b, c, of_d):
    """As nvcc does it from sm_80 on: with float, each step rounded once; here every step is exact in float64."""
    products = (a[..., None] * b[:, None]).unbind(2)
    if of_d == "f16":
        sums = [(products[k] + products[k + 1]).float().double() for k in (0, 2)]
        return ((c + sums[0]).float().double() + sums[1]).float().half().double()
    total = 0
    for product_ in products:
        total = (total + product_).float().double()
    return (c + total).float().double()


@pytest.mark.parametrize("gpu, small", [("T4", True), ("H200", True), ("H200", False)])
def test_four_products_by_quads_of_lanes(launched, gpu, small):
    if launched.backend.type == "cuda" and gpu == "T4":
        pytest.skip("about the T4")
    for one in QUADS:
        a_columns, b_rows, of_d, of_c = one
        shapes = (((4, 8, 4), "f16"), ((4, 4, 8), "f16"), ((4, 8, 8), of_c))
        a, b, c = (fragments.random(shape, kind, small) for shape, kind in shapes)
        given = [(a, "a", a_columns, "f16"), (b, "b", b_rows, "f16"), (c, "c", False, of_c)]
        given = [
            (fragments.packed(fragments.as_bits(x[quad_places(*at, kind)], kind), kind), kind) for x, *at, kind in given
        ]
        d = torch.zeros(32, 4 if of_d == "f16" else 8, dtype=torch.int32)
        with behaving_like(gpu):
            d = launched(one, given, d, of_d)
        got = torch.zeros(4, 8, 8, dtype=torch.float64)
        got[quad_places("c", kind=of_d)] = fragments.from_bits(fragments.unpacked(d, of_d), of_d)
        assert torch.equal(got, a @ b + c if small else by_quads(a, b, c, of_d)), one
