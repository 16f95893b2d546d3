// Arithmetic of inline PTX ("PTX ISA": Integer, Floating-Point and Half Precision Instructions).
#pragma once

#include "registers.h"

namespace cuda_on_cpu::ptx {

// ---- integers; signed ones wrap -------------------------------------------------------------------------------------

template <class T> using EnableInteger = std::enable_if_t<std::is_integral_v<T>>;
template <class T> using Wide = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T, class = EnableInteger<T>> __forceinline__ Bits<T> add(Bits<T> a, Bits<T> b) { return a + b; }
template <class T, class = EnableInteger<T>> __forceinline__ Bits<T> sub(Bits<T> a, Bits<T> b) { return a - b; }
inline uint32_t clamped(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x; }
inline uint32_t add_saturated(uint32_t a, uint32_t b) { return clamped((int64_t)(int32_t)a + (int32_t)b); }
inline uint32_t sub_saturated(uint32_t a, uint32_t b) { return clamped((int64_t)(int32_t)a - (int32_t)b); }
inline uint32_t add_pairs(uint32_t a, uint32_t b) {
    return each_half([](uint16_t x, uint16_t y) { return (uint16_t)(x + y); }, a, b);
}

template <class T> __forceinline__ Wide<T> product(Bits<T> a, Bits<T> b) { return (Wide<T>)(T)a * (Wide<T>)(T)b; }
template <class T> __forceinline__ Bits<T> mul_lo(Bits<T> a, Bits<T> b) { return (Bits<T>)product<T>(a, b); }
template <class T> __forceinline__ Bits<T> mul_hi(Bits<T> a, Bits<T> b) { return product<T>(a, b) >> bits_in<T>; }
template <class T> __forceinline__ Unsigned<2 * sizeof(T)> mul_wide(Bits<T> a, Bits<T> b) { return product<T>(a, b); }
template <class T> __forceinline__ Bits<T> mad_lo(Bits<T> a, Bits<T> b, Bits<T> c) { return mul_lo<T>(a, b) + c; }
template <class T> __forceinline__ Bits<T> mad_hi(Bits<T> a, Bits<T> b, Bits<T> c) { return mul_hi<T>(a, b) + c; }
template <class T>
__forceinline__ Unsigned<2 * sizeof(T)> mad_wide(Bits<T> a, Bits<T> b, Unsigned<2 * sizeof(T)> c) {
    return mul_wide<T>(a, b) + c;
}
inline uint32_t mad_hi_saturated(uint32_t a, uint32_t b, uint32_t c) {
    return clamped((int64_t)(int32_t)mul_hi<int32_t>(a, b) + (int32_t)c);
}
template <class T> int64_t low_24(uint32_t x) { return std::is_signed_v<T> ? (int32_t)(x << 8) >> 8 : x & 0xffffff; }
template <class T> uint32_t mul24_lo(uint32_t a, uint32_t b) { return low_24<T>(a) * low_24<T>(b); }
template <class T> uint32_t mul24_hi(uint32_t a, uint32_t b) { return (uint64_t)(low_24<T>(a) * low_24<T>(b)) >> 16; }
template <class T> uint32_t mad24_lo(uint32_t a, uint32_t b, uint32_t c) { return mul24_lo<T>(a, b) + c; }
template <class T> uint32_t mad24_hi(uint32_t a, uint32_t b, uint32_t c) { return mul24_hi<T>(a, b) + c; }
template <class T>
Bits<T> sad(Bits<T> a, Bits<T> b, Bits<T> c) { return c + ((T)a < (T)b ? b - a : a - b); }

// What PTX leaves undefined must not end the process: a quotient by zero is all ones, the rest is the dividend.
template <class T, class = EnableInteger<T>>
__forceinline__ Bits<T> div(Bits<T> a, Bits<T> b) {
    if (b == 0) return (Bits<T>)~Bits<T>(0);
    if (std::is_signed_v<T> && b == (Bits<T>)~Bits<T>(0)) return (Bits<T>)(0 - a);
    return (T)a / (T)b;
}
template <class T>
__forceinline__ Bits<T> rem(Bits<T> a, Bits<T> b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == (Bits<T>)~Bits<T>(0)) return 0;
    return (T)a % (T)b;
}
template <class T, class = EnableInteger<T>> __forceinline__ Bits<T> abs(Bits<T> a) { return (T)a < 0 ? 0 - a : a; }
template <class T, class = EnableInteger<T>> __forceinline__ Bits<T> neg(Bits<T> a) { return 0 - a; }
template <class T, class = EnableInteger<T>>
__forceinline__ Bits<T> min(Bits<T> a, Bits<T> b) { return (T)b < (T)a ? b : a; }
template <class T, class = EnableInteger<T>>
__forceinline__ Bits<T> max(Bits<T> a, Bits<T> b) { return (T)a < (T)b ? b : a; }
template <class E>
__forceinline__ uint32_t min_pairs(uint32_t a, uint32_t b) {
    return each_half([](uint16_t x, uint16_t y) { return min<E>(x, y); }, a, b);
}
template <class E>
__forceinline__ uint32_t max_pairs(uint32_t a, uint32_t b) {
    return each_half([](uint16_t x, uint16_t y) { return max<E>(x, y); }, a, b);
}
inline uint32_t min_pairs_relu(uint32_t a, uint32_t b) { return max_pairs<int16_t>(0, min_pairs<int16_t>(a, b)); }
inline uint32_t max_pairs_relu(uint32_t a, uint32_t b) { return max_pairs<int16_t>(0, max_pairs<int16_t>(a, b)); }
inline uint32_t max_relu(uint32_t a, uint32_t b) { return max<int32_t>(0, max<int32_t>(a, b)); }
inline uint32_t min_relu(uint32_t a, uint32_t b) { return max<int32_t>(0, min<int32_t>(a, b)); }

