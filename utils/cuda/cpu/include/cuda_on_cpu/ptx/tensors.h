// Copies through a tensor map ("PTX ISA": Data Movement and Conversion Instructions: Tensor copy).
#pragma once

#include "../tensor_copies.h"
#include "memory.h"

namespace cuda_on_cpu::ptx {

__forceinline__ void tensor_load(char* to, const char* map, const int32_t* at, int rank, const char* barrier,
                                 uint32_t mask, const char* name) {
    ::cuda_on_cpu::tensor_load(to, map, at, rank, barrier, mask, name);
}
__forceinline__ void tensor_store(const char* map, const int32_t* at, int rank, const char* from, const char* name) {
    ::cuda_on_cpu::tensor_store(map, at, rank, from, name);
}
__forceinline__ void tensor_reduce(const char* map, const int32_t* at, int rank, const char* from, int op,
                                   const char* name) {
    ::cuda_on_cpu::tensor_reduce(map, at, rank, from, op, name);
}
__forceinline__ void tensor_prefetch(const char* map, const int32_t* at, int rank, const char* name) {
    ::cuda_on_cpu::tensor_prefetch(map, at, rank, name);
}
__forceinline__ void tensor_map_prefetch(const char*) {}
__forceinline__ void tensor_map_fence(const char*) { ::cuda_on_cpu::tensor_map_fence(); }

}  // namespace cuda_on_cpu::ptx
