// Numbers of 16 bits as bits: IEEE 754's binary16 (5 bits of exponent, 10 of mantissa) and bfloat16 (8 and 7).
#pragma once

#include "rounding.h"
#ifdef CUDA_ON_CPU_TRACE
#include "unset.h"
#endif

namespace cuda_on_cpu {

template <int exponent_bits, int mantissa_bits>
struct Format {
    static constexpr unsigned int infinity = ((1u << exponent_bits) - 1) << mantissa_bits, sign = 0x8000, nan = 0x7fff;
    static constexpr int smallest_exponent = 2 - (1 << (exponent_bits - 1));  // of a normal number

    // What a float that is NaN becomes, given without its sign. A trace recognises what was made from an unset variable.
    static constexpr unsigned int nan_from([[maybe_unused]] uint32_t size) {
#ifdef CUDA_ON_CPU_TRACE
        return nan ^ is_unset_float(size) * (nan ^ (unset_value & 0xffff));
#else
        return nan;
#endif
    }

    // The bits of `x`, rounded once.
    template <Rounding rounding>
    static unsigned short from(double x) {
        const uint64_t bits = bit_cast<uint64_t>(x), size = bits & ~(1ull << 63);
        const unsigned int negative = bits >> 63 ? sign : 0;
        if (size > 0x7ffull << 52) return nan_from(0x7f800000 | uint32_t(size >> 29 & 0x7fffff));
        if (size == 0x7ffull << 52) return negative | infinity;
        // |x| = digits * 2^(exponent - 52). The last digit that is kept is worth 2^(lowest - mantissa_bits).
        const uint64_t digits = (size & ((1ull << 52) - 1)) | (size >> 52 ? 1ull << 52 : 0);
        const int exponent = (size >> 52 ? int(size >> 52) : 1) - 1023;
        const int lowest = exponent < smallest_exponent ? smallest_exponent : exponent;
        const int wanted = 52 - mantissa_bits + lowest - exponent, cut = wanted < 63 ? wanted : 63;
        const uint64_t rest = digits & ((1ull << cut) - 1), middle = 1ull << (cut - 1);
        uint64_t kept = digits >> cut;
        if constexpr (rounding == Rounding::nearest) kept += rest > middle || (rest == middle && (kept & 1));
        if constexpr (rounding == Rounding::up) kept += rest && !negative;
        if constexpr (rounding == Rounding::down) kept += rest && negative;
        // The first digit of a normal number counts the exponent up by one; so does a carry out of the mantissa.
        const uint64_t result = (uint64_t(lowest - smallest_exponent) << mantissa_bits) + kept;
        if (result < infinity) return negative | result;
        constexpr bool to_infinity = rounding == Rounding::nearest;
        const bool away = rounding == (negative ? Rounding::down : Rounding::up);
        return negative | (to_infinity || away ? infinity : infinity - 1);
    }

    // The same to nearest, from a float: no branches, so that the compiler may do several at once.
    static unsigned short nearest(float x) {
        const uint32_t bits = bit_cast<uint32_t>(x), size = bits & 0x7fffffff, negative = bits >> 16 & sign;
        constexpr int cut = 23 - mantissa_bits;
        uint32_t result = (size + ((1u << (cut - 1)) - 1) + (size >> cut & 1)) >> cut;
        if constexpr (exponent_bits < 8) {
            // Below the normal numbers the floating unit rounds: added to a number whose last bit is worth as much as
            // the format's last, x leaves its digits there.
            constexpr uint32_t rebias = uint32_t(127 - 1 + smallest_exponent) << mantissa_bits;
            const float above = bit_cast<float>(uint32_t(127 + smallest_exponent + cut) << 23);
            const float sum = bit_cast<float>(size) + above;
            const uint32_t small = bit_cast<uint32_t>(sum) - bit_cast<uint32_t>(above);
            result = size < uint32_t(127 + smallest_exponent) << 23 ? small : result - rebias;
            result = result > infinity ? infinity : result;
        }
        return negative | (size > 0x7f800000 ? nan_from(size) : result);
    }

    static float to_float(unsigned short bits) {
        uint32_t size = uint32_t(bits & 0x7fff) << (23 - mantissa_bits), negative = uint32_t(bits & sign) << 16;
        if constexpr (exponent_bits < 8) {
            const float scale = bit_cast<float>(uint32_t(2 * 127 - 1 + smallest_exponent) << 23);
            const uint32_t scaled = bit_cast<uint32_t>(bit_cast<float>(size) * scale);
            size = (bits & 0x7fffu) >= infinity ? size | 0x7f800000 : scaled;
        }
        return bit_cast<float>(size | negative);
    }
};

// An integer as a double that rounds to 16 bits as the integer would.
template <class T>
double exact_or_odd(T x) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
        const T limit = T(1) << 53;
        if (x >= limit || (T(-1) < T(0) && x <= T(0) - limit))
            return (double)(T)((x & ~T(0xfff)) | ((x & 0xfff) != 0) << 12);
    }
    return (double)x;
}

}  // namespace cuda_on_cpu
