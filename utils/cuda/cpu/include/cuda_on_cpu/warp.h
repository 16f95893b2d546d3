// What the 32 lanes of a warp exchange: shuffles, votes, matches and sums over a warp.
//
// The runtime's `shuffle` carries 8 bytes from lane to lane; all that is larger goes in pieces. Everything is inlined,
// so that the place the runtime is called from is in the learner's own function.
#pragma once

#include "integers.h"
#include "launch.h"

namespace cuda_on_cpu {

template <class T>
__forceinline__ uint64_t bits_of(const T& value) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

// The value of lane `from`.
template <class T>
__forceinline__ T from_lane(unsigned int mask, T value, unsigned int from, const char* name) {
    static_assert(std::is_trivially_copyable_v<T>, "only a value that is copied byte by byte goes from lane to lane");
    for (size_t at = 0; at < sizeof(T); at += 8) {
        size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
        uint64_t piece = 0;
        __builtin_memcpy(&piece, (char*)&value + at, bytes);
        piece = shuffle(mask, piece, from, name);
        __builtin_memcpy((char*)&value + at, &piece, bytes);
    }
    return value;
}

// The lane that comes as number `rank` of those in `mask`.
inline unsigned int lane_of_rank(unsigned int mask, unsigned int rank) {
    while (rank--) mask &= mask - 1;
    return __builtin_ctz(mask);
}
__forceinline__ unsigned int rank_of_lane(unsigned int mask, unsigned int lane) {
    return __builtin_popcount(mask & ((1u << lane) - 1));
}

// What `op` makes of the values of all of `mask` that have come: in each round every lane adds what is 1, 2, 4, ...
// places behind it, so the first has all in the end, and the others ask it.
template <class T, class Op>
__forceinline__ T reduce_lanes(unsigned int mask, T value, const char* name, Op op) {
    unsigned int came = ballot(mask, true, name), lanes = __popc(came), rank = rank_of_lane(came, lane());
    for (unsigned int step = 1; step < lanes; step *= 2) {
        bool has = rank + step < lanes;
        T other = from_lane(came, value, has ? lane_of_rank(came, rank + step) : lane(), name);
        if (has) value = op(value, other);
    }
    return from_lane(came, value, __builtin_ctz(came), name);
}

// The lane that a shuffle reads within its segment of `width` lanes; the caller's own where that one is outside. For a
// width that is not a power of two, which CUDA leaves undefined, this is what GPUs do (PTX ISA, shfl.sync).
__forceinline__ unsigned int first_of_segment(int width) { return lane() & (32 - width) & 31; }
__forceinline__ unsigned int last_of_segment(int width) { return first_of_segment(width) | (~(32 - width) & 31); }
__forceinline__ unsigned int lane_at(unsigned int at, int width) {
    return first_of_segment(width) | (at & ~(32 - width) & 31);
}
__forceinline__ unsigned int lane_above(unsigned int delta, int width) {
    unsigned int me = lane();
    return me >= first_of_segment(width) + (delta & 31) ? me - (delta & 31) : me;
}
__forceinline__ unsigned int lane_below(unsigned int delta, int width) {
    unsigned int me = lane(), other = me + (delta & 31);
    return other <= last_of_segment(width) ? other : me;
}
__forceinline__ unsigned int lane_across(unsigned int bits, int width) {
    unsigned int me = lane(), other = me ^ (bits & 31);
    return other <= last_of_segment(width) ? other : me;
}

#ifdef CUDA_ON_CPU_TRACE
#define CUDA_ON_CPU_WIDTH(width, name) \
    if (width < 1 || width > 32 || (width & (width - 1))) ::cuda_on_cpu::look_at_width(width, name)
#else
#define CUDA_ON_CPU_WIDTH(width, name) ((void)0)
#endif

}  // namespace cuda_on_cpu

__forceinline__ void __syncwarp(unsigned int mask = 0xffffffff) { ::cuda_on_cpu::meet(mask, "__syncwarp"); }
__forceinline__ unsigned int __activemask() { return ::cuda_on_cpu::active_lanes(); }

__forceinline__ unsigned int __ballot_sync(unsigned int mask, int vote) {
    return ::cuda_on_cpu::ballot(mask, vote != 0, "__ballot_sync");
}
__forceinline__ int __any_sync(unsigned int mask, int vote) {
    return ::cuda_on_cpu::ballot(mask, vote != 0, "__any_sync") != 0;
}
__forceinline__ int __all_sync(unsigned int mask, int vote) {
    return ::cuda_on_cpu::ballot(mask, vote == 0, "__all_sync") == 0;
}

