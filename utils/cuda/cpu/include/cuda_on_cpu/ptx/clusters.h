// Clusters of blocks in inline PTX: mapa and getctarank, and stores that a barrier in a peer's shared memory counts.
#pragma once

#include "../phases.h"
#include "memory.h"

namespace cuda_on_cpu::ptx {

__forceinline__ uint64_t map_pointer(uint64_t p, uint32_t rank) { return (uint64_t)map_shared_rank((void*)p, rank, "mapa"); }
__forceinline__ uint64_t map_number(uint64_t at, uint32_t rank) {
    return cluster_number(map_shared_rank(cluster_address(at), rank, "mapa"));
}
__forceinline__ uint32_t rank_of_pointer(uint64_t p) { return query_shared_rank((void*)p, "getctarank"); }
__forceinline__ uint32_t rank_of_number(uint64_t at) { return query_shared_rank(cluster_address(at), "getctarank"); }

template <class T, int count>
__forceinline__ void st_async(char* to, Elements<T, count> x, const char* barrier, const char* name) {
    async_store(to, &x, sizeof x, barrier, name);
}
template <class T>
__forceinline__ void red_async(char* to, T x, int op, int type, const char* barrier, const char* name) {
    async_reduce(to, &x, sizeof x, op, type, barrier, name);
}

}  // namespace cuda_on_cpu::ptx
