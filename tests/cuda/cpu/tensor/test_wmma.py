"""nvcuda::wmma: every shape, type and layout; what a fragment has; and what is refused."""

import pytest
import torch

from tests.cuda.cpu.tensor import fragments
from utils import CompileError, compile_kernel
from utils.cuda.cpu.translate import TranslationError, translate
from utils.cuda.kernel import compile_kernels

SOURCE = r"""
#include <mma.h>
using namespace nvcuda;
using half_t = __half;
using bf16_t = __nv_bfloat16;
using s8_t = signed char;
using u8_t = unsigned char;
template <int m, int n, int k, class AB, class Stored, class D, class C, class LayoutA, class LayoutB>
__global__ void product(const Stored* a, const Stored* b, const C* c, D* d, int lda, int ldb, int ldc, int ldd,
                        bool rows, bool saturate) {
    wmma::fragment<wmma::matrix_a, m, n, k, AB, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, m, n, k, AB, LayoutB> fb;
    wmma::fragment<wmma::accumulator, m, n, k, C> fc;
    wmma::fragment<wmma::accumulator, m, n, k, D> fd;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, wmma::mem_row_major);
    if constexpr (std::is_same<AB, wmma::precision::tf32>::value) {
        for (auto& x : fa.x) x = wmma::__float_to_tf32(x);
        for (auto& x : fb.x) x = wmma::__float_to_tf32(x);
    }
    if constexpr (std::is_same<D, int>::value)
        wmma::mma_sync(fd, fa, fb, fc, saturate);
    else
        wmma::mma_sync(fd, fa, fb, fc);
    wmma::store_matrix_sync(d, fd, ldd, rows ? wmma::mem_row_major : wmma::mem_col_major);
}
template <class AB>
__global__ void product_of_bits(const unsigned* a, const unsigned* b, const int* c, int* d, int lda, int ldb, int ldc,
                                int ldd, bool rows, bool use_and) {
    wmma::fragment<wmma::matrix_a, 8, 8, 128, AB, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, AB, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> f;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(f, c, ldc, wmma::mem_row_major);
    wmma::bmma_sync(f, fa, fb, f, use_and ? wmma::experimental::bmmaBitOpAND
                                                         : wmma::experimental::bmmaBitOpXOR);
    wmma::store_matrix_sync(d, f, ldd, rows ? wmma::mem_row_major : wmma::mem_col_major);
}
"""
OTHERS = r"""
#include <mma.h>
using namespace nvcuda;
using half_t = __half;
using bf16_t = __nv_bfloat16;
using s8_t = signed char;
using u8_t = unsigned char;
template <int m, int n, int k, class AB, class C>
__device__ int* counts(int* out) {
    wmma::fragment<wmma::matrix_a, m, n, k, AB, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, m, n, k, AB, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, m, n, k, C> c;
    *out++ = a.num_elements, *out++ = b.num_elements, *out++ = c.num_elements;
    *out++ = a.num_storage_elements, *out++ = sizeof(a.x[0]), *out++ = sizeof a;
    return out;
}
__global__ void all_counts(int* out) {
    using namespace wmma::experimental;
    out = counts<16, 16, 16, half, half>(out), out = counts<32, 8, 16, half, float>(out);
    out = counts<8, 32, 16, bf16_t, float>(out), out = counts<16, 16, 16, u8_t, int>(out);
    out = counts<32, 8, 16, s8_t, int>(out), out = counts<16, 16, 8, wmma::precision::tf32, float>(out);
    out = counts<8, 8, 4, double, double>(out), out = counts<8, 8, 32, precision::s4, int>(out);
    out = counts<8, 8, 128, precision::b1, int>(out);
}
__global__ void scaled(const half* a, float* out, half* of_half) {  // all that may be done with elements
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa, fb;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> ones;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> small;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::fill_fragment(ones, __float2half(1.0f));
    wmma::fill_fragment(f[0], 0.5f);
    wmma::fill_fragment(small, 2.0f);
    for (int i = 0; i < fa.num_elements; i++) fb.x[i] = fa.x[i] * fa.x[i];
    wmma::mma_sync(f[1], fb, ones, f[0]);
    for (int i = 0; i < small.num_elements; i++) small.x[i] = __float2half(f[1].x[i]) + small.x[i];
    wmma::store_matrix_sync(out, f[1], 16, wmma::mem_row_major);
    wmma::store_matrix_sync(of_half, small, 16, wmma::mem_col_major);
}
__global__ void held(const half* a, int* out) {  // which elements of A a lane has, where it is 16 * row + column
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::load_matrix_sync(f, a, 16);
    for (int i = 0; i < 16; i++) out[threadIdx.x * 16 + i] = (int)__half2float(f.x[i]);
}
__global__ void strided(const half* a, half* out, int stride) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::load_matrix_sync(f, a, stride);
    out[threadIdx.x] = f.x[0];
}
"""
CPP = {"f16": "half_t", "bf16": "bf16_t", "tf32": "wmma::precision::tf32", "f64": "double", "s8": "s8_t", "u8": "u8_t"}
CPP |= {
    "f32": "float",
    "s32": "int",
    "s4": "wmma::experimental::precision::s4",
    "b1": "wmma::experimental::precision::b1",
}
CPP |= {"u4": "wmma::experimental::precision::u4"}
LARGE = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
LAYOUTS = ("row", "col")
CASES = [(shape, "f16", "f32", "f32", a, b) for shape in LARGE for a in LAYOUTS for b in LAYOUTS]
CASES += [
    (shape, "f16", *sums, "row", "col") for shape in LARGE for sums in (("f16", "f16"), ("f32", "f16"), ("f16", "f32"))
]
CASES += [(shape, "bf16", "f32", "f32", a, b) for shape in LARGE for a, b in (("row", "row"), ("col", "col"))]
CASES += [
    (shape, kind, "s32", "s32", a, b) for shape in LARGE for kind, a, b in (("s8", "row", "col"), ("u8", "col", "row"))
]
CASES += [((16, 16, 8), "tf32", "f32", "f32", a, b) for a, b in (("row", "row"), ("col", "col"))]
CASES += [((8, 8, 4), "f64", "f64", "f64", a, b) for a, b in (("row", "row"), ("col", "col"))]
CASES += [((8, 8, 32), kind, "s32", "s32", "row", "col") for kind in ("s4", "u4")]
CASES += [((8, 8, 128), "b1", "s32", "s32", "row", "col")]
TYPES = {"f32": torch.float32, "tf32": torch.float32, "s32": torch.int32, "s8": torch.int8, "u8": torch.uint8}
TYPES = fragments.FLOATS | TYPES | dict.fromkeys(("s4", "u4", "b1"), torch.int32)


