"""PTX's barriers 0 to 15: every form, groups of warps, warps that end, and what is wrong with one."""

import re

import pytest
import torch

from tests.cuda.cpu.asynchronous.kernels import built_together
from tests.launches import empty, floats, integers
from utils.cuda.kernel import Tracer, compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
enum Names { buffer_full = 1, buffer_empty = 3, group_of = 5, all_consumers = 7 };
__device__ __forceinline__ void sync(unsigned int id, unsigned int threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive(unsigned int id, unsigned int threads) {
    asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
template <int threads>
struct Group {
    static __device__ void sync(int id) { asm volatile("bar.sync %0, %1;\n" :: "r"(id), "n"(threads)); }
};
#define POPC(form, result, operands, vote) \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; " form " %0, " operands ", p; }" \
                 : "=r"(result) : "r"((int)(vote)))
#define VOTE(form, result, operands, vote) \
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; " form " q, " operands "; selp.u32 %0, 1, 0, q; }" \
                 : "=r"(result) : "r"((int)(vote)))

// Turns an array round again and again, with one form of the barrier each time. 96 threads.
__global__ void forms(int* out, int id, int threads) {
    __shared__ int a[96];
    const int t = threadIdx.x, next = (t + 32) % 96;
    int x = t;
#define TURN(...)                                          \
    a[t] = x;                                              \
    asm volatile(__VA_ARGS__ : : "r"(id), "r"(threads) : "memory"); \
    x = a[next];                                           \
    asm volatile("bar.sync 0;" ::: "memory");
    TURN("bar.sync 1;")
    TURN("bar.cta.sync 2, 96;")
    TURN("barrier.sync 3;")
    TURN("barrier.cta.sync 4, 96;")
    TURN("barrier.sync.aligned 15, 96;")
    TURN("barrier.cta.sync.aligned %0;")
    TURN("bar.sync %0, %1;")
    TURN("bar.sync %0, 96;")
    TURN("bar.sync 0, %1;")
    a[t] = x;
    __barrier_sync(9);
    x = a[next];
    __barrier_sync_count(10, 96);
    out[t] = x;
}

// Votes of all 96 threads, or of the first 64. Row k of `out` has the k-th result.
__global__ void votes(int* out, int id, int threads) {
    const int t = threadIdx.x;
    int r[8] = {};
    POPC("bar.red.popc.u32", r[0], "1", t % 3);
    POPC("barrier.cta.red.popc.aligned.u32", r[1], "2, 96", t < 40);
    if (t < 64) {
        POPC("bar.cta.red.popc.u32", r[2], "3, 64", t % 3);
        VOTE("barrier.red.and.pred", r[3], "0, 64, p", 1);
        VOTE("bar.red.and.pred", r[4], "3, 64, p", t != 50);
        VOTE("bar.red.or.pred", r[5], "3, 64, p", t == 50);
        VOTE("bar.red.or.pred", r[6], "3, 64, !p", 1);
    }
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; bar.red.popc.u32 %0, %2, %3, p; }"
                 : "=r"(r[7]) : "r"(t & 1), "r"(id), "r"(threads));
    for (int k = 0; k < 8; k++) out[k * 96 + t] = r[k];
}

// A warp fills two buffers in turn; another adds them up.
__global__ void ping_pong(const float* x, float* out, int tiles) {
    __shared__ float buffer[2][32];
    const int lane = threadIdx.x % 32;
    float sum = 0;
    if (threadIdx.x < 32) {
        for (int k = 0; k < tiles; k++) {
            if (k >= 2) sync(buffer_empty + k % 2, 64);
            buffer[k % 2][lane] = x[k * 32 + lane];
            arrive(buffer_full + k % 2, 64);
        }
    } else {
        for (int k = 0; k < tiles; k++) {
            sync(buffer_full + k % 2, 64);
            sum += buffer[k % 2][31 - lane];
            if (k + 2 < tiles) arrive(buffer_empty + k % 2, 64);
        }
        out[lane] = sum;
    }
}