// |a - b| of numbers of different types, then .add, .min or .max ("PTX ISA", Scalar Video Instructions).
template <class T, class A, class B, bool sat>
uint32_t vabsdiff(uint32_t a, uint32_t b) {
    const int64_t difference = (int64_t)(A)a - (int64_t)(B)b, size = difference < 0 ? -difference : difference;
    constexpr int64_t most = std::is_signed_v<T> ? INT32_MAX : UINT32_MAX;
    return sat && size > most ? most : size;
}
template <class T, class A, class B, bool sat>
uint32_t vabsdiff_add(uint32_t a, uint32_t b, uint32_t c) { return add<T>(vabsdiff<T, A, B, sat>(a, b), c); }
template <class T, class A, class B, bool sat>
uint32_t vabsdiff_min(uint32_t a, uint32_t b, uint32_t c) { return min<T>(vabsdiff<T, A, B, sat>(a, b), c); }
template <class T, class A, class B, bool sat>
uint32_t vabsdiff_max(uint32_t a, uint32_t b, uint32_t c) { return max<T>(vabsdiff<T, A, B, sat>(a, b), c); }

// The same and its relatives for each of two or four parts of a register ("PTX ISA", SIMD Video Instructions): what
// `op` makes of them, kept in its part, or summed.
template <class T, int parts, bool accumulates, bool sat, class A, class B, class Op>
uint32_t each_part(uint32_t a, uint32_t b, uint32_t c, Op op) {
    constexpr int bits = 32 / parts, mask = (1 << bits) - 1;
    constexpr int least = std::is_signed_v<T> ? -(1 << (bits - 1)) : 0, most = least + mask;
    auto number = [](uint32_t x, bool is_signed) { return is_signed ? (int32_t)(x << (32 - bits)) >> (32 - bits) : x & mask; };
    uint32_t result = accumulates ? c : 0;
    for (int at = 0; at < 32; at += bits) {
        int value = op(number(a >> at, std::is_signed_v<A>), number(b >> at, std::is_signed_v<B>));
        if (sat) value = value < least ? least : value > most ? most : value;
        result += accumulates ? (uint32_t)value : (uint32_t)(value & mask) << at;
    }
    return result;
}
#define CUDA_ON_CPU_VIDEO(name, expression)                                                                      \
    template <class T, class A, class B, int parts, bool sat, bool accumulates>                                  \
    uint32_t name##_parts(uint32_t a, uint32_t b, uint32_t c) {                                                  \
        return each_part<T, parts, accumulates, sat, A, B>(a, b, c, [](int x, int y) { return (expression); });  \
    }
