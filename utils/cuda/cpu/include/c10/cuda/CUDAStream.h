// Stands in for torch's header of this name: every stream is the one in which a CPU does its work.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <cuda_runtime.h>

namespace c10::cuda {
struct CUDAStream {
    constexpr CUDAStream(cudaStream_t stream = nullptr) : handle(stream) {}
    operator cudaStream_t() const { return handle; }
    cudaStream_t stream() const { return handle; }
    c10::Device device() const { return c10::Device(c10::DeviceType::CPU); }
    c10::DeviceIndex device_index() const { return 0; }
    c10::StreamId id() const { return c10::StreamId(reinterpret_cast<intptr_t>(handle)); }
    int priority() const { return 0; }
    bool query() const { return true; }
    void synchronize() const {}
    bool operator==(const CUDAStream& other) const { return handle == other.handle; }

private:
    cudaStream_t handle;
};
inline thread_local CUDAStream current_stream;
inline CUDAStream getCurrentCUDAStream(c10::DeviceIndex = -1) { return current_stream; }
inline CUDAStream getDefaultCUDAStream(c10::DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, c10::DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(int, c10::DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, c10::DeviceIndex) { return stream; }
inline void setCurrentCUDAStream(CUDAStream stream) { current_stream = stream; }
}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
}
