// Copies through a tensor map, as inline PTX (ptx/tensors.h), cuda/ptx and cuda/barrier call them.
// runtime/tensor_copies.cpp does the work.
#pragma once

#include "launch.h"

namespace cuda_on_cpu {

// `map` is a CUtensorMap, and `at` the coordinates of a box of it, the fastest-varying first; there are `rank` of them.
// `mask` has the blocks of the cluster that get a copy; 0: the running one alone.
void tensor_load(void* to, const void* map, const int32_t* at, int rank, const void* barrier, unsigned int mask,
                 const char* name);
void tensor_store(const void* map, const int32_t* at, int rank, const void* from, const char* name);
void tensor_reduce(const void* map, const int32_t* at, int rank, const void* from, int op, const char* name);
void tensor_prefetch(const void* map, const int32_t* at, int rank, const char* name);
void tensor_map_fence();  // the running thread may use a map that a kernel has written

}  // namespace cuda_on_cpu
