// Stands in for CUDA's header of this name when a source is compiled for the CPU. Of the driver's own functions it has
// those that make a tensor map.
#pragma once
#include "cuda_runtime.h"
#include "cuda_on_cpu/host/tensor_map.h"

#define CUDA_VERSION CUDART_VERSION
