// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once

#define __SM_30_INTRINSICS_H__  // by which sources ask whether this header was included

#include "cuda_runtime.h"
