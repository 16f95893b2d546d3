// The host's side of CUDA: memory, streams, events, what the device can do, and launches by function call (host/).
//
// The device's memory is the machine's own here, and work is done by the time a call returns. So a stream keeps its
// order by itself and nothing is ever waited for. What the engine does keep is CUDA's refusals: a mistake that CUDA
// answers with an error is answered with the same error.
#pragma once

#include <cstddef>
#include <utility>

#include "errors.h"
#include "launch.h"
#include "types.h"

#define CUDART_VERSION 13000
#define CUDARTAPI
#define CUDART_CB

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

namespace cuda_on_cpu {

cudaError_t& last_error();             // of this CPU thread: what the last call or launch that failed said
cudaError_t answer(cudaError_t error); // notes an error as the last one, and returns it

struct Allocation {
    enum Kind { device, managed, host } kind;
    void* base;
    size_t bytes;
};
bool find_allocation(const void* address, Allocation& found);  // whether it is in what cudaMalloc and the like gave
cudaError_t allocate(void** p, size_t bytes, Allocation::Kind kind);

// Bytes of dynamic shared memory with which a kernel may be launched: 48 KB, unless cudaFuncSetAttribute said more.
// `kernel` is the address of the function; of nullptr, where it is not known, the most that any kernel was allowed.
size_t dynamic_shared_limit(const void* kernel);
const char* kernel_name(const void* kernel);  // valid until this CPU thread asks again

}  // namespace cuda_on_cpu

// ---- errors ---------------------------------------------------------------------------------------------------------

cudaError_t cudaGetLastError();  // and forgets it
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

// ---- memory ---------------------------------------------------------------------------------------------------------

constexpr unsigned int cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2;
constexpr unsigned int cudaHostAllocWriteCombined = 4, cudaMemAttachGlobal = 1, cudaMemAttachHost = 2;
constexpr int cudaCpuDeviceId = -1;

template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
    return cuda_on_cpu::allocate((void**)p, bytes, cuda_on_cpu::Allocation::device);
}
template <class T>
cudaError_t cudaMallocManaged(T** p, size_t bytes, unsigned int flags = cudaMemAttachGlobal) {
    bool known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost;
    if (!known) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cuda_on_cpu::allocate((void**)p, bytes, cuda_on_cpu::Allocation::managed);
}
template <class T>
cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned int flags) {
    if (flags > 7) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cuda_on_cpu::allocate((void**)p, bytes, cuda_on_cpu::Allocation::host);
}
template <class T>
cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned int flags = cudaHostAllocDefault) {
    return cudaHostAlloc(p, bytes, flags);
}
cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height);
template <class T>
cudaError_t cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) {
    return cudaMallocPitch((void**)p, pitch, width, height);
}
cudaError_t cudaFree(void* p);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind);
cudaError_t cudaMemset(void* p, int value, size_t bytes);
cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height);

// ---- streams and events ---------------------------------------------------------------------------------------------

typedef struct CUevent_st* cudaEvent_t;
typedef void (*cudaHostFn_t)(void*);
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
constexpr unsigned int cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
constexpr unsigned int cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
constexpr unsigned int cudaEventWaitDefault = 0;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags = cudaEventDefault) {
    return cudaEventCreateWithFlags(event, flags);
}
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

// The asynchronous calls are the others, on a stream that has to be one.
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
inline cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemset(p, value, bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t stream) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMalloc(p, bytes);
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaFree(p);
}
// Managed memory is where the CPU wants it already. The device is a number (CUDA 12) or a cudaMemLocation (CUDA 13).
enum cudaMemLocationType { cudaMemLocationTypeInvalid, cudaMemLocationTypeDevice, cudaMemLocationTypeHost };
struct cudaMemLocation {
    cudaMemLocationType type;
    int id;
};
inline cudaError_t cudaMemPrefetchAsync(const void* p, size_t, int, cudaStream_t = nullptr) {
    return cuda_on_cpu::answer(p ? cudaSuccess : cudaErrorInvalidValue);
}
inline cudaError_t cudaMemPrefetchAsync(const void* p, size_t, cudaMemLocation, unsigned int, cudaStream_t = nullptr) {
    return cuda_on_cpu::answer(p ? cudaSuccess : cudaErrorInvalidValue);
}

// ---- __device__ and __constant__ variables, which are the host's variables too --------------------------------------

