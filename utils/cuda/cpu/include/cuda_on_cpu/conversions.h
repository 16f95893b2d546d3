// Between integers and floating numbers: rounded as the name says, or the same bits ("CUDA Math API", Type Casting).
#pragma once

#include "rounding.h"

#define CUDA_ON_CPU_TO_INTEGER(ending, direction, from, F, to, I) \
    inline I __##from##2##to##ending(F x) {                       \
        return cuda_on_cpu::to_integer<I>(x, cuda_on_cpu::Rounding::direction); \
    }
#define CUDA_ON_CPU_FROM_INTEGER(ending, direction, from, F, to, I) \
    inline F __##to##2##from##ending(I x) { return cuda_on_cpu::round_to<F>(x, cuda_on_cpu::Rounding::direction); }
#define CUDA_ON_CPU_BOTH_WAYS(F, name, I)                             \
    CUDA_ON_CPU_ROUNDINGS(CUDA_ON_CPU_TO_INTEGER, F, F, name, I)      \
    CUDA_ON_CPU_ROUNDINGS(CUDA_ON_CPU_FROM_INTEGER, F, F, name, I)
CUDA_ON_CPU_BOTH_WAYS(float, int, int)
CUDA_ON_CPU_BOTH_WAYS(float, uint, unsigned int)
CUDA_ON_CPU_BOTH_WAYS(float, ll, long long)
CUDA_ON_CPU_BOTH_WAYS(float, ull, unsigned long long)
CUDA_ON_CPU_BOTH_WAYS(double, int, int)
CUDA_ON_CPU_BOTH_WAYS(double, uint, unsigned int)
CUDA_ON_CPU_BOTH_WAYS(double, ll, long long)
CUDA_ON_CPU_BOTH_WAYS(double, ull, unsigned long long)
#define CUDA_ON_CPU_NARROW(ending, direction, ...) \
    inline float __double2float##ending(double x) {                            \
        return cuda_on_cpu::round_to<float>(x, cuda_on_cpu::Rounding::direction); \
    }
CUDA_ON_CPU_ROUNDINGS(CUDA_ON_CPU_NARROW)
#undef CUDA_ON_CPU_NARROW
#undef CUDA_ON_CPU_BOTH_WAYS
#undef CUDA_ON_CPU_FROM_INTEGER
#undef CUDA_ON_CPU_TO_INTEGER

__forceinline__ int __float_as_int(float x) { return cuda_on_cpu::bit_cast<int>(x); }
__forceinline__ unsigned int __float_as_uint(float x) { return cuda_on_cpu::bit_cast<unsigned int>(x); }
__forceinline__ float __int_as_float(int x) { return cuda_on_cpu::bit_cast<float>(x); }
__forceinline__ float __uint_as_float(unsigned int x) { return cuda_on_cpu::bit_cast<float>(x); }
__forceinline__ long long __double_as_longlong(double x) { return cuda_on_cpu::bit_cast<long long>(x); }
__forceinline__ double __longlong_as_double(long long x) { return cuda_on_cpu::bit_cast<double>(x); }
__forceinline__ int __double2hiint(double x) { return __double_as_longlong(x) >> 32; }
__forceinline__ int __double2loint(double x) { return (int)__double_as_longlong(x); }
__forceinline__ double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned int)hi << 32 | (unsigned int)lo));
}
