// Parts of a group; cooperative_groups.h includes this.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

template <unsigned int Size, class Parent>
__forceinline__ thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
    return {unsigned(parent.thread_rank() / Size), unsigned((parent.size() + Size - 1) / Size)};
}
inline thread_block_tile<1> this_thread() { return {0, 1}; }

// Tiles whose size is known only when the kernel runs: of consecutive ranks.
inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned int size) {
    if (!detail::is_tile_size(size)) ::cuda_on_cpu::trap();
    unsigned int mine = parent.thread_rank() / size, mask = 0;
    for (unsigned int rank = mine * size; rank < parent.size() && rank < (mine + 1) * size; rank++)
        mask |= 1u << detail::lane_of_rank(parent.lanes(), rank);
    return {mask, mine, (parent.size() + size - 1) / size};
}
inline coalesced_group tiled_partition(const thread_block& parent, unsigned int size) {
    if (!detail::is_tile_size(size)) ::cuda_on_cpu::trap();
    unsigned int threads = parent.size(), mine = parent.thread_rank() / size, first = mine * size;
    unsigned int last = first + size < threads ? first + size : threads, there = last - first;
    return {(there == 32 ? ~0u : (1u << there) - 1) << (first & 31), mine, (threads + size - 1) / size};
}

inline thread_group tiled_partition(const thread_group& parent, unsigned int size) {
    if (parent.kind == thread_group::Kind::lanes) return tiled_partition(coalesced_group(parent.mask, 0, 1), size);
    if (parent.kind != thread_group::Kind::block) ::cuda_on_cpu::trap();  // a grid and a cluster have no tiles
    return tiled_partition(this_thread_block(), size);
}

// Those that agree with the caller.
template <class Group>
__forceinline__ coalesced_group binary_partition(const Group& parent, bool choice) {
    unsigned int all = parent.lanes();
    unsigned int yes = ::cuda_on_cpu::ballot(all, choice, "binary_partition");
    if (yes == all || yes == 0) return {all, 0, 1};
    return {choice ? yes : all & ~yes, choice, 2};
}
template <class Group, class T>
__forceinline__ coalesced_group labeled_partition(const Group& parent, T label) {
    static_assert(std::is_integral_v<T> || std::is_pointer_v<T>, "a label is an integer or a pointer");
    if constexpr (std::is_same_v<T, bool>) {
        return binary_partition(parent, label);
    } else {
        unsigned int mask = ::cuda_on_cpu::match(parent.lanes(), ::cuda_on_cpu::bits_of(label), "labeled_partition");
        unsigned int first = __builtin_ctz(mask);
        unsigned int firsts = ::cuda_on_cpu::ballot(parent.lanes(), first == detail::lane(), "labeled_partition");
        return {mask, detail::rank_of_lane(firsts, first), unsigned(__builtin_popcount(firsts))};
    }
}

}  // namespace cooperative_groups
