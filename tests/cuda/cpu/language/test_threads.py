"""What threads do together (warps, cooperative groups, the grid), and assert, trap and the clock."""

import numpy as np
import pytest
import torch

from tests.cuda.cpu.language.launching import run, same, signed
from utils import compile_kernel
from utils.cuda.common import gpus

# ---- a warp ---------------------------------------------------------------------------------------------------------

SHUFFLES = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T>
__global__ void shuffles(const T* x, T* out, int width) {
    int i = threadIdx.x, n = blockDim.x;
    T v = x[i];
    for (int k = 0; k < 33; k += 3) {
        T* row = out + 4 * n * (k / 3) + i;
        row[0] = __shfl_sync(0xffffffff, v, k, width);
        row[n] = __shfl_up_sync(0xffffffff, v, k & 31, width);
        row[2 * n] = __shfl_down_sync(0xffffffff, v, k & 31, width);
        row[3 * n] = __shfl_xor_sync(0xffffffff, v, k & 31, width);
    }
}
__global__ void pairs(const half2* x, half2* out, const __nv_bfloat162* y, __nv_bfloat162* out2) {
    int i = threadIdx.x;
    out[i] = __shfl_down_sync(0xffffffff, x[i], 1);
    out2[i] = __shfl_xor_sync(0xffffffff, y[i], 1);
}
"""
SHUFFLED = {
    "int": torch.int32,
    "unsigned int": torch.int32,
    "long": torch.int64,
    "unsigned long long": torch.int64,
    "float": torch.float32,
    "double": torch.float64,
    "__half": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
}


def shuffled(lane, kind, k, width):
    """The lane whose value a shuffle gives ("CUDA C++ Programming Guide", Warp Shuffle Functions)."""
    first = lane // width * width
    if kind == "index":
        return first + k % width
    other = {"up": lane - k, "down": lane + k, "xor": lane ^ k}[kind]
    if kind == "xor":
        return other if other < first + width else lane
    return other if first <= other < first + width else lane


@pytest.mark.parametrize("c_type, width", [*((t, 32) for t in SHUFFLED), ("int", 8), ("float", 16), ("double", 1)])
def test_shuffles(backend, c_type, width):
    dtype, n = SHUFFLED[c_type], 64
    x = torch.randn(n).to(dtype) if dtype.is_floating_point else torch.randint(-(2**31), 2**31 - 1, (n,)).to(dtype)
    _, out = run(backend, SHUFFLES, f"shuffles<{c_type}>", 1, n, x, torch.zeros(11, 4, n, dtype=dtype), width)
    for row, k in enumerate(range(0, 33, 3)):
        for column, kind in enumerate(("index", "up", "down", "xor")):
            source = [i // 32 * 32 + shuffled(i % 32, kind, k if kind == "index" else k & 31, width) for i in range(n)]
            same(out[row, column], x[source])


def test_shuffles_of_pairs(backend):
    x, y = torch.randn(32, 2).half(), torch.randn(32, 2).bfloat16()
    _, out, _, out2 = run(backend, SHUFFLES, "pairs", 1, 32, x, torch.zeros_like(x), y, torch.zeros_like(y))
    same(out, x[[*range(1, 32), 31]])
    same(out2, y[[i ^ 1 for i in range(32)]])


VOTES = r"""
__global__ void votes(const int* x, int* out, int n) {
    int i = threadIdx.x, lane = i % 32;
    if (i >= n) return;
    unsigned here = __ballot_sync(0xffffffff, 1);
    int all, none;
    int results[] = {(int)here, (int)__ballot_sync(here, x[i] > 3), __any_sync(here, x[i] == 5),
                     __all_sync(here, x[i] < 7),
                     (int)__match_any_sync(here, x[i]), (int)__match_all_sync(here, x[i] / 100, &all),
                     (int)__match_all_sync(here, (double)x[i], &none), all, none,
                     (int)__match_any_sync(here, (unsigned long long)x[i] << 40)};
    for (int k = 0; k < 10; k++) out[k * n + i] = results[k];
    int part = lane % 3 == 0;  // two parts of the warp, each by itself
    unsigned mask = __ballot_sync(here, part);
    if (!part) mask = here & ~mask;
    out[10 * n + i] = __reduce_add_sync(mask, x[i]);
    out[11 * n + i] = __reduce_min_sync(mask, x[i] - 5);
    out[12 * n + i] = __reduce_max_sync(mask, (unsigned)x[i]);
    out[13 * n + i] = __reduce_and_sync(mask, (unsigned)x[i] | 8);
    out[14 * n + i] = __reduce_or_sync(mask, (unsigned)x[i]);
    out[15 * n + i] = __reduce_xor_sync(mask, (unsigned)x[i]);
    if (part) out[16 * n + i] = __popc(__activemask() & mask) > 0;
    __syncwarp(here);
}
__global__ void in_turns(int* out) {  // __syncwarp orders memory
    __shared__ int s[64];
    int i = threadIdx.x, first = i / 32 * 32;
    s[i] = i;
    for (int step = 1; step < 32; step *= 2) {
        __syncwarp();
        int v = s[first + (i + step) % 32];
        __syncwarp();
        s[i] += v;
    }
    out[i] = s[i];
}
"""


def test_votes(backend):
    n = 75  # the last warp has 11 threads
    x = torch.randint(0, 8, (n,), generator=torch.Generator().manual_seed(8)).to(torch.int32)
    x[32:64] = 4
    _, out = run(backend, VOTES, "votes", 1, 96, x, torch.zeros(17, n).int(), n)
    for first in (0, 32, 64):
        lanes = range(first, min(first + 32, n))
        v = x[first : first + 32].tolist()
        mask = lambda chosen: signed(sum(1 << k for k, yes in enumerate(chosen) if yes))  # noqa: E731
        everyone = mask([True] * len(v))
        for i in lanes:
            got, own = out[:, i].tolist(), v[i - first]
            alike = len(set(v)) == 1
            wanted = [everyone, mask([k > 3 for k in v]), int(5 in v), int(max(v) < 7), mask([k == own for k in v])]
            wanted += [everyone, everyone if alike else 0, 1, int(alike), mask([k == own for k in v])]
            mine = [k for at, k in enumerate(v) if (at % 3 == 0) == ((i - first) % 3 == 0)]
            xor = 0
            for k in mine:
                xor ^= k
            together = [sum(mine), min(mine) - 5, max(mine), int(np.bitwise_and.reduce([k | 8 for k in mine]))]
            wanted += [*together, int(np.bitwise_or.reduce(mine)), xor, int((i - first) % 3 == 0)]
            assert got == wanted, i


def test_syncwarp_orders(backend):
    (out,) = run(backend, VOTES, "in_turns", 1, 64, torch.zeros(64).int())
    assert out.tolist() == [sum(range(32))] * 32 + [sum(range(32, 64))] * 32


# ---- cooperative groups ---------------------------------------------------------------------------------------------

GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;

struct Big { double a; int b; float c; int d[4]; };  // 32 bytes

__device__ int ask(const cg::thread_group& g) { g.sync(); return (int)(1000 * g.size() + g.thread_rank()); }
template <class Group> __device__ int sum(Group g, int v) { cg::sync(g); return cg::reduce(g, v, cg::plus<int>()); }

template <int N>
__global__ void tiles(const int* x, int* out, float* scanned) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<N>(block);
    int i = block.thread_rank(), n = block.size(), v = x[i], all;
    cg::thread_block_tile<N> plain = tile;
    auto single = cg::this_thread();
    int results[] = {(int)tile.thread_rank(), (int)tile.size(), (int)tile.meta_group_rank(),
                     (int)tile.meta_group_size(), tile.shfl(v, 1), tile.shfl_up(v, 1), tile.shfl_down(v, 1),
                     tile.shfl_xor(v, 1),
                     tile.any(v == 3), tile.all(v < 6), (int)tile.ballot(v & 1), (int)tile.match_any(v),
                     sum(plain, v), cg::reduce(tile, v, cg::less<int>()), cg::reduce(tile, v, cg::bit_xor<int>()),
                     cg::inclusive_scan(tile, v), cg::exclusive_scan(tile, v, cg::plus<int>()),
                     cg::reduce(tile, v, [](int a, int b) { return a > b ? a : b; }), ask(tile), ask(block),
                     (int)tile.match_all(v, all), all, (int)single.size(), ask(cg::tiled_partition(block, N))};
    for (int k = 0; k < 24; k++) out[k * n + i] = results[k];
    scanned[i] = cg::inclusive_scan(tile, 0.1f * v);
    Big big = {0.5 * v, v, 2.0f * v, {v, v, v, 7 * v}};
    big = cg::reduce(tile, big, [](Big p, Big q) { return p.b >= q.b ? p : q; });
    scanned[n + i] = (float)big.a + big.b + big.c + big.d[3];
}
__global__ void parts(const int* x, int* out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int i = block.thread_rank(), n = block.size(), v = x[i];
    auto sign = cg::binary_partition(warp, v > 4);
    auto label = cg::labeled_partition(warp, v);
    auto three = cg::tiled_partition(label, 2);
    auto four = cg::tiled_partition<4>(cg::tiled_partition<16>(warp));
    int results[] = {(int)sign.size(), (int)sign.thread_rank(), (int)sign.meta_group_rank(), (int)label.size(),
                     (int)label.thread_rank(), (int)label.meta_group_size(), sum(sign, i), cg::inclusive_scan(label, i),
                     cg::exclusive_scan(label, i), sign.shfl(i, 0), sign.shfl_down(i, 1), sign.shfl_up(i, 2),
                     (int)three.size(), (int)three.meta_group_rank(), (int)four.meta_group_rank(), sum(four, v),
                     (int)sign.ballot(v & 1)};
    for (int k = 0; k < 17; k++) out[k * n + i] = results[k];
    if (v == 2) {
        auto some = cg::coalesced_threads();
        int first = cg::invoke_one_broadcast(some, [&] { return 5; });
        out[17 * n + i] = sum(some, 1) <= (int)warp.size() && first == 5 && some.thread_rank() < some.size();
    }
    dim3 at = block.thread_index(), dim = block.group_dim(), group = block.group_index();
    out[18 * n + i] = at.x + 100 * at.y + 10000 * dim.x + 1000000 * (dim.y + group.x);
}
__global__ void whole_grid(int* counts, int* out) {
    cg::grid_group grid = cg::this_grid();
    atomicAdd(counts, 1);
    grid.sync();
    int first = *(volatile int*)counts;
    grid.sync();
    atomicAdd(counts + 1, (int)grid.thread_rank());
    cg::sync(grid);
    int all = first + (int)grid.size() + (int)grid.num_blocks() + *(volatile int*)(counts + 1);
    out[grid.thread_rank()] = all + grid.is_valid();
}
template <int N>
__global__ void several_warps(const int* x, int* out, float* sums) {
    __shared__ cg::block_tile_memory<256> memory;
    __shared__ int handed[256];
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<N>(block);
    auto half = cg::tiled_partition<N / 2>(tile);
    int i = block.thread_rank(), n = block.size(), v = x[i];
    int results[] = {(int)tile.thread_rank(), (int)tile.size(), (int)tile.meta_group_rank(),
                     (int)tile.meta_group_size(), (int)tile.num_threads(),
                     tile.shfl(v, 5), tile.any(v == 3), tile.all(v < 6), sum(tile, v), sum(half, v),
                     cg::reduce(tile, v, cg::greater<int>()), cg::inclusive_scan(tile, v), cg::exclusive_scan(tile, v),
                     cg::invoke_one_broadcast(tile, [&] { return v; })};
    handed[i] = v;
    WAIT;
    for (int k = 0; k < 14; k++) out[k * n + i] = results[k];
    out[14 * n + i] = handed[i / N * N + (i + N / 2) % N];
    sums[i] = cg::reduce(tile, 0.1f * v, cg::plus<float>());
    if (tile.meta_group_rank() == 0) tile.sync();
}
__global__ void into_atomics(const int* x, cuda::atomic<int, cuda::thread_scope_device>* out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int v = x[cg::this_thread_block().thread_rank()];
    cg::reduce_update_async(tile, out[0], v, cg::plus<int>());
    cg::reduce_update_async(tile, out[1], v, cg::greater<int>());
    cg::reduce_store_async(tile, out[2 + tile.meta_group_rank()], v, cg::less<int>());
}
"""


