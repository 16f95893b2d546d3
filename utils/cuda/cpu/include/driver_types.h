// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#include "cuda_runtime.h"
