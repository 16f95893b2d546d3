// Stands in for torch's header of this name: see types.h beside it. pybind11, which turns C++ functions into Python
// ones, is included where a source speaks of it.
#pragma once

#ifdef CUDA_ON_CPU_WHOLE_TORCH
#include_next <torch/extension.h>
#else
#include <torch/types.h>
#ifdef CUDA_ON_CPU_PYBIND
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif
#endif
