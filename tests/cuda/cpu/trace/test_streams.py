"""Races between streams: kernels or copies that touch the same memory, where nothing makes one wait for the other."""

import re

import pytest

from utils import load_cuda
from utils.cuda.cpu.trace.problems import KernelProblem

pytestmark = pytest.mark.usefixtures("on_cpu")

SOURCE = r"""
#include <torch/types.h>
__global__ void fill(float* x, int n, float v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v;
}
__global__ void add(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + 1;
}
__global__ void count(int* c) { atomicAdd(c, 1); }
__global__ void fill_bytes(char* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
void look(void* h) { if (((float*)h)[5] != 3) abort(); }
void work(float* x, float* y, float* h, cudaStream_t s, cudaStream_t t, cudaEvent_t e, int64_t kind) {
    const int n = 300;
    const size_t bytes = n * sizeof(float);
    float pageable[n];
    switch (kind) {
    case 0: fill<<<2, 256, 0, s>>>(x, n, 3); add<<<2, 256, 0, t>>>(x, y, n); break;
    case 1: add<<<2, 256, 0, t>>>(x, y, n); fill<<<2, 256, 0, s>>>(x, n, 3); break;
    case 2: fill<<<2, 256, 0, s>>>(x, n, 3); fill<<<2, 256, 0, t>>>(x + 299, 1, 4); break;
    case 3: fill<<<2, 256, 0, s>>>(x, n, 3); cudaMemcpyAsync(h, x, bytes, cudaMemcpyDefault, t); break;
    case 4: cudaMemsetAsync(x, 0, bytes, s); add<<<2, 256, 0, t>>>(x, y, n); break;
    case 5: fill<<<2, 256>>>(x, n, 3); add<<<2, 256, 0, t>>>(x, y, n); break;
    case 6: fill<<<2, 256, 0, s>>>(x, n, 3); cudaMemcpy(h, x, bytes, cudaMemcpyDefault); break;
    case 7: cudaEventRecord(e, s); fill<<<2, 256, 0, s>>>(x, n, 3); cudaStreamWaitEvent(t, e);
        add<<<2, 256, 0, t>>>(x, y, n);
        break;
    case 8: count<<<1, 1, 0, s>>>((int*)x); fill<<<1, 1, 0, t>>>(x, 1, 0); break;
    case 9: fill_bytes<<<1, 32, 0, s>>>((char*)x, 6); fill_bytes<<<1, 32, 0, t>>>((char*)x + 5, 6); break;
    case 10: fill<<<2, 256, 0, s>>>(x, n, 3); cudaMemcpyAsync(pageable, y, bytes, cudaMemcpyDefault, t);
        add<<<2, 256, 0, t>>>(x, y, n);
        break;
    case 11: fill<<<2, 256, 0, s>>>(x, n, 3); add<<<2, 256, 0, cudaStreamPerThread>>>(x, y, n); break;
    case 13: case 32:  // bytes of one word, of two streams
        fill_bytes<<<1, 32, 0, s>>>((char*)h, 5);
        fill_bytes<<<1, 32, 0, t>>>((char*)h + 5, 5);
        cudaStreamSynchronize(s);
        if (((char*)h)[kind == 13 ? 5 : 4] != 1) abort();
        break;
    case 12: case 30: case 31: fill<<<2, 256, 0, t>>>(h, n, 3);
        if (kind == 31) cudaLaunchHostFunc(t, look, h);
        else cudaStreamSynchronize(kind == 12 ? s : t);
        if (kind < 31) look(h);
        break;
    case 20: fill<<<2, 256, 0, s>>>(x, n, 3); cudaEventRecord(e, s); cudaStreamWaitEvent(t, e);
        add<<<2, 256, 0, t>>>(x, y, n);
        break;
    case 21: fill<<<2, 256, 0, s>>>(x, n, 3); cudaStreamSynchronize(s); add<<<2, 256, 0, t>>>(x, y, n); break;
    case 22: fill<<<2, 256, 0, s>>>(x, n, 3); cudaEventRecord(e, s); cudaEventSynchronize(e);
        add<<<2, 256, 0, t>>>(x, y, n);
        break;
    case 23: fill<<<2, 256, 0, s>>>(x, n, 3); cudaDeviceSynchronize(); add<<<2, 256, 0, t>>>(x, y, n); break;
    case 24: fill<<<1, 256, 0, s>>>(x, 150, 3); fill<<<1, 256, 0, t>>>(x + 150, 150, 3); break;
    case 25: fill_bytes<<<1, 32, 0, s>>>((char*)x, 5); fill_bytes<<<1, 32, 0, t>>>((char*)x + 5, 5); break;
    case 26: count<<<1, 1, 0, s>>>((int*)x); count<<<1, 1, 0, t>>>((int*)x); break;
    case 27: fill<<<2, 256, 0, s>>>(x, n, 3); cudaMemcpyAsync(pageable, x, bytes, cudaMemcpyDefault, s);
        fill<<<2, 256, 0, t>>>(x, n, 4);
        break;
    case 28: add<<<2, 256, 0, s>>>(x, y, n); add<<<2, 256, 0, t>>>(x, y + 300, n); break;
    case 29: {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        fill<<<2, 256, 0, s>>>(x, n, 3);
        add<<<2, 256, 0, s>>>(x, y, n);
        cudaStreamEndCapture(s, &graph);
        cudaGraphInstantiate(&exec, graph);
        for (int i = 0; i < 2; i++) cudaGraphLaunch(exec, s);
        cudaGraphExecDestroy(exec);
        cudaGraphDestroy(graph);
        break;
    }
    }
}
int64_t streams(int64_t kind, bool nonblocking) {
    float *x, *y, *h;
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&s, nonblocking ? cudaStreamNonBlocking : cudaStreamDefault);
    cudaStreamCreateWithFlags(&t, nonblocking ? cudaStreamNonBlocking : cudaStreamDefault);
    cudaEventCreate(&e);
    cudaMalloc(&x, 2400);
    cudaMalloc(&y, 2400);
    cudaMallocHost(&h, 2400);
    cudaMemset(x, 0, 2400);
    cudaMemset(y, 0, 2400);
    cudaDeviceSynchronize();
    work(x, y, h, s, t, e, kind);
    cudaDeviceSynchronize();
    fill<<<2, 256, 0, t>>>(x, 300, 5);
    cudaStreamSynchronize(t);
    cudaStreamDestroy(s);
    cudaStreamDestroy(t);
    cudaEventDestroy(e);
    for (float* p : {x, y}) cudaFree(p);
    cudaFreeHost(h);
    return cudaGetLastError();
}
"""
FILL, ADD = map(re.escape, ("`if (i < n) x[i] = v;`", "`if (i < n) b[i] = a[i] + 1;`"))
RACES = {
    0: rf"`add` reads a\[0\] \(line 9: {ADD}\), which `fill`, started in line 19 .* in another stream, writes: n",
    1: rf"`fill` writes \w\[0\] \(line 5: {FILL}\), which `add`, started in line 20 .* in another stream, reads: n",
    2: rf"`fill` writes x\[299\] \(line 5: {FILL}\), which `fill`, started in line 21 .* in another stream, writes: n",
    3: r"a copy reads x\[0\] to x\[299\] \(line 22: .*, which `fill`, started in line 22 .* in another stream, writes",
    4: r"`add` reads a\[0\] .*, which a memset, started in line 23 .* in another stream, writes: n",
    7: r"`add` reads a\[0\] .*, which `fill`, started in line 26 .* in another stream, writes: n",
    8: r"`fill` writes .*, which `count`, started in line 29 .* in another stream, updates: n",
    9: r"`fill_bytes` writes x\[5\] .*, which `fill_bytes`, started in line 30 .* in another stream, writes: n",
    10: r"`add` reads a\[0\] .*, which `fill`, started in line 31 .* in another stream, writes: n",
    11: r"`add` reads a\[0\] .*, which `fill`, started in line 34 .* in another stream, writes: n",
}
OF_DEFAULT = {
    5: r"`add` reads a\[0\] .*, which `fill`, started in line 24 .* in the default stream, writes: n",
    6: r"a copy reads x\[0\] to x\[299\] .*, which `fill`, started in line 25 .* in another stream, writes: n",
}


