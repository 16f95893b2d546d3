// Stands in for torch's header of this name: see torch/types.h.
#pragma once

#ifdef CUDA_ON_CPU_WHOLE_TORCH
#include_next <ATen/ATen.h>
#else
#include <torch/types.h>
#endif
