// Stands in for torch's header of this name: torch defines RestrictPtrTraits only where nvcc compiles.
#pragma once

#include_next <ATen/core/TensorAccessor.h>

namespace at {
template <typename T>
struct RestrictPtrTraits {
    using PtrType = T* __restrict__;
};
}  // namespace at
