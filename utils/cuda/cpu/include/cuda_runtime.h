// Stands in for CUDA's header of this name when a source is compiled for the CPU: gathers what CUDA's own brings.
#pragma once

// By these, sources ask whether NVIDIA's headers were included.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __DEVICE_LAUNCH_PARAMETERS_H__

#include "cuda_on_cpu/traced_copies.h"  // before <cstring>

#include <cstdlib>
#include <cstring>

#ifndef CUDA_ON_CPU_WITHOUT_DEVICE  // as where a C++ compiler, and not nvcc, reads the real header
#include "cuda_on_cpu/device_functions.h"
#endif
#include "cuda_on_cpu/host.h"
#include "cuda_on_cpu/start.h"
#include "cuda_on_cpu/types.h"
