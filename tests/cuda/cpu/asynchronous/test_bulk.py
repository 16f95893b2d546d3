"""The bulk copy engine: copies in all directions, reductions of all types, groups, and NVIDIA's functions for them."""

import pytest
import torch

from tests.cuda.cpu.asynchronous.kernels import HELPERS
from utils import compile_kernel
from utils.cuda.kernel import Tracer, compile_kernels
from utils.ground.errors import CourseError

pytestmark = pytest.mark.usefixtures("on_cpu")

_REDUCED = [(op, kind) for kind in ("u32", "s32") for op in ("add", "min", "max")]
_REDUCED += [
    ("inc", "u32"),
    ("dec", "u32"),
    ("add", "u64"),
    ("min", "u64"),
    ("max", "u64"),
    ("min", "s64"),
    ("max", "s64"),
]
_REDUCED += [(op, kind) for kind in ("b32", "b64") for op in ("and", "or", "xor")] + [("add", "f32"), ("add", "f64")]
_REDUCED += [("add.noftz", "f16"), ("add.noftz", "bf16"), *((o, k) for k in ("f16", "bf16") for o in ("min", "max"))]
_IN_SHARED = [*((o, k) for k in ("u32", "s32") for o in ("add", "min", "max")), ("inc", "u32"), ("dec", "u32")]
_IN_SHARED += [("add", "u64"), ("and", "b32"), ("or", "b32"), ("xor", "b32")]


_GLOBAL = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
_CLUSTER = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"


def _cases(name, instructions, addresses, operands):
    asm = '{name}.{op}.{t} {addresses};" :: {operands} : "memory"'
    texts = [asm.format(name=name, op=op, t=t, addresses=addresses, operands=operands) for op, t in instructions]
    return "\n".join(f'case {k}: asm volatile("{text}); break;' for k, text in enumerate(texts))


SOURCE = (
    HELPERS
    + r"""
__global__ void through(const int* x, int* y, int n) {  // each block takes a part of n ints there and back
    extern __shared__ __align__(16) int tile[];
    __shared__ mbarrier full;
    const int begin = blockIdx.x * n;
    if (threadIdx.x) return;
    init(&full, 1);
    fence_init();
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(x + begin), "r"(4 * n));
    for (int k = 0; k < 2; k++) {  // two halves; the hint changes nothing
        expect(&full, 2 * n);
        unsigned long long policy;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2,"
                     " [%3], %4;" :: "r"(at(tile + k * n / 2)), "l"(x + begin + k * n / 2), "r"(2 * n), "r"(at(&full)),
                     "l"(policy) : "memory");
        wait(&full, k);
    }
    store(y + begin, tile, 4 * n);
    commit();
    wait_read<0>();
}

__global__ void late(const int* x, int* y, int* seen) {  // what is done when
    __shared__ alignas(16) int s[2][32];
    const int t = threadIdx.x;
    for (int k = 0; k < 2; k++) s[k][t] = x[32 * k + t];
    fence_async();
    __syncthreads();
    if (t) return;
    for (int k = 0; k < 2; k++) {
        store(y + 32 * k, s[k], 128);
        commit();
    }
    wait_read<1>();
    s[0][0] = -1;  // has been read
    s[1][0] = -1;  // too early
    wait_done<1>();
    seen[0] = y[1];   // there
    seen[1] = y[33];  // not yet
    wait_done<0>();
    seen[2] = y[33];
}

__global__ void __cluster_dims__(1, 1, 1) inside(const int* x, int* y) {  // from shared to shared memory
    __shared__ alignas(16) int a[64], b[64];
    __shared__ mbarrier full;
    a[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) init(&full, 1);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 256);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(at(b)), "r"(at(a)), "r"(256), "r"(at(&full)) : "memory");
    }
    wait(&full, 0);
    y[threadIdx.x] = b[63 - threadIdx.x];
}

__global__ void reduced(const long long* x, long long* y, int op) {
    __shared__ alignas(16) long long s[32];
    s[threadIdx.x] = x[threadIdx.x];
    fence_async();
    __syncthreads();
    if (threadIdx.x) return;
    switch (op) {
"""
    + _cases(_GLOBAL, _REDUCED, "[%0], [%1], 256", '"l"(y), "r"(at(s))')
    + r"""
    }
    commit();
    wait_done<0>();
}

__global__ void __cluster_dims__(1, 1, 1)
    reduced_inside(const long long* x, const long long* y, long long* out, int op) {
    __shared__ alignas(16) long long s[32], d[32];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    s[t] = x[t];
    d[t] = y[t];
    if (t == 0) init(&full, 1);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        expect(&full, 256);
        switch (op) {
"""
    + _cases(_CLUSTER, _IN_SHARED, "[%0], [%1], 256, [%2]", '"r"(at(d)), "r"(at(s)), "r"(at(&full))')
    + r"""
        }
    }
    wait(&full, 0);
    out[t] = d[t];
}

__global__ void wrong(const char* x, char* y, int what) {
    __shared__ alignas(16) char s[64];
    __shared__ mbarrier full;
    if (threadIdx.x) return;
    init(&full, 1);
    fence_init();
    expect(&full, 32);
    if (what == 0) load(s, x, 24, &full);
    if (what == 1) load(s + 8, x, 32, &full);
    if (what == 2) load(s, x + 4, 32, &full);
    if (what == 3) load(s, x + 4096, 32, &full);
    if (what == 4) store(y + 8, s, 32);
    if (what == 5)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1],"
                     " 32, [%2], %3;" :: "r"(at(s)), "l"(x), "r"(at(&full)), "h"((unsigned short)6) : "memory");
    if (what == 6) load(s, x, 32, &full + 1);
    if (what == 7)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 32, [%2];"
                     :: "r"(at(s)), "r"(at(s + 32)), "r"(at(&full)) : "memory");
    wait(&full, 0);
    y[0] = s[0];
}
"""
)


