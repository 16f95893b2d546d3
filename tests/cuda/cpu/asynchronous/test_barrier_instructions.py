"""Each instruction of mbarriers, against what the PTX ISA says of its results."""

import re

import pytest
import torch

from utils import compile_kernel
from utils.cuda.kernel import Tracer, compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
typedef unsigned long long u64;
__device__ unsigned int at(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
#define INIT(b, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(&b)), "r"(n))
#define TEST(done, b, parity) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;" \
    " selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(at(&b)), "r"(parity) : "memory")
#define STATE(done, b, state) asm volatile("{ .reg .pred p; mbarrier.test_wait.acquire.cta.shared::cta.b64 p, [%1]," \
    " %2; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(at(&b)), "l"(state) : "memory")
#define TRY(done, b, parity) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64" \
    " p, [%1], %2, 1000; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(at(&b)), "r"(parity) : "memory")
#define PENDING(n, state) asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(state))

// One thread does everything, so each step has one right result.
__global__ void alone(int* out) {
    __shared__ u64 b;
    u64 state, other;
    int k = 0;
    INIT(b, 3);
    TEST(out[k++], b, 0);  // 0: the phase is under way
    TEST(out[k++], b, 1);  // 1: of a fresh barrier, the phase before is over
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at(&b)) : "memory");
    PENDING(out[k++], state);  // 3
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 %0, [%1], 1;" : "=l"(other) : "r"(at(&b)) : "memory");
    PENDING(out[k++], other);  // 2
    STATE(out[k++], b, state);  // 0
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 40;" :: "r"(at(&b)) : "memory");
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory");
    TRY(out[k++], b, 0);  // 0: 40 bytes are missing
    asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%0], 24;" :: "r"(at(&b)) : "memory");
    TRY(out[k++], b, 0);  // 0: 16
    asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 16;" :: "r"(at(&b)) : "memory");
    TRY(out[k++], b, 0);  // 1
    TEST(out[k++], b, 1);  // 0: the next phase
    STATE(out[k++], b, state);  // 1
    asm volatile("mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %0, [%1], 2;"
                 : "=l"(state) : "r"(at(&b)) : "memory");
    PENDING(out[k++], state);  // 3
    asm volatile("mbarrier.arrive_drop.release.cta.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at(&b)) : "memory");
    PENDING(out[k++], state);  // 1
    TEST(out[k++], b, 1);  // 1
    asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %0, [%1], 8;"
                 : "=l"(state) : "r"(at(&b)) : "memory");
    PENDING(out[k++], state);  // 2: one was dropped
    asm volatile("mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%0], 8;" :: "r"(at(&b)) : "memory");
    STATE(out[k++], b, state);  // 0
    asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 16;" :: "r"(at(&b)) : "memory");
    STATE(out[k++], b, state);  // 1
    asm volatile("mbarrier.arrive.b64 %0, [%1];" : "=l"(state) : "l"(&b) : "memory");  // a generic address
    PENDING(out[k++], state);  // 1
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at(&b)) : "memory");
    b = 5;  // the memory is free
    out[k++] = b;
    INIT(b, 2);
    TEST(out[k++], b, 1);  // 1
}

// Bytes may come before they are announced, as long as a thread has not arrived.
__global__ void early(int* out) {
    __shared__ u64 b;
    INIT(b, 1);
    asm volatile("mbarrier.complete_tx.shared::cta.b64 [%0], 64;" :: "r"(at(&b)) : "memory");
    TEST(out[0], b, 0);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 64;" :: "r"(at(&b)) : "memory");
    TEST(out[1], b, 0);
}

// cp.async: the copies arrive as one thread more, or as one of those expected.
template <bool noinc>
__global__ void copied(const int* x, int* y) {
    __shared__ u64 b;
    __shared__ int tile[64];
    int t = threadIdx.x;
    if (t == 0) INIT(b, 64);
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(tile + t)), "l"(x + t) : "memory");
    if (noinc) {
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&b)) : "memory");
    } else {
        asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"(at(&b)) : "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory");
    }
    int done;
    do TRY(done, b, 0);
    while (!done);
    y[t] = tile[63 - t];
}

