// Atomics: each reads, changes and writes with no other access in between, and returns the old value.
//
// Blocks run on several cores, so they are atomic on the CPU too. As in CUDA they order nothing but themselves.
#pragma once

#include "launch.h"

namespace cuda_on_cpu {

enum class Change { add, min, max, exchange, bit_and, bit_or, bit_xor, increment, decrement };

template <Change change, class T>
__forceinline__ T changed(T old, T v) {
    if constexpr (change == Change::add) return old + v;
    if constexpr (change == Change::min) return v < old ? v : old;
    if constexpr (change == Change::max) return old < v ? v : old;
    if constexpr (change == Change::exchange) return v;
    if constexpr (change == Change::bit_and) return old & v;
    if constexpr (change == Change::bit_or) return old | v;
    if constexpr (change == Change::bit_xor) return old ^ v;
    if constexpr (change == Change::increment) return old >= v ? 0 : old + 1;
    if constexpr (change == Change::decrement) return old == 0 || old > v ? v : old - 1;
}

// Compilers leave atomics of 128 bits to a library, except for this one, with which a load swaps 0 for 0.
#ifdef __x86_64__
__attribute__((target("cx16")))
#endif
CUDA_ON_CPU_OPAQUE unsigned __int128 swapped_if(char* p, unsigned __int128 old, unsigned __int128 next) {
    return __sync_val_compare_and_swap((unsigned __int128*)p, old, next);
}
// Of 16 bytes, aligned to as many: any type that may be copied byte by byte, from compute capability 9.0 on.
template <class T>
inline constexpr bool is_b128 = sizeof(T) == 16 && alignof(T) >= 16 && std::is_trivially_copyable_v<T>;
template <class T>
unsigned __int128 bits_of_b128(const T& v) {
    unsigned __int128 bits;
    __builtin_memcpy(&bits, &v, sizeof bits);
    return bits;
}
template <bool of_block, class T>
CUDA_ON_CPU_OPAQUE T compare_and_swap_b128(T* p, T expected, T v) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T), atomic, of_block);
    const auto next = bits_of_b128(v), asked = bits_of_b128(expected), found = swapped_if((char*)p, asked, next);
    if (found != asked) nothing_changed();
    __builtin_memcpy((void*)&expected, &found, sizeof found);
    return expected;
}
template <bool of_block, class T>
CUDA_ON_CPU_OPAQUE T exchange_b128(T* p, T v) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T), atomic, of_block);
    const auto next = bits_of_b128(v);
    unsigned __int128 old = next, found;
    while ((found = swapped_if((char*)p, old, next)) != old) old = found;
    if (old == next) nothing_changed();
    __builtin_memcpy((void*)&v, &old, sizeof old);
    return v;
}

template <Change change, bool of_block = false, class T>
CUDA_ON_CPU_OPAQUE T atomic(T* p, T v) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T), atomic, of_block);
    T old, next;
    if constexpr (std::is_integral_v<T> && change == Change::add) {
        old = __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
        next = old + v;
    } else {
        __atomic_load(p, &old, __ATOMIC_RELAXED);
        do next = changed<change>(old, v);
        while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
    constexpr bool may_ask = change != Change::min && change != Change::max;
    if (may_ask && __builtin_memcmp(&old, &next, sizeof(T)) == 0) nothing_changed();
    return old;
}

template <class T>
CUDA_ON_CPU_OPAQUE T add_each(T* p, T v) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T), atomic);
    T all;
    for (size_t i = 0; i < sizeof(T) / sizeof(float); i++) {
        float *to = (float*)p + i, old, next;
        __atomic_load(to, &old, __ATOMIC_RELAXED);
        do next = old + ((float*)&v)[i];
        while (!__atomic_compare_exchange(to, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        ((float*)&all)[i] = old;
    }
    return all;
}

template <bool of_block = false, class T>
CUDA_ON_CPU_OPAQUE T compare_and_swap(T* p, T expected, T v) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T), atomic, of_block);
    if (!__atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) nothing_changed();
    return expected;
}

// Which types CUDA has an atomic for; cuda_fp16.h and cuda_bf16.h add theirs.
template <class T, class... Types>
inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);
using Wide = unsigned long long;
template <class T>
inline constexpr bool can_add = is_one_of<T, int, unsigned int, Wide, float, double>;

}  // namespace cuda_on_cpu