@pytest.fixture(scope="module")
def kernels():
    names = ["through", "late", "inside", "reduced", "reduced_inside", "wrong"]
    return dict(zip(names, compile_kernels(SOURCE, names), strict=True))


@pytest.mark.parametrize("n", [8, 40, 8192])
def test_there_and_back(kernels, n):
    x = torch.randint(-99, 99, (3 * n,), dtype=torch.int32)
    y = torch.zeros_like(x)
    kernels["through"][3, 4, 4 * n](x, y, n)
    assert torch.equal(x, y)


def test_bytes_move_as_late_as_they_may(kernels):
    x, y, seen = torch.arange(64, dtype=torch.int32), torch.full((64,), -5, dtype=torch.int32), torch.zeros(3)
    seen = seen.int()
    kernels["late"][1, 32](x, y, seen)
    assert seen.tolist() == [1, -5, 33]
    assert y.tolist() == [*range(32), -1, *range(33, 64)]
    x, y = x.clone(), torch.zeros(64, dtype=torch.int32)
    kernels["inside"][1, 64](x, y)
    assert torch.equal(y, x.flip(0))


_TYPES = {"u32": torch.int32, "s32": torch.int32, "b32": torch.int32, "f32": torch.float32, "f64": torch.float64}
_TYPES |= {"u64": torch.int64, "s64": torch.int64, "b64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16}


def _result(op, kind, old, given):
    """The elements of a reduction, from 32 words of 64 bits each."""
    a, b = (words.view(_TYPES[kind]) for words in (old, given))
    if kind[0] == "u":
        low = -(2**31) if kind == "u32" else -(2**63)
        less = (a ^ low) < (b ^ low)  # as unsigned numbers
    else:
        less = a < b
    if op in ("and", "or", "xor"):
        return {"and": a & b, "or": a | b, "xor": a ^ b}[op]
    if op == "inc":
        return torch.where(less, a + 1, 0)
    if op == "dec":
        return torch.where((a == 0) | ~(less | (a == b)), b, a - 1)
    if op == "min":
        return torch.where(less, a, b)
    if op == "max":
        return torch.where(less, b, a)
    if kind in ("f16", "bf16"):
        return (a.double() + b.double()).to(_TYPES[kind])
    return a + b


def _words(kind):
    """32 words of 64 bits that hold numbers of a type."""
    if kind[0] in "usb" and kind != "bf16":
        words = torch.randint(-(2**63), 2**63 - 1, (32,))
        words[:4] = torch.tensor([0, -1, 1, 5])
        return words
    return torch.randn(256 // _TYPES[kind].itemsize, dtype=torch.float64).to(_TYPES[kind]).view(torch.int64)


@pytest.mark.parametrize("inside", [False, True])
def test_reductions(kernels, inside):
    for number, (op, kind) in enumerate(_IN_SHARED if inside else _REDUCED):
        given, old = _words(kind), _words(kind)
        want = _result(op.partition(".")[0], kind, old, given)
        out = old.clone()
        args = (given, old, out) if inside else (given, out)
        kernels["reduced_inside" if inside else "reduced"][1, 32](*args, number)
        torch.testing.assert_close(out.view(_TYPES[kind]), want, rtol=0, atol=0, msg=f"{op} {kind}")


WRONG = [
    ("calls cp.async.bulk for 24 bytes, which is not a multiple of 16", "trap", "24 bytes"),
    ("to an address that is not a multiple of 16", "misaligned", "multiple of 16"),
    ("from an address that is not a multiple of 16", "misaligned", "multiple of 16"),
    ("past the end of a tensor of 128 bytes", "out_of_bounds", "x has 128 elements"),
    ("to an address that is not a multiple of 16", "misaligned", "multiple of 16"),
    ("for the blocks of the mask 6", "trap", "the mask 6"),
    ("calls cp.async.bulk of a barrier that no thread has initialised", "uninitialized", "no thread has initialised"),
    ("to shared memory in a launch without clusters", "trap", "a cluster of one block"),
]


def test_what_a_gpu_would_refuse(kernels):
    x, y = torch.zeros(128, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
    traced = Tracer(SOURCE, "wrong")[1, 32]
    for what, (says, kind, traced_says) in enumerate(WRONG):
        with pytest.raises(RuntimeError) as caught:
            kernels["wrong"][1, 32](x, y, what)
        assert says in str(caught.value), caught.value
        found = traced(x, y, what).problems
        assert found[0].kind == kind and traced_says in found[0].message, found
        assert "what ==" in found[0].source or "asm" in found[0].source, found


LIBRARY = r"""
#include <cuda/barrier>
#include <cuda/ptx>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;
namespace cde = cuda::device::experimental;
#pragma nv_diag_suppress static_var_with_dynamic_init

__global__ void by_barrier(const int* x, int* y, int how) {
    __shared__ alignas(16) int s[64];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        if (how == 0) {
            cde::cp_async_bulk_global_to_shared(s, x, sizeof s, bar);
            token = cuda::device::barrier_arrive_tx(bar, 1, sizeof s);
        } else if (how == 1) {
            cuda::device::memcpy_async_tx(s, x, cuda::aligned_size_t<16>(sizeof s), bar);
            cuda::device::barrier_expect_tx(bar, sizeof s);
            token = bar.arrive();
        } else {
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, sizeof s,
                               cuda::device::barrier_native_handle(bar));
            token = cuda::device::barrier_arrive_tx(bar, 1, sizeof s);
        }
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    s[threadIdx.x] += 1;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_shared_to_global(y, s, sizeof s);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}

__global__ void by_ptx(const int* x, int* y) {
    __shared__ alignas(16) int s[64];
    __shared__ uint64_t b[2];
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&b[0], 1);
        ptx::mbarrier_init(&b[1], 64);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &b[0], 256);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, 256, &b[0]);
    }
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &b[0], 0)) {}
    s[threadIdx.x] *= 3;
    ptx::fence_proxy_async(ptx::space_shared);
    uint64_t state = ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &b[1]);
    while (!ptx::mbarrier_test_wait(&b[1], state)) {}
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, y, (const int*)s, 256);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
"""


def test_nvidias_functions():
    names = ["by_barrier", "by_ptx"]
    by_barrier, by_ptx = compile_kernels(LIBRARY, names)
    x = torch.arange(64, dtype=torch.int32)
    for how in range(3):
        y = torch.zeros_like(x)
        by_barrier[1, 64](x, y, how)
        assert torch.equal(y, x + 1), how
        trace = Tracer(LIBRARY, "by_barrier")[1, 64](x, torch.zeros_like(x), how)
        assert trace.ok, trace.problems
    y = torch.ones_like(x)
    by_ptx[1, 64](x, y)
    assert torch.equal(y, 3 * x + 1)
    trace = Tracer(LIBRARY, "by_ptx")[1, 64](x, y)
    assert trace.ok, trace.problems


def test_a_copy_past_the_end_of_a_shared_array_names_that_one_and_not_the_barrier_behind_it():
    small = LIBRARY.replace("int s[64];\n    __shared__ barrier", "int s[32];\n    __shared__ barrier")
    source = small.replace("x, sizeof s", "x, 2 * sizeof s")
    (problem, *_) = Tracer(source, "by_barrier")[1, 32](torch.arange(64).int(), torch.zeros(32).int(), 2).problems
    assert problem.kind == "out_of_bounds" and "s[0] to s[63], but s has 32 elements" in problem.message, problem


def test_a_gpu_that_lacks_them(monkeypatch):
    monkeypatch.setenv("CUDA_COURSE_GPU", "A100")
    with pytest.raises(CourseError, match="sm_90"):
        compile_kernel(
            HELPERS + "__global__ void k(char* y) { __shared__ alignas(16) char s[16]; store(y, s, 16); }", "k"
        )
