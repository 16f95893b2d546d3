"""The runtime API of CUDA, as the host's side of a source calls it."""

import math
import os

import pytest
import torch

import utils.cuda.compile
from tests.clock import slowdown
from utils import compile_kernel, load_cuda

INVALID_VALUE, OUT_OF_MEMORY, BAD_DIRECTION, BAD_HANDLE, TOO_LARGE_TOGETHER, UNKNOWN = 1, 2, 21, 400, 720, 999

API_CPP = r"""
using std::vector;
vector<int64_t> allocations();
vector<int64_t> copies();
vector<int64_t> past_the_end();
void copy_2d(at::Tensor to, at::Tensor from, int64_t to_pitch, int64_t from_pitch, int64_t width, int64_t height);
at::Tensor managed(int64_t n);
at::Tensor pitched(int64_t width, int64_t height);
at::Tensor polynomial(at::Tensor x, at::Tensor coefficients, at::Tensor highest);
vector<int64_t> symbols();
double elapsed(int64_t milliseconds);
vector<int64_t> events();
vector<int64_t> streams(at::Tensor x);
vector<int64_t> attributes();
std::string device_name();
vector<int64_t> versions();
vector<int64_t> memory_info();
vector<int64_t> errors(at::Tensor x);
std::vector<std::string> words(vector<int64_t> errors);
void launched(at::Tensor x, at::Tensor out, double factor, bool cooperative);
vector<int64_t> refused(at::Tensor x);
vector<int64_t> large_shared(at::Tensor out, int64_t allowed, int64_t bytes);
vector<int64_t> occupancy(int64_t threads, int64_t bytes);
"""
API_CUDA = (
    r"""
#include <torch/types.h>
#include <cuda_runtime.h>
#include <chrono>
#include <string>
#include <thread>
#include <vector>
"""
    + API_CPP
    + r"""
vector<int64_t> allocations() {
    vector<int64_t> said;
    float *p = nullptr, *q = nullptr, *h = nullptr;
    said.push_back(cudaMalloc(&p, 400));
    said.push_back(cudaFree(p));
    said.push_back(cudaFree(p));                       // twice
    said.push_back(cudaFree(nullptr));
    said.push_back(cudaMalloc((void**)&q, size_t(1) << 50));
    said.push_back(cudaGetLastError());
    said.push_back(cudaGetLastError());                // once told, it is forgotten
    said.push_back(cudaMallocHost(&h, 400));
    said.push_back(cudaFree(h));                       // of the host, not of the device
    said.push_back(cudaFreeHost(h));
    said.push_back(cudaHostAlloc(&h, 400, cudaHostAllocDefault));
    h[99] = 1;
    said.push_back(cudaFreeHost(h));
    said.push_back(cudaMallocManaged(&p, 0));
    said.push_back(cudaMalloc(&p, 0));
    said.push_back(p == nullptr);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    said.push_back(cudaMallocAsync(&p, 400, stream));
    said.push_back(cudaMemsetAsync(p, 0, 400, stream));
    said.push_back(cudaFreeAsync(p, stream));
    said.push_back(cudaStreamSynchronize(stream));
    cudaStreamDestroy(stream);
    cudaGetLastError();
    return said;
}

vector<int64_t> copies() {
    vector<int64_t> said;
    int *p, *q, there[4] = {1, 2, 3, 4}, back[4] = {};
    cudaMalloc(&p, sizeof there);
    cudaMalloc(&q, sizeof there);
    said.push_back(cudaMemcpy(p, there, sizeof there, cudaMemcpyHostToDevice));
    said.push_back(cudaMemcpyAsync(q, p, sizeof there, cudaMemcpyDeviceToDevice));
    said.push_back(cudaMemset(q + 1, 0xff, 4));
    said.push_back(cudaMemcpy(back, q, sizeof there, cudaMemcpyDefault));
    for (int v : back) said.push_back(v);
    said.push_back(cudaMemcpy(nullptr, p, 4, cudaMemcpyDeviceToHost));
    said.push_back(cudaMemcpy(back, p, 4, (cudaMemcpyKind)7));
    said.push_back(cudaMemset(nullptr, 0, 4));
    said.push_back(cudaMemcpy(back, p, 0, cudaMemcpyDeviceToHost));
    cudaFree(p);
    cudaFree(q);
    cudaGetLastError();
    return said;
}

vector<int64_t> past_the_end() {
    vector<int64_t> said;
    char *p, *q;
    static char here[4096];
    cudaMalloc(&p, 1000);
    cudaMalloc(&q, 2000);
    said.push_back(cudaMemcpy(here, p, 1000, cudaMemcpyDeviceToHost));
    said.push_back(cudaMemcpy(here, p, 1001, cudaMemcpyDeviceToHost));
    said.push_back(cudaMemcpy(p + 500, here, 501, cudaMemcpyHostToDevice));
    said.push_back(cudaMemcpy(p, q, 1001, cudaMemcpyDeviceToDevice));
    said.push_back(cudaMemset(p, 0, 1001));
    said.push_back(cudaMemcpy2D(here, 100, q, 200, 100, 10, cudaMemcpyDeviceToHost));
    said.push_back(cudaMemcpy2D(here, 100, q, 200, 100, 11, cudaMemcpyDeviceToHost));
    said.push_back(cudaMemcpy2D(here, 50, q, 200, 100, 2, cudaMemcpyDeviceToHost));
    said.push_back(cudaStreamDestroy(nullptr));
    said.push_back(cudaEventDestroy(nullptr));
    cudaFree(p);
    cudaFree(q);
    cudaGetLastError();
    return said;
}

void copy_2d(at::Tensor to, at::Tensor from, int64_t to_pitch, int64_t from_pitch, int64_t width, int64_t height) {
    cudaMemcpy2DAsync(to.data_ptr(), to_pitch, from.data_ptr(), from_pitch, width, height, cudaMemcpyDefault);
}

__global__ void count_up(int* x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = i * i;
}
at::Tensor managed(int64_t n) {
    int* x;
    cudaMallocManaged(&x, n * sizeof(int));
    count_up<<<1, 32>>>(x, n);
    cudaDeviceSynchronize();
    auto out = torch::empty({n}, torch::dtype(torch::kInt32));
    for (int64_t i = 0; i < n; i++) out.data_ptr<int>()[i] = x[i];
    cudaFree(x);
    return out;
}

__global__ void write_rows(char* p, size_t pitch, int width) {
    int* row = (int*)(p + blockIdx.x * pitch);
    for (int i = threadIdx.x; i < width; i += blockDim.x) row[i] = blockIdx.x * 1000 + i;
}
at::Tensor pitched(int64_t width, int64_t height) {
    char* p;
    size_t pitch;
    cudaMallocPitch(&p, &pitch, width * 4, height);
    TORCH_CHECK(pitch >= size_t(width) * 4 && pitch % 256 == 0, "pitch ", pitch);
    write_rows<<<height, 32>>>(p, pitch, width);
    auto out = torch::empty({height, width}, torch::dtype(torch::kInt32));
    cudaMemcpy2D(out.data_ptr(), width * 4, p, pitch, width * 4, height, cudaMemcpyDeviceToHost);
    cudaFree(p);
    return out;
}

__constant__ float coefficient[4];
__device__ float highest_seen;
__device__ int* place;
__global__ void polynomial_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = 3; k >= 0; --k) sum = sum * x[i] + coefficient[k];
    out[i] = sum;
    if (i == n - 1) highest_seen = sum;
}
at::Tensor polynomial(at::Tensor x, at::Tensor coefficients, at::Tensor highest) {
    auto out = torch::full_like(x, NAN);
    int n = x.numel();
    const float* c = coefficients.data_ptr<float>();
    cudaMemcpyToSymbol(coefficient, c, 8);
    cudaMemcpyToSymbolAsync(coefficient, c + 2, 8, 8, cudaMemcpyHostToDevice, 0);
    polynomial_kernel<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    cudaMemcpyFromSymbol(highest.data_ptr<float>(), highest_seen, 4);
    cudaMemcpyFromSymbolAsync(highest.data_ptr<float>() + 1, coefficient, 4, 12, cudaMemcpyDeviceToHost);
    cudaDeviceSynchronize();
    return out;
}

vector<int64_t> symbols() {
    vector<int64_t> said;
    float f[8] = {}, back = 0;
    void* address = nullptr;
    size_t bytes = 0;
    said.push_back(cudaMemcpyToSymbol(coefficient, f, 20));
    said.push_back(cudaMemcpyToSymbol(coefficient, f, 4, 13));
    said.push_back(cudaMemcpyFromSymbol(f, coefficient, 4, 16));
    said.push_back(cudaGetSymbolSize(&bytes, coefficient));
    said.push_back(bytes);
    said.push_back(cudaGetSymbolAddress(&address, highest_seen));
    f[0] = 42;
    said.push_back(cudaMemcpy(address, f, 4, cudaMemcpyHostToDevice));
    cudaMemcpyFromSymbol(&back, highest_seen, 4);
    said.push_back(back == 42);
    said.push_back(cudaMemcpyToSymbol(place, &address, sizeof address));   // a pointer is a variable, too
    said.push_back(cudaMemcpyToSymbol("coefficient", f, 4));
    said.push_back(cudaMemcpyToSymbol(&coefficient, f, 4));
    cudaGetLastError();
    return said;
}

double elapsed(int64_t milliseconds) {
    cudaEvent_t begin, end;
    float measured = -1;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin);
    cudaEventSynchronize(begin);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    cudaEventRecord(end, 0);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&measured, begin, end);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return measured;
}

vector<int64_t> events() {
    vector<int64_t> said;
    cudaEvent_t timed, untimed;
    float ms;
    said.push_back(cudaEventCreate(&timed));
    said.push_back(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    said.push_back(cudaEventElapsedTime(&ms, timed, timed));      // not recorded yet
    said.push_back(cudaEventQuery(timed));
    said.push_back(cudaEventRecord(timed, cudaStreamPerThread));
    said.push_back(cudaEventRecord(untimed, cudaStreamLegacy));
    said.push_back(cudaDeviceSynchronize());
    said.push_back(cudaEventElapsedTime(&ms, timed, untimed));
    said.push_back(cudaEventElapsedTime(&ms, timed, timed));
    said.push_back(ms == 0);
    said.push_back(cudaEventElapsedTime(nullptr, timed, timed));
    said.push_back(cudaEventCreateWithFlags(&untimed, 64));
    said.push_back(cudaEventDestroy(timed));
    cudaGetLastError();
    return said;
}

__global__ void add_one(int* x) { x[threadIdx.x] += 1; }
__global__ void times_ten(int* x) { x[threadIdx.x] *= 10; }
static void note(void* seen) { *(int*)seen += 5; }
vector<int64_t> streams(at::Tensor x) {
    vector<int64_t> said;
    cudaStream_t first, second;
    cudaEvent_t ready;
    int seen = 2;
    said.push_back(cudaStreamCreate(&first));
    said.push_back(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    said.push_back(first != second && first != nullptr);
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    add_one<<<1, x.numel(), 0, first>>>(x.data_ptr<int>());
    cudaEventRecord(ready, first);
    said.push_back(cudaStreamWaitEvent(second, ready));
    times_ten<<<1, x.numel(), 0, second>>>(x.data_ptr<int>());
    said.push_back(cudaLaunchHostFunc(second, note, &seen));
    said.push_back(cudaStreamSynchronize(second));
    said.push_back(seen);
    said.push_back(cudaStreamQuery(second));
    said.push_back(cudaStreamCreateWithFlags(&second, 77));
    said.push_back(cudaStreamDestroy(first));
    cudaGetLastError();
    return said;
}

vector<int64_t> attributes() {
    cudaDeviceProp p;
    int device = -1, count = -1;
    vector<int64_t> said{cudaGetDevice(&device), cudaGetDeviceCount(&count), device >= 0 && device < count};
    said.push_back(cudaSetDevice(device));
    said.push_back(cudaGetDeviceProperties(&p, device));
    said.push_back(cudaGetDeviceProperties(&p, count) != cudaSuccess);
    said.push_back(cudaSetDevice(count) != cudaSuccess);
    cudaGetLastError();
    auto both = [&](cudaDeviceAttr attribute, int64_t property) {
        int value = -1;
        cudaDeviceGetAttribute(&value, attribute, device);
        said.push_back(value == property);
        said.push_back(property);
    };
    both(cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock);
    both(cudaDevAttrMaxBlockDimZ, p.maxThreadsDim[2]);
    both(cudaDevAttrMaxGridDimX, p.maxGridSize[0]);
    both(cudaDevAttrMaxGridDimY, p.maxGridSize[1]);
    both(cudaDevAttrWarpSize, p.warpSize);
    both(cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock);
    both(cudaDevAttrTotalConstantMemory, p.totalConstMem);
    both(cudaDevAttrMaxRegistersPerBlock, p.regsPerBlock);
    both(cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin);
    both(cudaDevAttrMultiProcessorCount, p.multiProcessorCount);
    both(cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor);
    both(cudaDevAttrComputeCapabilityMajor, p.major);
    both(cudaDevAttrComputeCapabilityMinor, p.minor);
    both(cudaDevAttrMaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor);
    return said;
}

std::string device_name() {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    return p.name;
}

vector<int64_t> versions() {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    return {driver, runtime, CUDART_VERSION};
}

vector<int64_t> memory_info() {
    size_t free = 0, total = 0;
    cudaDeviceProp p;
    cudaMemGetInfo(&free, &total);
    cudaGetDeviceProperties(&p, 0);
    return {int64_t(free), int64_t(total), int64_t(p.totalGlobalMem)};
}

vector<int64_t> errors(at::Tensor x) {
    vector<int64_t> said;
    add_one<<<1, 2048>>>(x.data_ptr<int>());
    said.push_back(cudaPeekAtLastError() != cudaSuccess);
    said.push_back(cudaDeviceSynchronize());              // tells of work that went wrong, not of what never began
    said.push_back(cudaPeekAtLastError() == cudaGetLastError());
    said.push_back(cudaGetLastError());
    said.push_back(cudaStreamSynchronize(0));
    return said;
}

std::vector<std::string> words(vector<int64_t> errors) {
    std::vector<std::string> said;
    for (int64_t e : errors) {
        said.push_back(cudaGetErrorName((cudaError_t)e));
        said.push_back(cudaGetErrorString((cudaError_t)e));
    }
    return said;
}

struct Pair { float factor; int shift; };
template <typename T> __global__ void scale(const T* x, T* out, Pair pair, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * pair.factor + pair.shift;
}
void launched(at::Tensor x, at::Tensor out, double factor, bool cooperative) {
    const float* from = x.data_ptr<float>();
    float* to = out.data_ptr<float>();
    Pair pair{float(factor), 3};
    int n = x.numel();
    void* args[] = {&from, &to, &pair, &n};
    dim3 grid((n + 63) / 64), block(64);
    cudaError_t said = cooperative ? cudaLaunchCooperativeKernel(scale<float>, grid, block, args, 0, 0)
                                   : cudaLaunchKernel(scale<float>, grid, block, args, 0, 0);
    TORCH_CHECK(said == cudaSuccess, cudaGetErrorString(said));
}

vector<int64_t> refused(at::Tensor x) {
    vector<int64_t> said;
    int* p = x.data_ptr<int>();
    void* args[] = {&p};
    said.push_back(cudaLaunchKernel(add_one, dim3(1), dim3(2000), args, 0, 0) != cudaSuccess);
    said.push_back(cudaGetLastError() != cudaSuccess);
    said.push_back(cudaLaunchCooperativeKernel(add_one, dim3(1 << 20), dim3(1024), args, 0, 0));
    said.push_back(cudaGetLastError());
    said.push_back(cudaLaunchKernel(add_one, dim3(1), dim3(x.numel()), args, 0, 0));
    said.push_back(cudaGetLastError());
    said.push_back(cudaDeviceSynchronize());
    return said;
}

__global__ void sum_of_many(int* out, int n) {
    extern __shared__ int many[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) many[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < n; i++) sum += many[i];
        *out = sum;
    }
}
vector<int64_t> large_shared(at::Tensor out, int64_t allowed, int64_t bytes) {
    vector<int64_t> said;
    cudaFuncAttributes a;
    said.push_back(cudaFuncSetAttribute(sum_of_many, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed));
    cudaGetLastError();
    sum_of_many<<<1, 64, bytes>>>(out.data_ptr<int>(), bytes / 4);
    said.push_back(cudaGetLastError());
    cudaDeviceSynchronize();
    said.push_back(cudaFuncGetAttributes(&a, sum_of_many));
    said.push_back(a.maxDynamicSharedSizeBytes);
    said.push_back(cudaFuncSetCacheConfig(sum_of_many, cudaFuncCachePreferL1));
    return said;
}

vector<int64_t> occupancy(int64_t threads, int64_t bytes) {
    int resident = -1, blocks = -1, best = -1;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, add_one, threads, bytes);
    cudaOccupancyMaxPotentialBlockSize(&blocks, &best, add_one, 0, threads);
    int with_flags = 0, most_blocks = 0, most = 0;
    size_t available = 0, needs = bytes;
    cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&with_flags, add_one, threads, bytes, cudaOccupancyDefault);
    cudaOccupancyAvailableDynamicSMemPerBlock(&available, add_one, resident, threads);
    cudaOccupancyMaxPotentialBlockSizeVariableSMem(&most_blocks, &most, add_one, [=](int n) { return needs / 96 * n; });
    cudaGetLastError();
    return {resident, blocks, best, with_flags, int64_t(available), most_blocks, most};
}
"""
)
API_FUNCS = (
    "allocations copies past_the_end copy_2d managed pitched polynomial symbols elapsed events streams attributes "
    "device_name versions memory_info errors words launched refused large_shared occupancy"
).split()


