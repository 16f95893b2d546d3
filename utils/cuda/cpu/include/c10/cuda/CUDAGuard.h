// Stands in for torch's header of this name: there is one device, so guarding it is nothing to do.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "CUDAStream.h"

namespace c10::cuda {
struct CUDAGuard {
    explicit CUDAGuard(c10::DeviceIndex) {}
    explicit CUDAGuard(c10::Device) {}
    CUDAGuard(const CUDAGuard&) = delete;
    void set_device(c10::Device) {}
    void set_index(c10::DeviceIndex) {}
    void reset_device(c10::Device) {}
    c10::Device original_device() const { return c10::Device(c10::DeviceType::CPU); }
    c10::Device current_device() const { return c10::Device(c10::DeviceType::CPU); }
};
struct OptionalCUDAGuard {
    OptionalCUDAGuard() {}
    explicit OptionalCUDAGuard(std::optional<c10::Device>) {}
    explicit OptionalCUDAGuard(std::optional<c10::DeviceIndex>) {}
    OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
    void set_device(c10::Device) {}
    void set_index(c10::DeviceIndex) {}
    void reset() {}
};
struct CUDAStreamGuard {
    explicit CUDAStreamGuard(CUDAStream stream) : before(getCurrentCUDAStream()) { setCurrentCUDAStream(stream); }
    CUDAStreamGuard(const CUDAStreamGuard&) = delete;
    ~CUDAStreamGuard() { setCurrentCUDAStream(before); }
    CUDAStream original_stream() const { return before; }
    CUDAStream current_stream() const { return getCurrentCUDAStream(); }

private:
    CUDAStream before;
};
}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
}
