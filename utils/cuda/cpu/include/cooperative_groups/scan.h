// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#include <cuda/atomic>

#include "operators.h"

namespace cooperative_groups {

// What `op` makes of the values of the ranks up to the caller's own.
template <class Group, class Value, class Op>
__forceinline__ auto inclusive_scan(const Group& group, Value&& value, Op&& op) -> decltype(op(value, value)) {
    using T = std::decay_t<Value>;
    detail::check_collective<Group, T>();
    return detail::scan(group, T(value), op);
}
template <class Group, class Value>
__forceinline__ auto inclusive_scan(const Group& group, Value&& value) {
    return inclusive_scan(group, value, plus<std::decay_t<Value>>());
}

// Without the caller's own; rank 0 gets a zero.
template <class Group, class Value, class Op>
__forceinline__ auto exclusive_scan(const Group& group, Value&& value, Op&& op) -> decltype(op(value, value)) {
    using T = std::decay_t<Value>;
    T before = group.shfl_up(inclusive_scan(group, value, op), 1);
    return group.thread_rank() == 0 ? T{} : before;
}
template <class Group, class Value>
__forceinline__ auto exclusive_scan(const Group& group, Value&& value) {
    return exclusive_scan(group, value, plus<std::decay_t<Value>>());
}

// The last of the group combines what all have with the atomic. What that had before goes first in each result.
namespace detail {
template <class Group, class Atomic, class T, class Op>
__forceinline__ T value_before(const Group& group, Atomic& to, T all, Op& op) {
    T old{};
    if (group.thread_rank() == group.size() - 1) {
        old = to.load(cuda::memory_order_relaxed);
        while (!to.compare_exchange_weak(old, op(old, all), cuda::memory_order_relaxed)) continue;
    }
    return group.shfl(old, group.size() - 1);
}
}  // namespace detail

#define CUDA_ON_CPU_SCAN_UPDATE(Atomic)                                                                             \
    template <class Group, class T, cuda::thread_scope scope, class Value, class Op>                                \
    __forceinline__ T inclusive_scan_update(const Group& group, Atomic& to, Value&& value, Op&& op) {               \
        const T mine = inclusive_scan(group, T(value), op);                                                         \
        return op(detail::value_before(group, to, mine, op), mine);                                                 \
    }                                                                                                               \
    template <class Group, class T, cuda::thread_scope scope, class Value, class Op>                                \
    __forceinline__ T exclusive_scan_update(const Group& group, Atomic& to, Value&& value, Op&& op) {               \
        const T mine = inclusive_scan(group, T(value), op), before = group.shfl_up(mine, 1);                        \
        const T old = detail::value_before(group, to, mine, op);                                                    \
        return group.thread_rank() == 0 ? old : op(old, before);                                                    \
    }                                                                                                               \
    template <class Group, class T, cuda::thread_scope scope, class Value>                                          \
    __forceinline__ T inclusive_scan_update(const Group& group, Atomic& to, Value&& value) {                        \
        return inclusive_scan_update(group, to, value, plus<T>());                                                  \
    }                                                                                                               \
    template <class Group, class T, cuda::thread_scope scope, class Value>                                          \
    __forceinline__ T exclusive_scan_update(const Group& group, Atomic& to, Value&& value) {                        \
        return exclusive_scan_update(group, to, value, plus<T>());                                                  \
    }
#define CUDA_ON_CPU_ATOMIC cuda::atomic<T, scope>
#define CUDA_ON_CPU_ATOMIC_REF const cuda::atomic_ref<T, scope>
CUDA_ON_CPU_SCAN_UPDATE(CUDA_ON_CPU_ATOMIC)
CUDA_ON_CPU_SCAN_UPDATE(CUDA_ON_CPU_ATOMIC_REF)
#undef CUDA_ON_CPU_ATOMIC
#undef CUDA_ON_CPU_ATOMIC_REF
#undef CUDA_ON_CPU_SCAN_UPDATE

}  // namespace cooperative_groups
