// cvt: between integers and floats of all formats ("PTX ISA", cvt).
#pragma once

#include "../../cuda_fp8.h"
#include "registers.h"

namespace cuda_on_cpu::ptx {

template <class D, class A, bool sat>
__forceinline__ D to_integer_of(Bits<A> bits) {
    const A a = (A)bits;
    if constexpr (sat) {
        constexpr D low = std::is_signed_v<D> ? D(D(1) << (8 * sizeof(D) - 1)) : D(0), high = D(~low);
        if ((__int128)a < (__int128)low) return low;
        if ((__int128)a > (__int128)high) return high;
    }
    return (D)a;
}
template <class D, class A, Rounding r, bool sat>
__forceinline__ Bits<D> from_integer(Bits<A> bits) {
    if constexpr (is_half<D>) return result<D, r, false, sat>(exact_or_odd((A)bits));
    else if constexpr (sizeof(D) == 8) return result<D, Rounding::nearest, false, sat>(round_to<double>((A)bits, r));
    else return result<D, Rounding::nearest, false, sat>(round_to<float>((A)bits, r));
}
template <class D, class A, Rounding r, bool ftz>
__forceinline__ D to_integer_from(Bits<A> bits) {
    bits = flushed<A, ftz>(bits);
    using F = std::conditional_t<std::is_same_v<A, double>, double, float>;
    const F x = (F)value_of<A>(bits);
    if constexpr (sizeof(D) < 4) return x != x ? D(0) : to_integer<D>(x, r);
    else return to_integer<D>(x, r);
}
template <class D, bool ftz, bool sat>
__forceinline__ Bits<D> same(Bits<D> bits) {
    if (!sat && !ftz) return bits;
    return result<D, Rounding::nearest, ftz, sat>(value_of<D>(flushed<D, ftz>(bits)));
}
template <class D, Rounding r, bool ftz, bool sat>
__forceinline__ Bits<D> whole(Bits<D> bits) {
    return result<D, Rounding::nearest, ftz, sat>(whole_number(value_of<D>(flushed<D, ftz>(bits)), r));
}
template <class D, class A, Rounding r, bool ftz, bool sat, bool relu>
__forceinline__ Bits<D> to_float(Bits<A> bits) {
    constexpr bool in = ftz && std::is_same_v<A, float>, out = ftz && std::is_same_v<D, float>;
    return result<D, r, out, sat, relu>((double)value_of<A>(flushed<A, in>(bits)));
}

template <class P, Rounding r, bool relu>
__forceinline__ uint32_t to_pair(uint32_t high, uint32_t low) {
    using E = Element<P>;
    return (uint32_t)to_float<E, float, r, false, false, relu>(high) << 16 | to_float<E, float, r, false, false, relu>(low);
}

// E4M3 and E5M2: what is too large becomes the largest number.
template <bool relu>
inline uint8_t to_8_bits(double x, __nv_fp8_interpretation_t kind) {
    return to_fp8(relu && x < 0 ? 0.0 : x, __NV_SATFINITE, kind) & (relu && x == 0 ? 0x7f : 0xff);
}
#define CUDA_ON_CPU_FP8_PAIR(name, kind)                                                                        \
    template <bool relu>                                                                                        \
    uint16_t to_##name##x2(uint32_t high, uint32_t low) {                                                       \
        return to_8_bits<relu>(value_of<float>(high), kind) << 8 | to_8_bits<relu>(value_of<float>(low), kind); \
    }                                                                                                           \
    template <bool relu>                                                                                        \
    uint16_t to_##name##x2_from_halves(uint32_t x) {                                                            \
        return to_8_bits<relu>(Half::to_float(x >> 16), kind) << 8 |                                            \
               to_8_bits<relu>(Half::to_float((uint16_t)x), kind);                                              \
    }                                                                                                           \
    template <bool relu>                                                                                        \
    uint32_t from_##name##x2(uint16_t x) {                                                                      \
        constexpr Rounding r = Rounding::nearest;                                                               \
        return (uint32_t)result<Half, r, false, false, relu>(from_fp8(x >> 8, kind)) << 16 |                    \
               result<Half, r, false, false, relu>(from_fp8(x & 0xff, kind));                                   \
    }
CUDA_ON_CPU_FP8_PAIR(e4m3, __NV_E4M3)
CUDA_ON_CPU_FP8_PAIR(e5m2, __NV_E5M2)
#undef CUDA_ON_CPU_FP8_PAIR

// cvt.pack: two integers, saturated to `bits` each, `b` the lower one; above them what `c` has.
template <class A, int bits, bool is_signed>
uint32_t to_packed(uint32_t a, uint32_t b, uint32_t c = 0) {
    constexpr int64_t least = is_signed ? -(1 << (bits - 1)) : 0, most = least + (1 << bits) - 1;
    auto part = [](int64_t x) { return (uint32_t)(x < least ? least : x > most ? most : x) & ((1u << bits) - 1); };
    const uint32_t pair = part((A)a) << bits | part((A)b);
    if constexpr (bits == 16) return pair;
    else return c << 2 * bits | pair;
}

// TF32 has a float's exponent and 10 bits of mantissa.
inline uint32_t to_tf32_away(uint32_t x) {
    if (is_nan<float>(x)) return nan_bits;
    return (x & 0x7fffffff) >= 0x7f800000 ? x : (x + 0x1000) & ~0x1fffu;
}
template <Rounding r, bool relu>
uint32_t to_tf32(uint32_t x) {
    if (is_nan<float>(x)) return nan_bits;
    if (relu && x >> 31) return 0;
    if ((x & 0x7fffffff) >= 0x7f800000) return x;
    return (r == Rounding::nearest ? x + 0xfff + (x >> 13 & 1) : x) & ~0x1fffu;
}

}  // namespace cuda_on_cpu::ptx
