"""Registers and shared memory, which nvcc counts while it judges a text: what the host's functions say of them, and the
launches that they leave no room for."""

import pytest
import torch

from utils import compile_kernel, load_cuda
from utils.cuda import run
from utils.cuda.common import gpus
from utils.cuda.common.toolchain import nvcc_candidates
from utils.cuda.cpu.trace.problems import KernelProblem
from utils.cuda.gpu.occupancy import occupancy

pytestmark = pytest.mark.skipif(not nvcc_candidates(), reason="registers are counted by nvcc")

KERNELS = """
__global__ void plain(float* x) { x[threadIdx.x] = 1; }
__global__ void tile(float* x) {
    __shared__ float t[32][33];
    t[threadIdx.x][0] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = t[31 - threadIdx.x][0];
}
__global__ void stack(float* x, int i) {
    volatile float a[100];
    for (int k = 0; k < 100; k++) a[k] = k * i;
    x[0] = a[i];
}
template <int n> __global__ void many(float* x) {
    float r[n];
    for (int i = 0; i < n; i++) r[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < n; i++) r[i] = r[i] * r[(i + 7) % n] + r[(i + 1) % n];
    for (int i = 0; i < n; i++) x[i * 1024 + threadIdx.x] = r[i];
}
"""
ELSEWHERE = """
static __global__ void alone(float* x) { x[threadIdx.x] *= 3; }
namespace {
__global__ void unnamed(float* x, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = x[n];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}
}
"""
NAMES = ["plain", "tile", "stack", "many<32>", "many<64>", "many<120>", "alone", "unnamed"]
PROGRAM = (
    KERNELS
    + ELSEWHERE
    + r"""
#include <cstdio>
template <class K> void show(K kernel) {
    cudaFuncAttributes a;
    cudaFuncGetAttributes(&a, kernel);
    printf("%d %zu %zu %d %d", a.numRegs, a.sharedSizeBytes, a.localSizeBytes, a.maxThreadsPerBlock,
           a.maxDynamicSharedSizeBytes);
    for (int threads : {64, 96, 256, 512, 896, 1024}) {
        int blocks;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 1000);
        printf(" %d", blocks);
    }
    printf("\n");
}
int main() {
    SHOW
    float* x;
    cudaMalloc(&x, 120 * 1024 * 4);
    many<120><<<1, 512>>>(x);
    printf("%d ", cudaGetLastError());
    many<120><<<1, 544>>>(x);
    printf("%d ", cudaGetLastError());
    void* arguments[] = {&x};
    for (int blocks : {132, 264}) {
        printf("%d ", cudaLaunchCooperativeKernel((void*)many<120>, blocks, 512, arguments));
        cudaGetLastError();
    }
    int most[3], blocks;
    cudaOccupancyMaxPotentialBlockSize(&blocks, &most[0], many<32>);
    cudaOccupancyMaxPotentialBlockSize(&blocks, &most[1], many<64>);
    cudaOccupancyMaxPotentialBlockSize(&blocks, &most[2], many<120>);
    printf("%d %d %d\n", most[0], most[1], most[2]);
}
"""
)


