// In a trace, the memcpy, memmove and memset that a source calls are the trace's own (trace/hooks.cpp).
//
// No compiler reports their accesses. Copies of structs, which compilers make by calling memcpy too, are not affected.
#pragma once

#if defined(CUDA_ON_CPU_TRACE) && !defined(CUDA_ON_CPU_RUNTIME)
#include <cstddef>

#define CUDA_ON_CPU_TEXT_OF(name) #name
#define CUDA_ON_CPU_PREFIXED(prefix, name) CUDA_ON_CPU_TEXT_OF(prefix) #name  // `_` on macOS
extern "C" {
void* memcpy(void* to, const void* from, size_t bytes) noexcept
    __asm__(CUDA_ON_CPU_PREFIXED(__USER_LABEL_PREFIX__, cuda_on_cpu_memcpy));
void* memmove(void* to, const void* from, size_t bytes) noexcept
    __asm__(CUDA_ON_CPU_PREFIXED(__USER_LABEL_PREFIX__, cuda_on_cpu_memmove));
void* memset(void* to, int value, size_t bytes) noexcept
    __asm__(CUDA_ON_CPU_PREFIXED(__USER_LABEL_PREFIX__, cuda_on_cpu_memset));
}
#undef CUDA_ON_CPU_PREFIXED
#undef CUDA_ON_CPU_TEXT_OF
#endif
