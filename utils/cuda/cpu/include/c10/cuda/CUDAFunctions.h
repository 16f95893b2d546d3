// Stands in for torch's header of this name.
#pragma once

#include <c10/core/Device.h>

#include "CUDAException.h"

namespace c10::cuda {
inline c10::DeviceIndex device_count() noexcept { return 1; }
inline c10::DeviceIndex device_count_ensure_non_zero() { return 1; }
inline c10::DeviceIndex current_device() { return 0; }
inline void set_device(c10::DeviceIndex device) { C10_CUDA_CHECK(cudaSetDevice(device)); }
inline cudaError_t GetDevice(c10::DeviceIndex* device) { return *device = 0, cudaSuccess; }
inline cudaError_t SetDevice(c10::DeviceIndex device, bool = false) { return cudaSetDevice(device); }
inline cudaError_t MaybeSetDevice(c10::DeviceIndex device) { return cudaSetDevice(device); }
inline c10::DeviceIndex ExchangeDevice(c10::DeviceIndex device) { return set_device(device), 0; }
inline c10::DeviceIndex MaybeExchangeDevice(c10::DeviceIndex device) { return set_device(device), 0; }
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void stream_synchronize(cudaStream_t stream) { C10_CUDA_CHECK(cudaStreamSynchronize(stream)); }
}  // namespace c10::cuda
