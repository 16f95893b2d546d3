// Clusters of blocks: their places, their barrier, and addresses in the shared memory of another block of the cluster
// (runtime/clusters.cpp). A launch without clusters has clusters of one block.
#pragma once

#include "spaces.h"

namespace cuda_on_cpu {

struct ClusterPlace {
    dim3 dim;    // blocks in the cluster
    dim3 block;  // this block in its cluster, and its place there, x first
    unsigned int rank, size;
    dim3 grid, cluster;  // clusters in the grid, and this one among them
    bool is_explicit;    // the launch or the kernel gives the size
};
ClusterPlace place_in_cluster();

// Every thread arrives once, then waits once, before it arrives again. `name` is the function's or the instruction's.
void cluster_arrive(const char* name, bool releases = true);  // false: .relaxed, it orders nothing
void cluster_wait(const char* name);

void* map_shared_rank(const void* address, unsigned int rank, const char* name);
unsigned int query_shared_rank(const void* address, const char* name);
// As a number: of the running block an offset, of a peer also its rank plus 1 in the upper byte.
uint32_t cluster_number(const void* address);
char* at_cluster_number(uint32_t at);

}  // namespace cuda_on_cpu

inline unsigned int __isCtaShared(const void* p) { return __isShared(p); }
inline unsigned int __isClusterShared(const void* p) { return cuda_on_cpu::is_cluster_shared(p); }
inline unsigned int __clusterDimIsSpecified() { return cuda_on_cpu::place_in_cluster().is_explicit; }
inline dim3 __clusterDim() { return cuda_on_cpu::place_in_cluster().dim; }
inline dim3 __clusterRelativeBlockIdx() { return cuda_on_cpu::place_in_cluster().block; }
inline dim3 __clusterGridDimInClusters() { return cuda_on_cpu::place_in_cluster().grid; }
inline dim3 __clusterIdx() { return cuda_on_cpu::place_in_cluster().cluster; }
inline unsigned int __clusterRelativeBlockRank() { return cuda_on_cpu::place_in_cluster().rank; }
inline unsigned int __clusterSizeInBlocks() { return cuda_on_cpu::place_in_cluster().size; }
__forceinline__ void __cluster_barrier_arrive() { cuda_on_cpu::cluster_arrive("__cluster_barrier_arrive"); }
__forceinline__ void __cluster_barrier_arrive_relaxed() {
    cuda_on_cpu::cluster_arrive("__cluster_barrier_arrive_relaxed", false);
}
__forceinline__ void __cluster_barrier_wait() { cuda_on_cpu::cluster_wait("__cluster_barrier_wait"); }
inline void __threadfence_cluster() { cuda_on_cpu::fence(); }
__forceinline__ void* __cluster_map_shared_rank(const void* p, unsigned int rank) {
    return cuda_on_cpu::map_shared_rank(p, rank, "__cluster_map_shared_rank");
}
// For multicast: the address that a variable has in the running block, and the blocks' mask, as NVIDIA's header has it.
inline uint2 __cluster_map_shared_multicast(const void* p, unsigned int mask) {
    return {static_cast<unsigned int>(__cvta_generic_to_shared(p)), mask};
}
__forceinline__ unsigned int __cluster_query_shared_rank(const void* p) {
    return cuda_on_cpu::query_shared_rank(p, "__cluster_query_shared_rank");
}
