"""Occupancy, against NVIDIA's calculator on any machine and against the driver on a GPU."""

import random
import subprocess

import pytest
import torch

import kernels
from utils.cuda.common import gpus
from utils.cuda.common.toolchain import cuda_home
from utils.cuda.gpu.occupancy import occupancy
from utils.ground.system import cxx_compiler

CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)
CALCULATOR = r"""
#include <cuda_occupancy.h>
#include <cstdio>
int main() {
    int capability, threads, registers, bytes, sm_threads, sm_registers, sm_bytes, block_bytes, reserved;
    while (scanf("%d %d %d %d %d %d %d %d %d", &capability, &threads, &registers, &bytes, &sm_threads, &sm_registers,
                 &sm_bytes, &block_bytes, &reserved) == 9) {
        cudaOccDeviceProp p;
        p.computeMajor = capability / 10;
        p.computeMinor = capability % 10;
        p.maxThreadsPerBlock = 1024;
        p.maxThreadsPerMultiprocessor = sm_threads;
        p.regsPerBlock = p.regsPerMultiprocessor = sm_registers;
        p.warpSize = 32;
        p.sharedMemPerBlock = 48 * 1024;
        p.sharedMemPerMultiprocessor = sm_bytes;
        p.numSms = 1;
        p.sharedMemPerBlockOptin = block_bytes;
        p.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes f;
        f.maxThreadsPerBlock = 1024;
        f.numRegs = registers;
        f.sharedSizeBytes = 0;
        f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        f.maxDynamicSharedSizeBytes = block_bytes;
        f.numBlockBarriers = 1;
        cudaOccDeviceState s;
        s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult r;
        int failed = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &f, &s, threads, bytes);
        printf("%d %d\n", failed, failed ? 0 : r.activeBlocksPerMultiprocessor);
    }
}
"""


@pytest.mark.skipif(cuda_home() is None, reason="needs a header of the CUDA toolkit")
def test_nvidia_s_calculator_agrees(tmp_path):
    rng = random.Random(7)
    cases = [(c, t, r, b) for c in CAPABILITIES for t in (1, 256, 1024) for r in (16, 255) for b in (0, 49152)]
    for _ in range(5000):
        capability = rng.choice(CAPABILITIES)
        most = gpus.named(f"sm_{capability}").limits.block_shared_bytes
        cases.append((capability, rng.randint(1, 1024), rng.randint(1, 255), rng.choice([0, rng.randint(0, most)])))
    rows = []
    for case in cases:
        limits = gpus.named(f"sm_{case[0]}").limits
        sizes = (limits.threads, limits.registers, limits.shared_bytes, limits.block_shared_bytes)
        rows.append(" ".join(map(str, (*case, *sizes, limits.reserved_bytes))))
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    command = [cxx_compiler(), "-w", f"-I{cuda_home() / 'include'}", "calculator.cpp", "-o", "calculator"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "calculator"], input="\n".join(rows), capture_output=True, text=True, check=True)
    for (capability, *case), answer in zip(cases, said.stdout.splitlines(), strict=True):
        failed, blocks = map(int, answer.split())
        assert not failed
        assert occupancy(gpus.named(f"sm_{capability}").limits, *case).blocks == blocks, (capability, *case)


def test_what_limits_the_occupancy():
    t4, h200 = gpus.named("T4").limits, gpus.named("H200").limits
    assert occupancy(t4, 256, 32, 0) == (4, 1.0, "threads")
    assert occupancy(t4, 256, 128, 0) == (2, 0.5, "registers")
    assert occupancy(t4, 32, 32, 0) == (16, 0.5, "blocks")
    assert occupancy(h200, 256, 64, 100_000) == (2, 0.25, "shared memory")
    assert occupancy(t4, 1024, 65, 0) == (0, 0.0, "registers")
    assert occupancy(t4, 128, 32, 65537) == (0, 0.0, "shared memory")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_driver_agrees():
    """For every kernel of the course, as this GPU's driver counts it."""
    from cuda.bindings import driver

    from utils.cuda.gpu.compiled import compiled

    torch.zeros(1, device="cuda")  # makes the context
    compared = 0
    for operation in kernels.names():
        for name in kernels.launched(operation):
            kernel = compiled(kernels.source(operation), name)
            error, module = driver.cuModuleLoadData((kernel.folder / "kernel.bin").read_bytes())
            error, function = driver.cuModuleGetFunction(module, kernel.symbol.encode())
            limit = kernel.gpu.limits.block_shared_bytes - kernel.usage.shared
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            assert driver.cuFuncSetAttribute(function, attribute, limit) == (driver.CUresult.CUDA_SUCCESS,)
            for threads in (32, 64, 96, 128, 160, 256, 384, 512, 768, 1024):
                for shared_bytes in (0, 1000, 16384, 40000, limit):
                    error, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared_bytes)
                    assert error == driver.CUresult.CUDA_SUCCESS
                    found = kernel.resources(threads, shared_bytes)
                    allowed = threads <= kernel.most_threads  # the driver does not look at __launch_bounds__ here
                    assert found.blocks_per_sm == (blocks if allowed else 0), found
                    compared += 1
    assert compared >= 500
    print(f"{compared} occupancies are the driver's")
