// Registers hold bits: unsigned integers of their width. A type of PTX says how an instruction reads them.
#pragma once

#include <type_traits>

#include "../device_functions.h"
#include "../half_bits.h"
#include "../unset.h"

namespace cuda_on_cpu::ptx {

struct Half : Format<5, 10> {};
struct Bfloat : Format<8, 7> {};
template <class Element>
struct Pair {};  // two of them in 32 bits, the first in the low half

template <size_t bytes>
using Unsigned = std::conditional_t<
    bytes == 1, uint8_t,
    std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, std::conditional_t<
        bytes == 8, uint64_t, unsigned __int128>>>>;

template <class T> struct BitsOf { using type = Unsigned<sizeof(T)>; };
template <> struct BitsOf<Half> { using type = uint16_t; };
template <> struct BitsOf<Bfloat> { using type = uint16_t; };
template <> struct BitsOf<bool> { using type = bool; };
template <class E> struct BitsOf<Pair<E>> { using type = uint32_t; };
template <class T> using Bits = typename BitsOf<T>::type;

template <class T> inline constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;
template <class T> inline constexpr bool is_pair = false;
template <class E> inline constexpr bool is_pair<Pair<E>> = true;
template <class T> inline constexpr int bits_in = 8 * sizeof(Bits<T>);

// An operand of an asm statement as bits, and back.
template <class R, class T>
__forceinline__ R take(T x) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return (R)x;
    else if constexpr (sizeof(T) == sizeof(R)) return bit_cast<R>(x);
    else return (R)x;
}
template <class T, class R>
__forceinline__ void give(T& x, R bits) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) x = (T)bits;
    else if constexpr (sizeof(T) == sizeof(R)) x = bit_cast<T>(bits);
    else x = (T)bits;
}

// What a register or output of type T holds where no instruction has written it (ptx/statements.py).
template <class T>
__forceinline__ T unwritten([[maybe_unused]] unsigned int line = __builtin_LINE()) {
#if defined(CUDA_ON_CPU_TRACE) && !defined(CUDA_ON_CPU_RECORDED)
    return made_unset<T>(unset_in_asm, line);
#else
    if constexpr (std::is_floating_point_v<T>) return __builtin_nan("");
    else return (T)unset_integer;
#endif
}

// Whether a "C" operand inserts these characters.
template <class T>
constexpr bool is_text(const T& operand, const char* characters) {
    const size_t most = std::is_array_v<T> ? sizeof operand : ~size_t(0);  // an array may have no 0 at its end
    size_t k = 0;
    for (; characters[k]; k++)
        if (k == most || operand[k] != characters[k]) return false;
    return k == most || !operand[k];
}

// mov between a register and several smaller ones: the first has the low bits.
template <class Part, class Whole, class... P>
__forceinline__ Whole packed(P... parts) {
    Whole whole = 0;
    int at = 0;
    ((whole |= (Whole)(Part)parts << at, at += 8 * sizeof(Part)), ...);
    return whole;
}
template <int bits, class Whole>
__forceinline__ Unsigned<bits / 8> part(Whole whole, int k) { return (Unsigned<bits / 8>)(whole >> (k * bits)); }

// ---- floats as values -----------------------------------------------------------------------------------------------

// float and double stand for themselves; halves become doubles, which hold them exactly.
template <class T>
__forceinline__ auto value_of(Bits<T> bits) {
    if constexpr (is_half<T>) return (double)T::to_float(bits);
    else return bit_cast<T>(bits);
}

constexpr uint32_t nan_bits = 0x7fffffff;  // PTX: of a float; of half precision 0x7fff

template <class T>
__forceinline__ bool is_nan(Bits<T> bits) {
    if constexpr (is_half<T>) return (bits & 0x7fff) > T::infinity;
    else return value_of<T>(bits) != value_of<T>(bits);
}
template <class T>
constexpr Bits<T> sign_of = Bits<T>(1) << (bits_in<T> - 1);
template <class T>
constexpr Bits<T> nan_of = std::is_same_v<T, double> ? Bits<T>(0xfff8000000000000ull) : Bits<T>(sign_of<T> - 1);
template <class T>
constexpr Bits<T> smallest_normal = std::is_same_v<T, double> ? Bits<T>(1ull << 52)
                                    : std::is_same_v<T, float> ? Bits<T>(1u << 23)
                                    : std::is_same_v<T, Half>  ? Bits<T>(1u << 10) : Bits<T>(1u << 7);

// .ftz: a subnormal number becomes a zero of its sign.
template <class T, bool ftz>
__forceinline__ Bits<T> flushed(Bits<T> bits) {
    if constexpr (ftz) return (bits & ~sign_of<T>) < smallest_normal<T> ? bits & sign_of<T> : bits;
    else return bits;
}

// The bits of a result: rounded if `x` is wider than T, a NaN as the GPU makes it, then .ftz, .sat and .relu.
template <class T, Rounding r, bool ftz = false, bool sat = false, bool relu = false, class X>
__forceinline__ Bits<T> result(X x) {
    if (x != x) return sat ? Bits<T>(0) : nan_of<T>;
    Bits<T> bits;
    if constexpr (is_half<T>) bits = T::template from<r>((double)x);
    else bits = bit_cast<Bits<T>>(round_to<T>(x, r));
    bits = flushed<T, ftz>(bits);
    const bool negative = bits & sign_of<T>;
    if constexpr (sat) {
        constexpr Bits<T> one = std::is_same_v<T, double>  ? Bits<T>(0x3ff0000000000000ull)
                                : std::is_same_v<T, float> ? Bits<T>(0x3f800000)
                                : std::is_same_v<T, Half>  ? Bits<T>(0x3c00) : Bits<T>(0x3f80);
        return negative ? Bits<T>(0) : bits > one ? one : bits;
    }
    return relu && negative ? Bits<T>(0) : bits;
}

// f(low, low), f(high, high) of pairs.
template <class F, class... P>
__forceinline__ uint32_t each_half(F f, P... pairs) {
    return (uint32_t)f((uint16_t)pairs...) | (uint32_t)f((uint16_t)(pairs >> 16)...) << 16;
}
template <class T> struct ElementOf { using type = T; };
template <class E> struct ElementOf<Pair<E>> { using type = E; };
template <class T> using Element = typename ElementOf<T>::type;

}  // namespace cuda_on_cpu::ptx
