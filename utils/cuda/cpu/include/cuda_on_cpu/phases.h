// Barriers that are objects in shared memory: mbarriers, and what is built on them, cuda::barrier and cuda::pipeline
// (cuda/barrier, cuda/pipeline). Their state is the runtime's (runtime/phases.cpp), which knows them by their address.
#pragma once

#include "../cuda_pipeline.h"

namespace cuda_on_cpu {

// How a thread arrives.
struct Arrival {
    unsigned long long times = 1;
    unsigned long long bytes = 0;  // that copies are to bring in this phase, in addition
    bool drops = false;            // so many are expected less from the next phase on
    bool completes = true;         // false: .noComplete, the phase may not end by it
    bool releases = true;          // false: .relaxed, it orders nothing
};

void phase_init(const void* barrier, unsigned long long expected, const char* name = "init");
void phase_inval(const void* barrier, const char* name);
// Returns a token: the number of the phase that is under way, times 2^20, and the arrivals that it lacked before.
unsigned long long phase_arrive(const void* barrier, const Arrival& arrival, const char* name);
void phase_expect(const void* barrier, unsigned long long bytes, const char* name);
void phase_complete(const void* barrier, unsigned long long bytes, const char* name);
constexpr unsigned long long phase_of(unsigned long long token) { return token >> 20; }
constexpr unsigned int pending_of(unsigned long long token) { return token & 0xfffff; }
void phase_wait(const void* barrier, unsigned long long phase, const char* name);  // until that phase is over
// Whether it is over. A thread that asks in vain lets others go on first. `acquires`: what came before is known then.
bool phase_over(const void* barrier, unsigned long long phase, const char* name, bool acquires = true);
// The same of the last phase of this parity: the first phase, 0, is even.
void phase_wait_parity(const void* barrier, bool parity, const char* name);
bool phase_over_parity(const void* barrier, bool parity, const char* name, bool acquires = true);
// The phase that is under way ends only when what this thread has copied so far is there.
void phase_waits_for_copies(const void* barrier, const char* name = "memcpy_async");

// ---- bulk.cpp: the instructions of the bulk copy engine, without tensor maps. `name` is theirs.

void bulk_load(void* to, const void* from, unsigned int bytes, const void* barrier, unsigned int mask, const char* name);
void bulk_store(void* to, const void* from, unsigned int bytes, const char* name);
void bulk_reduce(void* to, const void* from, unsigned int bytes, const void* barrier, int op, int type,
                 const char* name);  // a BulkOp and a BulkType (runtime/bulk.h); without a barrier by the thread's group
void bulk_prefetch(const void* from, unsigned int bytes, const char* name);
// st.async and red.async: `value` is written, or added, when the barrier's phase is asked for.
void async_store(void* to, const void* value, unsigned int bytes, const void* barrier, const char* name);
void async_reduce(void* to, const void* value, unsigned int bytes, int op, int type, const void* barrier,
                  const char* name);
void bulk_commit();
void bulk_wait(unsigned int prior, bool reads);  // all but so many groups; `reads`: until their sources have been read

// ---- proxies.cpp

enum class ProxyFence { all, global, shared, init, alias, tensormap };  // init: fence.mbarrier_init
void fence_proxy(ProxyFence fence);
void set_registers(unsigned int count, bool more, const char* name);  // setmaxnreg

// ---------------------------------------------------------------------------------------------------------------------

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
