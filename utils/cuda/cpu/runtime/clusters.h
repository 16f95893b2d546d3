// Clusters: blocks that run at the same time, wait for each other and reach each other's shared memory. Device code
// calls what include/cuda_on_cpu/clusters.h declares; this is for the runtime, and for what copies to several blocks.
#pragma once

#include "runtime.h"

namespace cuda_on_cpu {

// Kept while its blocks run. A block of a launch without clusters has none: it is alone, and its rank is 0.
struct Cluster {
    dim3 dim;                    // blocks along x, y and z
    std::vector<Block*> blocks;  // by rank, x first
    // The barrier. Threads that have ended are not waited for.
    uint64_t phase = 0;        // that is under way
    unsigned int arrived = 0;  // of the threads that have not ended
};

// ---- clusters.cpp
void cluster_thread_ends(Block& b, Fiber& fiber);
// The block of the running block's cluster in whose shared memory an address is, or nearest to it: the running block
// itself, a peer, or nullptr for any other memory.
Block* block_with(const void* address);
// The same place in the shared memory of block `to` as `address` is in that of block `of`.
inline void* moved(const void* address, const Block& of, const Block& to) {
    return to.arena.get() + (static_cast<const unsigned char*>(address) - of.arena.get());
}
inline unsigned int cluster_size(const Block& b) { return b.cluster ? unsigned(b.cluster->blocks.size()) : 1; }
inline Block& cluster_block(Block& b, unsigned int rank) { return b.cluster ? *b.cluster->blocks[rank] : b; }

// Calls `f(block)` for each block of the running block's cluster whose rank's bit is in `mask`: what a multicast reaches.
// A bit beyond the cluster's last block ends the kernel; `name` is the instruction's, for that message.
template <class F>
void for_each_cta(uint32_t mask, const char* name, F f) {
    Block& b = block();
    const unsigned int size = cluster_size(b);
    if (size < 32 && mask >> size)
        fail(wrong_cluster, std::string("calls ") + name + " for the blocks of the mask " + std::to_string(mask) +
                                ", but its cluster has " + (size == 1 ? "one block, of rank 0" : std::to_string(size) + " blocks"));
    for (unsigned int rank = 0; rank < size; rank++)
        if (mask >> rank & 1) f(cluster_block(b, rank));
}

}  // namespace cuda_on_cpu
