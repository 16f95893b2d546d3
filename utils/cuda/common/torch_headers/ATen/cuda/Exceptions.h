// Stands in for torch's header of this name, without what is about cuBLAS and its like.
#pragma once

#ifdef CUDA_COURSE_WHOLE_TORCH
#include_next <ATen/cuda/Exceptions.h>
#else
#include <c10/cuda/CUDAException.h>

#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#endif