@pytest.fixture
def api(backend):
    return load_cuda(API_CUDA, "#include <string>\n#include <vector>\n" + API_CPP, API_FUNCS)


@pytest.fixture
def engine(monkeypatch):
    """The same, for what only the CPU engine has or says."""
    monkeypatch.setattr(utils.cuda.compile, "device", lambda: torch.device("cpu"))
    return load_cuda(API_CUDA, "#include <string>\n#include <vector>\n" + API_CPP, API_FUNCS)


def test_allocations(api):
    expected = [0, 0, INVALID_VALUE, 0, OUT_OF_MEMORY, OUT_OF_MEMORY, 0]  # device
    expected += [0, INVALID_VALUE, 0, 0, 0]  # pinned host memory
    expected += [0, 0, 1]  # of no bytes
    assert api.allocations() == expected + [0, 0, 0, 0]


def test_copies(api):
    assert api.copies() == [0, 0, 0, 0, 1, -1, 3, 4, INVALID_VALUE, BAD_DIRECTION, INVALID_VALUE, 0]


def test_copies_past_an_allocation_are_refused(engine):
    bad_pitch = 12
    expected = [0, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, 0, INVALID_VALUE, bad_pitch]
    assert engine.past_the_end() == expected + [BAD_HANDLE, BAD_HANDLE]


