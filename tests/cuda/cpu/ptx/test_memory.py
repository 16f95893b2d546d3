"""Memory, warps and copies of inline PTX: results, and what a trace says of their bugs."""

import re

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import compile_kernels

SOURCE = r"""
#include <cuda_fp16.h>
__device__ unsigned int shared_at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__global__ void spaces(const float4* x, float4* y, int* out) {
    __shared__ float4 tile[32];
    int i = threadIdx.x;
    unsigned int at, a, b, c, d, other = shared_at(tile + 31 - i);
    asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(at) : "l"(tile + i));
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(x + i));
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(at), "r"(d), "r"(c), "r"(b), "r"(a) : "memory");
    asm volatile("bar.sync 0;" ::: "memory");
    float e, f;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + 8];" : "=f"(e), "=f"(f) : "r"(other));
    asm volatile("st.global.cs.v2.f32 [%0], {%1, %2};" :: "l"(y + i), "f"(e), "f"(f));
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(e) : "r"(other));
    y[i].z = e;
    int s;
    asm("{ .reg .pred p, q; isspacep.shared p, %1; isspacep.global q, %2; and.pred p, p, q; selp.s32 %0, 1, 0, p; }"
        : "=r"(s) : "l"(tile), "l"(x));
    asm volatile("ld.volatile.global.s8 %0, [%1];" : "=r"(a) : "l"((char*)out + i));
    out[8 + i] = s + 2 * a;
}
__global__ void together(int* out) {
    int i = threadIdx.x, r;
    unsigned int all = 0xffffffff, u;
#define LANES(row, ptx, ...) asm volatile(ptx : "=r"(r) : "r"(i), "r"(all), ##__VA_ARGS__); out[32 * row + i] = r;
    LANES(0, "shfl.sync.up.b32 %0, %1, 3, 0, %2;")
    LANES(1, "shfl.sync.down.b32 %0, %1, 5, 0x180f, %2;")
    LANES(2, "shfl.sync.bfly.b32 %0, %1, 6, 31, %2;")
    LANES(3, "{ .reg .pred p; shfl.sync.idx.b32 %0|p, %1, 9, 0x1807, %2; @!p mov.u32 %0, 77; }")
    LANES(4, "{ .reg .pred p, q; setp.lt.u32 p, %1, 7; vote.sync.any.pred q, p, %2; selp.u32 %0, 1, 0, q; }")
    LANES(5, "{ .reg .pred p; setp.lt.u32 p, %1, 7; vote.sync.ballot.b32 %0, p, %2; }")
    LANES(6, "{ .reg .u32 h; shr.u32 h, %1, 3; match.any.sync.b32 %0, h, %2; }")
    LANES(7, "redux.sync.add.s32 %0, %1, %2;")
    LANES(8, "redux.sync.max.u32 %0, %1, %2;")
    LANES(9, "{ .reg .pred p; elect.sync %0|p, %2; @p add.u32 %0, %0, 5; }")
    LANES(10, "activemask.b32 %0;")
    LANES(11, "{ .reg .pred p; match.all.sync.b32 %0|p, 4, %2; @!p mov.u32 %0, 0; }")
    LANES(12, "mov.u32 %0, %%lanemask_lt;")
    asm volatile("bar.warp.sync %0;" :: "r"(all));
    asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 3; barrier.red.popc.u32 %0, 0, p; }" : "=r"(u) : "r"(i));
    out[32 * 13 + i] = u;
}
__global__ void atomics(unsigned int* x, float* f, unsigned int* out, __half2* h) {
    unsigned int old, i = threadIdx.x;
    asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(x), "r"(1));
    out[old] = 1;
    asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" :: "l"(x + 1), "r"(i * 3));
    asm volatile("atom.global.inc.u32 %0, [%1], 6;" : "=r"(old) : "l"(x + 2));
    asm volatile("red.add.f32 [%0], %1;" :: "l"(f), "f"(0.5f));
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], 5, %2;" : "=r"(old) : "l"(x + 3), "r"(i));
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(h), "r"(0x40003c00));
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(f + 2), "f"(1.0f), "f"(2.0f));
    asm volatile("st.release.gpu.global.u32 [%0], 9; fence.acq_rel.gpu; membar.gl;" :: "l"(x + 4) : "memory");
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1]; nanosleep.u32 20;" : "=r"(old) : "l"(x + 4) : "memory");
    asm volatile("st.global.release.gpu.u32 [%0], %1;" :: "l"(x + 4), "r"(old) : "memory");  // ptxas takes any order
    asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(old) : "l"(x + 4) : "memory");
    asm volatile("red.global.gpu.relaxed.max.u32 [%0], %1;" :: "l"(x + 1), "r"(old) : "memory");
    out[64 + i] = old;
}
typedef unsigned __int128 wide;
__global__ void pairs(ulonglong2* pair, wide* taken) {  // all add 1 and their number at once, and hand on what they saw
    unsigned long long count, sum, i = threadIdx.x + blockIdx.x * blockDim.x;
    wide old, expected, next;
    asm volatile("ld.relaxed.gpu.global.b128 %0, [%1];" : "=q"(old) : "l"(pair));
    do {
        expected = old;
        asm("mov.b128 {%0, %1}, %2;" : "=l"(count), "=l"(sum) : "q"(old));
        asm("{ .reg .b128 t; mov.b128 t, {%1, %2}; mov.b128 %0, t; }" : "=q"(next) : "l"(count + 1), "l"(sum + i));
        asm volatile("atom.acq_rel.gpu.global.cas.b128 %0, [%1], %2, %3;"
                     : "=q"(old) : "l"(pair), "q"(expected), "q"(next) : "memory");
    } while (old != expected);
    asm volatile("atom.exch.b128 %0, [%1], %2;" : "=q"(taken[i]) : "l"(pair + 1), "q"(old) : "memory");
    __shared__ ulonglong2 own;
    if (threadIdx.x > 0) return;
    own = make_ulonglong2(5, 6);
    asm volatile("atom.shared.exch.b128 %0, [%1], -1;" : "=q"(old) : "r"(shared_at(&own)) : "memory");
    asm volatile("st.release.gpu.b128 [%0], %1;" :: "l"(pair + 2), "q"(old) : "memory");
    asm volatile("st.global.v2.b64 [%0], {%1, %2};" :: "l"(pair + 3), "l"(own.x), "l"(own.y) : "memory");
}
__global__ void hints(float* x, int* out) {  // 2 rows of 32, of which one loses its values
    unsigned long long policy;
    asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %0, [%1], 128, 256;"
                 : "=l"(policy) : "l"(x));
    asm volatile("ld.global.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(out[0]) : "l"(x), "l"(policy));
    asm volatile("prefetchu.L1 [%0]; applypriority.global.L2::evict_normal [%0], 128; pmevent 3;" :: "l"(x));
    asm volatile("discard.global.L2 [%0], 128;" :: "l"(x + 32) : "memory");
    x[33] = 2;
}
__global__ void copies(const float4* x, float4* y) {
    __shared__ float4 s[4][32];
    int i = threadIdx.x;
    for (int k = 0; k < 4; k++) s[k][i] = make_float4(9, 9, 9, 9);
    unsigned int to = shared_at(&s[0][i]);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(to), "l"(x + i));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(to + 512), "l"(x + i), "n"(16), "r"(i % 5 * 4));
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, 8; cp.async.ca.shared::cta.global [%0], [%1], 8, p; }"
                 :: "r"(to + 1024), "l"(x + i), "r"(i));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    y[i] = s[0][i];
    y[32 + i] = s[1][i];
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to + 1536), "l"(x + i));
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int k = 1; k < 4; k++) y[32 * k + 32 + i] = s[k][i];
}
"""


