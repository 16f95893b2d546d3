// Stands in for torch's header of this name: see types.h beside it.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <torch/torch.h>
#else
#include <torch/types.h>
#endif
