// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#include "../cooperative_groups.h"
#include "../cuda_pipeline.h"

namespace cooperative_groups {

// The group copies `bytes` bytes together, each of its threads some of them. Done when the group has waited.
template <class Group>
__forceinline__ void memcpy_async(const Group& group, void* to, const void* from, size_t bytes) {
    size_t odd = (size_t)to | (size_t)from | bytes;
    size_t piece = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 1;
    for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece)
        ::cuda_on_cpu::async_copy((char*)to + at, (const char*)from + at, piece, 0);
    __pipeline_commit();
}
template <class Group, class To, class From>
__forceinline__ void memcpy_async(const Group& group, To* to, const From* from, size_t bytes) {
    memcpy_async(group, (void*)to, (const void*)from, bytes);
}
template <class Group>
__forceinline__ void wait(const Group& group) {
    __pipeline_wait_prior(0);
    group.sync();
}
template <unsigned int prior, class Group>
__forceinline__ void wait_prior(const Group& group) {
    __pipeline_wait_prior(prior);
    group.sync();
}

}  // namespace cooperative_groups
