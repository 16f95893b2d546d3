"""What a trace says of fragments: rows and tiles out of bounds, races, lanes that are absent, elements never set, and
what loads and stores cost."""

import re
import warnings

import pytest
import torch

from utils import compile_kernel
from utils.cuda.cpu.profile import behaving_like
from utils.cuda.kernel import compile_kernels

TILES = r"""
#include <mma.h>
using namespace nvcuda;
__global__ void tiles(const half* a, const half* b, float* c, int which, int stride) {
    const int lane = threadIdx.x;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    if (which == 1 && lane > 20) return;
    if (which != 2) wmma::fill_fragment(sum, 0.0f);
    if (which != 3) wmma::load_matrix_sync(fa, a + (which == 4 ? 4 : 0), stride);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
    if (which == 8) c[lane] = 1;
}
__global__ void staged(const half* a, float* c) {
    __shared__ __align__(32) half s[32 * 24];
    __shared__ __align__(32) float sums[16 * 16];
    for (int i = threadIdx.x; i < 512; i += 32) s[i / 16 * 24 + i % 16] = a[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(fa, s, 24);
    wmma::load_matrix_sync(fb, s + 16 * 24, 24);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(sums, sum, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) c[i] = sums[i];
}
template <class T, class Layout>
__device__ void load_a(const void* p) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, Layout> f;
    wmma::load_matrix_sync(f, (const T*)p, 16);
}
__global__ void loaded(const float* x) {
    __shared__ __align__(32) float s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = x[i];
    __syncwarp();
    load_a<half, wmma::col_major>(x);         // 16-bit pairs of a column, then exchanged
    load_a<half, wmma::col_major>(s);         // ldmatrix.trans
    load_a<__nv_bfloat16, wmma::row_major>(s);  // not as ldmatrix
    load_a<signed char, wmma::row_major>(s);  // ldmatrix of two matrices
    load_a<signed char, wmma::col_major>(s);  // byte by byte
}
"""
EIGHT = "{%0, %1, %2, %3, %4, %5, %6, %7}"
IN_PTX = rf"""
__global__ void in_ptx(const half* a, const half* b, float* c, int which, int stride) {{
    if (which == 1 && threadIdx.x > 20) return;
    unsigned int fa[8], fb[8];
    float sum[8];
    if (which != 2) for (float& x : sum) x = 0;
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%8], %9;"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]), "=r"(fa[4]), "=r"(fa[5]), "=r"(fa[6]),
                   "=r"(fa[7]) : "l"(a + (which == 4 ? 4 : 0)), "r"(stride));
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {EIGHT}, [%8];"
                 : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3]), "=r"(fb[4]), "=r"(fb[5]), "=r"(fb[6]),
                   "=r"(fb[7]) : "l"(b));
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {EIGHT}, {{%8, %9, %10, %11, %12, %13, %14, %15}},"
                 " {{%16, %17, %18, %19, %20, %21, %22, %23}}, {EIGHT};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
                   "+f"(sum[7])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fa[4]), "r"(fa[5]), "r"(fa[6]), "r"(fa[7]),
                   "r"(fb[0]), "r"(fb[1]), "r"(fb[2]), "r"(fb[3]), "r"(fb[4]), "r"(fb[5]), "r"(fb[6]), "r"(fb[7]));
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%8], {EIGHT};"
                 :: "f"(sum[0]), "f"(sum[1]), "f"(sum[2]), "f"(sum[3]), "f"(sum[4]), "f"(sum[5]), "f"(sum[6]),
                    "f"(sum[7]), "l"(c) : "memory");
}}
"""
ROWS = r"""
#include <cuda_fp16.h>
__device__ unsigned int address(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__global__ void rows(unsigned int* out, int which) {
    __shared__ __align__(16) half s[32 * 64];
    const int lane = threadIdx.x;
    if (which == 5 && lane >= 16) return;
    if (which != 3) for (int i = lane; i < 32 * 64; i += 32) s[i] = __float2half((float)i);
    if (which != 4) __syncwarp();
    const half* row = s + lane * 8;  // 16 bytes apart: no conflict
    if (which == 1) row = s + 32 * 64 - 8 + lane * 8;
    if (which == 2) row = s + lane * 12;
    if (which == 6) row = s + lane * 64;
    if (which == 7) row = s + lane / 8 * 64 + lane % 8 * 32;  // 64 bytes apart: every second bank
    unsigned int d[4], one, b[2], sums[2] = {0, 0};
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(address(row)));
    if (which == 0) __syncwarp();
    if (which == 0 || which == 8)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(address(s + (lane + 8) % 32 * 8)), "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]));
    if (which == 9) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(one) : "r"(address(row)));
        d[0] = one;
    }
    if (which == 10) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                     : "+r"(sums[0]), "+r"(sums[1])
                     : "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]), "r"(b[0]), "r"(b[1]));
        d[0] = sums[0];
    }
    for (int i = 0; i < 4; i++) out[lane * 4 + i] = d[i];
}
"""


