// Stands in for torch's header of this name: what the device can do.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/core/Allocator.h>

namespace at::cuda {
inline int64_t getNumGPUs() { return c10::cuda::device_count(); }
inline bool is_available() { return true; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
    static cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device < 0 ? 0 : device));
    return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return getCurrentDeviceProperties()->warpSize; }
inline c10::Allocator* getCUDADeviceAllocator() { return c10::GetAllocator(c10::DeviceType::CPU); }
}  // namespace at::cuda
