"""Vectors, loads and stores, and atomics."""

import numpy as np
import pytest
import torch

from tests.cuda.cpu.language.launching import run, same, signed
from utils import CompileError, compile_kernel

# ---- vectors, loads and stores --------------------------------------------------------------------------------------

VECTOR_SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8}
VECTOR_SIZES |= {"longlong": 8, "ulonglong": 8, "float": 4, "double": 8}


def vector_source():
    lines = ["__global__ void vectors(int* sizes, int* values) {", "    int k = 0, v = 0;"]
    for name in VECTOR_SIZES:
        for count in (1, 2, 3, 4):
            lines.append(f"    sizes[k++] = sizeof({name}{count}); sizes[k++] = alignof({name}{count});")
            numbers = ", ".join(str(10 * count + part) for part in range(count))
            lines.append(f"    {{ {name}{count} p = make_{name}{count}({numbers});")
            lines += [f"      values[v++] = (int)p.{part};" for part in "xyzw"[:count]]
            lines.append("    }")
    return "\n".join([*lines, "}", LOADS])


LOADS = r"""
union Pack { float4 all; unsigned char bytes[16]; };
__device__ float4 operator*(float s, float4 v) { return make_float4(s * v.x, s * v.y, s * v.z, s * v.w); }
__global__ void loads(const float* x, float4* out, int n) {
    dim3 grid = gridDim;
    uint3 at = blockIdx;
    int i = at.x * blockDim.x + threadIdx.x;
    if (i >= n || grid.y != 1) return;
    const float4* rows = reinterpret_cast<const float4*>(x);
    float4 v = __ldg(&rows[i]), w = __ldcg(rows + i);
    Pack pack;
    pack.all = __ldcs(rows + i);
    pack.bytes[15] ^= 0x80;
    __stcs(out + i, 2.0f * v);
    __stcg(&out[n + i], make_float4(w.w, w.z, w.y, __ldca(x + 4 * i)));
    out[2 * n + i] = pack.all;
}
"""


def test_vectors(backend):
    count = len(VECTOR_SIZES)
    sizes, values = run(
        backend, vector_source(), "vectors", 1, 1, torch.zeros(8 * count).int(), torch.zeros(10 * count).int()
    )
    expected = []
    for bytes_each in VECTOR_SIZES.values():
        for parts_of in (1, 2, 3, 4):
            together = parts_of in (2, 4)
            expected += [parts_of * bytes_each, min(16, parts_of * bytes_each) if together else bytes_each]
    assert sizes.tolist() == expected
    assert values.tolist() == [10 * c + part for c in (1, 2, 3, 4) for part in range(c)] * count


def test_loads_and_stores(backend):
    n = 77
    x = torch.randn(n, 4)
    _, out = run(backend, vector_source(), "loads", 2, 64, x, torch.zeros(3, n, 4), n)
    negated = x * torch.tensor([1.0, 1.0, 1.0, -1.0])
    same(out, torch.stack([2 * x, x[:, [3, 2, 1, 0]], negated]))


# ---- atomics --------------------------------------------------------------------------------------------------------

