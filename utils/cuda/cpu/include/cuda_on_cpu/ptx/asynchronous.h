// mbarriers, the bulk copy engine and fences between proxies ("PTX ISA": Parallel Synchronization and Communication
// Instructions, Data Movement and Conversion Instructions). runtime/phases.cpp and runtime/bulk.cpp do the work.
#pragma once

#include "../phases.h"
#include "memory.h"

namespace cuda_on_cpu::ptx {

__forceinline__ void mbarrier_init(const char* at, uint32_t count) { phase_init(at, count, "mbarrier.init"); }
__forceinline__ void mbarrier_inval(const char* at) { phase_inval(at, "mbarrier.inval"); }
__forceinline__ void mbarrier_expect_tx(const char* at, uint32_t bytes) { phase_expect(at, bytes, "mbarrier.expect_tx"); }
__forceinline__ void mbarrier_complete_tx(const char* at, uint32_t bytes) {
    phase_complete(at, bytes, "mbarrier.complete_tx");
}
__forceinline__ uint64_t mbarrier_arrive(const char* at, uint32_t times, uint32_t bytes, bool drops, bool completes,
                                         bool releases, const char* name) {
    return phase_arrive(at, {times, bytes, drops, completes, releases}, name);
}
__forceinline__ bool mbarrier_wait(const char* at, uint64_t state, bool acquires, const char* name) {
    return phase_over(at, phase_of(state), name, acquires);
}
__forceinline__ bool mbarrier_wait_parity(const char* at, uint32_t parity, bool acquires, const char* name) {
    return phase_over_parity(at, parity & 1, name, acquires);
}
__forceinline__ uint32_t mbarrier_pending_count(uint64_t state) { return pending_of(state); }
// The thread arrives when what it has copied so far is there. It is one of those expected (.noinc), or one more.
__forceinline__ void cp_async_mbarrier_arrive(const char* at, bool is_expected) {
    phase_waits_for_copies(at, "cp.async.mbarrier.arrive");
    if (is_expected) phase_arrive(at, {}, "cp.async.mbarrier.arrive.noinc");
}

__forceinline__ void bulk_load(char* to, const char* from, uint32_t bytes, const char* barrier, uint32_t mask,
                               const char* name) {
    ::cuda_on_cpu::bulk_load(to, from, bytes, barrier, mask, name);
}
__forceinline__ void bulk_store(char* to, const char* from, uint32_t bytes, const char* name) {
    ::cuda_on_cpu::bulk_store(to, from, bytes, name);
}
__forceinline__ void bulk_reduce(char* to, const char* from, uint32_t bytes, const char* barrier, int op, int type,
                                 const char* name) {
    ::cuda_on_cpu::bulk_reduce(to, from, bytes, barrier, op, type, name);
}
__forceinline__ void bulk_prefetch(const char* from, uint32_t bytes, const char* name) {
    ::cuda_on_cpu::bulk_prefetch(from, bytes, name);
}
__forceinline__ void bulk_commit() { ::cuda_on_cpu::bulk_commit(); }
__forceinline__ void bulk_wait(uint32_t prior, bool reads) { ::cuda_on_cpu::bulk_wait(prior, reads); }

__forceinline__ void fence_proxy_async_all() { fence_proxy(ProxyFence::all); }
__forceinline__ void fence_proxy_async_global() { fence_proxy(ProxyFence::global); }
__forceinline__ void fence_proxy_async_shared() { fence_proxy(ProxyFence::shared); }
__forceinline__ void fence_proxy_alias() {}  // an address is the same in every proxy here
__forceinline__ void fence_mbarrier_init() { fence_proxy(ProxyFence::init); }
__forceinline__ void setmaxnreg(uint32_t count, bool more, const char* name) { set_registers(count, more, name); }

}  // namespace cuda_on_cpu::ptx
