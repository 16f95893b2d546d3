// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#include "../cooperative_groups.h"
#include "../cuda_on_cpu/phases.h"

namespace cooperative_groups {

// Done when the group has waited.
template <class Group>
__forceinline__ void memcpy_async(const Group& group, void* to, const void* from, size_t bytes) {
    ::cuda_on_cpu::copy_together(group, to, from, bytes);
    __pipeline_commit();
}
template <class Group, class To, class From>
__forceinline__ void memcpy_async(const Group& group, To* to, const From* from, size_t bytes) {
    memcpy_async(group, (void*)to, (const void*)from, bytes);
}
// The counts are of elements; the smaller one counts.
template <class Group, class T, class ToCount, class FromCount>
__forceinline__ void memcpy_async(const Group& group, T* to, const ToCount& to_count, const T* from,
                                  const FromCount& from_count) {
    const size_t there = to_count, here = from_count;
    memcpy_async(group, (void*)to, (const void*)from, sizeof(T) * (there < here ? there : here));
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