@pytest.fixture(scope="module")
def streams():
    return load_cuda(SOURCE, "int64_t streams(int64_t kind, bool nonblocking);", ["streams"], trace=True).streams


@pytest.mark.parametrize("nonblocking", [False, True])
def test_what_no_stream_waits_for_is_a_race(streams, nonblocking):
    for kind, told in {**RACES, **(OF_DEFAULT if nonblocking else {})}.items():
        with pytest.raises(KernelProblem, match=f"^{told}") as raised:
            streams(kind, nonblocking)
        (problem,) = raised.value.problems
        assert problem.kind == "stream_race" and "nothing makes one wait for the other" in problem.message
        assert "cudaStreamWaitEvent" in problem.hint
        assert ("cudaStreamNonBlocking" in problem.hint) == (kind in OF_DEFAULT)


@pytest.mark.parametrize("nonblocking", [False, True])
def test_what_is_waited_for_is_none(streams, nonblocking):
    for kind in [*range(20, 33), *([] if nonblocking else OF_DEFAULT)]:
        assert streams(kind, nonblocking) == 0


def test_the_host_has_to_wait_for_the_stream_whose_work_it_needs(streams):
    for kind, line in (12, 13), (13, 39):
        said = rf"the host reads .* \(line {line}: .*\) without waiting for what writes to it"
        with pytest.raises(KernelProblem, match=said) as raised:
            streams(kind, True)
        assert "`cudaStreamSynchronize` for the stream of that work" in raised.value.problems[0].hint