// One warp loads for two groups of 64 threads. Each group has a barrier of its own, and both meet at the end.
__global__ void three_groups(const float* x, float* out, int tiles) {
    __shared__ float buffer[2][64], sums[2][64];
    const int t = threadIdx.x;
    if (t < 32) {
        for (int k = 0; k < 2 * tiles; k++) {
            const int group = k % 2;
            if (k >= 2) sync(buffer_empty + group, 96);
            buffer[group][t] = x[k * 64 + t];
            buffer[group][t + 32] = x[k * 64 + t + 32];
            arrive(buffer_full + group, 96);
        }
        return;
    }
    const int group = (t - 32) / 64, i = (t - 32) % 64;
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        sync(buffer_full + group, 96);
        const float mine = buffer[group][63 - i];
        if (k + 1 < tiles) arrive(buffer_empty + group, 96);
        sums[group][i] = mine;
        Group<64>::sync(group_of + group);
        sum += sums[group][i ^ 32];
        Group<64>::sync(group_of + group);
    }
    sums[group][i] = sum;
    Group<128>::sync(all_consumers);
    out[group * 64 + i] = sum + sums[1 - group][i];
}

// The last warp has 16 lanes and counts as 32 threads.
__global__ void partial(const int* x, int* out) {
    __shared__ int a[80];
    const int t = threadIdx.x;
    a[t] = x[t];
    sync(1, 96);
    out[t] = a[79 - t];
}

// Half of a warp leaves, and the other half comes for the warp. The third warp leaves, and nothing waits for it.
__global__ void leave(const int* x, int* out) {
    __shared__ int a[96];
    const int t = threadIdx.x;
    a[t] = x[t];
    if (t >= 48) return;
    sync(1, 64);
    out[t] = a[47 - t];
}

// The lanes of a warp come from two places in the code, as barrier without .aligned lets them.
__global__ void divergent(const int* x, int* out) {
    __shared__ int a[64];
    const int t = threadIdx.x;
    if (t % 2) {
        a[t] = x[t];
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    } else {
        a[t] = 2 * x[t];
        asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
    }
    out[t] = a[63 - t];
}

// The same with .aligned, which wants all lanes of a warp at one instruction.
__global__ void apart(const int* x, int* out) {
    const int t = threadIdx.x;
    if (t % 2) {
        out[t] = x[t];
        sync(1, 64);
    } else {
        out[t] = 2 * x[t];
        sync(1, 64);
    }
}

// Barrier 0 is that of __syncthreads, between its phases with a number of threads: one warp arrives, the others wait.
__global__ void barrier_zero(const int* x, int* out, bool mix) {
    __shared__ int a[32];
    const int t = threadIdx.x;
    for (int k = 0; k < 2; k++) {
        if (t < 32) {
            a[t] = x[t] + k;
            arrive(0, 96);
        } else {
            sync(0, 96);
            out[96 * k + t] = a[t % 32];
        }
        sync(1, 96);
        if (t < 32 && mix) asm volatile("bar.sync 0;" ::: "memory");
        else __syncthreads();
    }
    out[192 + t] = __syncthreads_count(t < 50);
}

// Two warps wait for a third that has left. With a number of threads, they wait for ever.
__global__ void left_alone(int* out, bool number) {
    if (threadIdx.x >= 64) return;
    if (number) sync(1, 96);
    else asm volatile("bar.sync 1;" ::: "memory");
    out[threadIdx.x] = 1;
}

enum { number, part_of_a_warp, above, none_arrive, other_count, too_few, two_barriers, half_a_warp, twice, mixed,
       against_zero };
