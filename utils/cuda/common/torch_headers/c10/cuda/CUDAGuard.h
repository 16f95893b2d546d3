// Stands in for torch's header of this name, which takes a second to compile: c10's guards, held to CUDA devices.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <c10/cuda/CUDAGuard.h>
#else
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

namespace c10::cuda {
inline Device checked_cuda(Device device) {
    TORCH_CHECK(device.is_cuda(), "expected a CUDA device, but got ", device);
    return device;
}

struct CUDAGuard {
    explicit CUDAGuard(DeviceIndex index) : guard(Device(DeviceType::CUDA, index)) {}
    explicit CUDAGuard(Device device) : guard(checked_cuda(device)) {}
    void set_device(Device device) { guard.reset_device(checked_cuda(device)); }
    void reset_device(Device device) { guard.reset_device(checked_cuda(device)); }
    void set_index(DeviceIndex index) { guard.set_index(index); }
    Device original_device() const { return guard.original_device(); }
    Device current_device() const { return guard.current_device(); }

private:
    DeviceGuard guard;
};

struct OptionalCUDAGuard {
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(std::optional<Device> device) {
        if (device) set_device(*device);
    }
    explicit OptionalCUDAGuard(std::optional<DeviceIndex> index) {
        if (index) set_index(*index);
    }
    void set_device(Device device) { guard.reset_device(checked_cuda(device)); }
    void reset_device(Device device) { guard.reset_device(checked_cuda(device)); }
    void set_index(DeviceIndex index) { guard.reset_device(Device(DeviceType::CUDA, index)); }
    void reset() {
        if (auto device = guard.original_device()) guard.reset_device(*device);
    }

private:
    OptionalDeviceGuard guard;
};

struct CUDAStreamGuard {
    explicit CUDAStreamGuard(Stream stream) : guard(stream) {}
    void reset_stream(Stream stream) { guard.reset_stream(stream); }
    CUDAStream original_stream() const { return CUDAStream(CUDAStream::UNCHECKED, guard.original_stream()); }
    CUDAStream current_stream() const { return CUDAStream(CUDAStream::UNCHECKED, guard.current_stream()); }
    Device original_device() const { return guard.original_device(); }
    Device current_device() const { return guard.current_device(); }

private:
    StreamGuard guard;
};
}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
}
#endif
