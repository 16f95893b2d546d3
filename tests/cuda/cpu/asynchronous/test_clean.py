"""Kernels with bulk copies that are right although they look wrong: a trace says nothing of them."""

import pytest
import torch

from tests.cuda.cpu.asynchronous.kernels import HELPERS, built_together
from utils.cuda.kernel import Tracer

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = (
    HELPERS
    + r"""
__device__ void add(float* to, const float* from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :: "l"(to), "r"(at(from)), "r"(bytes) : "memory");
}
__global__ void by_warps(const float* x, float* y) {
    __shared__ alignas(16) float s[4][32];
    const int w = threadIdx.x / 32, l = threadIdx.x % 32;
    for (int k = 0; k < 3; k++) {
        s[w][l] = x[128 * k + threadIdx.x] + 1;
        fence_async();
        __syncwarp();
        if (l == 0) {
            store(y + 128 * k + 32 * w, s[w], 128);
            commit();
            wait_read<0>();
        }
        __syncwarp();
    }
}
__global__ void in_place(const float* x, float* y) {
    __shared__ alignas(16) float s[128];
    __shared__ mbarrier full;
    int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        fence_async();
    }
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        if (t == 0) {
            wait_read<0>();
            expect(&full, 512);
            load(s, x + 128 * k, 512, &full);
        }
        wait(&full, k & 1);
        s[t] += 1;
        fence_async();
        __syncthreads();
        if (t == 0) {
            store(y + 128 * k, s, 512);
            commit();
        }
    }
    if (t == 0) wait_done<0>();
}
__global__ void global_first(float* x, float* y) {
    __shared__ alignas(16) float s[128];
    __shared__ mbarrier full;
    int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        fence_init();
    }
    x[t] = t;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        expect(&full, 512);
        load(s, x, 512, &full);
    }
    wait(&full, 0);
    y[t] = s[127 - t];
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at(&full)));
        init(&full, 128);
    }
    __syncthreads();
    arrive(&full);
    wait(&full, 0);
}
__global__ void last_block(const float* x, float* sums, unsigned* count, float* out) {
    __shared__ alignas(16) float s[128];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = x[128 * blockIdx.x + t];
    fence_async();
    __syncthreads();
    if (t == 0) {
        add(sums, s, 512);
        commit();
        wait_done<0>();
        asm volatile("fence.proxy.async;" ::: "memory");
        __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        out[t] = sums[t];
    }
}
__global__ void roles(const float* x, float* y, int n) {
    __shared__ alignas(16) float a[2][64], b[2][64];
    __shared__ mbarrier full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            init(&full[s], 2);
            init(&empty[s], 64);
        }
        fence_init();
    }
    __syncthreads();
    if (t == 64 || t == 96) {
        float (*to)[64] = t == 64 ? a : b;
        for (int k = 0; k < n; k++) {
            wait(&empty[k % 2], (k / 2 & 1) ^ 1);
            load(to[k % 2], x + 64 * k, 256, &full[k % 2]);
            expect(&full[k % 2], 256);
        }
    } else if (t < 64) {
        float sum = 0;
        for (int k = 0; k < n; k++) {
            wait(&full[k % 2], k / 2 & 1);
            sum += a[k % 2][63 - t] + b[k % 2][t];
            arrive(&empty[k % 2]);
        }
        y[t] = sum;
    }
}
"""
)


def _zeros(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype)


X = torch.randn(7, 128)
#: By kernel: its blocks, the arguments, the output among them and what it has to be.
CASES = {
    "by_warps": (1, lambda: [X, _zeros(3, 128)], 1, X[:3] + 1),
    "in_place": (1, lambda: [X, _zeros(3, 128)], 1, X[:3] + 1),
    "global_first": (1, lambda: [_zeros(128), _zeros(128)], 1, torch.arange(127.0, -1, -1)),
    "last_block": (5, lambda: [X, _zeros(128), _zeros(1, dtype=torch.int32), _zeros(128)], 3, X[:5].sum(0)),
    "roles": (1, lambda: [X, _zeros(64), 7], 1, sum(row + row.flip(0) for row in X.view(-1, 64)[:7])),
}


@pytest.fixture(scope="module", autouse=True)
def together():
    with built_together([*CASES]):
        yield


@pytest.mark.parametrize("kernel", CASES)
@pytest.mark.parametrize("order", ["forward", "reversed", 1])
def test_nothing_is_said_of_them(kernel, order):
    blocks, args, which, want = CASES[kernel]
    trace = Tracer(SOURCE, kernel)[blocks, 128](*args(), order=order)
    assert trace.ok, trace.problems
    torch.testing.assert_close(trace.args[which], want)
