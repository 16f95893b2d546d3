"""What a trace says of kernels with clusters that get it wrong, and that it says nothing of those that get it right."""

import pytest
import torch

from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned long long mbarrier;
__device__ unsigned int at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
__device__ unsigned int map(const void* p, int rank) {
    unsigned int there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(p)), "r"(rank));
    return there;
}
__device__ void init(mbarrier* b, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(b)), "r"(n));
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(mbarrier* b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(b)), "r"(bytes) : "memory");
}
__device__ void arrive_at(mbarrier* b, int rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(map(b, rank)) : "memory");
}
__device__ void wait(mbarrier* b, int parity) {
    asm volatile("{ .reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra again; }"
                 :: "r"(at(b)), "r"(parity) : "memory");
}
enum { right, early, gone, outside, no_rank, plain, unread, one_barrier, unannounced, no_wait, unready, leaves, apart,
       stuck, overwritten };

__global__ void __cluster_dims__(4, 1, 1) exchange(int mistake, const int* x, int* y) {
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    int i = threadIdx.x, r = cluster.block_rank();
    s[i] = x[blockIdx.x * 64 + i];
    if (mistake == early) __syncthreads();
    else cluster.sync();
    int* other = cluster.map_shared_rank(s, mistake == no_rank ? r + 1 : (r + 1) % 4);
    y[blockIdx.x * 64 + i] = other[mistake == outside ? i + 1 : 63 - i];
    if (mistake != gone) cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) histogram(int mistake, const int* x, int* y) {  // 64 bins in each block
    __shared__ int bins[64];
    auto cluster = cg::this_cluster();
    int i = threadIdx.x;
    bins[i] = 0;
    cluster.sync();
    int value = x[blockIdx.x * 64 + i] & 255;
    int* bin = cluster.map_shared_rank(bins, value / 64) + value % 64;
    if (mistake == plain) *bin += 1;
    else atomicAdd(bin, 1);
    if (mistake == unread) __syncthreads();
    else cluster.sync();
    y[blockIdx.x * 64 + i] = bins[i];
    if (mistake == unread) cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) ring(int mistake, const int* x, int* y) {  // sums of four blocks
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    int i = threadIdx.x, next = (cluster.block_rank() + 1) % 4, mine = x[blockIdx.x * 64 + i], sum = mine;
    for (int round = 0; round < 3; round++) {
        s[i] = mine;
        cluster.sync();
        mine = cluster.map_shared_rank(s, next)[i];
        sum += mine;
        if (mistake != one_barrier) cluster.sync();
    }
    y[blockIdx.x * 64 + i] = sum;
    cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) split_k(int mistake, const int* x, int* y) {  // rank 0 gets the sums
    __shared__ int sums[64];
    __shared__ mbarrier full;
    auto cluster = cg::this_cluster();
    int i = threadIdx.x, r = cluster.block_rank();
    sums[i] = 0;
    if (i == 0 && r == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, mistake == unannounced ? 3 * 256 : 4 * 256);
    }
    if (mistake == unready) __syncthreads();
    else cluster.sync();
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 [%0], %1, [%2];"
                 :: "r"(map(sums + i, 0)), "r"(x[blockIdx.x * 64 + i]), "r"(map(&full, 0)) : "memory");
    if (r == 0 && mistake != no_wait) wait(&full, 0);
    y[blockIdx.x * 64 + i] = r == 0 ? sums[i] : 0;
    cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) multicast(int mistake, const int* x, int* y) {  // two tiles, for all blocks
    __shared__ alignas(16) int tile[64];
    __shared__ mbarrier full, empty;
    auto cluster = cg::this_cluster();
    int i = threadIdx.x, r = cluster.block_rank(), sum = 0;
    unsigned short all = 15;
    if (i == 0) {
        init(&full, 1);
        init(&empty, 4 * 64);
        fence_init();
    }
    cluster.sync();
    for (int k = 0; k < 2; k++) {
        if (i == 0) {
            expect(&full, 256);
            if (k && r == 0 && mistake != overwritten) wait(&empty, 0);
            if (r == 0)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                             "[%0], [%1], %2, [%3], %4;"
                             :: "r"(at(tile)), "l"(x + k * 64), "r"(256), "r"(at(&full)), "h"(all) : "memory");
        }
        wait(&full, k);
        sum += tile[63 - i];
        arrive_at(&empty, 0);
    }
    y[blockIdx.x * 64 + i] = sum;
    cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) meeting(int mistake, const int* x, int* y) {
    auto cluster = cg::this_cluster();
    int i = threadIdx.x, r = cluster.block_rank();
    if (mistake == leaves && r == 2 && i == 5) return;
    if (mistake == stuck && r == 1 && i == 0) __syncthreads();
    else cluster.sync();
    y[blockIdx.x * 64 + i] = x[blockIdx.x * 64 + i];
    cluster.barrier_arrive();
    if (mistake != apart) cluster.barrier_wait();
}
"""
MISTAKES = [name.strip() for name in SOURCE.partition("enum {")[2].partition("}")[0].split(",")]


def traced(kernel, mistake="right", order="forward"):
    x = torch.randint(-1000, 1000, (8 * 64,), dtype=torch.int32)
    y = torch.zeros_like(x)
    trace = Tracer(SOURCE, kernel)[8, 64](MISTAKES.index(mistake), x, y, order=order)
    return trace, x.view(8, 64), trace.args[2].view(8, 64)


EXPECTED = {
    "exchange": lambda x: x.view(2, 4, 64).roll(-1, 1).flip(2).reshape(8, 64),
    "histogram": lambda x: torch.stack([torch.bincount(half & 255, minlength=256) for half in x.view(2, 256)]),
    "ring": lambda x: x.view(2, 4, 64).sum(1, keepdim=True).expand(2, 4, 64),
    "split_k": lambda x: x.view(2, 4, 64).sum(1, keepdim=True) * torch.tensor([1, 0, 0, 0])[:, None],
    "multicast": lambda x: (x[0] + x[1]).flip(0).expand(8, 64),
    "meeting": lambda x: x,
}


@pytest.mark.parametrize("kernel", EXPECTED)
@pytest.mark.parametrize("order", ["forward", "reversed", 7])
def test_a_kernel_that_is_right(kernel, order):
    trace, x, y = traced(kernel, order=order)
    assert trace.problems == []
    assert torch.equal(y.long(), EXPECTED[kernel](x).reshape(8, 64).long())


@pytest.mark.parametrize(
    "kernel, mistake, kind, says, at",
    [
        ("exchange", "early", "cluster", "but block (1,0,0) may not have begun yet", "other[mistake"),
        ("exchange", "gone", "cluster", "may have ended by then", "other[mistake"),
        ("exchange", "outside", "out_of_bounds", ", but s has 64 elements", "other[mistake"),
        ("exchange", "no_rank", "trap", "the block of rank 4, but its cluster has 4", "map_shared_rank(s, mistake"),
        ("histogram", "plain", "race", "both touch bins[", "*bin += 1"),
        ("histogram", "unread", "race", "with no barrier of the cluster between them", "atomicAdd(bin, 1)"),
        ("ring", "one_barrier", "race", "with no barrier of the cluster between them", "s[i] = mine"),
        ("split_k", "unannounced", "asynchronous", "is still on its way when the block ends", "add.s32"),
        ("split_k", "no_wait", "race", "the red.async that", "add.s32"),
        ("split_k", "unready", "uninitialized", "which thread (0,0,0) of block (0,0,0) initialises", "add.s32"),
        ("multicast", "overwritten", "race", "the bulk copy that", "bulk.shared::cluster"),
        (
            "meeting",
            "leaves",
            "divergent_barrier",
            "(5,0,0) of block (2,0,0) has left the kernel",
            "else cluster.sync()",
        ),
        ("meeting", "stuck", "divergent_barrier", "waits at", "cluster.sync()"),
        ("meeting", "apart", "cluster", "arrives at the cluster's barrier", "barrier_arrive"),
    ],
)
def test_what_a_trace_says_of_mistakes(kernel, mistake, kind, says, at):
    found = traced(kernel, mistake)[0].problems
    said = [problem for problem in found if problem.kind == kind and says in problem.message]
    assert said and said[0].hint and at in said[0].source, found