SYNCED = GROUPS.replace("WAIT", "tile.sync()")


@pytest.mark.parametrize("size", [1, 2, 8, 16, 32])
def test_tiles(backend, size):
    n = 64
    x = torch.randint(0, 7, (n,), generator=torch.Generator().manual_seed(size)).to(torch.int32)
    _, out, scanned = run(backend, SYNCED, f"tiles<{size}>", 1, n, x, torch.zeros(24, n).int(), torch.zeros(2, n))
    v = x.tolist()
    mask = lambda chosen: signed(sum(1 << k for k, yes in enumerate(chosen) if yes))  # noqa: E731
    for i in range(n):
        first, rank = i // size * size, i % size
        mine = v[first : first + size]
        alike = len(set(mine)) == 1
        up, down = (rank - 1 if rank else rank), (rank + 1 if rank + 1 < size else rank)
        xor = rank ^ 1 if rank ^ 1 < size else rank
        wanted = [rank, size, first // size, n // size, mine[1 % size], mine[up], mine[down], mine[xor]]
        wanted += [int(3 in mine), int(max(mine) < 6), mask([k & 1 for k in mine]), mask([k == v[i] for k in mine])]
        wanted += [sum(mine), min(mine), int(np.bitwise_xor.reduce(mine)), sum(mine[: rank + 1]), sum(mine[:rank])]
        wanted += [max(mine), 1000 * size + rank, 1000 * n + i, mask([True] * size) if alike else 0, int(alike), 1]
        wanted += [1000 * size + rank]
        if size == 1:
            wanted[7] = int(out[7, i])  # lane 1 of a tile of one is nowhere: CUDA promises nothing
        assert out[:, i].tolist() == wanted, i
    groups = x.view(-1, size).double()
    torch.testing.assert_close(scanned[0].view(-1, size), (0.1 * groups).cumsum(1).float())
    same(scanned[1].view(-1, size), (10.5 * groups.amax(1, keepdim=True)).float().expand(-1, size))


@pytest.mark.parametrize("size", [64, 128, 256])
def test_tiles_of_several_warps(backend, size):
    n = 256
    x = torch.randint(0, 7, (n,), generator=torch.Generator().manual_seed(size)).to(torch.int32)
    _, out, sums = run(backend, SYNCED, f"several_warps<{size}>", 1, n, x, torch.zeros(15, n).int(), torch.zeros(n))
    v = x.tolist()
    for i in range(n):
        first, rank = i // size * size, i % size
        mine, half = v[first : first + size], v[i // (size // 2) * (size // 2) :][: size // 2]
        wanted = [rank, size, first // size, n // size, size, mine[5], int(3 in mine), int(max(mine) < 6), sum(mine)]
        wanted += [sum(half), max(mine), sum(mine[: rank + 1]), sum(mine[:rank]), mine[0]]
        assert out[:, i].tolist() == [*wanted, mine[(rank + size // 2) % size]], i
    groups = (0.1 * x.double()).view(-1, size).sum(1, keepdim=True).float()
    torch.testing.assert_close(sums.view(-1, size), groups.expand(-1, size))


def test_a_trace_of_a_tile_of_several_warps():
    given = torch.arange(256).int(), torch.zeros(15, 256).int(), torch.zeros(256)
    trace = compile_kernel(SYNCED, "several_warps<64>").trace[1, 256](*given)
    assert trace.ok, trace
    trace = compile_kernel(GROUPS.replace("WAIT", "half.sync()"), "several_warps<128>").trace[1, 256](*given)
    assert {problem.kind for problem in trace.problems} == {"race"} and "handed" in trace.problems[0].message
    source = GROUPS.replace("WAIT", "if (half.meta_group_rank() == 0) tile.sync()")
    with pytest.raises(RuntimeError, match="waits in vain at group.sync: 64 of 128 threads have come"):
        compile_kernel(source, "several_warps<128>")[1, 128](*given)


ABSENT = """
#include <cooperative_groups.h>
__global__ void k(const int* x, int* out, unsigned mask, int rank) {
    int i = threadIdx.x;
    if (mask >> i & 1) out[i] = cooperative_groups::coalesced_threads().shfl(x[i], rank);
}"""


@pytest.mark.parametrize("mask, lane", [(0xFFFFFFFF, 40 % 32), (0xF00000F0, 31)])
def test_a_rank_that_a_group_does_not_have(backend, mask, lane):
    x = torch.arange(32).int() * 10
    (out,) = run(backend, ABSENT, "k", 1, 32, x, torch.full((32,), -1).int(), mask, 40)[1:2]
    assert out.tolist() == [10 * lane if mask >> i & 1 else -1 for i in range(32)]


def test_a_trace_of_a_rank_that_a_group_does_not_have():
    trace = compile_kernel(ABSENT, "k").trace[1, 32](torch.arange(32).int(), torch.zeros(32).int(), 0xF0, 40)
    assert {problem.kind for problem in trace.problems} == {"undefined_shuffle"}


def test_sums_that_go_into_atomics(backend):
    x = torch.randint(-9, 10, (64,), generator=torch.Generator().manual_seed(3)).to(torch.int32)
    x[5] = 20
    _, out = run(backend, SYNCED, "into_atomics", 1, 64, x, torch.zeros(10).int())
    assert out.tolist() == [x.sum(), 20, *x.view(8, 8).amin(1).tolist()]


def test_parts_of_a_warp(backend):
    n = 64
    x = torch.randint(0, 7, (n,), generator=torch.Generator().manual_seed(11)).to(torch.int32)
    _, out = run(backend, SYNCED, "parts", 1, (16, 4), x, torch.full((19, n), -1).int())
    v = x.tolist()
    for i in range(n):
        first = i // 32 * 32
        warp = range(first, first + 32)
        sign = [k for k in warp if (v[k] > 4) == (v[i] > 4)]
        label = [k for k in warp if v[k] == v[i]]
        labels = {v[k] for k in warp}
        at, in_label = sign.index(i), label.index(i)
        pair = label[in_label // 2 * 2 :][:2]
        wanted = [
            len(sign),
            at,
            int(v[i] > 4),
            len(label),
            in_label,
            len(labels),
            sum(sign),
            sum(label[: in_label + 1]),
        ]
        wanted += [sum(label[:in_label]), sign[0], sign[min(at + 1, len(sign) - 1)], sign[at - 2] if at >= 2 else i]
        wanted += [len(pair), in_label // 2, i % 16 // 4, sum(v[i // 4 * 4 :][:4])]
        wanted += [signed(sum(1 << k for k, lane in enumerate(sign) if v[lane] & 1))]
        assert out[:17, i].tolist() == wanted, i
        assert out[17, i] == (1 if v[i] == 2 else -1)
        assert out[18, i] == i % 16 + 100 * (i // 16) + 10000 * 16 + 1000000 * 4


def test_grid_sync(backend):
    blocks, threads = 3, 40
    n = blocks * threads
    counts, out = run(backend, SYNCED, "whole_grid", blocks, threads, torch.zeros(2).int(), torch.zeros(n).int())
    assert counts.tolist() == [n, sum(range(n))]
    assert out.tolist() == [2 * n + blocks + sum(range(n)) + 1] * n


# ---- the rest -------------------------------------------------------------------------------------------------------

REST = r"""
#include <cassert>
__device__ float twice(float x) { return 2 * x; }
__global__ void checked(const float* x, float* out, int n) {
    int i = threadIdx.x;
    assert(n > 0 && "a text, with a comma");
    assert(x[i] >= 0);
    __builtin_assume(n > 0);
    out[i] = twice(x[i]);
}
__global__ void trapped(int at) { if (threadIdx.x == at) __trap(); }
__global__ void places(int* out) {  // which multiprocessor, of how many
    unsigned int id, all;
    asm("mov.u32 %0, %%smid;" : "=r"(id));
    asm("mov.u32 %0, %%nsmid;" : "=r"(all));
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    out[blockIdx.x] = id < all ? all : -1;
}
__global__ void clocks(long long* out) {
    long long before = clock64();
    __nanosleep(1000);
    __threadfence_block();
    __threadfence_system();
    unsigned long long now;
    unsigned int low;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    asm volatile("mov.u32 %0, %globaltimer_lo;" : "=r"(low));
    out[threadIdx.x] = low - (unsigned int)now < 1'000'000'000 ? clock64() - before : 0;
}
"""


def test_assert_and_trap(monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    cpu, x = torch.device("cpu"), torch.arange(40.0)
    _, out = run(cpu, REST, "checked", 1, 40, x, torch.zeros(40), 40)
    same(out, 2 * x)
    x[17] = -1
    with pytest.raises(RuntimeError, match=r"x\[i\] >= 0"):
        run(cpu, REST, "checked", 1, 40, x, torch.zeros(40), 40)
    with pytest.raises(RuntimeError, match="trap"):
        run(cpu, REST, "trapped", 2, 64, 5)


def test_clock(backend):
    (out,) = run(backend, REST, "clocks", 1, 64, torch.zeros(64, dtype=torch.int64))
    assert (out > 0).all()


def test_the_multiprocessor_of_a_block(backend):
    (out,) = run(backend, REST, "places", 300, 1, torch.zeros(300, dtype=torch.int32))
    most = gpus.chosen().multiprocessors
    assert out.eq(most if backend.type == "cpu" else out[0]).all() and out[0] > 0
