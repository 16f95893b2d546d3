// Stands in for torch's header of this name: tensors, the usual functions that make them, and dispatch by dtype, in a
// tenth of the compile time. A source that needs more is compiled again with all of torch (CUDA_COURSE_WHOLE_TORCH).
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <torch/types.h>
#else
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <concepts>
#include <optional>

#define CUDA_COURSE_OPERATIONS_ALONE
#include <ATen/ops/arange.h>
#include <ATen/ops/concat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS  // x + y on tensors, without the two thousand operations beside them
#endif
#include <ATen/TensorOperators.h>
#undef CUDA_COURSE_OPERATIONS_ALONE

namespace at {
// A template, so that torch's own may stand beside it.
std::optional<Device> device_of(const std::same_as<Tensor> auto& t) {
    return t.defined() ? std::optional<Device>(t.device()) : std::nullopt;
}
}  // namespace at

namespace torch {
using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;

// torch's own takes an ITensorListRef, whose header alone takes two seconds.
inline Tensor cat(TensorList tensors, int64_t dim = 0) { return at::concat(tensors, dim); }

constexpr Dtype kU8 = at::kByte, kUInt8 = at::kByte, kI8 = at::kChar, kInt8 = at::kChar;
constexpr Dtype kI16 = at::kShort, kInt16 = at::kShort, kI32 = at::kInt, kInt32 = at::kInt;
constexpr Dtype kI64 = at::kLong, kInt64 = at::kLong;
constexpr Dtype kF16 = at::kHalf, kFloat16 = at::kHalf, kF32 = at::kFloat, kFloat32 = at::kFloat;
constexpr Dtype kF64 = at::kDouble, kFloat64 = at::kDouble;
}  // namespace torch
#endif
