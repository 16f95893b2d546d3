// Stands in for CUDA's header of this name when a source is compiled for the CPU: gathers what CUDA's own brings.
#pragma once

#include <cstdlib>
#include <cstring>

#include "cuda_on_cpu/device_functions.h"
#include "cuda_on_cpu/host.h"
#include "cuda_on_cpu/launch.h"
#include "cuda_on_cpu/types.h"
