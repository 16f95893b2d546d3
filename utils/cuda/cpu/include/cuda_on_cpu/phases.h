// Barriers that are objects in shared memory, and what is built on them: cuda::barrier and cuda::pipeline
// (cuda/barrier, cuda/pipeline). Their state is the runtime's (runtime/phases.cpp), which knows them by their address.
#pragma once

#include "../cuda_pipeline.h"

namespace cuda_on_cpu {

void phase_init(const void* barrier, unsigned long long expected);
// `drop`: one thread less is expected from the next phase on. Returns the number of the phase that is under way.
unsigned long long phase_arrive(const void* barrier, unsigned long long arrivals, bool drop);
void phase_wait(const void* barrier, unsigned long long phase, const char* name);  // until that phase is over
bool phase_over(const void* barrier, unsigned long long phase, const char* name);
unsigned long long phase_now(const void* barrier);
// The phase that is under way ends only when what this thread has copied so far is there.
void phase_waits_for_copies(const void* barrier);

// The group copies `bytes` bytes together, each of its threads some of them.
template <class Group>
__forceinline__ void copy_together(const Group& group, void* to, const void* from, size_t bytes) {
    size_t odd = (size_t)to | (size_t)from | bytes;
    size_t piece = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 1;
    for (size_t at = group.thread_rank() * piece; at < bytes; at += group.size() * piece)
        async_copy((char*)to + at, (const char*)from + at, piece, 0);
}
struct OneThread {  // as a group
    static constexpr size_t thread_rank() { return 0; }
    static constexpr size_t size() { return 1; }
};

}  // namespace cuda_on_cpu
