// Stands in for torch's header of this name.
#pragma once

#include <ATen/cuda/CUDAContext.h>