// Thread 0 works while it asks, and then arrives itself; the others sleep between their questions.
__global__ void asks(int* out) {
    __shared__ u64 b;
    if (threadIdx.x == 0) INIT(b, 1);
    __syncthreads();
    int done = 0, times = 0;
    if (threadIdx.x == 0) {
        for (; times < 300; times++) {
            TEST(done, b, 0);
            if (done) break;
        }
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(&b)) : "memory");
    } else {
        while (!done) {
            TEST(done, b, 0);
            __nanosleep(20);
        }
    }
    out[threadIdx.x] = times + done;
}

enum { too_many, ends, no_init, again, overwritten, bytes, twice, of_nothing };
__global__ void wrong(int* out, int mistake) {
    __shared__ u64 b;
    int done;
    if (mistake != no_init) INIT(b, mistake == of_nothing ? 0 : 2);
    if (mistake == too_many) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 3;" :: "r"(at(&b)) : "memory");
    u64 state;
    if (mistake == ends)
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 2;" : "=l"(state) : "r"(at(&b)) : "memory");
    if (mistake == again) INIT(b, 2);
    if (mistake == overwritten) b = 2;
    if (mistake == bytes)
        asm volatile("mbarrier.expect_tx.shared::cta.b64 [%0], %1;" :: "r"(at(&b)), "r"(1 << 20) : "memory");
    if (mistake == twice)
        for (int k = 0; k < 3; k++)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" :: "r"(at(&b)) : "memory");
    TEST(done, b, 1);
    out[0] = done;
}
"""


@pytest.fixture(scope="module")
def kernels():
    names = ["alone", "early", "copied<false>", "copied<true>", "asks"]
    return dict(zip(names, compile_kernels(SOURCE, names), strict=True))


def test_one_thread(kernels):
    out = torch.full((19,), -1, dtype=torch.int32)
    kernels["alone"][1, 1](out)
    assert out.tolist() == [0, 1, 3, 2, 0, 0, 0, 1, 0, 1, 3, 1, 1, 2, 0, 1, 1, 5, 1]
    kernels["early"][1, 1](out)
    assert out[:2].tolist() == [0, 1]


@pytest.mark.parametrize("kernel", ["copied<false>", "copied<true>"])
def test_asynchronous_copies_arrive(kernels, kernel):
    x, y = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    kernels[kernel][1, 64](x, y)
    assert torch.equal(y, x.flip(0))
    assert Tracer(SOURCE, kernel)[1, 64](x, y, outputs=[y]).ok


def test_a_thread_may_ask_in_vain_before_it_arrives(kernels):
    out = torch.zeros(64, dtype=torch.int32)
    kernels["asks"][1, 64](out)
    assert out.tolist() == [300] + [1] * 63


WRONG = [
    ("trap", "arrives 3 times at b, a barrier whose phase lacks 2 of 2 arrivals"),
    ("trap", ".noComplete must not end it"),
    ("uninitialized", "of a barrier that no thread has initialised (b)"),
    ("asynchronous", "initialises again b"),
    ("asynchronous", "writes to the 8 bytes of b"),
    ("trap", "a phase counts 1,048,575 bytes at most"),
    ("trap", "arrives 1 times at b, a barrier whose phase lacks 0 of 2 arrivals"),
    ("trap", "initialises a barrier for 0 arrivals"),
]


def test_what_is_wrong_with_a_barrier():
    out = torch.zeros(1, dtype=torch.int32)
    run, traced = compile_kernel(SOURCE, "wrong")[1, 1], Tracer(SOURCE, "wrong")[1, 1]
    for mistake, (kind, says) in enumerate(WRONG):
        found = traced(out, mistake).problems
        assert (found[0].kind, says in found[0].message) == (kind, True), found
        assert "asm" in found[0].source or "mistake" in found[0].source or "TEST" in found[0].source, found
        if kind in ("trap", "uninitialized"):
            with pytest.raises(RuntimeError, match=re.escape(says)):
                run(out, mistake)