__global__ void wrong(int* out, int mistake) {
    const int t = threadIdx.x, w = t / 32;
    if (mistake == number) sync(16 + t / 96, 64);
    if (mistake == part_of_a_warp) sync(1, 48 + t / 96);
    if (mistake == above) sync(1, 128 + t / 96);
    if (mistake == none_arrive) arrive(1, t / 96);
    if (mistake == other_count) sync(1, w == 0 ? 64 : 96);
    if (mistake == too_few) sync(w == 2 ? 2 : 1, 96);
    if (mistake == two_barriers) sync(1 + t % 2, 96);
    if (mistake == half_a_warp) {
        if (t % 2) sync(1, 96);
        else __syncthreads();
    }
    if (mistake == twice && w == 0) arrive(1, 96);
    if (mistake == twice) arrive(1, 96);
    if (mistake == mixed) {
        if (w == 0) arrive(1, 96);
        if (w) POPC("bar.red.popc.u32", out[t], "1, 96", t);
    }
    if (mistake == against_zero) {
        if (w == 0) sync(0, 64);
        else __syncthreads();
    }
}
"""
NAMES = ["forms", "votes", "ping_pong", "three_groups", "partial", "leave", "divergent", "barrier_zero", "left_alone"]
NAMES += ["apart", "wrong"]


@pytest.fixture(scope="module")
def kernels():
    with built_together(NAMES):
        yield dict(zip(NAMES, compile_kernels(SOURCE, NAMES), strict=True))


def _result(kernels, name, threads, *args):
    """What a launch writes to the last tensor. Traces in three orders write the same and report nothing."""
    out = [arg for arg in args if torch.is_tensor(arg)][-1]
    kernels[name][1, threads](*args)
    result = out.clone()
    for order in ("forward", "reversed", 5):
        trace = Tracer(SOURCE, name)[1, threads](*args, order=order)
        assert trace.problems == [], (order, trace.problems)
    return result


def test_every_form_of_sync(kernels):
    t = torch.arange(96, dtype=torch.int32)
    assert torch.equal(_result(kernels, "forms", 96, empty(96, dtype=torch.int32), 11, 96), t.roll(-320))


def test_reductions_of_all_and_of_some(kernels):
    out = _result(kernels, "votes", 96, empty(8, 96, dtype=torch.int32), 12, 96)
    assert out[:, :64].unique(dim=1).flatten().tolist() == [64, 40, 42, 1, 0, 1, 0, 48]
    assert out[:, 64:].unique(dim=1).flatten().tolist() == [64, 40, 0, 0, 0, 0, 0, 48]


@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_a_producer_and_a_consumer(kernels, tiles):
    x = floats(tiles, 32)
    torch.testing.assert_close(_result(kernels, "ping_pong", 64, x, empty(32), tiles), x.flip(1).sum(0))


def test_a_producer_and_two_groups(kernels):
    x = floats(3, 2, 64)
    sums = x.flip(2).sum(0)[:, torch.arange(64) ^ 32]
    out = _result(kernels, "three_groups", 160, x, empty(2, 64), 3)
    torch.testing.assert_close(out, sums + sums.flip(0))


def test_a_warp_counts_as_a_whole(kernels):
    x = integers(96, below=1000)
    assert torch.equal(_result(kernels, "partial", 80, x, empty(80, dtype=torch.int32)), x[:80].flip(0))
    assert torch.equal(_result(kernels, "leave", 96, x, empty(96, dtype=torch.int32))[:48], x[:48].flip(0))
    doubled = torch.where(torch.arange(64) % 2 == 0, 2 * x[:64], x[:64])
    assert torch.equal(_result(kernels, "divergent", 64, x, empty(64, dtype=torch.int32)), doubled.flip(0))


def test_the_lanes_of_a_warp_wait_at_one_instruction(kernels):
    (problem,) = Tracer(SOURCE, "apart")[1, 64](integers(64, below=9), empty(64, dtype=torch.int32)).problems
    assert problem.kind == "divergent_barrier"
    assert re.search(r"waits at bar.sync in line (\d+) .*, but thread \(1,0,0\) waits in line (?!\1)", problem.message)


def test_barrier_0_is_that_of_syncthreads(kernels):
    x = integers(32, below=1000)
    for mix in (False, True):
        out = empty(3, 96, dtype=torch.int32)
        kernels["barrier_zero"][1, 96](x, out, mix)
        assert torch.equal(out[:2, 32:], torch.stack([x, x + 1]).repeat(1, 2))
        assert set(out[2].tolist()) == {50}
    _result(kernels, "barrier_zero", 96, x, out, False)


def test_a_barrier_for_all_opens_when_only_threads_that_have_ended_are_missing(kernels):
    # As an H200 does it, which waits for ever where the instruction gives a number.
    out = torch.zeros(96, dtype=torch.int32)
    kernels["left_alone"][1, 96](out, False)
    assert out.tolist() == [1] * 64 + [0] * 32
    (problem,) = Tracer(SOURCE, "left_alone")[1, 96](out, False).problems
    assert problem.kind == "divergent_barrier" and "waits at bar.sync in line" in problem.message
    assert "thread (64,0,0) has left the kernel" in problem.message
    says = "64 of 96 threads have come, and no thread of the block can go on. Threads that have ended do not come"
    with pytest.raises(RuntimeError, match=says):
        kernels["left_alone"][1, 96](out, True)
    (problem,) = Tracer(SOURCE, "left_alone")[1, 96](out, True).problems
    assert problem.kind == "divergent_barrier" and says in problem.message


def test_a_recording_shows_who_waits(kernels):
    pytest.importorskip("elftools")
    x = floats(3, 32)
    steps = Tracer(SOURCE, "ping_pong")[1, 64](x, empty(32), 3).recording().steps
    kinds = [[step.kind for step in steps if step.warp == warp and step.kind != "line"] for warp in (0, 1)]
    assert kinds[0] == ["read", "write", "barrier", "passed"] * 2 + ["barrier", "passed"] + kinds[0][:4] + ["exit"]
    waits = ["barrier", "passed"]
    assert kinds[1] == [*waits, "read", *waits] + [*waits, "read"] * 2 + ["write", "exit"]
    reads = [step for step in steps if step.warp == 1 and step.kind == "read"]
    assert torch.equal(torch.tensor([step.values for step in reads]), x.flip(1))


WRONG = [
    ("trap", "calls bar.sync of barrier 16: a block has barriers 0 to 15"),
    ("trap", "calls bar.sync of barrier 1 for 48 threads: warps come to it as a whole, so it takes a multiple of 32"),
    ("trap", "calls bar.sync of barrier 1 for 128 threads, but its block has 96"),
    ("trap", "calls bar.arrive of barrier 1 for 0 threads"),
    ("trap", "calls bar.sync of barrier 1 for 96 threads, but warp 0 has come to it for 64 threads"),
    ("divergent_barrier", "64 of 96 threads have come, and no thread of the block can go on. Warp 2 waits at bar.sync"),
    ("divergent_barrier", "but another lane of its warp calls bar.sync of barrier 1 for 96 threads: the lanes"),
    ("divergent_barrier", "waits in vain at bar.sync of barrier 1 for its warp: 16 of 32 threads have come"),
    ("trap", "calls bar.arrive of barrier 1, but its warp has come to it before and the phase is not over: 32 of 96"),
    ("trap", "calls bar.red.popc.u32 of barrier 1, to which warp 0 has come without a reduction"),
    ("trap", "calls __syncthreads of barrier 0 without a number of threads, but warp 0 has come to it for 64 threads"),
]


@pytest.mark.parametrize("mistake", range(len(WRONG)), ids=lambda k: WRONG[k][1][:40])
def test_what_is_wrong_with_a_barrier(kernels, mistake):
    kind, says = WRONG[mistake]
    out = torch.zeros(96, dtype=torch.int32)
    with pytest.raises(RuntimeError, match=re.escape(says)):
        kernels["wrong"][1, 96](out, mistake)
    problem = Tracer(SOURCE, "wrong")[1, 96](out, mistake).problems[0]
    assert (problem.kind, says in problem.message) == (kind, True), problem
    assert any(word in problem.source for word in ("sync", "arrive", "POPC")), problem
