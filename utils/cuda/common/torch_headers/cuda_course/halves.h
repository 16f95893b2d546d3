// What torch's headers include of CUDA's where nvcc reads them (gpu/split.py).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