def test_copies_of_rows(api, backend):
    source = torch.randn(7, 12, device=backend)
    target = torch.zeros(7, 20, device=backend)
    api.copy_2d(target, source, 80, 48, 16, 6)  # four floats of six rows
    expected = torch.zeros(7, 20)
    expected[:6, :4] = source.cpu()[:6, :4]
    torch.testing.assert_close(target.cpu(), expected, rtol=0, atol=0)


def test_managed_and_pitched_memory(api):
    assert api.managed(100).tolist() == [i * i for i in range(100)]
    assert api.pitched(37, 5).tolist() == [[1000 * r + c for c in range(37)] for r in range(5)]


def test_constant_and_device_variables(api, backend):
    x = torch.linspace(-1, 1, 100, dtype=torch.float64)
    coefficients = [0.5, -2.0, 3.0, 0.25]
    highest = torch.zeros(2)
    out = api.polynomial(x.float().to(backend), torch.tensor(coefficients), highest)
    expected = sum(c * x**k for k, c in enumerate(coefficients)).float()
    torch.testing.assert_close(out.cpu(), expected)
    assert highest[0] == out[-1].item() and highest[1] == coefficients[3]
    assert api.symbols() == [INVALID_VALUE, INVALID_VALUE, INVALID_VALUE, 0, 16, 0, 0, 1, 0, 13, 13]


