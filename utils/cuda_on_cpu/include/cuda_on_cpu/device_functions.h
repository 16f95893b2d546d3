// Functions that device code may call without an include: arithmetic, atomics, read-only loads.
#pragma once

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "launch.h"

// min and max, for every pair of arithmetic types that the usual conversions bring together.
template <class A, class B> constexpr auto min(A a, B b) -> decltype(a + b) { return b < a ? b : a; }
template <class A, class B> constexpr auto max(A a, B b) -> decltype(a + b) { return a < b ? b : a; }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __clz(unsigned int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }

template <class T> T __ldg(const T* p) { return *p; }

// Atomics return the old value. Blocks run on several cores, so they are atomic on the CPU too.
namespace cuda_on_cpu {
template <class T, class Change>
T atomically(T* p, Change change) {
    T old, changed;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do changed = change(old);
    while (!__atomic_compare_exchange(p, &old, &changed, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_ATOMIC(name, expression)                                                                  \
    template <class T> T name(T* p, std::type_identity_t<T> v) {                                  \
        return cuda_on_cpu::atomically(p, [=](T old) -> T { return expression; });                            \
    }
CUDA_ON_CPU_ATOMIC(atomicAdd, old + v)
CUDA_ON_CPU_ATOMIC(atomicSub, old - v)
CUDA_ON_CPU_ATOMIC(atomicMin, v < old ? v : old)
CUDA_ON_CPU_ATOMIC(atomicMax, old < v ? v : old)
CUDA_ON_CPU_ATOMIC(atomicExch, v)
CUDA_ON_CPU_ATOMIC(atomicAnd, old & v)
CUDA_ON_CPU_ATOMIC(atomicOr, old | v)
CUDA_ON_CPU_ATOMIC(atomicXor, old ^ v)
CUDA_ON_CPU_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
CUDA_ON_CPU_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef CUDA_ON_CPU_ATOMIC
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
    return cuda_on_cpu::atomically(p, [=](T old) -> T { return old == expected ? v : old; });
}
