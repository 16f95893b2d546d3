// What the lanes of a warp do together, and fences ("PTX ISA": Parallel Synchronization and Communication Instructions).
#pragma once

#include "registers.h"

namespace cuda_on_cpu::ptx {

__forceinline__ uint32_t thread_number() {
    const auto t = place_of_thread();
    const auto d = place_of_block_dim();
    return (t.z * d.y + t.y) * d.x + t.x;
}
__forceinline__ uint32_t warp_id() { return thread_number() / 32; }
// A block runs on one multiprocessor. Which one is the scheduler's choice; on an idle GPU they take turns.
__forceinline__ uint32_t multiprocessor() {
    const auto block = place_of_block();
    const auto grid = place_of_grid_dim();
    return (block.x + grid.x * (block.y + grid.y * block.z)) % multiprocessors();
}
__forceinline__ uint32_t warps() {
    const auto d = place_of_block_dim();
    return (d.x * d.y * d.z + 31) / 32;
}
__forceinline__ uint32_t lanemask_eq() { return 1u << lane(); }
__forceinline__ uint32_t lanemask_lt() { return (1u << lane()) - 1; }
__forceinline__ uint32_t lanemask_le() { return lanemask_lt() | lanemask_eq(); }
__forceinline__ uint32_t lanemask_gt() { return ~lanemask_le(); }
__forceinline__ uint32_t lanemask_ge() { return ~lanemask_lt(); }

template <class A, class B>
struct Both {
    A first;
    B second;
};

// The last operand but one has the bounds: which lanes form a segment, and the last (or first) lane to read from. The
// second result is false where the source lane is outside; then the first is the caller's own.
#define CUDA_ON_CPU_SHFL(mode, source, inside, name)                                                      \
    __forceinline__ Both<uint32_t, bool> shfl_##mode(uint32_t mask, uint32_t a, uint32_t b, uint32_t c) { \
        const uint32_t me = lane(), segment = c >> 8 & 31, low = me & segment;                            \
        const uint32_t last = low | (c & 31 & ~segment);                                                  \
        b &= 31;                                                                                          \
        const int from = source;                                                                          \
        const bool valid = inside;                                                                        \
        (void)low, (void)last;                                                                            \
        return {(uint32_t)shuffle(mask, a, valid ? from : me, name), valid};                              \
    }
CUDA_ON_CPU_SHFL(up, (int)me - (int)b, from >= (int)last, "shfl.sync.up")
CUDA_ON_CPU_SHFL(down, (int)(me + b), from <= (int)last, "shfl.sync.down")
CUDA_ON_CPU_SHFL(bfly, (int)(me ^ b), from <= (int)last, "shfl.sync.bfly")
CUDA_ON_CPU_SHFL(idx, (int)(low | (b & ~segment)), from <= (int)last, "shfl.sync.idx")
#undef CUDA_ON_CPU_SHFL

__forceinline__ uint32_t vote_ballot(bool a, uint32_t mask) { return ballot(mask, a, "vote.sync.ballot"); }
__forceinline__ bool vote_any(bool a, uint32_t mask) { return ballot(mask, a, "vote.sync.any") != 0; }
__forceinline__ bool vote_all(bool a, uint32_t mask) { return ballot(mask, !a, "vote.sync.all") == 0; }
__forceinline__ bool vote_uni(bool a, uint32_t mask) {
    const uint32_t yes = ballot(mask, a, "vote.sync.uni");
    const uint32_t no = ballot(mask, !a, "vote.sync.uni");
    return yes == 0 || no == 0;
}
template <class T>
__forceinline__ uint32_t match_any(Bits<T> a, uint32_t mask) { return match(mask, a, "match.any.sync"); }
template <class T>
__forceinline__ Both<uint32_t, bool> match_all(uint32_t mask, Bits<T> a) {
    const uint32_t same = match(mask, a, "match.all.sync");
    const bool all = same == ballot(mask, true, "match.all.sync");
    return {all ? mask : 0, all};
}
#define CUDA_ON_CPU_REDUX(op, expression)                                                                        \
    template <class T>                                                                                           \
    __forceinline__ Bits<T> redux_##op(Bits<T> value, uint32_t mask) {                                           \
        return reduce_lanes(mask, value, "redux.sync." #op, [](Bits<T> a, Bits<T> b) -> Bits<T> { return expression; }); \
    }
CUDA_ON_CPU_REDUX(add, a + b)
CUDA_ON_CPU_REDUX(min, (T)b < (T)a ? b : a)
CUDA_ON_CPU_REDUX(max, (T)a < (T)b ? b : a)
CUDA_ON_CPU_REDUX(and, a & b)
CUDA_ON_CPU_REDUX(or, a | b)
CUDA_ON_CPU_REDUX(xor, a ^ b)
#undef CUDA_ON_CPU_REDUX

__forceinline__ Both<uint32_t, bool> elect(uint32_t mask) {
    const uint32_t leader = __builtin_ctz(ballot(mask, true, "elect.sync"));
    return {leader, lane() == leader};
}
__forceinline__ uint32_t activemask() { return active_lanes(); }
__forceinline__ void warp_sync(uint32_t mask) { meet(mask, "bar.warp.sync"); }
template <bool of_block>
__forceinline__ void fence() { ::cuda_on_cpu::fence(of_block); }
__forceinline__ void nanosleep(uint32_t) { nap(); }
[[noreturn]] __forceinline__ void trap() { ::cuda_on_cpu::trap(); }

}  // namespace cuda_on_cpu::ptx