CUDA_ON_CPU_VIDEO(vadd, x + y)
CUDA_ON_CPU_VIDEO(vsub, x - y)
CUDA_ON_CPU_VIDEO(vavrg, (x + y + (x + y >= 0)) >> 1)
CUDA_ON_CPU_VIDEO(vabsdiff, x < y ? y - x : x - y)
CUDA_ON_CPU_VIDEO(vmin, x < y ? x : y)
CUDA_ON_CPU_VIDEO(vmax, x < y ? y : x)
#undef CUDA_ON_CPU_VIDEO

template <class T> int64_t byte_of(uint32_t x, int k) { return std::is_signed_v<T> ? (int8_t)(x >> 8 * k) : (uint8_t)(x >> 8 * k); }
template <class T> int64_t word_of(uint32_t x, int k) { return std::is_signed_v<T> ? (int16_t)(x >> 16 * k) : (uint16_t)(x >> 16 * k); }
template <class A, class B>
uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 4; k++) c += (uint32_t)(byte_of<A>(a, k) * byte_of<B>(b, k));
    return c;
}
template <class A, class B>
uint32_t dp2a_lo(uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 2; k++) c += (uint32_t)(word_of<A>(a, k) * byte_of<B>(b, k));
    return c;
}
template <class A, class B> uint32_t dp2a_hi(uint32_t a, uint32_t b, uint32_t c) { return dp2a_lo<A, B>(a, b >> 16, c); }

// Sums with a carry: `takes` one, `gives` one.
template <class T, bool takes, bool gives>
__forceinline__ Bits<T> add_with_carry(bool& carry, Bits<T> a, Bits<T> b) {
    const unsigned __int128 sum = (unsigned __int128)a + b + (takes && carry);
    if (gives) carry = sum >> bits_in<T> & 1;
    return (Bits<T>)sum;
}
template <class T, bool takes, bool gives>  // here the carry is a borrow
__forceinline__ Bits<T> sub_with_carry(bool& carry, Bits<T> a, Bits<T> b) {
    const unsigned __int128 difference = (unsigned __int128)a - b - (takes && carry);
    if (gives) carry = difference >> bits_in<T> & 1;
    return (Bits<T>)difference;
}
template <class T, bool takes, bool gives>
__forceinline__ Bits<T> mad_with_carry(bool& carry, Bits<T> a, Bits<T> b, Bits<T> c) {
    return add_with_carry<T, takes, gives>(carry, mul_lo<T>(a, b), c);
}
template <class T, bool takes, bool gives>
__forceinline__ Bits<T> mad_hi_with_carry(bool& carry, Bits<T> a, Bits<T> b, Bits<T> c) {
    return add_with_carry<T, takes, gives>(carry, mul_hi<T>(a, b), c);
}

// ---- floats ---------------------------------------------------------------------------------------------------------

