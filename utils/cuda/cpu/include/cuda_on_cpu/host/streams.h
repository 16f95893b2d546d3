// Streams and events, and the calls that take a stream.
#pragma once

#include "memory.h"

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
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream = nullptr) {
    cudaError_t error = cudaStreamQuery(stream);
    return error ? error : cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
