// CUDA's functions of floating numbers that C++ lacks ("CUDA Math API").
//
// A GPU's fast ones (__expf and the like) are less accurate than the C++ ones that replace them here.
#pragma once

#include <math.h>

#include "conversions.h"

// ---- smallest and largest: of a number and a NaN, the number; and -0 is smaller than +0 ----------------------------

namespace cuda_on_cpu {
template <class T>  // an enum without `class` counts as a number
constexpr bool is_number = std::is_arithmetic_v<T> || (std::is_enum_v<T> && std::is_convertible_v<T, int>);
template <class A, class B>
using OfNumbers = std::enable_if_t<is_number<A> && is_number<B>>;
}
#define CUDA_ON_CPU_BOTH_ZERO(T) ((T)a == 0 && (T)b == 0)
#define CUDA_ON_CPU_SMALLER(T) ((T)b < (T)a || (T)a != (T)a ? (T)b : CUDA_ON_CPU_BOTH_ZERO(T) ? -(-(T)a - (T)b) : (T)a)
#define CUDA_ON_CPU_LARGER(T) ((T)a < (T)b || (T)a != (T)a ? (T)b : CUDA_ON_CPU_BOTH_ZERO(T) ? (T)a + (T)b : (T)a)
template <class A, class B, class = cuda_on_cpu::OfNumbers<A, B>>
constexpr auto min(A a, B b) -> decltype(a + b) {
    return CUDA_ON_CPU_SMALLER(decltype(a + b));
}
template <class A, class B, class = cuda_on_cpu::OfNumbers<A, B>>
constexpr auto max(A a, B b) -> decltype(a + b) {
    return CUDA_ON_CPU_LARGER(decltype(a + b));
}
// CUDA's own overloads, for classes that convert to numbers, such as torch's Half.
#define CUDA_ON_CPU_OF_NUMBERS(T, A, B)                            \
    constexpr T min(A a, B b) { return CUDA_ON_CPU_SMALLER(T); }   \
    constexpr T max(A a, B b) { return CUDA_ON_CPU_LARGER(T); }
#define CUDA_ON_CPU_OF_INTEGERS(T)                                 \
    CUDA_ON_CPU_OF_NUMBERS(T, T, T)                                \
    CUDA_ON_CPU_OF_NUMBERS(unsigned T, T, unsigned T)              \
    CUDA_ON_CPU_OF_NUMBERS(unsigned T, unsigned T, T)              \
    CUDA_ON_CPU_OF_NUMBERS(unsigned T, unsigned T, unsigned T)
CUDA_ON_CPU_OF_INTEGERS(int)
CUDA_ON_CPU_OF_INTEGERS(long)
CUDA_ON_CPU_OF_INTEGERS(long long)
CUDA_ON_CPU_OF_NUMBERS(float, float, float)
CUDA_ON_CPU_OF_NUMBERS(double, float, double)
CUDA_ON_CPU_OF_NUMBERS(double, double, float)
CUDA_ON_CPU_OF_NUMBERS(double, double, double)
#undef CUDA_ON_CPU_OF_INTEGERS
#undef CUDA_ON_CPU_OF_NUMBERS
#undef CUDA_ON_CPU_BOTH_ZERO
#undef CUDA_ON_CPU_SMALLER
#undef CUDA_ON_CPU_LARGER
constexpr unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
constexpr unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
constexpr long long llmin(long long a, long long b) { return min(a, b); }
constexpr long long llmax(long long a, long long b) { return max(a, b); }
constexpr unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
constexpr unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

// ---- mathematics ----------------------------------------------------------------------------------------------------

// Newer C libraries have some of these themselves.
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 41)
#define CUDA_ON_CPU_HAS_PI_FUNCTIONS
#endif
#if __GLIBC_PREREQ(2, 42)
#define CUDA_ON_CPU_HAS_RSQRT
#endif
#else
inline float exp10f(float x) { return powf(10.0f, x); }
inline double exp10(double x) { return pow(10.0, x); }
inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
#endif

