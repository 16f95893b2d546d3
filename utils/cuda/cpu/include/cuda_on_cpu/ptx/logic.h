// Bits, comparisons and choices of inline PTX ("PTX ISA": Logic and Shift, Comparison and Selection Instructions).
#pragma once

#include "registers.h"

namespace cuda_on_cpu::ptx {

[[noreturn]] __forceinline__ void exit_thread() { ::cuda_on_cpu::end_thread(); }

template <class T> __forceinline__ Bits<T> bit_and(Bits<T> a, Bits<T> b) { return a & b; }
template <class T> __forceinline__ Bits<T> bit_or(Bits<T> a, Bits<T> b) { return a | b; }
template <class T> __forceinline__ Bits<T> bit_xor(Bits<T> a, Bits<T> b) { return a ^ b; }
template <class T> __forceinline__ Bits<T> bit_not(Bits<T> a) {
    if constexpr (std::is_same_v<T, bool>) return !a;
    else return ~a;
}
template <class T> __forceinline__ Bits<T> cnot(Bits<T> a) { return a == 0; }
template <class T> __forceinline__ Bits<T> shl(Bits<T> a, uint32_t n) { return n < bits_in<T> ? a << n : 0; }
template <class T> __forceinline__ Bits<T> shr(Bits<T> a, uint32_t n) {
    const uint32_t most = bits_in<T> - 1;
    if constexpr (std::is_signed_v<T>) return (T)a >> (n < most ? n : most);
    else return n > most ? 0 : a >> n;
}
__forceinline__ uint32_t shf_l_clamp(uint32_t a, uint32_t b, uint32_t n) { return __funnelshift_lc(a, b, n); }
__forceinline__ uint32_t shf_l_wrap(uint32_t a, uint32_t b, uint32_t n) { return __funnelshift_l(a, b, n); }
__forceinline__ uint32_t shf_r_clamp(uint32_t a, uint32_t b, uint32_t n) { return __funnelshift_rc(a, b, n); }
__forceinline__ uint32_t shf_r_wrap(uint32_t a, uint32_t b, uint32_t n) { return __funnelshift_r(a, b, n); }

// The table has the result for each of the eight cases; 0xf0, 0xcc and 0xaa are those of a, b and c themselves.
__forceinline__ uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t all = 0;
    for (int k = 0; k < 8; k++)
        if (table >> k & 1) all |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return all;
}

// Each of the four low hexadecimal digits of `select` picks one of eight bytes, or the sign of one if its high bit is set.
inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t select) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t all = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t digit = select >> 4 * k & 15;
        const int8_t byte = (int8_t)(bytes >> 8 * (digit & 7));
        all |= (uint32_t)(uint8_t)(digit & 8 ? byte >> 7 : byte) << 8 * k;
    }
    return all;
}
// The modes: which digits the low two bits of `n` stand for.
#define CUDA_ON_CPU_PRMT(mode, zero, one, two, three)                                \
    inline uint32_t prmt_##mode(uint32_t a, uint32_t b, uint32_t n) {                \
        constexpr uint32_t digits[] = {zero, one, two, three};                       \
        return prmt(a, b, digits[n & 3]);                                            \
    }
CUDA_ON_CPU_PRMT(f4e, 0x3210, 0x4321, 0x5432, 0x6543)
CUDA_ON_CPU_PRMT(b4e, 0x5670, 0x6701, 0x7012, 0x0123)
CUDA_ON_CPU_PRMT(rc8, 0x0000, 0x1111, 0x2222, 0x3333)
CUDA_ON_CPU_PRMT(ecl, 0x3210, 0x3211, 0x3222, 0x3333)
CUDA_ON_CPU_PRMT(ecr, 0x0000, 0x1110, 0x2210, 0x3210)
CUDA_ON_CPU_PRMT(rc16, 0x1010, 0x3232, 0x1010, 0x3232)
#undef CUDA_ON_CPU_PRMT

