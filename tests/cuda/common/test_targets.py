"""What a CUDA text is compiled for: sm_90a where it needs instructions that sm_90 lacks."""

import pytest
import torch

from utils import CompileError, compile_kernel
from utils.cuda import verdict
from utils.cuda.common import cxx
from utils.cuda.common.targets import target, target_of_text
from utils.cuda.gpu.compiled import compiled

FENCE = '__global__ void k(float* x) { asm volatile("wgmma.fence.sync.aligned;"); x[0] = 1; }'
PLAIN = "__global__ void k(float* x) { x[0] = 1; }"
BULK = '__global__ void k(int* x) { asm volatile("cp.async.bulk.commit_group;"); x[0] = 1; }'


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        (FENCE, True),
        ('asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(240));', True),
        ('asm("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(a), "l"(p));', True),
        ('#define MMA "wgmma.mma_async.sync"', True),
        ('asm("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [a]")', True),
        (PLAIN, False),
        (BULK, False),
        ("// wgmma needs sm_90a\n/* setmaxnreg */ int x;", False),
        ("int wgmma_tiles;", False),
        ('asm("prefetch.tensormap [%0];" :: "l"(p)); CUtensorMap tensormap;', False),
    ],
)
def test_only_some_instructions_need_more_than_the_capability(source, needs):
    assert target(90, source) == ("90a" if needs else "90")
    assert [target(capability, source) for capability in (75, 80, 100)] == ["75", "80", "100"]
    assert target(90, PLAIN, source) == target(90, source)
    assert cxx.tokens(source)


def test_headers_of_ones_own_count_too(tmp_path):
    (tmp_path / "mma.cuh").write_text(FENCE)
    options = [f"-I{tmp_path}"]
    assert target_of_text(90, '#include "mma.cuh"\n' + PLAIN, options) == "90a"
    assert target_of_text(80, '#include "mma.cuh"\n' + PLAIN, options) == "80"
    assert target_of_text(90, '#include "other.cuh"\n' + PLAIN, options) == "90"


def test_the_verdict_and_what_nvrtc_makes_are_for_the_same_target(monkeypatch):
    monkeypatch.delenv("CUDA_COURSE_GPU", raising=False)
    assert verdict.on_kernels(FENCE, ["k"]).architecture == "90a" and verdict.on_extension(FENCE).architecture == "90a"
    assert verdict.on_kernels(PLAIN, ["k"]).architecture == "90" and verdict.on_extension(PLAIN).architecture == "90"
    assert verdict.on_kernels(FENCE, ["k"], ["--gpu-architecture=sm_80"]).architecture == "80"
    made = compiled(FENCE, "k", gpu="H200")
    assert ".target sm_90a" in made._whole() and "wgmma.fence" in made.ptx and made.usage.registers > 0
    assert ".target sm_90\n" in compiled(PLAIN, "k", gpu="H200")._whole()
    assert ".target sm_90a" in compiled(PLAIN, "k", ["--gpu-architecture=sm_90a"])._whole()


def test_a_text_that_is_also_read_for_the_host_is_judged_for_the_same_target():
    source = FENCE + '\n#include <cstdio>\nvoid report() { printf("done"); }'
    judge = verdict.on_kernels(source, ["k"])
    assert judge.for_host
    compile_kernel(source, "k")


def test_setmaxnreg_takes_a_constant_of_the_compilers(on_cpu):
    source = """
template <unsigned N> __device__ void have() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
__global__ void k(float* x) { have<64>(); x[threadIdx.x] = 1; }
"""
    x = torch.zeros(128)
    compile_kernel(source, "k")[1, 128](x)
    assert (x == 1).all()
    with pytest.raises(CompileError, match="line 2: .*setmaxnreg.inc"):
        compile_kernel(source.replace('"n"(N)', '"r"(N)'), "k")
