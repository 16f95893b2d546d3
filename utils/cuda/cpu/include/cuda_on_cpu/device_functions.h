// Functions that device code may call without an include, each in the file of its theme.
#pragma once

#include <climits>
#include <cstdio>
#include <ctime>

#include <assert.h>

#include "atomics.h"
#include "conversions.h"
#include "floats.h"
#include "integers.h"
#include "launch.h"
#include "simd.h"
#include "clusters.h"
#include "special.h"
#include "warp.h"

// Loads and stores that tell a GPU's caches what to keep. Here they are loads and stores.
#define CUDA_ON_CPU_LOAD(name) \
    template <class T> __forceinline__ T name(const T* p) { return *p; }
CUDA_ON_CPU_LOAD(__ldcg)
CUDA_ON_CPU_LOAD(__ldca)
CUDA_ON_CPU_LOAD(__ldcs)
CUDA_ON_CPU_LOAD(__ldlu)
CUDA_ON_CPU_LOAD(__ldcv)
#undef CUDA_ON_CPU_LOAD
template <class T> __forceinline__ T __ldg(const T* p) {
#ifdef CUDA_ON_CPU_TRACE
    ::cuda_on_cpu::look_at_ldg(p, sizeof(T));
#endif
    return *p;
}
#define CUDA_ON_CPU_STORE(name) \
    template <class T> __forceinline__ void name(T* p, cuda_on_cpu::NotDeduced<T> value) { *p = value; }
CUDA_ON_CPU_STORE(__stcg)
CUDA_ON_CPU_STORE(__stcs)
CUDA_ON_CPU_STORE(__stwb)
CUDA_ON_CPU_STORE(__stwt)
#undef CUDA_ON_CPU_STORE

// What NVIDIA's profilers count.
inline void __prof_trigger(int) {}
inline unsigned int __pm0() { return 0; }
inline unsigned int __pm1() { return 0; }
inline unsigned int __pm2() { return 0; }
inline unsigned int __pm3() { return 0; }

inline void __threadfence() { ::cuda_on_cpu::fence(); }
inline void __threadfence_block() { ::cuda_on_cpu::fence(true); }
inline void __threadfence_system() { ::cuda_on_cpu::fence(); }

inline long long clock64() { return ::cuda_on_cpu::device_clock(); }  // `clock` has C's declaration
// Here a launch begins when the one before it has ended, so there is nothing to wait for.
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() {}
inline void __nanosleep(unsigned int) { ::cuda_on_cpu::nap(); }
[[noreturn]] __forceinline__ void __trap() { ::cuda_on_cpu::trap(); }
[[noreturn]] __forceinline__ void __brkpt() { ::cuda_on_cpu::trap(); }

#ifndef __clang__
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif
#define __assume(condition) __builtin_assume(condition)