def test_attributes_and_occupancy_are_those_of_nvcc(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("CUDA_COURSE_GPU", "H200")
    program = tmp_path / "attributes.cu"
    program.write_text(PROGRAM.replace("SHOW", " ".join(f"show({name});" for name in NAMES)))
    assert run.main([str(program)]) == 0
    *lines, launches = capfd.readouterr().out.splitlines()
    limits = gpus.named("H200").limits
    for name, line in zip(NAMES, lines, strict=True):
        taken = compile_kernel(KERNELS + ELSEWHERE, name).resources("H200", 32)
        most = max(threads for threads in range(32, 1025, 32) if occupancy(limits, threads, taken.registers, 0).blocks)
        shared = taken.shared_bytes
        blocks = [occupancy(limits, n, taken.registers, shared + 1000).blocks for n in (64, 96, 256, 512, 896, 1024)]
        local = 400 if name == "stack" else 0
        assert [int(word) for word in line.split()] == [
            taken.registers,
            shared,
            local,
            most,
            48 * 1024 - shared,
            *blocks,
        ]
    assert launches == "0 701 0 720 768 896 512"  # an H200's answers


@pytest.mark.usefixtures("on_cpu")
def test_a_block_with_too_many_registers_is_refused_with_the_numbers():
    many = compile_kernel(KERNELS, "many<120>")
    x = torch.ones(120 * 1024)
    many[1, 512](x)
    told = (
        r"^CUDA error: too many resources requested for launch: a block of \(544, 1, 1\) has 544 threads, and with the "
        r"\d+ registers that each of them needs, a multiprocessor has room for 512: use smaller blocks, or "
        r"__launch_bounds__\(544\) for the kernel$"
    )
    for launch in (many[1, 544], many.trace[1, 544]):
        with pytest.raises(RuntimeError, match=told):
            launch(x)
    bounded = KERNELS.replace("void many", "void __launch_bounds__(1024) many")
    compile_kernel(bounded, "many<120>")[1, 1024](x)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("trace", [False, True])
def test_an_extension_hears_of_it_too(trace):
    cpp = "int64_t go(torch::Tensor x, int64_t threads);"
    code = f"{KERNELS}\n#include <torch/extension.h>\n{cpp[:-1]} {{\n" + (
        "    many<120><<<1, threads>>>(x.data_ptr<float>());\n    return cudaGetLastError();\n}\n"
    )
    module = load_cuda(code, cpp, ["go"], trace=trace)
    x = torch.ones(120 * 1024)
    module.go(x, 512)
    if not trace:
        assert module.go(x, 1024) == 701
        return
    with pytest.raises(KernelProblem, match="refused .*registers that each of them needs"):
        module.go(x, 1024)


BOUNDED = r"""
#include <cstdio>
#define KERNEL(name) __global__ void __launch_bounds__(64) name(float* x) { x[threadIdx.x] = 1; }
KERNEL(made)
template <int n> __global__ void __launch_bounds__(n) sized(float* x) { x[threadIdx.x] = 1; }
template <void (*kernel)(float*)> void start(float* x, int threads) { kernel<<<1, threads>>>(x); }
int main() {
    float* x;
    cudaMalloc(&x, 4096);
    void (*pointers[])(float*) = {made, sized<64>, sized<512>};
    for (auto pointer : pointers) {
        pointer<<<1, 64>>>(x);
        printf("%d ", cudaGetLastError());
        pointer<<<1, 96>>>(x);
        printf("%d ", cudaGetLastError());
    }
    start<made>(x, 96);
    printf("%d ", cudaGetLastError());
    made<<<1, 96>>>(x);
    printf("%d\n", cudaGetLastError());
}
"""


def test_launch_bounds_hold_however_a_kernel_is_named(on_cpu, tmp_path, capfd):
    program = tmp_path / "bounded.cu"
    program.write_text(BOUNDED)
    assert run.main([str(program)]) == 0
    assert capfd.readouterr().out == "0 1 0 1 0 0 1 1\n"


SAME = r"""
#include <cstdio>
#define BODY                                                                  \
    float r[96];                                                              \
    for (int i = 0; i < 96; i++) r[i] = x[i * 1024 + threadIdx.x];            \
    __syncthreads();                                                          \
    for (int k = 0; k < 8; k++)                                               \
        for (int i = 0; i < 96; i++) r[i] = r[i] * r[(i + 7) % 96] + r[(i + 1) % 96]; \
    for (int i = 0; i < 96; i++) x[i * 1024 + threadIdx.x] = r[i];
__global__ void one(float* x) { BODY }
__global__ void two(float* x) { BODY }
int main() {
    float* x;
    cudaFuncAttributes a, b;
    cudaMalloc(&x, 1 << 20);
    cudaFuncGetAttributes(&a, one);
    cudaFuncGetAttributes(&b, two);
    one<<<1, 1024>>>(x);
    int first = cudaGetLastError();
    two<<<1, 1024>>>(x);
    printf("%d %d %d\n", a.numRegs > 64 && a.numRegs == b.numRegs, first, cudaGetLastError());
}
"""


def test_two_kernels_with_the_same_body_both_have_their_registers(on_cpu, tmp_path, capfd):
    program = tmp_path / "same.cu"
    program.write_text(SAME)
    assert run.main([str(program)]) == 0
    assert capfd.readouterr().out == "1 701 701\n"


OF_FILE = r"""
#include <cstdio>
#include <cuda_runtime.h>
static __global__ void NAME(float* x) { x[0] = 1; }
static __global__ void same(float* x) {
    float r[NUMBER];
    for (int i = 0; i < NUMBER; i++) r[i] = x[i * 32];
    __syncthreads();
    for (int i = 0; i < NUMBER; i++) x[i * 32] = r[(i + 7) % NUMBER];
}
namespace { __global__ void unnamed_NAME(float* x) { x[0] = 2; } }
void show_NAME() {
    cudaFuncAttributes a, b, c;
    cudaFuncGetAttributes(&a, NAME);
    cudaFuncGetAttributes(&b, unnamed_NAME);
    cudaFuncGetAttributes(&c, same);
    printf("%d %d %d\n", a.numRegs > 0, b.numRegs > 0, c.numRegs);
}
"""


def test_kernels_that_only_one_of_several_files_sees(on_cpu, tmp_path, capfd):
    for name, number in (("one", "8"), ("two", "64")):
        text = OF_FILE.replace("NAME", name).replace("NUMBER", number)
        main = "void show_two();\nint main() { show_one(); show_two(); }\n" if name == "one" else ""
        (tmp_path / f"{name}.cu").write_text(text + main)
    assert run.main([str(tmp_path / "one.cu"), str(tmp_path / "two.cu")]) == 0
    assert capfd.readouterr().out == "1 1 0\n1 1 0\n"  # of the two called `same` it is not known which is which
