// Stands in for torch's header of this name, without those of cuBLAS, cuSPARSE and cuSOLVER.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <ATen/cuda/CUDAContext.h>
#else
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

namespace at::cuda {
TORCH_CUDA_CPP_API cudaDeviceProp* getCurrentDeviceProperties();  // in libtorch_cuda, as the next three
TORCH_CUDA_CPP_API cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);
TORCH_CUDA_CPP_API int warp_size();
TORCH_CUDA_CPP_API bool canDeviceAccessPeer(c10::DeviceIndex device, c10::DeviceIndex peer);
}  // namespace at::cuda
#endif
