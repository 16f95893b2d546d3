// The device's memory and what is in it: allocations, copies, and the variables of the source.
#pragma once

#include <cstddef>

#include "../errors.h"
#include "../types.h"

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};

namespace cuda_on_cpu {

struct Allocation {
    enum Kind { device, managed, host } kind;
    void* base;
    size_t bytes;
};
bool find_allocation(const void* address, Allocation& found);  // whether it is in what cudaMalloc and the like gave
cudaError_t allocate(void** p, size_t bytes, Allocation::Kind kind);

}  // namespace cuda_on_cpu

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
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return cuda_on_cpu::answer(cudaErrorInvalidValue);
    return cudaMemcpy(to, (const char*)&symbol + offset, bytes, kind);
}
