// The functions of CUDA's DPX: minima and maxima of sums and of three numbers, as dynamic programming needs them ("CUDA
// C++ Programming Guide", DPX).
//
// A name ends in the type of its numbers, 16x2 for two of 16 bits in one unsigned int; with _relu, a negative result
// becomes 0. Sums wrap around. __vibmax and __vibmin also say whether the result is their first argument.
#pragma once

#include "types.h"

namespace cuda_on_cpu::dpx {

// What `function` makes of one number of type T, or of two of 16 bits.
template <class T, class Function, class... Values>
__forceinline__ auto each(Function function, Values... values) {
    if constexpr (sizeof(T) == 4) return function((T)values...);
    else
        return (unsigned)(unsigned short)function((T)values...) |
               (unsigned)(unsigned short)function((T)(values >> 16)...) << 16;
}
template <class T> __forceinline__ T most(T a, T b) { return a < b ? b : a; }
template <class T> __forceinline__ T least(T a, T b) { return b < a ? b : a; }
template <class T> __forceinline__ T sum(T a, T b) { return (T)((unsigned)a + (unsigned)b); }

}  // namespace cuda_on_cpu::dpx

#define CUDA_ON_CPU_DPX_PAIR(name, R, T, expression)                                                                  \
    inline R name(R a, R b) {                                                                                         \
        using namespace cuda_on_cpu::dpx;                                                                             \
        return each<T>([](T a, T b) -> T { return expression; }, a, b);                                               \
    }
#define CUDA_ON_CPU_DPX_TRIPLE(name, R, T, expression)                                                                \
    inline R name(R a, R b, R c) {                                                                                    \
        using namespace cuda_on_cpu::dpx;                                                                             \
        return each<T>([](T a, T b, T c) -> T { return expression; }, a, b, c);                                       \
    }
#define CUDA_ON_CPU_DPX(end, R, T, or_0)                                                                              \
    CUDA_ON_CPU_DPX_TRIPLE(__vimax3_##end, R, T, or_0(most(most(a, b), c)))                                           \
    CUDA_ON_CPU_DPX_TRIPLE(__vimin3_##end, R, T, or_0(least(least(a, b), c)))                                         \
    CUDA_ON_CPU_DPX_TRIPLE(__viaddmax_##end, R, T, or_0(most(sum(a, b), c)))                                          \
    CUDA_ON_CPU_DPX_TRIPLE(__viaddmin_##end, R, T, or_0(least(sum(a, b), c)))
#define CUDA_ON_CPU_DPX_RELU(end, R, T)                                                                               \
    CUDA_ON_CPU_DPX(end##_relu, R, T, CUDA_ON_CPU_DPX_OR_0)                                                           \
    CUDA_ON_CPU_DPX_PAIR(__vimax_##end##_relu, R, T, CUDA_ON_CPU_DPX_OR_0(most(a, b)))                                \
    CUDA_ON_CPU_DPX_PAIR(__vimin_##end##_relu, R, T, CUDA_ON_CPU_DPX_OR_0(least(a, b)))
#define CUDA_ON_CPU_DPX_OR_0(x) most<decltype(a)>(x, 0)

CUDA_ON_CPU_DPX(s32, int, int, )
CUDA_ON_CPU_DPX(u32, unsigned int, unsigned int, )
CUDA_ON_CPU_DPX(s16x2, unsigned int, short, )
CUDA_ON_CPU_DPX(u16x2, unsigned int, unsigned short, )
CUDA_ON_CPU_DPX_RELU(s32, int, int)
CUDA_ON_CPU_DPX_RELU(s16x2, unsigned int, short)

#define CUDA_ON_CPU_DPX_CHOICE(name, end, T, pick)                                                                    \
    inline T name##_##end##32(T a, T b, bool* first) {                                                                \
        T result = cuda_on_cpu::dpx::pick(a, b);                                                                      \
        *first = result == a;                                                                                         \
        return result;                                                                                                \
    }                                                                                                                 \
    inline unsigned int name##_##end##16x2(unsigned int a, unsigned int b, bool* first_high, bool* first_low) {       \
        using Half = cuda_on_cpu::dpx::Half_##end;                                                                    \
        unsigned int result = cuda_on_cpu::dpx::each<Half>(&cuda_on_cpu::dpx::pick<Half>, a, b);                      \
        *first_high = result >> 16 == a >> 16;                                                                        \
        *first_low = (unsigned short)result == (unsigned short)a;                                                     \
        return result;                                                                                                \
    }
namespace cuda_on_cpu::dpx {
using Half_s = short;
using Half_u = unsigned short;
}  // namespace cuda_on_cpu::dpx
CUDA_ON_CPU_DPX_CHOICE(__vibmax, s, int, most)
CUDA_ON_CPU_DPX_CHOICE(__vibmax, u, unsigned int, most)
CUDA_ON_CPU_DPX_CHOICE(__vibmin, s, int, least)
CUDA_ON_CPU_DPX_CHOICE(__vibmin, u, unsigned int, least)

#undef CUDA_ON_CPU_DPX_CHOICE
#undef CUDA_ON_CPU_DPX_OR_0
#undef CUDA_ON_CPU_DPX_RELU
#undef CUDA_ON_CPU_DPX
#undef CUDA_ON_CPU_DPX_TRIPLE
#undef CUDA_ON_CPU_DPX_PAIR
