"""What the tests of the engine's limits share: kernels, and processes of their own for what could hang or crash one.

No test measures the machine's time, which depends on what else runs: they count, or take the CPU seconds of a process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import utils

ROOT = Path(utils.__file__).parents[1]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
HANGS = 900  # seconds after which a process hangs: far more than it takes on the busiest machine

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc, which is Linux's")

SOURCE = r"""
#include <cuda_pipeline.h>
__global__ void plain(int* x, int n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}

__global__ void barriers(int* x, int n) {
    __shared__ int part[1024];
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    part[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int other = part[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    part[threadIdx.x] = other;
    __syncthreads();
    if (i < n) x[i] += 1 + part[blockDim.x - 1 - threadIdx.x] - int(threadIdx.x);
}

__global__ void shuffles(int* x, int n) {
    int sum = 1;
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    __syncwarp();
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] += sum / 32;
}

// Each block waits until all have come; none can if they run one after the other.
__global__ void rendezvous(int* came, int* met) {
    atomicAdd(came, 1);
    volatile int* now = came;
    for (long long i = 0; i < (1ll << 35) && *now < int(gridDim.x); i++) {}  // a minute or more
    met[blockIdx.x] = *now;
}

__global__ void spin(int* x) { volatile int* never = x; while (*never == 0) {} }
// The same, and whoever launched it sees that it runs.
__global__ void announced(int* x) { atomicExch(x + 1, 1); volatile int* never = x; while (*never == 0) {} }
__global__ void meet(int* x) { volatile int* never = x; while (*never == 0) __syncthreads(); }
__global__ void vote(int* x) { volatile int* never = x; while (__any_sync(0xffffffff, *never == 0)) {} }

__device__ long long deep(long long n) {
    volatile long long room[64];
    room[n % 64] = n;
    return deep(n + 1) + room[n % 64];
}
// One thread goes wrong, in its own way; those after it wait.
__global__ void stray(int* x, long long wrong, int kind) {
    extern __shared__ __align__(16) int room[];
    __syncthreads();
    if (blockIdx.x == 2 && threadIdx.x == 5) {
        if (kind == 0) x[wrong] = 1;
        if (kind == 1) x[0] = 7 / int(wrong);
        if (kind == 2) x[0] = deep(wrong);
        if (kind == 3) x[0] = 7 % int(wrong);
        if (kind == 4) room[wrong] = 1;
        if (kind == 5) __pipeline_memcpy_async(room, (char*)x + wrong, 16);
    }
    __syncthreads();
}
__global__ void deadlock(int* x) {
    if (threadIdx.x < 16) __syncthreads();
    else __syncwarp();
    x[threadIdx.x] = 1;
}

__global__ void dynamic(int* x) {
    extern __shared__ int room[];
    room[threadIdx.x] = 1;
    x[threadIdx.x] = room[threadIdx.x];
}
__global__ void static_and_dynamic(int* x) {
    __shared__ char most[40 * 1024];
    extern __shared__ char rest[];
    most[threadIdx.x] = rest[threadIdx.x] = 1;
    x[threadIdx.x] = most[threadIdx.x] + rest[threadIdx.x];
}
"""


def kilobytes(field="VmRSS"):
    """Memory of this process as the system counts it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":"))


def run_python(script, **environment):
    """What a Python process of its own prints; it must end well."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stdout[-1000:]}\n{done.stderr[-2000:]}"
    return done.stdout


BEGIN = (
    f"SOURCE = {SOURCE!r}"
    + r"""
import json, os, re, signal, threading, time
import torch
from utils import compile_kernel
x = torch.zeros(1024, dtype=torch.int32)
def tell(case, **what):
    print(json.dumps([case, what]), flush=True)
def works():
    x.zero_()
    for name in ("plain", "barriers", "shuffles"):
        compile_kernel(SOURCE, name)[8, 128](x, 1024)
    return bool((x == 3).all())
def kilobytes():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS:"))
"""
)


def cases(script):
    """What a process reports of its cases, by name: those before a hang or a crash are there too."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + script], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        text = process.communicate(timeout=HANGS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        text = process.communicate()[0]
    return {"process": {"ended": process.returncode}, **dict(map(json.loads, text.splitlines()))}
