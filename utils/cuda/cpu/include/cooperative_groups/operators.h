// What reduce.h and scan.h combine values with.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

namespace detail {

template <class Group>
inline constexpr bool is_tile = false;
template <unsigned int Size, class Parent>
inline constexpr bool is_tile<thread_block_tile<Size, Parent>> = true;

template <class Group, class T>
constexpr void check_collective() {
    static_assert(is_tile<Group> || std::is_same_v<Group, coalesced_group>,
                  "reduce and scan take a tile or a coalesced group");
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32,
                  "reduce and scan take values of at most 32 bytes that are copied byte by byte");
}

// In each round a thread adds what is 1, 2, 4, ... ranks before it. CUDA adds in this order too, so that sums of
// floats are the same.
template <class Group, class T, class Op>
__forceinline__ T scan(const Group& group, T value, Op& op) {
    unsigned int rank = group.thread_rank(), size = group.size();
    for (unsigned int step = 1; step < size; step *= 2) {
        T before = group.shfl_up(value, step);
        if (step <= rank) value = op(value, before);
    }
    return value;
}

}  // namespace detail
}  // namespace cooperative_groups
