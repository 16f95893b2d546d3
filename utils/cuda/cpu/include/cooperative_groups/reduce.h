// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
#include <cuda/atomic>

#include "operators.h"

namespace cooperative_groups {

// What `op` makes of the values of all of the group; each of them gets it.
template <class Group, class Value, class Op>
__forceinline__ auto reduce(const Group& group, Value&& value, Op&& op) -> decltype(op(value, value)) {
    using T = std::decay_t<Value>;
    detail::check_collective<Group, T>();
    static_assert(std::is_same_v<T, std::decay_t<decltype(op(value, value))>>, "op returns the type that it is given");
    T result = value;
    if constexpr (detail::is_tile<Group>) {
        for (unsigned int step = group.size() / 2; step > 0; step /= 2)
            result = op(result, group.shfl_xor(result, step, "cg::reduce"));
    } else if (group.size() == 32) {
        for (unsigned int step = 16; step > 0; step /= 2)
            result = op(result, detail::from_lane(~0u, result, detail::lane() ^ step, "cg::reduce"));
    } else {
        result = group.shfl(detail::scan(group, result, op), group.size() - 1);
    }
    return result;
}

// The first of the group writes the result.
template <class Group, class T, class Value, class Op>
__forceinline__ void reduce_store_async(const Group& group, T* to, Value&& value, Op&& op) {
    T result = reduce(group, std::forward<Value>(value), std::forward<Op>(op));
    if (group.thread_rank() == 0) *to = result;
}

// The same, with an atomic of libcu++ instead of a pointer; or `op` combines it with what the atomic has.
template <class Group, class T, cuda::thread_scope scope, class Value, class Op>
__forceinline__ void reduce_store_async(const Group& group, cuda::atomic<T, scope>& to, Value&& value, Op&& op) {
    T result = reduce(group, std::forward<Value>(value), std::forward<Op>(op));
    if (group.thread_rank() == 0) to.store(result, cuda::memory_order_relaxed);
}
template <class Group, class T, cuda::thread_scope scope, class Value, class Op>
__forceinline__ void reduce_update_async(const Group& group, cuda::atomic<T, scope>& to, Value&& value, Op&& op) {
    T result = reduce(group, std::forward<Value>(value), op);
    if (group.thread_rank() != 0) return;
    T old = to.load(cuda::memory_order_relaxed);
    while (!to.compare_exchange_weak(old, op(old, result), cuda::memory_order_relaxed)) continue;
}

}  // namespace cooperative_groups
