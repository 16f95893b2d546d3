// Stands in for torch's header of this name: tensors, the usual functions that make them, and dispatch by dtype, at a
// third of the compile time. A source that needs more is compiled again with all of torch (CUDA_ON_CPU_WHOLE_TORCH).
#pragma once

#ifdef CUDA_ON_CPU_WHOLE_TORCH
#include_next <torch/types.h>
#else
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace torch {
using namespace at;
}
#endif