ATOMICS = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__global__ void atomics(const int* x, int* i32, unsigned* u32, unsigned long long* u64, long long* i64, float* f32,
                        double* f64, half* f16, __nv_bfloat16* b16, half2* h2, int n) {
    __shared__ int bins[8];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 8) bins[t] = 0;
    __syncthreads();
    if (i < n) {
        int v = x[i];
        atomicAdd(&bins[v & 7], 1);
        atomicAdd(i32, v);
        atomicSub(i32 + 1, v);
        atomicMin(i32 + 2, v);
        atomicMax(i32 + 3, v);
        atomicAnd(i32 + 4, v | 0x100);
        atomicOr(i32 + 5, v);
        atomicXor(i32 + 6, v);
        atomicAdd_block(i32 + 7 + blockIdx.x, v);
        atomicAdd(u32, v);
        atomicMin(u32 + 1, (unsigned)v);
        atomicMax(u32 + 2, (unsigned)v);
        atomicInc(u32 + 3, 10);
        atomicDec(u32 + 4, 6);
        atomicAdd(u64, (unsigned long long)v << 33);
        atomicMax(u64 + 1, (unsigned long long)v << 33);
        atomicOr_system(u64 + 2, 1ull << (v & 63));
        atomicMin(i64, (long long)v << 33);
        atomicAdd(f32, v);
        atomicAdd(f64, 0.5 * v);
        atomicAdd(f16, __int2half_rn(v & 1));
        atomicAdd(b16, __float2bfloat16(v & 1));
        atomicAdd(h2, __floats2half2_rn(v & 1, (v >> 1) & 1));
        int seen = i32[40], old;  // the largest of floats, as one does without atomicMax(float*)
        do {
            old = seen;
            if (__int_as_float(old) >= 0.25f * v) break;
            seen = atomicCAS(i32 + 40, old, __float_as_int(0.25f * v));
        } while (seen != old);
        unsigned place = atomicAdd(u32 + 5, 1u);
        atomicExch(i32 + 64 + place, i);
    }
    __syncthreads();
    if (t < 8) atomicAdd(i32 + 48 + t, bins[t]);
}
__global__ void locked(int* lock, int* total, unsigned short* taken, int rounds) {
    for (int k = 0; k < rounds; k++) {
        bool done = false;
        while (!done) {
            if (atomicCAS(lock, 0, 1) == 0) {
                __threadfence();
                *(volatile int*)total = *(volatile int*)total + 1;
                __nanosleep(20);  // others come meanwhile
                __threadfence();
                atomicExch(lock, 0);
                done = true;
            }
        }
    }
    if (threadIdx.x == 0) atomicCAS(taken, (unsigned short)7, (unsigned short)60000);
}
__global__ void handed_over(int* flags, int* out) {  // each thread waits for the next one's flag
    int i = threadIdx.x, n = blockDim.x;
    if (i < n - 1)
        while (atomicAdd(flags + i + 1, 0) == 0) {}
    out[i] = (i < n - 1 ? *(volatile int*)(out + i + 1) : 0) + 1;
    __threadfence();
    atomicExch(flags + i, 1);
}
"""


def test_atomics(backend):
    n, threads = 3001, 128
    blocks = -(-n // threads)
    x = torch.randint(0, 200, (n,), generator=torch.Generator().manual_seed(9)).to(torch.int32)
    i32 = torch.zeros(64 + n, dtype=torch.int32)
    i32[[2, 4]] = torch.tensor([10**6, -1], dtype=torch.int32)
    u32 = torch.tensor([0, 10**6, 0, 0, 5, 0], dtype=torch.int32)
    u64, i64 = torch.zeros(3, dtype=torch.int64), torch.full((1,), 2**60)
    f16, b16, h2 = torch.zeros(1).half(), torch.zeros(1).bfloat16(), torch.zeros(2).half()
    got = run(
        backend,
        ATOMICS,
        "atomics",
        blocks,
        threads,
        x,
        i32,
        u32,
        u64,
        i64,
        torch.zeros(1),
        torch.zeros(1).double(),
        f16,
        b16,
        h2,
        n,
    )
    _, i32, u32, u64, i64, f32, f64, f16, b16, h2 = (g.tolist() for g in got)
    v = x.tolist()
    both = [
        int(np.bitwise_and.reduce([k | 0x100 for k in v])),
        int(np.bitwise_or.reduce(v)),
        int(np.bitwise_xor.reduce(v)),
    ]
    assert i32[:7] == [sum(v), -sum(v), min(v), max(v), *both]
    assert i32[7 : 7 + blocks] == [sum(v[b * threads : (b + 1) * threads]) for b in range(blocks)]
    assert i32[48:56] == [sum(k & 7 == b for k in v) for b in range(8)]
    assert torch.tensor(i32[40], dtype=torch.int32).view(torch.float32).item() == max(v) / 4
    assert sorted(i32[64:]) == list(range(n)), "every thread got a place of its own"
    count = 5
    for _ in range(n):
        count = 6 if count == 0 or count > 6 else count - 1
    assert u32 == [sum(v), min(v), max(v), n % 11, count, n]
    bits = 0
    for k in v:
        bits |= 1 << (k & 63)
    assert u64 == [sum(v) << 33, max(v) << 33, signed(bits, 64)]
    assert i64 == [min(v) << 33] and f32 == [sum(v)] and f64 == [sum(v) / 2]
    odd = sum(k & 1 for k in v)
    assert f16 == [odd] and h2 == [odd, sum(k >> 1 & 1 for k in v)]
    assert b16 == [min(odd, 256)], "at 256 a bfloat16 no longer counts by one"


def test_spin_lock(backend):
    taken = torch.tensor([7], dtype=torch.int16)
    lock, total, taken = run(backend, ATOMICS, "locked", 4, 96, torch.zeros(1).int(), torch.zeros(1).int(), taken, 3)
    assert (lock.item(), total.item(), taken.item() & 0xFFFF) == (0, 4 * 96 * 3, 60000)


def test_waiting_for_a_later_thread(backend):
    n = 64
    _, out = run(backend, ATOMICS, "handed_over", 1, n, torch.zeros(n).int(), torch.zeros(n).int())
    assert out.tolist() == list(range(n, 0, -1))


@pytest.mark.parametrize(
    "call, c_type",
    [
        ("atomicAdd(p, 1)", "unsigned long"),
        ("atomicMax(p, 1)", "float"),
        ("atomicInc(p, 1)", "int"),
        ("atomicCAS(p, 0, 1)", "short"),
    ],
)
def test_what_has_no_atomic_is_refused(call, c_type, monkeypatch):
    monkeypatch.setattr("utils.cuda.kernel.device", lambda: torch.device("cpu"))
    said = rf"CUDA has {call[:9]} only for pointers to|no instance of overloaded function|argument of type"  # or nvcc's
    with pytest.raises(CompileError, match=said):
        compile_kernel(f"__global__ void count({c_type}* p) {{ {call}; }}", "count")


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("extern __device__ int v;", 0),
        ('extern "C" __constant__ int v;', 0),
        ("extern __device__ int v;\nextern __device__ int v;", 0),
        ("extern __device__ int v;\n__device__ int v = 3;", 3),  # a host's compiler would refuse it
        ("extern __constant__ int v = 4;", 4),
    ],
)
def test_an_extern_variable_is_defined_where_nothing_else_defines_it(declared, value):
    x = torch.full((1,), 9, dtype=torch.int32)
    compile_kernel(f"{declared}\n__global__ void k(int* x) {{ *x = v; }}", "k")[1, 1](x)
    assert x.item() == value
