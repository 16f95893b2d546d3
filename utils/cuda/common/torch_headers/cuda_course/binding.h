// What the file that binds functions to Python needs: tensors, and their way to Python and back.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include <torch/extension.h>
#else
#include <ATen/core/Tensor.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace torch {
using namespace at;
}
#endif