@pytest.fixture(scope="module")
def tiles(unjudged):
    kernel, in_ptx, staged, loaded = compile_kernels(TILES + IN_PTX, ["tiles", "in_ptx", "staged", "loaded"])

    def traced(which=0, stride=16, threads=32, ptx=False):
        h, c = torch.zeros(16 * 16).half(), torch.zeros(16 * 16)
        return (in_ptx if ptx else kernel).trace[1, threads](h, h.clone(), c, which, stride)

    traced.staged, traced.loaded = staged, loaded
    return traced


@pytest.fixture(scope="module")
def rows(unjudged):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fragment is used before it is set, on purpose
        kernel = compile_kernel(ROWS, "rows")
    return lambda which: kernel.trace[1, 32](torch.zeros(128, dtype=torch.int32), which)


def counted(trace, line):
    """Of the accesses in a line that begins so: space, operation, bytes, requests, sectors, wavefronts, conflicts."""
    row = trace.requests[trace.requests["source"].str.contains(line, regex=False)].iloc[0]
    names = ["space", "op", "bytes", "requests", "sectors", "wavefronts", "bank_conflicts"]
    return tuple(row[name] for name in names)


def test_tiles_without_a_mistake(tiles):
    trace = tiles()
    assert trace.problems == []
    # nvcc makes four loads of 4 bytes of a fragment of half in rows along k, and four stores of 8 bytes.
    assert counted(trace, "load_matrix_sync(fa") == ("global", "load", 4, 4, 32, 0, 0)
    assert counted(trace, "load_matrix_sync(fb") == ("global", "load", 4, 4, 32, 0, 0)
    assert counted(trace, "store_matrix_sync") == ("global", "store", 8, 4, 32, 0, 0)


def test_tiles_in_shared_memory(tiles):
    h, c = torch.arange(512).half() / 64, torch.zeros(16, 16)
    trace = tiles.staged.trace[1, 32](h, c, outputs=[c])
    assert trace.problems == []
    torch.testing.assert_close(trace.args[1], h[:256].view(16, 16).float() @ h[256:].view(16, 16).float())
    # As ldmatrix: one request and a pass for each of four matrices; 48 bytes between rows are free of conflicts.
    assert counted(trace, "load_matrix_sync(fa") == ("shared", "load", 16, 1, 0, 4, 0)
    assert counted(trace, "load_matrix_sync(fb") == ("shared", "load", 16, 1, 0, 4, 0)


def test_loads_are_those_that_nvcc_makes(tiles):
    trace = tiles.loaded.trace[1, 32](torch.zeros(256))
    assert trace.problems == []
    inside = trace.requests[trace.requests["source"].str.contains("load_matrix_sync")]
    found = sorted(zip(inside["space"], inside["bytes"], inside["requests"], inside["wavefronts"], strict=True))
    # Rows 32 bytes apart meet in a bank, those of the 8-bit tile, 16 bytes apart, do not: 8 and 2 passes of ldmatrix.
    assert found == [("global", 4, 4, 0), ("shared", 1, 8, 16), ("shared", 4, 4, 8), ("shared", 16, 2, 8 + 2)]


