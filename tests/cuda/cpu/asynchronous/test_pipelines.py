"""Whole kernels with bulk copies: a producer and consumers with several stages, registers that warps hand over."""

import time

import pytest
import torch

from tests.cuda.cpu.asynchronous.kernels import HELPERS
from utils.cuda.kernel import Tracer, compile_kernels

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = (
    HELPERS
    + r"""
// out = x scaled by its tile's number plus 1, tiles of 128 floats. Warpgroup 0 copies, warpgroup 1 calculates; blocks
// take tiles in turn, and the results leave through two buffers.
template <int stages>
__global__ void __launch_bounds__(256) persistent(const float* x, float* out, int tiles) {
    __shared__ alignas(128) float stage[stages][128], result[2][128];
    __shared__ mbarrier full[stages], empty[stages], together;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&together, 128);
        for (int s = 0; s < stages; s++) {
            init(&full[s], 1);
            init(&empty[s], 4);  // one lane of each consuming warp
        }
        fence_init();
    }
    __syncthreads();
    int s = 0, phase = 0;
    if (t < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 0)
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                wait(&empty[s], phase ^ 1);
                expect(&full[s], 512);
                load(stage[s], x + 128 * tile, 256, &full[s]);
                load(stage[s] + 64, x + 128 * tile + 64, 256, &full[s]);
                if (++s == stages) s = 0, phase ^= 1;
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 256;");
    int buffer = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        wait(&full[s], phase);
        const float mine = stage[s][255 - t];
        __syncwarp();
        if (t % 32 == 0) arrive(&empty[s]);
        if (t == 128) wait_read<1>();  // the store before the last has left this buffer
        arrive(&together);
        wait(&together, 0);
        result[buffer][255 - t] = mine * (tile + 1);
        fence_async();
        arrive(&together);
        wait(&together, 1);
        if (t == 128) {
            store(out + 128 * tile, result[buffer], 512);
            commit();
        }
        buffer ^= 1;
        if (++s == stages) s = 0, phase ^= 1;
    }
    if (t == 128) wait_read<0>();
}

__global__ void registers(int* out) {
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 160;");
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    }
    out[threadIdx.x] = 1;
}

__global__ void big(const float* x, float* out, int times) {  // 64 KB there and back
    extern __shared__ __align__(128) float tile[];
    __shared__ mbarrier full;
    init(&full, 1);
    fence_init();
    for (int k = 0; k < times; k++) {
        expect(&full, 65536);
        load(tile, x, 65536, &full);
        wait(&full, k & 1);
        store(out, tile, 65536);
        commit();
        wait_read<0>();
    }
}
"""
)
KERNELS = ["persistent<1>", "persistent<3>", "registers", "big"]


@pytest.fixture(scope="module")
def kernels():
    return dict(zip(KERNELS, compile_kernels(SOURCE, KERNELS), strict=True))


@pytest.mark.parametrize("stages", [1, 3])
def test_a_producer_and_its_consumers(kernels, stages):
    x = torch.randn(11, 128)
    want = x * torch.arange(1.0, 12)[:, None]
    for blocks in (1, 2):
        out = torch.full_like(x, torch.nan)
        kernels[f"persistent<{stages}>"][blocks, 256](x, out, 11)
        torch.testing.assert_close(out, want, rtol=0, atol=0)


def test_nothing_is_said_of_it():
    x, out = torch.randn(7, 128), torch.empty(7, 128)
    for order in ("forward", "reversed", 3):
        trace = Tracer(SOURCE, "persistent<3>")[2, 256](x, out, 7, outputs=[out], order=order)
        assert trace.ok, trace.problems


def test_registers_that_do_not_add_up(kernels):
    out = torch.zeros(384, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="waits in vain at setmaxnreg.inc for 64 registers more"):
        kernels["registers"][1, 384](out)


def test_large_copies_are_quick(kernels):
    x, out = torch.randn(16384), torch.zeros(16384)
    begin = time.perf_counter()
    kernels["big"][1, 1, 65536](x, out, 500)
    assert time.perf_counter() - begin < 2  # 64 MB; a tenth of that on an idle machine
    assert torch.equal(x, out)