def kernel_name(case):
    (m, n, k), ab, d, c, a, b = case
    if ab == "b1":
        return f"product_of_bits<{CPP[ab]}>"
    stored = {"tf32": "float", "s4": "int", "u4": "unsigned int"}.get(ab) or CPP[ab]
    layouts = ", ".join(f"wmma::{layout}_major" for layout in (a, b))
    return f"product<{m}, {n}, {k}, {CPP[ab]}, {stored}, {CPP[d]}, {CPP[c]}, {layouts}>"


@pytest.fixture(scope="module")
def products():
    with pytest.MonkeyPatch.context() as patch:  # nvcc would need half a minute for all of them
        patch.setattr("utils.cuda.kernel.verdict.on_kernels", lambda *args: None)
        return dict(zip(CASES, compile_kernels(SOURCE, [kernel_name(case) for case in CASES]), strict=True))


def in_ptx(number, case):
    """A kernel with the parameters of `product`, all of whose work is PTX. Names are written in each order in turn."""
    (m, n, k), ab, of_d, of_c, a_layout, b_layout = case
    shape, wide = f"m{m}n{n}k{k}", 64 if ab == "f64" else 32

    def registers(name, kind, elements):
        count = 8 if name in "ab" and kind == "f16" else elements * fragments.BITS[kind] // 32 // wide
        return f"{{{', '.join(f'{name}{i}' for i in range(count))}}}"

    a, b = registers("a", ab, m * k), registers("b", ab, k * n)
    c, d = registers("c", of_c, m * n), registers("d", of_d, m * n)

    def moved(layout, space):
        orders = [f"{layout}.{shape}{space}", f"{shape}.{layout}{space}", f"{shape}{space}.{layout}"]
        return f"sync.aligned.{orders[number % 3]}"

    types = f"{of_d}.{of_c}" if ab == "f16" else f"{of_d}.{ab}.{ab}.{of_c}"
    shape_and_layouts = [f"{a_layout}.{b_layout}.{shape}", f"{shape}.{a_layout}.{b_layout}"][number % 2]
    plain = saturated = f"wmma.mma.sync.aligned.{shape_and_layouts}.{types}"
    if ab == "b1":
        plain, saturated = (plain.replace("wmma.mma", f"wmma.mma.{bits}.popc") for bits in ("xor", "and"))
    elif of_d == "s32":
        saturated += ".satfinite"
    elif ab == "f64":
        saturated = plain.replace(f".{types}", f".rn.{types}")
    lines = [
        f".reg .b{wide} a<8>, b<8>, c<8>, d<8>;",
        ".reg .pred rows, saturates;",
        "setp.ne.s32 rows, %8, 0;",
        "setp.ne.s32 saturates, %9, 0;",
        f"wmma.load.a.{moved(a_layout, '.global')}.{ab} {a}, [%0], %4;",
        f"wmma.load.b.{moved(b_layout, '')}.{ab} {b}, [%1], %5;",
        f"wmma.load.c.{moved('row', '.global')}.{of_c} {c}, [%2], %6;",
        f"@saturates {saturated} {d}, {a}, {b}, {c};",
        f"@!saturates {plain} {d}, {a}, {b}, {c};",
        f"@rows wmma.store.d.{moved('row', '')}.{of_d} [%3], {d}, %7;",
        f"@!rows wmma.store.d.{moved('col', '.global')}.{of_d} [%3], {d}, %7;",
    ]
    pointers, numbers = ("a", "b", "c", "d"), ("lda", "ldb", "ldc", "ldd", "rows", "saturate")
    inputs = ", ".join([f'"l"({name})' for name in pointers] + [f'"r"((int){name})' for name in numbers])
    return (
        f"__global__ void ptx_{number}(const void* a, const void* b, const void* c, void* d, int lda, int ldb, int ldc,"
        f' int ldd, bool rows, bool saturate) {{\n asm volatile("{{{" ".join(lines)}}}" :: {inputs} : "memory");\n}}\n'
    )


