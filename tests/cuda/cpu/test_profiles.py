"""The CPU engine as one GPU or another: its limits, what it reports, and what `__CUDA_ARCH__` is where."""

import pytest
import torch

import utils.cuda.compile
import utils.cuda.kernel
from utils import CompileError, compile_kernel, load_cuda
from utils.cuda.common import gpus
from utils.cuda.common.toolchain import cuda_home
from utils.cuda.cpu.architecture import with_architecture
from utils.ground.errors import CourseError


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    for module in (utils.cuda.compile, utils.cuda.kernel):
        monkeypatch.setattr(module, "device", lambda: torch.device("cpu"))
    monkeypatch.delenv("CUDA_COURSE_GPU", raising=False)


SHARED = """
extern __shared__ float s[];
__global__ void fill(float* x) {
    s[threadIdx.x] = __CUDA_ARCH__;
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x];
}
"""


def test_a_kernel_under_each_profile(monkeypatch):
    for name, architecture, most in (
        ("", 900, 232448),
        ("T4", 750, 65536),
        ("A100", 800, 166912),
        ("H200", 900, 232448),
    ):
        monkeypatch.setenv("CUDA_COURSE_GPU", name)
        kernel, x = compile_kernel(SHARED, "fill"), torch.zeros(32)
        kernel[1, 32, most](x)
        assert x.tolist() == [architecture] * 32
        with pytest.raises(RuntimeError, match=f"more than the {most} that this kernel may have"):
            kernel[1, 32, most + 4](x)
    monkeypatch.setenv("CUDA_COURSE_GPU", "V100")
    with pytest.raises(CourseError, match="CUDA_COURSE_GPU is 'V100'.*T4, A100, H100, H200"):
        compile_kernel(SHARED, "fill")


def test_static_and_dynamic_shared_memory_under_a_profile(monkeypatch):
    monkeypatch.setenv("CUDA_COURSE_GPU", "T4")
    source = SHARED.replace("s[threadIdx.x] =", "__shared__ float t[1024]; s[threadIdx.x] = t[threadIdx.x] =")
    kernel, x = compile_kernel(source, "fill"), torch.zeros(32)
    kernel[1, 32, 65536 - 4096](x)
    assert x.tolist() == [750] * 32
    with pytest.raises(RuntimeError, match="62000 bytes of .* and 4096 of static are more than the 65536 that"):
        kernel[1, 32, 62000](x)


def test_a_trace_for_another_gpu():
    kernel, x = compile_kernel(SHARED, "fill"), torch.zeros(32)
    assert kernel.trace[1, 32, 128](x, gpu="T4").args[0].tolist() == [750] * 32
    with pytest.raises(RuntimeError, match="more than the 65536 that this kernel may have"):
        kernel.trace[1, 32, 70000](x, gpu="T4")
    assert kernel.trace[1, 32, 70000](x).ok and gpus.chosen().name == ""
    kernel[1, 32, 70000](x)
    with pytest.raises(CourseError, match="gpu is 'T5'.*T4, A100, H100, H200"):
        kernel.trace[1, 32, 128](x, gpu="T5")


@pytest.mark.skipif(cuda_home() is None, reason="needs nvcc")
def test_what_an_architecture_lacks(monkeypatch):
    """A warp's sum in one instruction came with sm_80."""
    source = """__global__ void total(int* x) {
    int sum = __reduce_add_sync(0xffffffff, x[threadIdx.x]);
    x[threadIdx.x] = sum;
}"""
    monkeypatch.setenv("CUDA_COURSE_GPU", "A100")
    kernel, x = compile_kernel(source, "total"), torch.arange(32, dtype=torch.int32)
    kernel[1, 32](x)
    assert x.tolist() == [496] * 32
    undefined = 'line 2: identifier "__reduce_add_sync" is undefined'
    with pytest.raises(CompileError, match=undefined):
        kernel.trace[1, 32](x, gpu="T4")
    monkeypatch.setenv("CUDA_COURSE_GPU", "T4")
    with pytest.raises(CompileError, match=undefined):
        compile_kernel(source, "total")


