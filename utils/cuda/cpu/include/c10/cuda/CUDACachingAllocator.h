// Stands in for torch's header of this name: memory that a source takes for a while, without a tensor.
#pragma once

#include <c10/core/Allocator.h>

#include "CUDAStream.h"
#include "CUDAException.h"

namespace c10::cuda::CUDACachingAllocator {
inline c10::Allocator* get() { return c10::GetAllocator(c10::DeviceType::CPU); }
inline void* raw_alloc(size_t bytes) {
    void* p = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&p, bytes));
    return p;
}
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void* p) { C10_CUDA_CHECK(cudaFree(p)); }
inline void recordStream(const c10::DataPtr&, CUDAStream) {}
inline void emptyCache() {}
}  // namespace c10::cuda::CUDACachingAllocator