// Bits `at` to `at + length`, of which only the low 8 bits count; beyond the top of a signed number its sign goes on.
template <class T>
Bits<T> bfe(Bits<T> a, uint32_t at, uint32_t length) {
    at &= 0xff, length &= 0xff;
    if (length == 0) return 0;
    const uint32_t top = bits_in<T> - 1, last = at + length - 1 < top ? at + length - 1 : top;
    const bool sign = std::is_signed_v<T> && (a >> last & 1);
    Bits<T> all = 0;
    for (uint32_t k = 0; k <= top; k++) {
        const bool bit = k < length && at + k <= top ? a >> (at + k) & 1 : sign;
        all |= (Bits<T>)bit << k;
    }
    return all;
}
template <class T>
Bits<T> bfi(Bits<T> a, Bits<T> b, uint32_t at, uint32_t length) {
    at &= 0xff, length &= 0xff;
    for (uint32_t k = 0; k < length && at + k < bits_in<T>; k++) {
        const Bits<T> bit = Bits<T>(1) << (at + k);
        b = a >> k & 1 ? b | bit : b & ~bit;
    }
    return b;
}
template <class T> uint32_t clz(Bits<T> a) { return a ? (sizeof a == 8 ? __builtin_clzll(a) : __builtin_clz(a)) : bits_in<T>; }
template <class T> uint32_t popc(Bits<T> a) { return __builtin_popcountll(a); }
template <class T> Bits<T> brev(Bits<T> a) { return __brevll(a) >> (64 - bits_in<T>); }
// The place of the highest bit that is not the sign; `shift`: how far it is from the top.
template <class T, bool shift>
uint32_t bfind(Bits<T> a) {
    if (std::is_signed_v<T> && (T)a < 0) a = ~a;
    if (a == 0) return ~0u;
    return shift ? clz<T>(a) : bits_in<T> - 1 - clz<T>(a);
}
inline uint32_t fns(uint32_t mask, uint32_t base, uint32_t offset) { return __fns(mask, base, (int)offset); }
inline uint32_t bmsk_clamp(uint32_t at, uint32_t length) {
    if (at > 31) return 0;
    const uint64_t ones = length > 31 ? ~0u : (1u << length) - 1;
    return (uint32_t)(ones << at);
}
inline uint32_t bmsk_wrap(uint32_t at, uint32_t length) { return bmsk_clamp(at & 31, length & 31); }
template <class T> uint32_t szext_clamp(uint32_t a, uint32_t n) {
    if (n == 0) return 0;
    if (n > 31) return a;
    return std::is_signed_v<T> ? (uint32_t)((int32_t)(a << (32 - n)) >> (32 - n)) : a & ((1u << n) - 1);
}
template <class T> uint32_t szext_wrap(uint32_t a, uint32_t n) { return szext_clamp<T>(a, n & 31); }

template <class T> __forceinline__ Bits<T> selp(Bits<T> a, Bits<T> b, bool c) { return c ? a : b; }
template <class T, class S, bool ftz>  // a if c is not negative; of a NaN, b
__forceinline__ Bits<T> slct(Bits<T> a, Bits<T> b, Bits<S> c) {
    if constexpr (std::is_same_v<S, float>) return value_of<float>(flushed<float, ftz>(c)) >= 0 ? a : b;
    else return (int32_t)c >= 0 ? a : b;
}

// In capitals: `EQU` is true of a NaN, too. LO to HS are LT to GE of unsigned numbers.
enum Comparison { EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN_, LO, LS, HI, HS };
template <class T, Comparison c, bool ftz>
__forceinline__ bool compare(Bits<T> a, Bits<T> b) {
    if constexpr (std::is_integral_v<T>) {
        if constexpr (c >= LO) {
            return c == LO ? a < b : c == LS ? a <= b : c == HI ? a > b : a >= b;
        } else {
            const T x = (T)a, y = (T)b;
            return c == EQ ? x == y : c == NE ? x != y : c == LT ? x < y : c == LE ? x <= y : c == GT ? x > y : x >= y;
        }
    } else {
        const auto x = value_of<T>(flushed<T, ftz>(a)), y = value_of<T>(flushed<T, ftz>(b));
        const bool unordered = x != x || y != y;
        switch (c) {
            case EQ: return x == y;
            case NE: return !unordered && x != y;
            case LT: return x < y;
            case LE: return x <= y;
            case GT: return x > y;
            case GE: return x >= y;
            case EQU: return unordered || x == y;
            case NEU: return x != y;
            case LTU: return unordered || x < y;
            case LEU: return unordered || x <= y;
            case GTU: return unordered || x > y;
            case GEU: return unordered || x >= y;
            case NUM: return !unordered;
            default: return unordered;
        }
    }
}
template <class T, int half, Comparison c, bool ftz>
__forceinline__ bool compare_half(uint32_t a, uint32_t b) {
    return compare<Element<T>, c, ftz>((uint16_t)(a >> 16 * half), (uint16_t)(b >> 16 * half));
}

}  // namespace cuda_on_cpu::ptx
