"""Random launches that go wrong, in a process of their own:  python -m tests.cuda.cpu.faulty 5000 [seed]

Every launch is of a kind below with random numbers. Each must end in an exception or, where a GPU would not notice
either, return. Afterwards Python must be whole: a collection, large allocations, a right launch, and a clean exit.
Prints how many launches of each kind raised.
"""

import collections
import ctypes
import gc
import random
import sys

import torch

from utils.cuda.kernel import compile_kernels

__all__ = ["KINDS", "SOURCE", "main"]

SOURCE = r"""
typedef long long whole;
__device__ __noinline__ void put(float* p, whole i) { p[i] = 1; }
__device__ __noinline__ float get(const float* p, whole i) { return p[i]; }
__device__ void inlined(float* p, whole i) { p[i] = 1; }
__device__ whole deep(whole n, whole at) {
    volatile whole room[64];
    room[at & 63] = n;
    return n ? deep(n - 1, at + 1) + room[n & 63] : room[0];
}
template <int floats> __device__ __noinline__ float large(whole at) {
    volatile float room[floats];
    room[at % floats] = 1;
    return room[(at + 1) % floats];
}
__device__ float table[64];
struct Pair { float first, second; };
struct Params { float values[4]; };
__device__ __noinline__ float of(const Params& p, whole i) { return p.values[i]; }

// What one thread of a block does wrong; the others wait for it at barriers.
__global__ void wrong(float* x, int n, int kind, whole a, whole b) {
    __shared__ float tile[32];
    extern __shared__ float more[];
    float local[8] = {0}, rows[4][4] = {{0}};
    tile[threadIdx.x % 32] = threadIdx.x;
    __syncthreads();
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == a % blockDim.x) {
        switch (kind) {
        case 0: x[b] = 1; break;
        case 1: x[0] = x[b]; break;
        case 2: tile[b] = 1; break;
        case 3: x[0] = tile[b]; break;
        case 4: more[b] = 1; break;
        case 5: put(local, b); break;
        case 6: x[0] = get(local, b); break;
        case 7: inlined(local, b); break;
        case 8: local[b] = 1; break;
        case 9: rows[b % 4][b] = 1; break;
        case 10: for (whole i = 0; i < b; i++) put(local, i); break;
        case 11: for (whole i = 0; i > -b; i--) put(local, i); break;
        case 12: *reinterpret_cast<float*>(b) = 1; break;
        case 13: x[0] = *reinterpret_cast<volatile float*>(b); break;
        case 14: reinterpret_cast<float4*>(reinterpret_cast<char*>(x) + 1)[b] = {}; break;
        case 15: x[0] = deep(b, a); break;
        case 16: x[0] = large<100000>(b); break;
        case 17: x[0] = large<1000000>(b); break;
        case 18: x[0] = 7 / int(b - b); break;
        case 19: x[0] = 7 % int(b - b); break;
        case 20: __trap(); break;
        case 21: assert(b < b); break;
        case 22: reinterpret_cast<void (*)(float*)>(b)(x); break;
        case 23: (*reinterpret_cast<void (**)(float*)>(x))(x); break;
        case 24: table[b] = 1; break;
        case 25: x[0] = table[b]; break;
        case 26: memset(x, 0, size_t(b)); break;
        case 27: memcpy(local, x, size_t(b)); break;
        case 28: memset(local, 1, size_t(b)); break;
        case 29: atomicAdd(x + b, 1.0f); break;
        case 30: atomicAdd(reinterpret_cast<int*>(tile) + b, 1); break;
        case 31: printf("%s", reinterpret_cast<char*>(b)); break;
        case 32: { float4 v = {}; reinterpret_cast<float*>(&v)[b] = 1; x[0] = v.x; break; }
        case 33: { Params p = {}; x[0] = of(p, b); break; }
        case 34: reinterpret_cast<double*>(x + 1)[b] = 1; break;
        case 35: return;                                       // before a barrier
        case 36: __syncthreads(); break;                       // the others are elsewhere
        case 37: __shfl_sync(0xffffffffu, 1, int(b)); break;
        case 38: __syncwarp(unsigned(b)); break;
        case 39: { float* p = static_cast<float*>(malloc(64)); p[b] = 1; free(p); break; }
        case 40: { float* p = new float[16]; delete[] p; p[b & 15] = 1; break; }
        case 41: free(reinterpret_cast<void*>(b)); break;
        case 42: free(x); break;
        case 43: { float* p = static_cast<float*>(malloc(64)); free(p); free(p); break; }
        case 44: { void (*none)() = nullptr; none(); break; }
        case 45: __builtin_unreachable(); break;
        case 46: x[0] = x[n]; x[-1] = 1; break;
        }
    }
    __syncthreads();
    if (threadIdx.x < unsigned(n)) x[threadIdx.x] += tile[threadIdx.x % 32] + local[a & 7] + rows[a & 3][b & 3];
}

__global__ void right(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2 * i;
}
__global__ void cooperate(float* x, int n) { __syncthreads(); if (threadIdx.x) __syncthreads(); x[n] = 1; }
"""