CPP = """
std::string device_name();
std::vector<int64_t> device_values();
std::vector<int64_t> meanings();
std::vector<int64_t> occupancy(int64_t threads, int64_t bytes);
"""
# Every way in which a text may ask for __CUDA_ARCH__.
MEANINGS = r"""
#include <cuda_runtime.h>
#include <string>
#include <vector>
#if defined(__CUDA_ARCH__)
#define SIDE 1
#else
#define SIDE 0
#endif
#define HOST_AND_DEVICE __host__ __device__
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
__device__ int level() { return 7; }
#else
__device__ int level() { return 8; }
#endif
template <class T>
__host__ __device__ T both(T x) {
#ifdef __CUDA_ARCH__
    return x + __CUDA_ARCH__;
#else
    return x - 1;
#endif
}
struct Counter {
    int value;
    HOST_AND_DEVICE constexpr Counter(int start) : value{start} { value += 10 * SIDE; }
    __device__ int get() const { return value + SIDE; }
    int of_host() const { return value + SIDE; }
};
__global__ void ask(int* out) {
    out[0] = both(1);
#if __CUDA_ARCH__ >= 700
    out[1] = SIDE;
#endif
    out[2] = level();
    out[3] = Counter(5).get();
    out[4] = __LINE__;
}
std::vector<int64_t> meanings() {
    int* out;
    cudaMallocManaged(&out, 5 * sizeof(int));
    ask<<<1, 1>>>(out);
    cudaDeviceSynchronize();
    std::vector<int64_t> said(out, out + 5);
    cudaFree(out);
    constexpr Counter at_compile_time(3);
#ifdef __CUDA_ARCH__
    said.push_back(-1);
#endif
    for (int value : {both(1), SIDE, at_compile_time.of_host(), int(__LINE__)}) said.push_back(value);
    return said;
}
std::string device_name() {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    return p.name;
}
std::vector<int64_t> device_values() {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    int clock, memory_clock;  // CUDA 13's properties have neither
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
    cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, 0);
    return {p.major, p.minor, p.multiProcessorCount, p.warpSize, p.maxThreadsPerMultiProcessor,
            p.maxBlocksPerMultiProcessor, int64_t(p.sharedMemPerMultiprocessor), int64_t(p.sharedMemPerBlockOptin),
            int64_t(p.reservedSharedMemPerBlock), p.l2CacheSize, clock, memory_clock, p.memoryBusWidth};
}
std::vector<int64_t> occupancy(int64_t threads, int64_t bytes) {
    int resident = 0, blocks = 0, best = 0;
    cudaFuncSetAttribute(ask, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, ask, threads, bytes);
    cudaOccupancyMaxPotentialBlockSize(&blocks, &best, ask, bytes, 0);
    return {resident, blocks, best};
}
"""
LINES = MEANINGS.split("\n")


def line_of(text):
    return next(number for number, line in enumerate(LINES, 1) if text in line)


@pytest.mark.parametrize("name", ["T4", "H200"])
def test_an_extension_under_a_profile(monkeypatch, name):
    monkeypatch.setenv("CUDA_COURSE_GPU", name)
    gpu = gpus.named(name)
    limits, arch = gpu.limits, 10 * gpu.capability
    module = load_cuda(MEANINGS, CPP, ["meanings", "device_name", "device_values", "occupancy"])
    of_device = [arch + 1, 1, 7 if name == "T4" else 8, 16, line_of("out[4] = __LINE__")]
    assert module.meanings() == [*of_device, 0, 0, 3, line_of("for (int value")]
    assert module.device_name() == gpu.full_name
    sizes = [limits.threads, limits.blocks, limits.shared_bytes, limits.block_shared_bytes, limits.reserved_bytes]
    clocks = [gpu.l2_bytes, gpu.clock_khz, gpu.memory_clock_khz, gpu.memory_bus_bits]
    values = [gpu.capability // 10, gpu.capability % 10, gpu.multiprocessors, 32, *sizes, *clocks]
    assert module.device_values() == values
    resident, blocks, best = module.occupancy(256, 16 * 1024)
    assert resident == {"T4": 4, "H200": 8}[name] and blocks % gpu.multiprocessors == 0
    assert best == 1024


def test_a_text_without_the_macro_stays_as_it_is():
    text = MEANINGS.replace("__CUDA_ARCH__", "OTHER")
    assert with_architecture(text) is text
