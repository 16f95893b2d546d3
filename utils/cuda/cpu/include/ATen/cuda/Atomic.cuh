// Stands in for torch's header of this name: atomics for every type that a tensor has.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

namespace cuda_on_cpu {
template <class T, class Next>
CUDA_ON_CPU_OPAQUE T exchanged_for(T* p, Next next) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T), atomic);
    T old, changed;
    __atomic_load(p, &old, __ATOMIC_RELAXED);
    do changed = next(old);
    while (!__atomic_compare_exchange(p, &old, &changed, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_GPU_ATOMIC(name, change)                                                       \
    template <class T> T name(T* p, cuda_on_cpu::NotDeduced<T> v) {                                   \
        return ::cuda_on_cpu::asked(::cuda_on_cpu::exchanged_for(p, [=](T old) -> T { return change; }));   \
    }
CUDA_ON_CPU_GPU_ATOMIC(gpuAtomicAdd, old + v)
CUDA_ON_CPU_GPU_ATOMIC(gpuAtomicMul, old * v)
CUDA_ON_CPU_GPU_ATOMIC(gpuAtomicMax, old < v ? v : old)
CUDA_ON_CPU_GPU_ATOMIC(gpuAtomicMin, v < old ? v : old)
#undef CUDA_ON_CPU_GPU_ATOMIC

template <class T> void gpuAtomicAddNoReturn(T* p, cuda_on_cpu::NotDeduced<T> v) { gpuAtomicAdd(p, v); }