template <class T>
cudaError_t cudaGetSymbolAddress(void** p, const T& symbol) {
    if (!p) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    *p = const_cast<void*>(static_cast<const volatile void*>(&symbol));
    return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
    if (!bytes) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    *bytes = sizeof(T);
    return cudaSuccess;
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cudaMemcpy((char*)&symbol + offset, from, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cudaMemcpy(to, (const char*)&symbol + offset, bytes, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}

// ---- the device -----------------------------------------------------------------------------------------------------

// What CUDA reports about a device, except textures. The numbers are the profile's; 0 is what is not known.
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    size_t reservedSharedMemPerBlock, totalConstMem, memPitch;
    int major, minor, warpSize, multiProcessorCount;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
    int regsPerBlock, regsPerMultiprocessor, l2CacheSize;
    int clockRate, memoryClockRate, memoryBusWidth;  // kHz, kHz, bits
    int integrated, canMapHostMemory, unifiedAddressing, managedMemory, concurrentManagedAccess, pageableMemoryAccess;
    int concurrentKernels, asyncEngineCount, cooperativeLaunch, streamPrioritiesSupported, memoryPoolsSupported;
    int ECCEnabled, isMultiGpuBoard, computeMode, pciBusID, pciDeviceID, pciDomainID;
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrTotalConstantMemory = 9,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxPitch = 11,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrIntegrated = 18,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrComputeMode = 20,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrAsyncEngineCount = 40,
    cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxRegistersPerMultiprocessor = 82,
    cudaDevAttrManagedMemory = 83,
    cudaDevAttrPageableMemoryAccess = 88,
    cudaDevAttrConcurrentManagedAccess = 89,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMaxBlocksPerMultiprocessor = 106,
    cudaDevAttrReservedSharedMemoryPerBlock = 111,
    cudaDevAttrMemoryPoolsSupported = 115
};

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDeviceReset();  // frees what cudaMalloc and the like gave

// A launch returns when its work is done, and throws where that went wrong. So there is nothing to wait for, and no
// error that comes late.
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

// ---- kernels --------------------------------------------------------------------------------------------------------

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaSharedCarveout {
    cudaSharedmemCarveoutDefault = -1,
    cudaSharedmemCarveoutMaxL1 = 0,
    cudaSharedmemCarveoutMaxShared = 100
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual
};
// Registers and shared memory are not counted before a kernel runs on a CPU: those are 0.
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes, preferredShmemCarveout;
};

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache config);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block_threads,
                                                          size_t dynamic_bytes);
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* block_threads, const void* kernel,
                                               size_t dynamic_bytes, int most_threads);

template <class... A>
cudaError_t cudaFuncSetAttribute(void (*kernel)(A...), cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void*)kernel, attribute, value);
}
template <class... A>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(A...)) {
    return cudaFuncGetAttributes(attributes, (const void*)kernel);
}
template <class... A>
cudaError_t cudaFuncSetCacheConfig(void (*kernel)(A...), cudaFuncCache config) {
    return cudaFuncSetCacheConfig((const void*)kernel, config);
}
template <class... A>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(A...), int block_threads,
                                                          size_t dynamic_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)kernel, block_threads, dynamic_bytes);
}
template <class... A>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* block_threads, void (*kernel)(A...),
                                               size_t dynamic_bytes = 0, int most_threads = 0) {
    return cudaOccupancyMaxPotentialBlockSize(blocks, block_threads, (const void*)kernel, dynamic_bytes, most_threads);
}

namespace cuda_on_cpu {

// args[i] points at the i-th argument. A launch that was refused is both returned and the last error.
template <class... A, size_t... I>
cudaError_t launch(void (*kernel)(A...), Launch how, void** args, std::index_sequence<I...>) {
    if (!kernel) return answer(cudaErrorInvalidDeviceFunction);
    cudaError_t before = std::exchange(last_error(), cudaSuccess);
    how.kernel = (const void*)kernel;
    start(kernel_name(how.kernel), how, CUDA_ON_CPU_CALL(kernel))(*static_cast<A*>(args[I])...);
    cudaError_t error = last_error();
    if (!error) last_error() = before;
    return error;
}

}  // namespace cuda_on_cpu

template <class... A>
cudaError_t cudaLaunchKernel(void (*kernel)(A...), dim3 grid, dim3 block, void** args, size_t shared_bytes = 0,
                             cudaStream_t stream = nullptr) {
    cuda_on_cpu::Launch how(grid, block, shared_bytes, stream);
    return cuda_on_cpu::launch(kernel, how, args, std::index_sequence_for<A...>());
}

// All blocks run at once, so there may not be more than the device holds.
template <class... A>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(A...), dim3 grid, dim3 block, void** args,
                                        size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
    cuda_on_cpu::Launch how(grid, block, shared_bytes, stream);
    how.cooperative = true;
    return cuda_on_cpu::launch(kernel, how, args, std::index_sequence_for<A...>());
}
