// Stands in for torch's header of this name.
#pragma once

#include <c10/macros/Macros.h>

#define C10_CUDA_API
