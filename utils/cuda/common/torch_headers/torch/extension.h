// Stands in for torch's header of this name: see types.h beside it. A source that speaks of pybind11, which turns C++
// functions into Python ones, gets that from cuda_course/binding.h.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <torch/extension.h>
#else
#include <torch/types.h>
#endif
