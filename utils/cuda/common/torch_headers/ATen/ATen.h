// Stands in for torch's header of this name: see torch/types.h.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <ATen/ATen.h>
#else
#include <torch/types.h>
#endif
