// Stands in for NVTX's header of this name when a source is compiled for the CPU.
#pragma once
#include "../nvToolsExt.h"