def test_events_measure_time(api):
    times = [api.elapsed(ms) for ms in (0, 40)]
    slower = slowdown()
    assert 0 <= times[0] < 30 * slower and 40 <= times[1] < 400 * slower
    said = api.events()
    assert said == [0, 0, BAD_HANDLE, 0, 0, 0, 0, BAD_HANDLE, 0, 1, INVALID_VALUE, INVALID_VALUE, 0]


def test_streams_keep_their_order(api, backend):
    x = torch.arange(33, dtype=torch.int32, device=backend)
    assert api.streams(x) == [0, 0, 1, 0, 0, 0, 7, 0, INVALID_VALUE, 0]
    assert x.tolist() == [10 * (i + 1) for i in range(33)]


def test_what_every_device_says_of_itself(api):
    said = api.attributes()
    assert said[:7] == [0, 0, 1, 0, 0, 1, 1]
    assert all(said[7::2]), "an attribute differs from the property"
    values = said[8::2]
    assert values[:5] == [1024, 64, 2**31 - 1, 65535, 32] and values[5:8] == [49152, 65536, 65536]
    assert values[8] >= values[5] and values[10] % 1024 == 0


def test_the_profile_of_the_engine(engine):
    values = engine.attributes()[8::2]
    assert values[8:] == [232448, 8, 2048, 9, 0, 228 * 1024]
    assert engine.device_name() == "CUDA on CPU"
    assert engine.versions() == [13000, 13000, 13000]
    free, total, properties = engine.memory_info()
    assert total == properties == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") and 0 < free < total


