// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once

#include <cstdlib>
#include <cstring>

#include "cuda_on_cpu/device_functions.h"
#include "cuda_on_cpu/launch.h"
#include "cuda_on_cpu/types.h"

// In runtime.cpp. A launch that was refused is remembered, by each CPU thread, until cudaGetLastError asks.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

// A launch returns when its work is done, so there is never anything to wait for.
inline cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }

// The GPU's memory is the machine's own here.
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
    *p = static_cast<T*>(aligned_alloc(256, (bytes + 255) / 256 * 256));
    return *p || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* p) { return free(p), cudaSuccess; }
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) { return memset(p, value, bytes), cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    return memmove(to, from, bytes), cudaSuccess;
}