KINDS = 47


def _offset(random_, kind):
    """A random index or address for a kind: near, far, or anywhere."""
    near = random_.randrange(-80, 80)
    far = random_.choice([-1, 1]) * random_.randrange(1, 10 ** random_.randrange(2, 11))
    anywhere = random_.randrange(-(2**63), 2**63)
    if kind in (12, 13, 22, 31, 41):  # addresses
        return random_.choice([0, near, random_.randrange(2**20), random_.randrange(2**48), anywhere])
    if kind in (10, 11):
        return random_.choice([abs(near), random_.randrange(200, 10**6)])
    if kind in (26, 27, 28):
        return random_.choice([abs(near) + 1, abs(far)])
    if kind == 15:
        return random_.randrange(1, 10 ** random_.randrange(2, 7))
    if kind in (0, 1, 2, 3, 4, 24, 25, 29, 30, 5, 6, 7, 8, 9, 32, 33, 34) and random_.random() < 0.05:
        return anywhere // 8
    return random_.choice([near, far])


def _arguments(random_, x):
    """Launches and arguments that Python itself must refuse."""
    size = random_.choice([0, -1, 2**31, 2**64, 1.5, None, "4", (1, 2, 3, 4), (), [2, 0], float("nan"), True])
    launch = random_.choice([(size, 32), (1, size), (1, 32, size), (size,), size])
    args = random_.choice([(x, 8), (x,), (x.double(), 8), (8, x), (x, 2**40), (x, None), (None, 8), (x[::2], 8)])
    return launch, args


def main(count, seed):
    """Make `count` launches; returns how many of each kind raised, and how many there were."""
    random_ = random.Random(seed)
    wrong, right, cooperate = compile_kernels(SOURCE, ["wrong", "right", "cooperate"])
    made, raised = collections.Counter(), collections.Counter()
    kept = []
    for _ in range(count):
        kind = random_.randrange(KINDS + 3)
        made[kind] += 1
        x = torch.zeros(random_.choice([1, 8, 31, 240, 1000, 5000]))
        kept = [*kept[-5:], x, bytearray(random_.randrange(1, 10**5))]
        try:
            if kind < KINDS:
                launch = (
                    random_.randrange(1, 6),
                    random_.choice([1, 7, 32, 33, 64, 256]),
                    random_.choice([0, 0, 64, 4096]),
                )
                wrong[launch](x, x.numel(), kind, random_.randrange(10**6), _offset(random_, kind))
            elif kind == KINDS:
                launch, args = _arguments(random_, x)
                right[launch](*args)
            elif kind == KINDS + 1:
                cooperate[1, random_.choice([2, 32, 64])](x, random_.choice([0, x.numel(), 10**9]))
            else:
                right[random_.choice([2**31 - 1, 1]), 2048](x, x.numel())
        except (RuntimeError, TypeError, ValueError):
            raised[kind] += 1
    check(right)
    return made, raised


def check(right):
    """Python and the engine work as before."""
    gc.collect()
    for _ in range(20):
        large = [bytearray(10**7), list(range(10**5)), {i: str(i) for i in range(10**4)}, torch.ones(10**6)]
        assert large[3].sum() == 10**6 and sum(large[1]) == 4999950000 and large[2][777] == "777"
        assert ctypes.string_at(ctypes.create_string_buffer(b"whole")) == b"whole"
    x = torch.zeros(1000)
    right[4, 256](x, 1000)
    assert (x == 2 * torch.arange(1000)).all()
    gc.collect()


if __name__ == "__main__":
    from utils.lesson.start import start

    start()
    made, raised = main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for kind in sorted(made):
        print(f"kind {kind}: {raised[kind]} of {made[kind]} raised")
    print(f"{sum(made.values())} launches, {sum(raised.values())} exceptions, and Python is whole", flush=True)