__forceinline__ int __uni_sync(unsigned int mask, int vote) {
    unsigned int yes = ::cuda_on_cpu::ballot(mask, vote != 0, "__uni_sync");
    return yes == 0 || ::cuda_on_cpu::ballot(mask, vote == 0, "__uni_sync") == 0;
}

// cuda_fp16.h and cuda_bf16.h use this for their types too.
#define CUDA_ON_CPU_SHUFFLES(T)                                                                                     \
    __forceinline__ T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {                           \
        CUDA_ON_CPU_WIDTH(width, "__shfl_sync");                                                                    \
        return ::cuda_on_cpu::from_lane(mask, value, ::cuda_on_cpu::lane_at(lane, width), "__shfl_sync");           \
    }                                                                                                               \
    __forceinline__ T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {              \
        CUDA_ON_CPU_WIDTH(width, "__shfl_up_sync");                                                                 \
        return ::cuda_on_cpu::from_lane(mask, value, ::cuda_on_cpu::lane_above(delta, width), "__shfl_up_sync");    \
    }                                                                                                               \
    __forceinline__ T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {            \
        CUDA_ON_CPU_WIDTH(width, "__shfl_down_sync");                                                               \
        return ::cuda_on_cpu::from_lane(mask, value, ::cuda_on_cpu::lane_below(delta, width), "__shfl_down_sync");  \
    }                                                                                                               \
    __forceinline__ T __shfl_xor_sync(unsigned int mask, T value, int bits, int width = 32) {                       \
        CUDA_ON_CPU_WIDTH(width, "__shfl_xor_sync");                                                                \
        return ::cuda_on_cpu::from_lane(mask, value, ::cuda_on_cpu::lane_across(bits, width), "__shfl_xor_sync");   \
    }
#define CUDA_ON_CPU_MATCHES(T)                                                                                      \
    __forceinline__ unsigned int __match_any_sync(unsigned int mask, T value) {                                     \
        return ::cuda_on_cpu::match(mask, ::cuda_on_cpu::bits_of(value), "__match_any_sync");                       \
    }                                                                                                               \
    __forceinline__ unsigned int __match_all_sync(unsigned int mask, T value, int* all) {                           \
        unsigned int same = ::cuda_on_cpu::match(mask, ::cuda_on_cpu::bits_of(value), "__match_all_sync");          \
        *all = same == ::cuda_on_cpu::ballot(mask, true, "__match_all_sync");                                       \
        return *all ? mask : 0;                                                                                     \
    }
CUDA_ON_CPU_SHUFFLES(int)
CUDA_ON_CPU_SHUFFLES(unsigned int)
CUDA_ON_CPU_SHUFFLES(long)
CUDA_ON_CPU_SHUFFLES(unsigned long)
CUDA_ON_CPU_SHUFFLES(long long)
CUDA_ON_CPU_SHUFFLES(unsigned long long)
CUDA_ON_CPU_SHUFFLES(float)
CUDA_ON_CPU_SHUFFLES(double)
CUDA_ON_CPU_MATCHES(int)
CUDA_ON_CPU_MATCHES(unsigned int)
CUDA_ON_CPU_MATCHES(long)
CUDA_ON_CPU_MATCHES(unsigned long)
CUDA_ON_CPU_MATCHES(long long)
CUDA_ON_CPU_MATCHES(unsigned long long)
CUDA_ON_CPU_MATCHES(float)
CUDA_ON_CPU_MATCHES(double)
#undef CUDA_ON_CPU_MATCHES

#define CUDA_ON_CPU_REDUCE(name, T, expression)                                                                 \
    __forceinline__ T name(unsigned int mask, T value) {                                                        \
        return ::cuda_on_cpu::reduce_lanes(mask, value, #name, [](T a, T b) -> T { return expression; });       \
    }
CUDA_ON_CPU_REDUCE(__reduce_add_sync, unsigned int, a + b)
CUDA_ON_CPU_REDUCE(__reduce_add_sync, int, (unsigned int)a + (unsigned int)b)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, unsigned int, a < b ? a : b)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, int, a < b ? a : b)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, unsigned int, a < b ? b : a)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, int, a < b ? b : a)
CUDA_ON_CPU_REDUCE(__reduce_and_sync, unsigned int, a & b)
CUDA_ON_CPU_REDUCE(__reduce_or_sync, unsigned int, a | b)
CUDA_ON_CPU_REDUCE(__reduce_xor_sync, unsigned int, a ^ b)
#undef CUDA_ON_CPU_REDUCE
