// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once

#define _CUDA_PIPELINE_HELPERS_H_  // by which sources ask whether this header was included

#include "cuda_pipeline.h"