# D = A * B + C of rows without strides, through shared memory and all three ways to address it.
STAGED = r"""
__global__ void staged(const unsigned int* a, const unsigned int* b, const float* c, float* d) {
    __shared__ __align__(32) unsigned int sa[128], sb[128];
    __shared__ __align__(32) float sums[256];
    for (int i = threadIdx.x; i < 128; i += 32) sa[i] = a[i], sb[i] = b[i];
    for (int i = threadIdx.x; i < 256; i += 32) sums[i] = c[i];
    __syncwarp();
    asm volatile("{ .reg .b32 a<8>, b<8>; .reg .f32 c<8>;"
                 "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {a0, a1, a2, a3, a4, a5, a6, a7}, [%0];"
                 "wmma.load.b.sync.aligned.row.m16n16k16.f16 {b0, b1, b2, b3, b4, b5, b6, b7}, [%1];"
                 "wmma.load.c.sync.aligned.row.m16n16k16.shared::cta.f32 {c0, c1, c2, c3, c4, c5, c6, c7}, [%2], 16;"
                 "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {c0, c1, c2, c3, c4, c5, c6, c7}, {a0, a1, a2, a3,"
                 " a4, a5, a6, a7}, {b0, b1, b2, b3, b4, b5, b6, b7}, {c0, c1, c2, c3, c4, c5, c6, c7};"
                 "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%2 + 0], {c0, c1, c2, c3, c4, c5, c6, c7}; }"
                 :: "r"((unsigned)__cvta_generic_to_shared(sa)), "l"(sb), "r"((unsigned)__cvta_generic_to_shared(sums))
                 : "memory");
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) d[i] = sums[i];
}
"""


