// Stands in for torch's header of this name, which many extensions include for what comes with it.
#pragma once

#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ceil_div.h>
