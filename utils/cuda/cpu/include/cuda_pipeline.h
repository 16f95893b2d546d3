// Stands in for CUDA's header of this name when a source is compiled for the CPU.
//
// A copy is done at the wait, and no earlier. So a kernel that reads too early finds what was there before.
#pragma once

#define _CUDA_PIPELINE_H_  // by which sources ask whether this header was included
#include "cuda_on_cpu/device_functions.h"

namespace cuda_on_cpu {
// In runtime/copies.cpp: the place that calls them is the one that a trace names.
void async_copy(void* to, const void* from, size_t bytes, size_t zeros);
[[noreturn]] void wrong_size_of_copy(size_t bytes, size_t zeros);
[[noreturn]] void wrong_place_of_copy(bool from);  // or to
void async_commit();
void async_wait(size_t prior);
}  // namespace cuda_on_cpu

// 4, 8 or 16 bytes from global to shared memory, both aligned to that many; the last `zeros` of them become 0.
__forceinline__ void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    bool fits = (bytes == 4 || bytes == 8 || bytes == 16) && zeros <= bytes;
    if (!fits) ::cuda_on_cpu::wrong_size_of_copy(bytes, zeros);
    if (!__isShared(to)) ::cuda_on_cpu::wrong_place_of_copy(false);
    if (zeros < bytes && !__isGlobal(from)) ::cuda_on_cpu::wrong_place_of_copy(true);
    ::cuda_on_cpu::async_copy(to, from, bytes, zeros);
}
__forceinline__ void __pipeline_commit() { ::cuda_on_cpu::async_commit(); }
// Waits for all that this thread has committed but the last `prior` batches.
__forceinline__ void __pipeline_wait_prior(size_t prior) { ::cuda_on_cpu::async_wait(prior); }
