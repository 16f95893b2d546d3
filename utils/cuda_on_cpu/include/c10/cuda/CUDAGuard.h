// Stands in for torch's header of this name: on the CPU there is one device, so guarding it is nothing to do.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "CUDAStream.h"

namespace c10::cuda {
struct CUDAGuard {
    explicit CUDAGuard(c10::DeviceIndex) {}
    explicit CUDAGuard(c10::Device) {}
};
struct OptionalCUDAGuard {
    OptionalCUDAGuard() {}
    explicit OptionalCUDAGuard(std::optional<c10::Device>) {}
};
}  // namespace c10::cuda

namespace at::cuda {
using namespace c10::cuda;
}
