// Stands in for torch's header of this name.
#pragma once

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace at::cuda {
// Each thread of the CPU has a handle, which works in the current stream.
inline cublasHandle_t getCurrentCUDABlasHandle() {
    static thread_local cublasHandle_t handle = nullptr;
    if (!handle) TORCH_CUDABLAS_CHECK(cublasCreate(&handle));
    TORCH_CUDABLAS_CHECK(cublasSetStream(handle, getCurrentCUDAStream()));
    return handle;
}
}  // namespace at::cuda