// a * b + c rounded once.
template <class T, Rounding r, bool ftz, bool sat, bool relu>
__forceinline__ Bits<T> fma(Bits<T> a, Bits<T> b, Bits<T> c) {
    if constexpr (is_pair<T>) {
        return each_half([](auto... x) { return fma<Element<T>, r, ftz, sat, relu>(x...); }, a, b, c);
    } else {
        const auto x = value_of<T>(flushed<T, ftz>(a)), y = value_of<T>(flushed<T, ftz>(b));
        const auto z = value_of<T>(flushed<T, ftz>(c));
        if constexpr (std::is_same_v<T, double>) {
            if constexpr (r == Rounding::nearest) return result<T, r, ftz, sat, relu>(::fma(x, y, z));
            else return result<T, Rounding::nearest, ftz, sat, relu>(directed(Operation::fused, r, x, y, z));
        } else if constexpr (std::is_same_v<T, float> && r == Rounding::nearest) {
            return result<T, r, ftz, sat, relu>(fmaf(x, y, z));
        } else {
            return result<T, r, ftz, sat, relu>(odd_sum((double)x * y, z, r));
        }
    }
}
template <class T, Rounding r, bool ftz, bool sat>
__forceinline__ Bits<T> add(Bits<T> a, Bits<T> b) {
    if constexpr (is_pair<T>) {
        return each_half([](auto... x) { return add<Element<T>, r, ftz, sat>(x...); }, a, b);
    } else {
        const auto x = value_of<T>(flushed<T, ftz>(a)), y = value_of<T>(flushed<T, ftz>(b));
        if constexpr (std::is_same_v<T, double> && r != Rounding::nearest) {
            return result<T, Rounding::nearest, ftz, sat>(directed(Operation::add, r, x, y));
        } else if constexpr (!is_half<T> && r == Rounding::nearest) {
            return result<T, r, ftz, sat>(unfused(x + y));
        } else {
            return result<T, r, ftz, sat>(odd_sum(x, y, r));
        }
    }
}
template <class T, bool ftz>
__forceinline__ Bits<T> neg(Bits<T> a) {
    if constexpr (is_pair<T>) return each_half([](uint16_t x) { return neg<Element<T>, ftz>(x); }, a);
    else return flushed<T, ftz>(a) ^ sign_of<T>;
}
template <class T, bool ftz>
__forceinline__ Bits<T> abs(Bits<T> a) {
    if constexpr (is_pair<T>) return each_half([](uint16_t x) { return abs<Element<T>, ftz>(x); }, a);
    else return flushed<T, ftz>(a) & ~sign_of<T>;
}
template <class T, Rounding r, bool ftz, bool sat>
__forceinline__ Bits<T> sub(Bits<T> a, Bits<T> b) { return add<T, r, ftz, sat>(a, neg<T, false>(b)); }
template <class T, Rounding r, bool ftz, bool sat>
__forceinline__ Bits<T> mul(Bits<T> a, Bits<T> b) {
    if constexpr (is_pair<T>) {
        return each_half([](auto... x) { return mul<Element<T>, r, ftz, sat>(x...); }, a, b);
    } else {
        const auto x = value_of<T>(flushed<T, ftz>(a)), y = value_of<T>(flushed<T, ftz>(b));
        if constexpr (std::is_same_v<T, double> && r != Rounding::nearest)
            return result<T, Rounding::nearest, ftz, sat>(directed(Operation::multiply, r, x, y));
        else if constexpr (!is_half<T> && r == Rounding::nearest)
            return result<T, r, ftz, sat>(unfused(x * y));
        else
            return result<T, r, ftz, sat>((double)x * (double)y);
    }
}
template <class T, Rounding r, bool ftz>
__forceinline__ Bits<T> div(Bits<T> a, Bits<T> b) {
    const T x = value_of<T>(flushed<T, ftz>(a)), y = value_of<T>(flushed<T, ftz>(b));
    if constexpr (r == Rounding::nearest) return result<T, r, ftz>(x / y);
    else if constexpr (std::is_same_v<T, double>) return result<T, Rounding::nearest>(directed(Operation::divide, r, x, y));
    else return result<T, r, ftz>(odd_quotient(x, y));
}
template <class T, Rounding r, bool ftz>
__forceinline__ Bits<T> rcp(Bits<T> a) { return div<T, r, ftz>(bit_cast<Bits<T>>(T(1)), a); }
template <class T, Rounding r, bool ftz>
__forceinline__ Bits<T> sqrt(Bits<T> a) {
    const T x = value_of<T>(flushed<T, ftz>(a));
    if constexpr (r == Rounding::nearest) return result<T, r, ftz>(T(::sqrt(x)));
    else if constexpr (std::is_same_v<T, double>) return result<T, Rounding::nearest>(directed(Operation::root, r, x));
    else return result<T, r, ftz>(odd_root(x));
}

