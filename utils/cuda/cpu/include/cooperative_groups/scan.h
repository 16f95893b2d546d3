// Stands in for CUDA's header of this name when a source is compiled for the CPU.
#pragma once
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

}  // namespace cooperative_groups
