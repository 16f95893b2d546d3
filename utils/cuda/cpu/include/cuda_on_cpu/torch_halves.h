// Torch's 16-bit types, which convert from and to CUDA's where nvcc compiles them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define __CUDACC__ 1
#if __has_include(<torch/headeronly/util/Half.h>)
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>
#else
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#endif
#undef __CUDACC__
