// CUDA's functions of integers: bits, products, differences ("CUDA Math API", Integer Intrinsics).
#pragma once

#include <type_traits>

#include "types.h"

namespace cuda_on_cpu {
// `++x` and `x++` where x may be a bool (bools.py): that becomes true.
template <class T>
__forceinline__ decltype(auto) increment(T& x) {
    if constexpr (std::is_same_v<std::remove_cv_t<T>, bool>)
        return x = true;
    else
        return ++x;
}
template <class T>
__forceinline__ auto increment_after(T& x) {
    if constexpr (std::is_same_v<std::remove_cv_t<T>, bool>) {
        bool before = x;
        x = true;
        return before;
    } else {
        return x++;
    }
}
}  // namespace cuda_on_cpu

__forceinline__ int __popc(unsigned int x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ int __clz(int x) { return x ? __builtin_clz(x) : 32; }
__forceinline__ int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }  // counts from 1, 0 if there is none
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned long long __brevll(unsigned long long x) {
    x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
    x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(x);
}
inline unsigned int __brev(unsigned int x) { return __brevll(x) >> 32; }

// The position of the offset-th bit set at or above `base`, with a negative offset at or below it; ~0 if there is none.
inline unsigned int __fns(unsigned int mask, unsigned int base, int offset) {
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : ~0u;
    int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    for (int at = base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0) return at;
    return ~0u;
}

// Each of the four low hexadecimal digits of `select` picks one of eight bytes, x first. Its high bit counts for nothing.
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int select) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned int result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned int digit = select >> 4 * i, byte = bytes >> 8 * (digit & 7) & 0xff;
        result |= byte << 8 * i;
    }
    return result;
}

// hi and lo side by side, shifted: the high half of a left shift, the low half of a right one.
inline unsigned int __funnelshift_l(unsigned int lo, unsigned int hi, unsigned int shift) {
    return ((unsigned long long)hi << 32 | lo) << (shift & 31) >> 32;
}
inline unsigned int __funnelshift_r(unsigned int lo, unsigned int hi, unsigned int shift) {
    return ((unsigned long long)hi << 32 | lo) >> (shift & 31);
}
inline unsigned int __funnelshift_lc(unsigned int lo, unsigned int hi, unsigned int shift) {
    return shift < 32 ? __funnelshift_l(lo, hi, shift) : lo;
}
inline unsigned int __funnelshift_rc(unsigned int lo, unsigned int hi, unsigned int shift) {
    return shift < 32 ? __funnelshift_r(lo, hi, shift) : hi;
}

__forceinline__ int __mulhi(int x, int y) { return (long long)x * y >> 32; }
__forceinline__ unsigned int __umulhi(unsigned int x, unsigned int y) { return (unsigned long long)x * y >> 32; }
__forceinline__ long long __mul64hi(long long x, long long y) { return (__int128)x * y >> 64; }
__forceinline__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned __int128)x * y >> 64;
}
// Of the low 24 bits.
__forceinline__ int __mul24(int x, int y) {
    return (unsigned)((int)((unsigned)x << 8) >> 8) * ((int)((unsigned)y << 8) >> 8);
}
__forceinline__ unsigned int __umul24(unsigned int x, unsigned int y) { return (x & 0xffffff) * (y & 0xffffff); }

__forceinline__ unsigned int __sad(int x, int y, unsigned int z) {
    return (x > y ? (unsigned)x - y : (unsigned)y - x) + z;
}
__forceinline__ unsigned int __usad(unsigned int x, unsigned int y, unsigned int z) {
    return (x > y ? x - y : y - x) + z;
}
// Averages that do not overflow; with an r they round up.
__forceinline__ int __hadd(int x, int y) { return ((long long)x + y) >> 1; }
__forceinline__ int __rhadd(int x, int y) { return ((long long)x + y + 1) >> 1; }
__forceinline__ unsigned int __uhadd(unsigned int x, unsigned int y) { return ((unsigned long long)x + y) >> 1; }
__forceinline__ unsigned int __urhadd(unsigned int x, unsigned int y) { return ((unsigned long long)x + y + 1) >> 1; }

// Products of four bytes, or of two shorts and the low or high two bytes, and their sum.
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
    return c;
}
inline unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
    return c;
}
inline int __dp4a(char4 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
inline unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
    return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
inline int __dp2a_lo(int a, int b, int c) { return c + (short)a * (signed char)b + (a >> 16) * (signed char)(b >> 8); }
inline int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
inline unsigned int __dp2a_lo(unsigned int a, unsigned int b, unsigned int c) {
    return c + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff);
}
inline unsigned int __dp2a_hi(unsigned int a, unsigned int b, unsigned int c) { return __dp2a_lo(a, b >> 16, c); }
