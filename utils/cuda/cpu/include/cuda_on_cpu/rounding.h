// Rounding in the four directions that a GPU knows, without changing the processor's own, which rounds to nearest.
#pragma once

#include <cstdint>
#include <type_traits>

#include <math.h>

#include "types.h"

namespace cuda_on_cpu {

template <class To, class From>
constexpr To bit_cast(From x) {  // C++17 lacks std::bit_cast
    return __builtin_bit_cast(To, x);
}

enum class Rounding { nearest, zero, up, down };  // CUDA's endings _rn, _rz, _ru, _rd

// Results that are not representable are kept as a double whose last bit is set ("round to odd"): cut to a shorter
// format afterwards, such a number falls on the same side as the exact one (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008). `error` has the sign of exact minus `x`.
inline double odd(double x, double error) {
    if (!(error < 0 || error > 0) || !(x - x == 0)) return x;  // 0 / inf has no error that is a number
    if (x == 0) return error < 0 ? -0x1p-1074 : 0x1p-1074;
    uint64_t bits = bit_cast<uint64_t>(x);
    if (!(bits & 1)) bits += (error > 0) == (x > 0) ? 1 : -1;
    return bit_cast<double>(bits);
}
// The error of a sum is exact: Knuth's TwoSum ("The Art of Computer Programming" 2, 4.2.2). A sum of opposite numbers is
// +0, or -0 if it is rounded down.
inline double odd_sum(double a, double b, Rounding rounding = Rounding::nearest) {
    double x = a + b, b_seen = x - a;
    if (x == 0 && rounding == Rounding::down && __builtin_signbit(a) != __builtin_signbit(b)) return -0.0;
    return odd(x, (a - (x - b_seen)) + (b - b_seen));
}
inline double odd_quotient(double a, double b) {
    double x = a / b, rest = fma(-x, b, a);
    return odd(x, b < 0 ? -rest : rest);
}
inline double odd_root(double a) {
    double x = sqrt(a);
    return odd(x, fma(-x, x, a));
}

// A number of floating type F next to the exact `x`, a double or an integer. The direction is no template parameter: in
// every build, a compiler instantiates the templates that a header's inline functions use, even if nobody calls these.
template <class F, class Exact>
__forceinline__ F round_to(Exact x, Rounding rounding) {
    F nearest = (F)x;
    if (rounding == Rounding::nearest) return nearest;
    // Sign of nearest minus x. Integers are compared as such: a double may not hold them.
    bool above, below;
    if constexpr (std::is_integral_v<Exact>) {
        above = (__int128)nearest > (__int128)x;
        below = (__int128)nearest < (__int128)x;
    } else {
        above = nearest > x;
        below = nearest < x;
    }
    bool negative = x < 0;
    bool want_lower = rounding == Rounding::down || (rounding == Rounding::zero && !negative);
    bool want_higher = rounding == Rounding::up || (rounding == Rounding::zero && negative);
    if (want_lower && above) return nextafter(nearest, F(-INFINITY));
    if (want_higher && below) return nextafter(nearest, F(INFINITY));
    return nearest;
}

// The whole number next to x, and as an integer: too large a number becomes the largest there is, and NaN what the GPU
// makes of it ("PTX ISA", cvt).
template <class F>
__forceinline__ F whole_number(F x, Rounding rounding) {
    return rounding == Rounding::nearest ? __builtin_rint(x)
         : rounding == Rounding::zero    ? __builtin_trunc(x)
         : rounding == Rounding::up      ? __builtin_ceil(x)
                                         : __builtin_floor(x);
}
template <class Integer, class F>
__forceinline__ Integer to_integer(F x, Rounding rounding) {
    constexpr int bits = 8 * sizeof(Integer);
    constexpr bool is_signed = Integer(-1) < Integer(0);
    constexpr Integer low = is_signed ? Integer(1ull << (bits - 1)) : 0, high = ~low;
    if (x != x) return sizeof(F) == 8 || bits == 64 ? Integer(1ull << (bits - 1)) : 0;
    x = whole_number(x, rounding);
    if (x < F(low)) return low;
    if (x >= F(high / 2 + 1) * 2) return high;
    return (Integer)x;
}

}  // namespace cuda_on_cpu

// Calls `define(ending, rounding)` for each direction.
#define CUDA_ON_CPU_ROUNDINGS(define, ...)       \
    define(_rn, nearest, __VA_ARGS__)            \
    define(_rz, zero, __VA_ARGS__)               \
    define(_ru, up, __VA_ARGS__)                 \
    define(_rd, down, __VA_ARGS__)