// The fast ones: here rounded to nearest, on a GPU within a few units in the last place.
template <bool ftz> __forceinline__ uint32_t div_full(uint32_t a, uint32_t b) { return div<float, Rounding::nearest, ftz>(a, b); }
template <bool ftz>
__forceinline__ uint32_t div_approx(uint32_t a, uint32_t b) {  // a * (1 / b): for b beyond 2^126 the inverse is 0
    const float x = value_of<float>(a), y = fabsf(value_of<float>(b));
    if (y > 0x1p126f && y < INFINITY) {
        if (x != x || fabsf(x) == INFINITY) return nan_bits;
        return (a ^ b) & 0x80000000;
    }
    return div<float, Rounding::nearest, ftz>(a, b);
}
#define CUDA_ON_CPU_APPROXIMATE(name, expression)                                                            \
    template <class T, bool ftz>                                                                             \
    __forceinline__ Bits<T> name##_approx(Bits<T> a) {                                                       \
        if constexpr (is_pair<T>) {                                                                          \
            return each_half([](uint16_t x) { return name##_approx<Element<T>, ftz>(x); }, a);               \
        } else {                                                                                             \
            const double x = value_of<T>(flushed<T, ftz>(a));                                                \
            return result<T, Rounding::nearest, ftz>(expression);                                            \
        }                                                                                                    \
    }
CUDA_ON_CPU_APPROXIMATE(rcp, 1 / x)
CUDA_ON_CPU_APPROXIMATE(sqrt, ::sqrt(x))
CUDA_ON_CPU_APPROXIMATE(rsqrt, 1 / ::sqrt(x))
CUDA_ON_CPU_APPROXIMATE(sin, ::sin(x))
CUDA_ON_CPU_APPROXIMATE(cos, ::cos(x))
CUDA_ON_CPU_APPROXIMATE(lg2, ::log2(x))
CUDA_ON_CPU_APPROXIMATE(ex2, ::exp2(x))
CUDA_ON_CPU_APPROXIMATE(tanh, ::tanh(x))
#undef CUDA_ON_CPU_APPROXIMATE

// Of a number and a NaN the number, unless .NaN asks for the NaN; -0 is less than +0. `xorsign`: the smaller or larger
// size, with the sign of the product.
template <class T, bool largest, bool ftz, bool nan, bool xorsign>
__forceinline__ Bits<T> extreme(Bits<T> a, Bits<T> b) {
    if constexpr (is_pair<T>) {
        return each_half([](auto... x) { return extreme<Element<T>, largest, ftz, nan, xorsign>(x...); }, a, b);
    } else {
        a = flushed<T, ftz>(a), b = flushed<T, ftz>(b);
        const Bits<T> sign = (a ^ b) & sign_of<T>;
        if constexpr (xorsign) a &= ~sign_of<T>, b &= ~sign_of<T>;
        const bool no_a = is_nan<T>(a), no_b = is_nan<T>(b);
        if ((no_a && no_b) || (nan && (no_a || no_b))) return nan_of<T>;
        Bits<T> chosen = no_a ? b : a;
        if (!no_a && !no_b) {
            const auto x = value_of<T>(a), y = value_of<T>(b);
            const bool a_is_less = x < y || (x == y && (a & sign_of<T>));
            chosen = a_is_less == largest ? b : a;
        }
        return xorsign ? (chosen & ~sign_of<T>) | sign : chosen;
    }
}
template <class T, bool ftz, bool nan, bool xorsign>
__forceinline__ Bits<T> min(Bits<T> a, Bits<T> b) { return extreme<T, false, ftz, nan, xorsign>(a, b); }
template <class T, bool ftz, bool nan, bool xorsign>
__forceinline__ Bits<T> max(Bits<T> a, Bits<T> b) { return extreme<T, true, ftz, nan, xorsign>(a, b); }
template <class T>  // the sign of a, the size of b
__forceinline__ Bits<T> copysign(Bits<T> a, Bits<T> b) { return (a & sign_of<T>) | (b & ~sign_of<T>); }

template <class T> bool testp_finite(Bits<T> a) { return __builtin_isfinite(value_of<T>(a)); }
template <class T> bool testp_infinite(Bits<T> a) { return __builtin_isinf(value_of<T>(a)); }
template <class T> bool testp_number(Bits<T> a) { return !is_nan<T>(a); }
template <class T> bool testp_notanumber(Bits<T> a) { return is_nan<T>(a); }
template <class T> bool testp_subnormal(Bits<T> a) { return (a & ~sign_of<T>) && (a & ~sign_of<T>) < smallest_normal<T>; }
template <class T> bool testp_normal(Bits<T> a) {
    return __builtin_isfinite(value_of<T>(a)) && (a & ~sign_of<T>) >= smallest_normal<T>;
}

}  // namespace cuda_on_cpu::ptx