@pytest.mark.parametrize(
    "kind, message, given",
    [
        ("divergent_barrier", r"\(0,0,0\) waits at wmma::load_matrix_sync\(\) in .* \(21,0,0\) has left", {"which": 1}),
        ("uninitialized", r"\(0,0,0\) .* wmma::mma_sync with elements of a fragment that were never set", {"which": 2}),
        ("uninitialized", r"\(0,0,0\) .* wmma::mma_sync with elements of a fragment that were never set", {"which": 3}),
        (
            "misaligned",
            r"\(0,0,0\) .* reads 32 bytes at a\[4\], .* a multiple of 32 .*load_matrix_sync\(fa",
            {"which": 4},
        ),
        ("race", r"both write c\[1\]: one in .*c\[lane\] = 1.*, the other in .*store_matrix_sync", {"which": 8}),
        ("out_of_bounds", r"\(12,0,0\) .* reads a\[264\] to a\[265\], but a has 256 elements", {"stride": 24}),
        (
            "misaligned",
            r"\(0,0,0\) .* wmma::load_matrix_sync with a stride of 20 elements: .* multiple of 8",
            {"stride": 20},
        ),
        ("divergent_barrier", r"load_matrix_sync\(\), but its warp has only 16 lanes", {"threads": 16}),
    ],
)
def test_tiles_with_a_mistake(tiles, kind, message, given):
    problem = tiles(**given).problems[0]
    assert problem.kind == kind and re.search(message, problem.message), problem.message


def test_tiles_of_ptx_cost_the_same(tiles):
    trace, other = tiles(ptx=True), tiles()
    assert trace.problems == []
    lines = {"wmma.load.a": "matrix_sync(fa", "wmma.load.b": "matrix_sync(fb", "wmma.store.d": "store_matrix_sync"}
    for mine, same in lines.items():
        assert counted(trace, mine) == counted(other, same)
    steps = trace.recording().steps
    kinds = [step.kind for step in steps if step.kind in ("read", "product", "write")]
    assert kinds == ["read"] * 8 + ["product"] + ["write"] * 4


@pytest.mark.parametrize(
    "kind, message, given",
    [
        ("divergent_barrier", r"\(0,0,0\) waits at wmma.load.a.sync in .* \(21,0,0\) has left", {"which": 1}),
        ("uninitialized", r"\(0,0,0\) .* wmma.mma.sync with elements of a fragment that were never set", {"which": 2}),
        ("misaligned", r"\(0,0,0\) .* reads 32 bytes at a\[4\], .* a multiple of 32 .*wmma.load.a", {"which": 4}),
        ("out_of_bounds", r"\(12,0,0\) .* reads a\[264\] to a\[265\], but a has 256 elements", {"stride": 24}),
        ("misaligned", r"wmma.load.a.sync with a stride of 20 elements: .* multiple of 8", {"stride": 20}),
        ("divergent_barrier", r"calls wmma.load.a.sync, but its warp has only 16 lanes", {"threads": 16}),
    ],
)
def test_tiles_of_ptx_with_a_mistake(tiles, kind, message, given):
    problem = tiles(ptx=True, **given).problems[0]
    assert problem.kind == kind and re.search(message, problem.message), problem.message
    assert "32 lanes" in problem.hint or kind != "divergent_barrier"


def test_rows_without_a_mistake(rows):
    trace = rows(0)
    assert trace.problems == []
    assert counted(trace, "ldmatrix.sync.aligned.m8n8.x4") == ("shared", "load", 16, 1, 0, 4, 0)
    assert counted(trace, "stmatrix.sync") == ("shared", "store", 16, 1, 0, 4, 0)