@pytest.fixture(scope="module")
def in_asm():
    source = "".join(in_ptx(number, case) for number, case in enumerate(CASES)) + STAGED
    names = [f"ptx_{number}" for number in range(len(CASES))] + ["staged"]
    return dict(zip([*CASES, "staged"], compile_kernels(source, names), strict=True))


@pytest.fixture(scope="module")
def others():
    names = ["all_counts", "scaled", "held", "strided"]
    return dict(zip(names, compile_kernels(OTHERS, names), strict=True))


def placed(x, kind, rows):
    """The matrix in memory, its lines 16 bytes apart, and the stride between them in elements."""
    lines = x if rows else x.T
    bits = fragments.BITS[kind]
    padded = torch.zeros(lines.shape[0], lines.shape[1] + 128 // bits, dtype=x.dtype)
    padded[:, : lines.shape[1]] = lines
    if bits < 8:
        shifts = torch.arange(32 // bits) * bits
        words = fragments.as_bits(padded, kind).view(lines.shape[0], -1, 32 // bits) << shifts
        return words.sum(-1).to(torch.int32), padded.shape[1]
    return padded.to(TYPES[kind]), padded.shape[1]


def multiplied(kernel, case, a, b, c, saturate=False, rows=True):
    (m, n, _), ab, of_d, of_c, rows_a, rows_b = case
    given = [placed(a, ab, rows_a == "row"), placed(b, ab, rows_b == "row"), placed(c, of_c, True)]
    d = torch.full((m, n + 8) if rows else (n, m + 8), -1, dtype=TYPES[of_d])
    kernel[1, 32](*[x for x, _ in given], d, *[stride for _, stride in given], d.shape[1], rows, saturate)
    assert (d[:, -8:] == -1).all()
    d = d[:, :-8] if rows else d[:, :-8].T
    return d.double() if of_d in fragments.FLOATS else d.to(torch.int64)


def operands(case, small):
    (m, n, k), ab, _, of_c, _, _ = case
    of = (((m, k), ab), ((k, n), ab), ((m, n), of_c))
    return [fragments.random(shape, kind, small) for shape, kind in of]


def test_products_of_random_numbers(products):
    for case, kernel in products.items():
        a, b, c = operands(case, small=False)
        if case[1] == "b1":
            exact = (a[:, :, None] ^ b[None]).sum(1) + c
        else:
            exact = a @ b + c
        d = multiplied(kernel, case, a, b, c, rows=case[4] == "row")
        if case[2] == "s32":
            assert torch.equal(d, exact.to(torch.int32).to(torch.int64)), case
            continue
        within = {"f32": 2.0**-20, "f16": 2.0**-10, "f64": 2.0**-50}[case[2]]
        assert ((d - exact).abs() <= within * (a.abs() @ b.abs() + c.abs())).all(), case


def test_sums_of_small_whole_numbers_are_exact_and_saturate(products):
    for case, kernel in products.items():
        a, b, c = operands(case, small=True)
        if case[1] == "b1":
            exact = (a[:, :, None] & b[None]).sum(1) + c
            exact = exact.to(torch.int32).to(torch.int64)
        elif case[2] == "s32":
            c[0] = 2**31 - 1
            exact = (a @ b + c).clamp(-(2**31), 2**31 - 1)
        else:
            exact = a @ b + c
        assert torch.equal(multiplied(kernel, case, a, b, c, saturate=True, rows=False), exact), case


def test_ptx_gives_the_same_bits(products, in_asm):
    for case, kernel in products.items():
        for flag in (False, True):
            given = operands(case, small=False)
            d, expected = (multiplied(k, case, *given, saturate=flag, rows=flag) for k in (in_asm[case], kernel))
            assert torch.equal(*(fragments.as_bits(x, case[2]) for x in (d, expected))), case


def test_ptx_through_shared_memory_without_strides(products, in_asm):
    case = (LARGE[0], "f16", "f32", "f32", "row", "row")
    a, b, c = operands(case, small=False)
    d = torch.full((16, 16), torch.nan)
    in_asm["staged"][1, 32](a.half().view(torch.int32), b.half().view(torch.int32), c.float(), d)
    assert torch.equal(d.double(), multiplied(products[case], case, a, b, c))


def test_numbers_of_elements(others):
    out = torch.zeros(9, 6, dtype=torch.int32)
    others["all_counts"][1, 1](out)
    assert out.tolist() == [
        [16, 16, 8, 16, 2, 32],
        [16, 16, 8, 16, 2, 32],
        [4, 16, 8, 4, 2, 8],
        [8, 8, 8, 8, 1, 8],
        [16, 4, 8, 16, 1, 16],
        [4, 4, 8, 4, 4, 16],
        [1, 1, 2, 1, 8, 8],
        [8, 8, 2, 1, 4, 8],
        [32, 32, 2, 1, 4, 8],
    ]


def test_elements_can_be_used_one_by_one(others):
    a = torch.randint(-3, 4, (16, 16)).half()
    out, of_half = torch.zeros(16, 16), torch.zeros(16, 16, dtype=torch.float16)
    others["scaled"][1, 32](a, out, of_half)
    expected = 0.5 + (a.float() ** 2).sum(1, keepdim=True).expand(16, 16)
    assert torch.equal(out, expected) and torch.equal(of_half.T.float(), expected + 2)


def test_a_fragment_of_half_is_that_of_mma_sync_twice(others):  # as nvcc's code for sm_80 and later shows
    out = torch.zeros(32, 16, dtype=torch.int32)
    others["held"][1, 32](torch.arange(256).half().view(16, 16), out)
    rows, columns = fragments.places("a", 16, 16, "f16")
    assert torch.equal(out, (16 * rows + columns).repeat(1, 2).to(torch.int32))


def test_a_stride_that_is_not_a_multiple_of_16_bytes_is_refused(others):
    kernel, a, out = others["strided"], torch.zeros(400).half(), torch.zeros(32).half()
    kernel[1, 32](a, out, 24)
    with pytest.raises(RuntimeError, match="wmma::load_matrix_sync with a stride of 20 elements: .* a multiple of 8"):
        kernel[1, 32](a, out, 20)


def test_fragments_that_do_not_exist_are_refused(monkeypatch):
    source = "#include <mma.h>\n__global__ void k() {\n nvcuda::wmma::fragment<%s> f;\n}"
    monkeypatch.setattr("utils.cuda.kernel.verdict.on_kernels", lambda *args: None)
    use = "nvcuda::wmma::matrix_a, 16, 16, 16, "
    for kind in ("half", "float, nvcuda::wmma::row_major", "int, nvcuda::wmma::row_major"):
        with pytest.raises(CompileError, match="wmma has no fragment of this use, shape, type and layout"):
            compile_kernel(source % (use + kind), "k")


@pytest.mark.parametrize(
    ("ptx", "says"),
    [
        ("wmma.load.a.sync.row.m16n16k16.f16 {%0}, [%1];", "no such combination of modifiers"),
        ("wmma.load.a.sync.aligned.row.m8n8k4.f64 %0, [%1];", "operand 1 is not a vector of registers"),
        ("wmma.mma.sync.aligned.row.col.m8n8k4.rz.f64.f64.f64.f64 {%0, %0}, {%0}, {%0}, {%0, %0};", "`.rz`"),
    ],
)
def test_other_ptx_is_refused(ptx, says):
    with pytest.raises(TranslationError, match=says):
        translate(f'__global__ void k(double* p) {{ double x = 1; asm volatile("{ptx}" : "+d"(x) : "l"(p)); }}')