// `atomicAdd(&count, 1)` takes its type from the pointer alone, so the 1 becomes whatever is counted in.
// For 64-bit integers CUDA has `unsigned long long`, and uint64_t is `unsigned long`: the pointer has to be cast.
#define CUDA_ON_CPU_ATOMIC(name, change, of_block, allowed, types)                                                        \
    template <class T>                                                                                           \
    __forceinline__ T name(T* p, cuda_on_cpu::NotDeduced<T> v) {                                                    \
        constexpr bool is_wide = ::cuda_on_cpu::Change::change == ::cuda_on_cpu::Change::exchange &&             \
                                 ::cuda_on_cpu::is_b128<T>;                                                      \
        static_assert(allowed || is_wide, "CUDA has " #name " only for pointers to " types);                     \
        if constexpr (is_wide)                                                                                   \
            return ::cuda_on_cpu::asked(::cuda_on_cpu::exchange_b128<of_block>(p, v));                           \
        else if constexpr (allowed)                                                                              \
            return ::cuda_on_cpu::asked(::cuda_on_cpu::atomic<::cuda_on_cpu::Change::change, of_block>(p, v));      \
    }
#define CUDA_ON_CPU_ATOMICS(name, change, allowed, types)            \
    CUDA_ON_CPU_ATOMIC(name, change, false, (allowed), types)        \
    CUDA_ON_CPU_ATOMIC(name##_block, change, true, (allowed), types) \
    CUDA_ON_CPU_ATOMIC(name##_system, change, false, (allowed), types)
#define CUDA_ON_CPU_INTEGERS ::cuda_on_cpu::is_one_of<T, int, unsigned int, ::cuda_on_cpu::Wide>
#define CUDA_ON_CPU_INTEGERS_TEXT "int, unsigned int, unsigned long long"
#define CUDA_ON_CPU_SIGNED (CUDA_ON_CPU_INTEGERS || std::is_same_v<T, long long>)
#define CUDA_ON_CPU_SIGNED_TEXT CUDA_ON_CPU_INTEGERS_TEXT ", long long"

CUDA_ON_CPU_ATOMICS(atomicAdd, add, ::cuda_on_cpu::can_add<T>, CUDA_ON_CPU_INTEGERS_TEXT
                    ", float, double; after their #include also __half, __half2, __nv_bfloat16, __nv_bfloat162")
CUDA_ON_CPU_ATOMICS(atomicMin, min, CUDA_ON_CPU_SIGNED, CUDA_ON_CPU_SIGNED_TEXT)
CUDA_ON_CPU_ATOMICS(atomicMax, max, CUDA_ON_CPU_SIGNED, CUDA_ON_CPU_SIGNED_TEXT)
CUDA_ON_CPU_ATOMICS(atomicExch, exchange, CUDA_ON_CPU_INTEGERS || (std::is_same_v<T, float>),
                    CUDA_ON_CPU_INTEGERS_TEXT ", float")
CUDA_ON_CPU_ATOMICS(atomicAnd, bit_and, CUDA_ON_CPU_SIGNED, CUDA_ON_CPU_SIGNED_TEXT)
CUDA_ON_CPU_ATOMICS(atomicOr, bit_or, CUDA_ON_CPU_SIGNED, CUDA_ON_CPU_SIGNED_TEXT)
CUDA_ON_CPU_ATOMICS(atomicXor, bit_xor, CUDA_ON_CPU_SIGNED, CUDA_ON_CPU_SIGNED_TEXT)
CUDA_ON_CPU_ATOMICS(atomicInc, increment, (std::is_same_v<T, unsigned int>), "unsigned int")
CUDA_ON_CPU_ATOMICS(atomicDec, decrement, (std::is_same_v<T, unsigned int>), "unsigned int")
#undef CUDA_ON_CPU_ATOMICS
#undef CUDA_ON_CPU_ATOMIC
#undef CUDA_ON_CPU_SIGNED
#undef CUDA_ON_CPU_SIGNED_TEXT

// One access; each number is atomic by itself. Only compute capability 9.0 has these.
inline float2 atomicAdd(float2* p, float2 v) { return ::cuda_on_cpu::asked(::cuda_on_cpu::add_each(p, v)); }
inline float4 atomicAdd(float4* p, float4 v) { return ::cuda_on_cpu::asked(::cuda_on_cpu::add_each(p, v)); }

#define CUDA_ON_CPU_ATOMIC_SUB(name, of_block)                                                                   \
    template <class T>                                                                                           \
    __forceinline__ T name(T* p, cuda_on_cpu::NotDeduced<T> v) {                                                    \
        static_assert(::cuda_on_cpu::is_one_of<T, int, unsigned int>,                                            \
                      "CUDA has " #name " only for pointers to int and unsigned int");                           \
        using ::cuda_on_cpu::Change;                                                                             \
        return ::cuda_on_cpu::asked(::cuda_on_cpu::atomic<Change::add, of_block>(p, T(0u - (unsigned int)v)));   \
    }
CUDA_ON_CPU_ATOMIC_SUB(atomicSub, false)
CUDA_ON_CPU_ATOMIC_SUB(atomicSub_block, true)
CUDA_ON_CPU_ATOMIC_SUB(atomicSub_system, false)
#undef CUDA_ON_CPU_ATOMIC_SUB

#define CUDA_ON_CPU_ATOMIC_CAS(name, of_block)                                                                   \
    template <class T>                                                                                           \
    __forceinline__ T name(T* p, cuda_on_cpu::NotDeduced<T> expected, cuda_on_cpu::NotDeduced<T> v) {                  \
        constexpr bool allowed = CUDA_ON_CPU_INTEGERS || std::is_same_v<T, unsigned short>;                      \
        constexpr bool is_wide = ::cuda_on_cpu::is_b128<T>;                                                      \
        static_assert(allowed || is_wide, "CUDA has " #name " only for pointers to " CUDA_ON_CPU_INTEGERS_TEXT   \
                                          ", unsigned short: take a float's bits with __float_as_int");          \
        if constexpr (is_wide)                                                                                   \
            return ::cuda_on_cpu::asked(::cuda_on_cpu::compare_and_swap_b128<of_block>(p, expected, v));         \
        else if constexpr (allowed)                                                                                \
            return ::cuda_on_cpu::asked(::cuda_on_cpu::compare_and_swap<of_block>(p, expected, v));              \
    }
CUDA_ON_CPU_ATOMIC_CAS(atomicCAS, false)
CUDA_ON_CPU_ATOMIC_CAS(atomicCAS_block, true)
CUDA_ON_CPU_ATOMIC_CAS(atomicCAS_system, false)
#undef CUDA_ON_CPU_ATOMIC_CAS
#undef CUDA_ON_CPU_INTEGERS_TEXT
#undef CUDA_ON_CPU_INTEGERS
