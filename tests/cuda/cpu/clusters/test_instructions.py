"""PTX and intrinsics of clusters, one tiny kernel for each."""

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import compile_kernels

BLOCKS, THREADS = 4, 32  # in a cluster

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda/ptx>
namespace cg = cooperative_groups;
#define CLUSTER __cluster_dims__(4, 1, 1)
__device__ unsigned int at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ unsigned int map(unsigned int address, unsigned int rank) {
    unsigned int there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
__device__ unsigned int my_rank() { unsigned int r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }

__global__ void __cluster_dims__(2, 2, 2) places(int* out) {
    if (threadIdx.x) return;
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x, k = 0;
    unsigned int r;
#define PLACE(name) asm volatile("mov.u32 %0, %%" name ";" : "=r"(r)); out[block * 19 + k++] = r;
#define PLACES(name) PLACE(name ".x") PLACE(name ".y") PLACE(name ".z")
    PLACES("cluster_ctaid") PLACES("cluster_nctaid") PLACES("clusterid") PLACES("nclusterid")
    PLACE("cluster_ctarank") PLACE("cluster_nctarank")
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(r));
    out[block * 19 + k++] = r;
    auto cluster = cg::this_cluster();
    out[block * 19 + k++] = cluster.block_rank() * 100 + cluster.num_blocks();
    out[block * 19 + k++] = cluster.block_index().y * 100 + cluster.dim_blocks().z;
    out[block * 19 + k++] = __clusterRelativeBlockRank() * 100 + __clusterSizeInBlocks();
    out[block * 19 + k++] = cluster.num_threads() * 1000 + cluster.thread_rank();
}
__global__ void CLUSTER addresses(int* out) {
    __shared__ int s[32];
    unsigned int rank = my_rank(), i = threadIdx.x, r, far = map(at(s + i), (rank + 1) % 4);
    unsigned long long p, q;
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r) : "r"(far));
    bool right = r == (rank + 1) % 4;
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r) : "r"(at(s)));
    right &= r == rank;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(p) : "l"(s + i), "r"((rank + 1) % 4));
    asm volatile("cvta.shared::cluster.u64 %0, %1;" : "=l"(q) : "l"((unsigned long long)far));
    right &= p == q && p == (unsigned long long)cg::this_cluster().map_shared_rank(s + i, (rank + 1) % 4);
    asm volatile("getctarank.u64 %0, %1;" : "=r"(r) : "l"(p));
    right &= r == (rank + 1) % 4 && cg::this_cluster().query_shared_rank((void*)p) == r;
    asm volatile("cvta.to.shared::cluster.u64 %0, %1;" : "=l"(q) : "l"(p));
    right &= (unsigned int)q == far;
    asm volatile("{ .reg .pred a, b, c; isspacep.shared::cluster a, %1; isspacep.shared::cta b, %1;\n"
                 "isspacep.global c, %1;\n"
                 "not.pred b, b; not.pred c, c; and.pred a, a, b; and.pred a, a, c; selp.u32 %0, 1, 0, a; }"
                 : "=r"(r) : "l"(p));
    right &= r == 1;
    out[blockIdx.x * 32 + i] = right;
}
__global__ void CLUSTER accesses(int* out) {
    __shared__ int s[32], sums[8];
    __shared__ int4 wide[32];
    unsigned int rank = my_rank(), i = threadIdx.x, next = (rank + 1) % 4;
    s[i] = rank * 100 + i;
    wide[i] = make_int4(i, rank, 0, 0);
    if (i < 8) sums[i] = 0;
    meet();
    int a, b, c, d;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(a) : "r"(map(at(s + 31 - i), next)));
    asm volatile("ld.shared::cluster.s32 %0, [%1 + 4];" : "=r"(b) : "r"(at(s + (i < 31 ? i : 0))));
    asm volatile("ld.shared::cluster.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(c), "=r"(d), "=r"(a), "=r"(b) : "r"(map(at(wide + i), next)));
    int e, f;
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(e) : "r"(map(at(s + 31 - i), next)));
    asm volatile("ld.shared::cluster.s32 %0, [%1 + 4];" : "=r"(f) : "r"(at(s + (i < 31 ? i : 0))));
    asm volatile("atom.relaxed.cluster.shared::cluster.add.u32 %0, [%1], %2;"
                 : "=r"(a) : "r"(map(at(sums), 0)), "r"(1));
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" :: "r"(map(at(sums + 1), next)), "r"(i));
    asm volatile("red.shared::cluster.max.u32 [%0], %1;" :: "r"(map(at(sums + 2), next)), "r"(rank * 32 + i));
    atomicAdd(cg::this_cluster().map_shared_rank(sums + 3, next), 2);
    meet();
    int given = rank * 1000 + i;
    asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(map(at(s + i), next)), "r"(given) : "memory");
    meet();
    int* o = out + (blockIdx.x * 32 + i) * 8;
    o[0] = e; o[1] = f; o[2] = c; o[3] = d; o[4] = s[i];
    o[5] = sums[i % 4]; o[6] = a; o[7] = sums[0];
}
__device__ void init(unsigned long long* b, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;"
                 :: "r"(at(b)), "r"(n) : "memory");
}
__device__ void wait(unsigned long long* b, int parity) {
    asm volatile("{ .reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra again; }"
                 :: "r"(at(b)), "r"(parity) : "memory");
}
__device__ void expect(unsigned long long* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(b)), "r"(bytes) : "memory");
}
__global__ void CLUSTER stores(int* out) {
    __shared__ unsigned long long full;
    __shared__ int4 words[32];
    __shared__ int2 pairs[32];
    __shared__ int ones[32];
    __shared__ long long longs[32];
    __shared__ double sums[2];
    int rank = my_rank(), i = threadIdx.x, next = (rank + 1) % 4;
    if (i == 0) {
        init(&full, 1);
        expect(&full, 32 * (16 + 8 + 4 + 8) + 8);
    }
    meet();
    unsigned int bar = map(at(&full), next);
#define ASYNC(what) "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes." what
    asm volatile(ASYNC("v4.b32") " [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(map(at(words + i), next)), "r"(i), "r"(rank), "r"(7), "r"(8), "r"(bar) : "memory");
    asm volatile(ASYNC("v2.b32") " [%0], {%1, %2}, [%3];"
                 :: "r"(map(at(pairs + i), next)), "r"(i), "r"(rank), "r"(bar) : "memory");
    asm volatile(ASYNC("b32") " [%0], %1, [%2];" :: "r"(map(at(ones + i), next)), "r"(i * 3), "r"(bar) : "memory");
    long long wide = (long long)i << 40;
    asm volatile(ASYNC("b64") " [%0], %1, [%2];" :: "r"(map(at(longs + i), next)), "l"(wide), "r"(bar) : "memory");
    if (i == 0)
        asm volatile(ASYNC("f64") " [%0], %1, [%2];"
                     :: "r"(map(at(sums), next)), "d"(0.5 + rank), "r"(bar) : "memory");
    wait(&full, 0);
    int* o = out + (blockIdx.x * 32 + i) * 8;
    o[0] = words[i].x; o[1] = words[i].y; o[2] = words[i].w; o[3] = pairs[i].x; o[4] = pairs[i].y;
    o[5] = ones[i]; o[6] = longs[i] >> 40; o[7] = 2 * sums[0];
    meet();
}
__global__ void CLUSTER reductions(unsigned int* out) {
    __shared__ unsigned long long full;
    __shared__ unsigned int r[9];
    __shared__ unsigned long long sum;
    int rank = my_rank(), i = threadIdx.x;
    if (i < 9) r[i] = i == 1 || i == 3 ? 1000 : i == 5 ? ~0u : i == 8 ? 100 : 0;
    if (i == 0) {
        sum = 1ull << 40;
        init(&full, 1);
        expect(&full, 4 * 32 * (9 * 4 + 8));
    }
    meet();
    unsigned int n = rank * 32 + i + 1;
#define RED(k, what) RED_OF(k, what, n)
#define RED_NAME "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes."
#define RED_OF(k, what, n) asm volatile(RED_NAME what " [%0], %1, [%2];" \
        :: "r"(map(at(r + k), 0)), "r"(n), "r"(map(at(&full), 0)) : "memory");
    RED(0, "add.u32") RED(1, "min.u32") RED(2, "max.u32") RED(3, "min.s32") RED(4, "max.s32") RED(5, "and.b32")
    RED(6, "or.b32") RED(7, "xor.b32") RED_OF(8, "inc.u32", 200)
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%0], %1, [%2];"
                 :: "r"(map(at(&sum), 0)), "l"((unsigned long long)n), "r"(map(at(&full), 0)) : "memory");
    if (rank == 0) {
        wait(&full, 0);
        if (i < 9) out[i] = r[i];
        if (i == 9) out[9] = sum - (1ull << 40);
    }
    meet();
}
__global__ void CLUSTER arrivals(int* out) {  // each block's barrier ends its phase when all peers have arrived there
    __shared__ unsigned long long full;
    __shared__ int s[4];
    int rank = my_rank(), i = threadIdx.x;
    if (i == 0) init(&full, 4);
    meet();
    if (i < 4) {
        asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(map(at(s + rank), i)), "r"(rank * 10 + i) : "memory");
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                     :: "r"(map(at(&full), i)) : "memory");
    }
    wait(&full, 0);
    if (i < 4) out[blockIdx.x * 4 + i] = s[i];
    meet();
}
__global__ void CLUSTER halves(int* out) {  // arrive and wait apart, in both spellings
    __shared__ int s;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) s = cluster.block_rank() + 5;
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    int other = threadIdx.x;
    asm volatile("barrier.cluster.wait;" ::: "memory");
    other += *cluster.map_shared_rank(&s, 3);
    auto token = cluster.barrier_arrive();
    out[blockIdx.x * 32 + threadIdx.x] = other;
    cluster.barrier_wait(static_cast<decltype(token)&&>(token));
}
__global__ void CLUSTER spin(int* out) {  // a thread asks again and again for what a peer writes
    __shared__ int flag;
    auto cluster = cg::this_cluster();
    int rank = cluster.block_rank();
    if (threadIdx.x == 0) atomicExch(&flag, 0);
    cluster.sync();
    if (threadIdx.x == 0) {
        if (rank > 0) while (atomicAdd(&flag, 0) == 0) __nanosleep(20);
        out[blockIdx.x] = atomicAdd(&flag, 0) + 1;
        if (rank < 3) atomicExch(cluster.map_shared_rank(&flag, rank + 1), out[blockIdx.x]);
    }
    cluster.sync();
}
__global__ void CLUSTER functions(int* out) {  // of cuda::ptx
    namespace ptx = cuda::ptx;
    __shared__ uint64_t full;
    __shared__ alignas(16) int s[32], four[4];
    __shared__ unsigned int sum;
    auto cluster = cg::this_cluster();
    int rank = ptx::get_sreg_cluster_ctarank(), i = threadIdx.x, next = (rank + 1) % 4;
    if (i == 0) {
        sum = 0;
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 32 * 8 + 16);
    }
    ptx::barrier_cluster_arrive(ptx::sem_release);
    ptx::barrier_cluster_wait(ptx::sem_acquire);
    uint64_t* there = cluster.map_shared_rank(&full, next);
    ptx::st_async(cluster.map_shared_rank(s + i, next), rank * 100 + i, there);
    ptx::red_async(ptx::op_add, cluster.map_shared_rank(&sum, next), (unsigned int)i, there);
    int values[4] = {rank, 5, 6, 7};
    if (i == 0) ptx::st_async(cluster.map_shared_rank(four, next), values, there);
    while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
    int r = ptx::getctarank(ptx::space_cluster, there) * 10 + ptx::get_sreg_cluster_nctaid_x();
    int* o = out + (blockIdx.x * 32 + i) * 4;
    o[0] = s[i]; o[1] = sum; o[2] = four[0] * 1000 + four[3]; o[3] = r;
    cluster.sync();
}
__global__ void alone(int* out) {  // a launch without clusters
    auto cluster = cg::this_cluster();
    cluster.sync();
    out[blockIdx.x] = cluster.num_blocks() * 10 + cluster.block_rank() + 100 * __clusterDimIsSpecified();
}
"""
NAMES = "places addresses accesses stores reductions arrivals halves spin functions alone".split()


@pytest.fixture(scope="module")
def kernels():
    return dict(zip(NAMES, compile_kernels(SOURCE, NAMES), strict=True))


def numbers(*shape):
    return torch.full(shape, -1, dtype=torch.int32)


def test_where_a_block_is(kernels):
    grid, dim = (4, 6, 2), (2, 2, 2)
    out = numbers(48, 19)
    kernels["places"][grid, 32](out)
    for block, row in enumerate(out.tolist()):
        at = (block % 4, block // 4 % 6, block // 24)
        inside = [a % d for a, d in zip(at, dim, strict=True)]
        rank = inside[0] + 2 * (inside[1] + 2 * inside[2])
        clusters = [a // d for a, d in zip(at, dim, strict=True)]
        expected = [*inside, *dim, *clusters, 2, 3, 1, rank, 8, 1]
        assert row == [*expected, rank * 100 + 8, inside[1] * 100 + 2, rank * 100 + 8, 8 * 32 * 1000 + rank * 32]


def test_addresses_of_peers(kernels):
    out = numbers(8, 32)
    kernels["addresses"][8, 32](out)
    assert (out == 1).all()


def test_accesses_to_peers(kernels):
    out = numbers(8, 32, 8)
    kernels["accesses"][8, 32](out)
    rank, i = (torch.arange(8) % 4)[:, None], torch.arange(32)
    following, before = (rank + 1) % 4, (rank + 3) % 4
    sums = torch.stack([128 * (rank == 0), 0 * rank + 496, before * 32 + 31, 0 * rank + 64], -1)[:, 0]
    expected = [following * 100 + 31 - i, rank * 100 + torch.where(i < 31, i + 1, 1), i + 0 * rank, following + 0 * i]
    expected += [before * 1000 + i, sums[:, i % 4]]
    assert torch.equal(out[:, :, :6].long(), torch.stack(expected, -1))
    for cluster in out[:, :, 6].view(2, 128):
        assert cluster.sort().values.tolist() == list(range(128))


def test_stores_that_a_peers_barrier_counts(kernels):
    out = numbers(8, 32, 8)
    kernels["stores"][8, 32](out)
    rank, i = (torch.arange(8) % 4)[:, None], torch.arange(32)
    before = (rank + 3) % 4 + 0 * i
    rows = i + 0 * rank
    expected = [rows, before, 0 * rows + 8, rows, before, 3 * rows, rows, 2 * before + 1]
    assert torch.equal(out.long(), torch.stack(expected, -1))


def test_reductions_that_a_peers_barrier_counts(kernels):
    out = numbers(10)
    kernels["reductions"][4, 32](out.view(torch.uint32))
    n = range(1, 129)
    xor = 0
    for k in n:
        xor ^= k
    assert out.tolist() == [sum(n), 1, 128, 1, 128, 0, 255, xor, 100 + 128 - 201, sum(n)]


def test_arrivals_at_peers(kernels):
    out = numbers(8, 4)
    kernels["arrivals"][8, 32](out)
    assert torch.equal(out, (torch.arange(4) * 10 + (torch.arange(8) % 4)[:, None]).int())


def test_arrive_and_wait_apart(kernels):
    out = numbers(8, 32)
    kernels["halves"][8, 32](out)
    assert torch.equal(out, (torch.arange(32) + 8).expand(8, 32).int())


def test_a_block_that_spins_lets_its_peers_run(kernels):
    out = numbers(8)
    kernels["spin"][8, 32](out)
    assert out.tolist() == [1, 2, 3, 4] * 2


def test_functions_of_cuda_ptx(kernels):
    out = numbers(8, 32, 4)
    kernels["functions"][8, 32](out)
    rank, i = (torch.arange(8) % 4)[:, None], torch.arange(32)
    before, same = (rank + 3) % 4, 0 * rank + 0 * i
    expected = [before * 100 + i, same + 496, same + before * 1000 + 7, same + (rank + 1) % 4 * 10 + 4]
    assert torch.equal(out.long(), torch.stack(expected, -1))


def test_without_clusters_a_block_is_alone(kernels):
    out = numbers(3)
    kernels["alone"][3, 64](out)
    assert out.tolist() == [10, 10, 10]


def test_a_rank_that_the_cluster_does_not_have():
    source = (
        SOURCE
        + r"""
__global__ void CLUSTER beyond(int* out) {
    __shared__ int s[32];
    out[threadIdx.x] = map(at(s), out[0]);
}
"""
    )
    kernel = compile_kernel(source, "beyond")
    with pytest.raises(
        RuntimeError, match="mapa for the block of rank 4, but its cluster has 4 blocks, of rank 0 to 3"
    ):
        kernel[4, 32](torch.full((32,), 4, dtype=torch.int32))