#ifndef CUDA_ON_CPU_HAS_RSQRT
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
#endif
inline double copysign(float x, double y) { return __builtin_copysign(x, y); }
inline double copysign(double x, float y) { return __builtin_copysign(x, y); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float fdividef(float x, float y) { return x / y; }

// sin(pi x) and cos(pi x): x is first brought to within a quarter of a zero, which loses nothing.
namespace cuda_on_cpu {
template <class F>
void sine_and_cosine_of_pi(F x, F* s, F* c) {
    if (fabs(x) > 2) x = fmod(x, F(2));  // NaN if x is infinite
    F quarters = rint(2 * x), rest = F(M_PI) * (x - quarters / 2);
    F sine = sin(rest), cosine = cos(rest);
    int turn = quarters - quarters == 0 ? int(fmod(quarters, F(4))) & 3 : 0;
    *s = turn == 0 ? sine : turn == 1 ? cosine : turn == 2 ? -sine : -cosine;
    *c = (turn == 0 ? cosine : turn == 1 ? -sine : turn == 2 ? -cosine : sine) + F(0);  // a zero is +0
    if (x == trunc(x)) *s = copysign(F(0), x);
}
}  // namespace cuda_on_cpu
inline void sincospif(float x, float* s, float* c) { cuda_on_cpu::sine_and_cosine_of_pi(x, s, c); }
inline void sincospi(double x, double* s, double* c) { cuda_on_cpu::sine_and_cosine_of_pi(x, s, c); }
#ifndef CUDA_ON_CPU_HAS_PI_FUNCTIONS
inline float sinpif(float x) { float s, c; return sincospif(x, &s, &c), s; }
inline float cospif(float x) { float s, c; return sincospif(x, &s, &c), c; }
inline double sinpi(double x) { double s, c; return sincospi(x, &s, &c), s; }
inline double cospi(double x) { double s, c; return sincospi(x, &s, &c), c; }
#endif

inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline float normcdff(float x) { return (float)normcdf(x); }
// exp(x^2) erfc(x). Where erfc is too small to be a double, its asymptotic series (DLMF 7.12.1) has converged.
inline double erfcx(double x) {
    if (x < 25) return exp(x * x) * erfc(x);
    double term = 1, sum = 1;
    for (int n = 1; n < 8; n++) sum += term *= -(2 * n - 1) / (2 * x * x);
    return sum / (x * 1.7724538509055160273);  // the root of pi
}
inline float erfcxf(float x) { return (float)erfcx(x); }

// Lengths. In double precision, so that no square is too large. With an infinite part they are infinite, even beside a
// NaN (CUDA Math API, norm3df).
namespace cuda_on_cpu {
inline double length(float x, float y, float z = 0, float w = 0) {
    for (float part : {x, y, z, w})
        if (__builtin_isinf(part)) return __builtin_inf();
    return sqrt((double)x * x + (double)y * y + (double)z * z + (double)w * w);
}
}  // namespace cuda_on_cpu
inline float rhypotf(float x, float y) { return 1 / cuda_on_cpu::length(x, y); }
inline float norm3df(float x, float y, float z) { return cuda_on_cpu::length(x, y, z); }
inline float rnorm3df(float x, float y, float z) { return 1 / cuda_on_cpu::length(x, y, z); }
inline float norm4df(float x, float y, float z, float w) { return cuda_on_cpu::length(x, y, z, w); }
inline float rnorm4df(float x, float y, float z, float w) { return 1 / cuda_on_cpu::length(x, y, z, w); }

__forceinline__ float __expf(float x) { return expf(x); }
__forceinline__ float __exp10f(float x) { return exp10f(x); }
__forceinline__ float __logf(float x) { return logf(x); }
__forceinline__ float __log2f(float x) { return log2f(x); }
__forceinline__ float __log10f(float x) { return log10f(x); }
__forceinline__ float __sinf(float x) { return sinf(x); }
__forceinline__ float __cosf(float x) { return cosf(x); }
__forceinline__ float __tanf(float x) { return tanf(x); }
__forceinline__ float __tanhf(float x) { return tanhf(x); }
__forceinline__ void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
__forceinline__ float __powf(float x, float y) { return exp2f(y * log2f(x)); }  // so nvcc, too: of x < 0, a NaN
__forceinline__ float __fdividef(float x, float y) {  // beyond 2^126, the inverse of y is 0
    return fabsf(y) > 0x1p126f && fabsf(y) < __builtin_inff() ? x * copysignf(0.0f, y) : x / y;
}
__forceinline__ float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // a NaN becomes 0

// ---- arithmetic with the rounding in its name -----------------------------------------------------------------------

namespace cuda_on_cpu {
// The result of these is never fused with another operation. Where the machine could, this keeps the compiler from it.
template <class F>
__forceinline__ F unfused(F x) {
#if defined(__FMA__)
    asm("" : "+x"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}
}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_ARITHMETIC(F, prefix, suffix)                                                            \
    __forceinline__ F __##prefix##add_rn(F x, F y) { return cuda_on_cpu::unfused(x + y); }                   \
    __forceinline__ F __##prefix##sub_rn(F x, F y) { return cuda_on_cpu::unfused(x - y); }                   \
    __forceinline__ F __##prefix##mul_rn(F x, F y) { return cuda_on_cpu::unfused(x * y); }                   \
    __forceinline__ F __##prefix##div_rn(F x, F y) { return x / y; }                                         \
    __forceinline__ F __##prefix##rcp_rn(F x) { return F(1) / x; }                                           \
    __forceinline__ F __##prefix##sqrt_rn(F x) { return sqrt(x); }                                           \
    __forceinline__ F __fma##suffix##_rn(F x, F y, F z) { return fma(x, y, z); }
CUDA_ON_CPU_ARITHMETIC(float, f, f)
CUDA_ON_CPU_ARITHMETIC(double, d, )
#undef CUDA_ON_CPU_ARITHMETIC
__forceinline__ float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }

#define CUDA_ON_CPU_DIRECTED(ending, direction, ...)                                                             \
    inline float __fadd##ending(float x, float y) {                                                              \
        return __double2float##ending(cuda_on_cpu::odd_sum(x, y, cuda_on_cpu::Rounding::direction));             \
    }                                                                                                            \
    inline float __fsub##ending(float x, float y) { return __fadd##ending(x, -y); }                              \
    inline float __fmul##ending(float x, float y) { return __double2float##ending((double)x * y); }              \
    inline float __fmaf##ending(float x, float y, float z) {                                                     \
        return __double2float##ending(cuda_on_cpu::odd_sum((double)x * y, z, cuda_on_cpu::Rounding::direction)); \
    }                                                                                                            \
    inline float __fdiv##ending(float x, float y) { return __double2float##ending(cuda_on_cpu::odd_quotient(x, y)); } \
    inline float __frcp##ending(float x) { return __double2float##ending(cuda_on_cpu::odd_quotient(1, x)); }     \
    inline float __fsqrt##ending(float x) { return __double2float##ending(cuda_on_cpu::odd_root(x)); }
CUDA_ON_CPU_DIRECTED(_rz, zero)
CUDA_ON_CPU_DIRECTED(_ru, up)
CUDA_ON_CPU_DIRECTED(_rd, down)
#undef CUDA_ON_CPU_DIRECTED