def test_versions_and_memory(api):
    driver, runtime, compiled = api.versions()
    assert driver >= 11000 and runtime // 1000 == compiled // 1000
    free, total, properties = api.memory_info()
    assert 0 < free <= total and total <= properties


def test_errors_of_launches(api, backend):
    x = torch.arange(8, dtype=torch.int32, device=backend)
    assert api.errors(x) == [1, 0, 1, 0, 0]
    assert x.tolist() == list(range(8))


def test_errors_have_cuda_s_names_and_words(api):
    known = {
        0: ("cudaSuccess", "no error"),
        1: ("cudaErrorInvalidValue", "invalid argument"),
        2: ("cudaErrorMemoryAllocation", "out of memory"),
        9: ("cudaErrorInvalidConfiguration", "invalid configuration argument"),
        21: ("cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"),
        98: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
        101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
        400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
        700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
        720: ("cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"),
        12345: ("unrecognized error code", "unrecognized error code"),
    }
    assert api.words(list(known)) == [word for words in known.values() for word in words]


@pytest.mark.parametrize("cooperative", [False, True])
def test_launches_by_function_call(api, backend, cooperative):
    x = torch.randn(1000, device=backend)
    out = torch.full_like(x, math.nan)
    api.launched(x, out, 2.5, cooperative)
    torch.testing.assert_close(out, x * 2.5 + 3)