@pytest.mark.parametrize("which, wavefronts", [(6, 32), (7, 16)])
def test_bank_conflicts_of_rows(rows, which, wavefronts):
    assert counted(rows(which), "ldmatrix.sync.aligned.m8n8.x4") == (
        "shared",
        "load",
        16,
        1,
        0,
        wavefronts,
        wavefronts - 4,
    )


def test_one_matrix_is_one_pass(rows):
    trace = rows(9)
    assert trace.problems == [] and counted(trace, "ldmatrix.sync.aligned.m8n8.x1") == (
        "shared",
        "load",
        16,
        1,
        0,
        1,
        0,
    )


@pytest.mark.parametrize(
    "which, kind, message",
    [
        (1, "out_of_bounds", r"thread \(1,0,0\) .* reads s\[2048\] to s\[2055\], but s has 2048 elements .*ldmatrix"),
        (2, "misaligned", r"thread \(1,0,0\) .* reads 16 bytes at s\[12\], .* a multiple of 16 .*ldmatrix"),
        (3, "uninitialized", r"thread \(0,0,0\) .* reads s\[0\] to s\[7\] before any thread .*ldmatrix"),
        (4, "race", r"both touch s\[1\]: one writes it in .*__float2half.*, the other reads it in .*ldmatrix"),
        (5, "divergent_barrier", r"waits at ldmatrix.sync in .*, but thread \(16,0,0\) has left the kernel"),
        (8, "race", r"both touch s\[\d+\] to s\[\d+\]: one (reads|writes) it in .*matrix"),
        (10, "uninitialized", r"calls mma.sync with elements of a fragment that were never set"),
    ],
)
def test_rows_with_a_mistake(rows, which, kind, message):
    found = [problem.message for problem in rows(which).problems if problem.kind == kind]
    assert any(re.search(message, text) for text in found), found


def test_a_recording_has_the_rows_and_the_products(tiles):
    steps = tiles().recording().steps
    assert [step.kind for step in steps if step.line in (12, 13, 14)] == ["read"] * 4 + ["product"] + ["write"] * 4


UNITS = r"""
#include <mma.h>
using namespace nvcuda;
template <int m, int n, class T, class Sum>
__global__ void steps(const T* a, const T* b, Sum* c) {
    wmma::fragment<wmma::matrix_a, m, n, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, m, n, 16, T, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, m, n, 16, Sum> sum;
    wmma::fill_fragment(sum, Sum(0));
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, n, wmma::mem_row_major);
}
__global__ void small(unsigned int* c) {
    unsigned int a[3] = {c[threadIdx.x], c[threadIdx.x + 32], c[threadIdx.x + 64]};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%0, %1}, {%2}, {%0, %1};"
                 : "+r"(a[0]), "+r"(a[1]) : "r"(a[2]));
    asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0, %1}, {%2}, {%2}, {%0, %1};"
                 : "+r"(a[0]), "+r"(a[1]) : "r"(a[2]));
    c[threadIdx.x] = a[0] + a[1];
}
"""


@pytest.mark.usefixtures("on_cpu", "unjudged")
@pytest.mark.parametrize("gpu", ["T4", "A100", "H200"])
def test_products_are_counted_as_in_the_machine_code(gpu):
    halves, bytes_ = torch.zeros(512).half(), torch.zeros(512, dtype=torch.int8)
    cases = {
        "steps<16, 16, half, float>": (halves, halves, torch.zeros(256)),
        "steps<8, 32, signed char, int>": (bytes_, bytes_, torch.zeros(256, dtype=torch.int32)),
        "small": (torch.zeros(96, dtype=torch.int32),),
    }
    with behaving_like(gpu):
        for kernel, (name, args) in zip(compile_kernels(UNITS, list(cases)), cases.items(), strict=True):
            units = kernel.trace[1, 32](*args).units
            assert set(units["unit"]) == {"tensor"}
            in_code = re.findall(r"\b[HI]MMA\.", str(kernel.sass))
            assert units["instructions"].sum() == len(in_code) > 0, (name, units, in_code)