@pytest.fixture(scope="module")
def kernels():
    names = ["spaces", "together", "atomics", "pairs", "hints", "copies"]
    return dict(zip(names, compile_kernels(SOURCE, names), strict=True))


def test_loads_and_stores(kernels):
    x, y = torch.randn(32, 4), torch.zeros(32, 4)
    out = torch.full((40,), -1, dtype=torch.int32)
    kernels["spaces"][1, 32](x, y, out)
    back = x.flip(0)
    torch.testing.assert_close(y[:, :3], torch.stack([back[:, 1], back[:, 0], back[:, 3]], 1))
    assert out[8:].tolist() == [-1] * 32  # 1 + 2 * -1: the byte's sign goes on


def test_lanes(kernels):
    out = torch.zeros(14, 32, dtype=torch.int32)
    kernels["together"][1, 32](out)
    i, rows = range(32), out.tolist()
    assert rows[0] == [k - 3 if k >= 3 else k for k in i]
    assert rows[1] == [k + 5 if k % 8 + 5 < 8 else k for k in i]
    assert rows[2] == [k ^ 6 for k in i]
    assert rows[3] == [k // 8 * 8 + 1 for k in i]
    assert rows[4] == [1] * 32 and rows[5] == [127] * 32
    assert [x & 0xFFFFFFFF for x in rows[6]] == [0xFF << k // 8 * 8 for k in i]
    assert rows[7] == [496] * 32 and rows[8] == [31] * 32
    assert rows[9] == [5] + [0] * 31 and rows[10] == rows[11] == [-1] * 32
    assert rows[12] == [(1 << k) - 1 for k in i] and rows[13] == [28] * 32


def test_atomics(kernels):
    x, f = torch.tensor([0, 0, 0, 5, 0], dtype=torch.int32), torch.zeros(4)
    out, h = torch.zeros(128, dtype=torch.int32), torch.zeros(2, dtype=torch.float16)
    kernels["atomics"][1, 64](x, f, out, h)
    assert x[:3].tolist() == [64, 189, 64 % 7] and x[3] != 5 and x[4] == 9
    assert f.tolist() == [32, 0, 64, 128] and h.tolist() == [64, 128]
    assert out.tolist() == [1] * 64 + [9] * 64


def test_atomics_of_128_bits(kernels):
    pair, taken = torch.zeros(4, 2, dtype=torch.int64), torch.zeros(256, 2, dtype=torch.int64)
    kernels["pairs"][4, 64](pair, taken)
    assert pair[0].tolist() == [256, 255 * 128] and pair[2:].tolist() == [[5, 6], [-1, 0]]
    seen = torch.cat([taken, pair[1:2]])  # what each thread saw was taken by another, or is still there
    assert sorted(seen[:, 0].tolist()) == [0, *range(256)]
    sums = {count: total for count, total in seen.tolist()}
    assert sums[0] == 0 and len({sums[k + 1] - sums[k] for k in range(255)}) == 255


def test_hints_change_nothing_and_discarded_bytes_are_lost(kernels):
    x, out = torch.ones(3, 32), torch.zeros(1, dtype=torch.int32)
    kernels["hints"][1, 1](x, out)
    lost = torch.full((32,), float("nan"))
    lost[1] = 2
    torch.testing.assert_close(x, torch.stack([torch.ones(32), lost, torch.ones(32)]), equal_nan=True)
    assert out.item() == 0x3F800000


def test_asynchronous_copies(kernels):
    x, y = torch.randn(32, 4), torch.zeros(5, 32, 4)
    kernels["copies"][1, 32](x, y)
    nine = torch.full((32, 4), 9.0)
    kept = torch.tensor([[k < i % 5 for k in range(4)] for i in range(32)])
    torch.testing.assert_close(y[0], x)
    torch.testing.assert_close(y[1], nine)  # its group has not been waited for
    torch.testing.assert_close(y[2], x * kept)
    half = torch.where(torch.arange(32)[:, None] < 8, torch.zeros(32, 4), x)
    torch.testing.assert_close(y[3], torch.where(torch.arange(4) < 2, half, nine))
    torch.testing.assert_close(y[4], torch.where(torch.arange(4) < 1, x, nine))


BUGS = r"""
__device__ unsigned int shared_at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__global__ void outside(const float* x, float* y) {
    float f;
    asm volatile("ld.global.f32 %0, [%1];"
        : "=f"(f)
        : "l"(x + threadIdx.x + 1));
    y[threadIdx.x] = f;
}
__global__ void race(float* y) {
    __shared__ float s[64];
    unsigned int at = shared_at(s + threadIdx.x);
    asm volatile(
        "{ .reg .f32 one;\n\t"
        "mov.f32 one, 0f3F800000;\n\t"
        "st.shared.f32 [%0], one; }" :: "r"(at) : "memory");
    y[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void early(const float* x, float* y) {
    __shared__ float s[32];
    unsigned int at = shared_at(s + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(x + threadIdx.x));
    asm volatile("cp.async.commit_group;");
    y[threadIdx.x] = s[threadIdx.x];
    asm volatile("cp.async.wait_all;" ::: "memory");
}
__global__ void clean(const float* x, float* y) {
    __shared__ float s[32];
    unsigned int at = shared_at(s + threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(x + threadIdx.x));
    asm volatile("cp.async.wait_all; bar.sync 0;" ::: "memory");
    float f;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(f) : "r"(shared_at(s + 31 - threadIdx.x)));
    y[threadIdx.x] = f;
}
__global__ void pairs(float* y) {
    unsigned long long at = (unsigned long long)y + (threadIdx.x == 31 ? 8 : 0);
    asm volatile("{ .reg .b128 a, b; mov.b128 a, 0;\n"
                 "atom.global.exch.b128 b, [%0], a; }" :: "l"(at) : "memory");
    if (threadIdx.x == 0) y[31] = y[2];
}
"""


@pytest.mark.parametrize(
    "name, threads, arguments, says",
    [
        ("outside", 32, 2, r"reads x\[32\], but x has 32 elements \(line 5"),
        ("race", 64, 1, r"Put `__syncthreads\(\);` between lines 16 and 17"),
        ("early", 32, 2, r"line 24"),
        ("clean", 32, 2, ""),
    ],
)
def test_a_trace_names_the_line_of_the_instruction(name, threads, arguments, says):
    tensors = [torch.arange(float(threads)), torch.zeros(threads)][-arguments:]
    trace = compile_kernel(BUGS, name).trace[1, threads](*tensors)
    problems = [str(problem) for problem in trace.problems]
    assert bool(problems) == bool(says)
    assert any(re.search(says, problem) for problem in problems) or not says, problems


def test_a_trace_of_atomics_of_128_bits():
    trace = compile_kernel(BUGS, "pairs").trace[1, 32](torch.zeros(32))
    race, misaligned = map(str, trace.problems)
    assert re.search(
        r"both touch y\[0\] to y\[3\]: .* updates it atomically in line 39 .* the other reads it in line 40", race
    )
    assert re.search(r"thread \(31,0,0\) .* updates 16 bytes atomically at y\[2\], .* a multiple of 16", misaligned)
    row = trace.requests.iloc[0]
    assert (row.line, row.op, row["bytes"], row.requests, row.sectors) == (39, "atomic", 16, 1, 1)


@pytest.mark.usefixtures("on_cpu")
def test_an_address_that_is_not_aligned_ends_a_launch_as_on_a_gpu():
    source = """__global__ void k(const char* x, char* y, int from, int to) {
        __shared__ __align__(16) char s[64];
        int a, b, c, d;
        long long in_shared = __cvta_generic_to_shared(s);
        asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(x + from));
        asm volatile("st.shared.v2.s32 [%0], {%1, %2};" :: "l"(in_shared + to), "r"(a), "r"(b) : "memory");
        asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" :: "l"(y + to + 4), "r"(d) : "memory");
    }"""
    kernel, y = compile_kernel(source, "k"), torch.zeros(64, dtype=torch.uint8)
    x = torch.arange(64, dtype=torch.uint8)
    kernel[1, 1](x, y, 16, 8)
    assert y[12:16].tolist() == [28, 29, 30, 31]
    for at, told in {
        (4, 8): "reads 16 bytes at byte 4 of a tensor",
        (16, 4): "writes 8 bytes at an address in shared",
    }.items():
        with pytest.raises(RuntimeError, match=f"misaligned address: thread .* {told}.* not a multiple of"):
            kernel[1, 1](x, y, *at)
    with pytest.raises(RuntimeError, match="misaligned address: .* writes 4 bytes at byte 6 of"):
        compile_kernel(source.replace("in_shared + to", "in_shared"), "k")[1, 1](x, y, 0, 2)
