// Which memory an address is in, and addresses within one of them. On a CPU all of it has one numbering; only a shared
// address is also a number of its own, counted from where the block's shared memory begins.
#pragma once

#include "launch.h"

namespace cuda_on_cpu {
bool is_shared(const void* p);  // of the running block
bool is_cluster_shared(const void* p);  // of a block of its cluster
bool is_local(const void* p);   // of the running thread
unsigned char* shared_memory();
}  // namespace cuda_on_cpu

inline unsigned int __isShared(const void* p) { return cuda_on_cpu::is_shared(p); }
inline unsigned int __isLocal(const void* p) { return cuda_on_cpu::is_local(p); }
inline unsigned int __isGlobal(const void* p) { return !cuda_on_cpu::is_cluster_shared(p) && !cuda_on_cpu::is_local(p); }

inline size_t __cvta_generic_to_shared(const void* p) { return (const unsigned char*)p - cuda_on_cpu::shared_memory(); }
inline void* __cvta_shared_to_generic(size_t p) { return cuda_on_cpu::shared_memory() + p; }
inline size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
inline void* __cvta_global_to_generic(size_t p) { return (void*)p; }
inline size_t __cvta_generic_to_local(const void* p) { return (size_t)p; }
inline void* __cvta_local_to_generic(size_t p) { return (void*)p; }