def test_launches_by_function_call_that_are_refused(api, backend):
    x = torch.zeros(40, dtype=torch.int32, device=backend)
    assert api.refused(x) == [1, 1, TOO_LARGE_TOGETHER, TOO_LARGE_TOGETHER, 0, 0, 0]
    assert x.tolist() == [1] * 40


def test_more_shared_memory_must_be_asked_for(api, backend):
    out = torch.zeros(1, dtype=torch.int32, device=backend)
    most = api.attributes()[8::2][8]
    sum_of = lambda n: n * (n - 1) // 2  # noqa: E731
    assert api.large_shared(out, 49152, 49152 + 4)[:2] == [0, INVALID_VALUE] and out.item() == 0
    assert api.large_shared(out, 60000, 60000) == [0, 0, 0, 60000, 0] and out.item() == sum_of(15000)
    assert api.large_shared(out, 60000, 60004)[:2] == [0, INVALID_VALUE]
    assert api.large_shared(out, most + 1, 60000)[:2] == [INVALID_VALUE, 0]
    assert api.large_shared(out, most, most)[:4] == [0, 0, 0, most] and out.item() == sum_of(most // 4)


def test_occupancy(api, engine):
    resident, blocks, best, with_flags, available, most_blocks, most = api.occupancy(256, 0)
    assert with_flags == resident and available > 0 and most_blocks > 0 and most % 32 == 0
    assert resident > 0 and blocks > 0 and 0 < best <= 256 and best % 32 == 0
    assert engine.occupancy(1024, 0)[:3] == [2, 16, 1024]
    assert engine.occupancy(256, 0)[:3] == [8, 64, 256]
    assert engine.occupancy(32, 0)[:3] == [32, 256, 32]
    # 228 KB hold five times 40 + 1 KB. Blocks of 64 fill the 2048 threads, blocks of 96 do not.
    assert engine.occupancy(96, 40 * 1024)[:4] == [5, 256, 64, 5]
    assert engine.occupancy(256, 0)[4:] == [228 * 128, 16, 1024]  # an eighth of 228 KB
    assert engine.occupancy(96, 40 * 1024)[5:] == [64, 64]  # with 426 bytes for each thread
    assert engine.occupancy(2000, 0)[0] == 0


def test_calls_that_a_kernel_cannot_make_without_relocatable_code_fail_in_it(backend):
    source = """
    __global__ void k(int* said, int* device, void** p) {
        said[0] = cudaGetDevice(device);
        said[1] = cudaDeviceGetAttribute(device, cudaDevAttrWarpSize, 0);
        said[2] = cudaMalloc(p, 16);
    }"""
    said, device = (torch.zeros(3, dtype=torch.int32, device=backend) for _ in range(2))
    compile_kernel(source, "k")[1, 1](said, device, torch.zeros(1, dtype=torch.int64, device=backend))
    assert said.tolist() == [UNKNOWN] * 3 and device.tolist() == [0] * 3


def test_wrong_arguments_are_named(engine):
    with pytest.raises(TypeError, match=r"managed: argument 1 must be int, but it is 1.5 \(float\)"):
        engine.managed(1.5)
    with pytest.raises(TypeError, match="managed: argument 1 must be int, but it is 9223372036854775808"):
        engine.managed(2**63)
    with pytest.raises(TypeError, match="managed takes 1 argument, but 2 were given"):
        engine.managed(1, 2)
    with pytest.raises(TypeError, match=r"words: argument 1 must be a list of int, but it is \['a'\]"):
        engine.words(["a"])
