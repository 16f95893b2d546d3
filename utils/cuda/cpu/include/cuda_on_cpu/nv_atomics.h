// The atomics that are built into nvcc, `__nv_atomic_add(p, v, order, scope)`: libcu++'s as functions.
#pragma once

#include "../cuda/atomic"

enum {  // the numbers of std::memory_order
    __NV_ATOMIC_RELAXED,
    __NV_ATOMIC_CONSUME,
    __NV_ATOMIC_ACQUIRE,
    __NV_ATOMIC_RELEASE,
    __NV_ATOMIC_ACQ_REL,
    __NV_ATOMIC_SEQ_CST
};
enum {
    __NV_THREAD_SCOPE_THREAD,
    __NV_THREAD_SCOPE_BLOCK,
    __NV_THREAD_SCOPE_CLUSTER,
    __NV_THREAD_SCOPE_DEVICE,
    __NV_THREAD_SCOPE_SYSTEM
};

// Returns the result of libcu++'s function `call` on `*p`.
#define CUDA_ON_CPU_IN_SCOPE(call)                                                                                 \
    if (scope <= __NV_THREAD_SCOPE_BLOCK) return ::cuda::atomic_ref<T, ::cuda::thread_scope_block>(*p).call;      \
    return ::cuda::atomic_ref<T, ::cuda::thread_scope_device>(*p).call
#define CUDA_ON_CPU_ORDER(order) static_cast<::std::memory_order>(order)

#define CUDA_ON_CPU_NV_ATOMIC(name)                                                                                \
    template <class T>                                                                                             \
    __forceinline__ T __nv_atomic_fetch_##name(T* p, ::cuda_on_cpu::NotDeduced<T> v, int order,                    \
                                               int scope = __NV_THREAD_SCOPE_SYSTEM) {                             \
        CUDA_ON_CPU_IN_SCOPE(fetch_##name(v, CUDA_ON_CPU_ORDER(order)));                                           \
    }                                                                                                              \
    template <class T>                                                                                             \
    __forceinline__ void __nv_atomic_##name(T* p, ::cuda_on_cpu::NotDeduced<T> v, int order,                       \
                                            int scope = __NV_THREAD_SCOPE_SYSTEM) {                                \
        __nv_atomic_fetch_##name(p, v, order, scope);                                                              \
    }
CUDA_ON_CPU_NV_ATOMIC(add)
CUDA_ON_CPU_NV_ATOMIC(sub)
CUDA_ON_CPU_NV_ATOMIC(min)
CUDA_ON_CPU_NV_ATOMIC(max)
CUDA_ON_CPU_NV_ATOMIC(and)
CUDA_ON_CPU_NV_ATOMIC(or)
CUDA_ON_CPU_NV_ATOMIC(xor)
#undef CUDA_ON_CPU_NV_ATOMIC

template <class T>
__forceinline__ T __nv_atomic_load_n(const T* from, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    T* p = const_cast<T*>(from);
    CUDA_ON_CPU_IN_SCOPE(load(CUDA_ON_CPU_ORDER(order)));
}
template <class T>
__forceinline__ void __nv_atomic_load(const T* p, T* to, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    *to = __nv_atomic_load_n(p, order, scope);
}
template <class T>
__forceinline__ void __nv_atomic_store_n(T* p, ::cuda_on_cpu::NotDeduced<T> v, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
    CUDA_ON_CPU_IN_SCOPE(store(v, CUDA_ON_CPU_ORDER(order)));
}
template <class T>
__forceinline__ void __nv_atomic_store(T* p, const T* v, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    __nv_atomic_store_n(p, *v, order, scope);
}
template <class T>
__forceinline__ T __nv_atomic_exchange_n(T* p, ::cuda_on_cpu::NotDeduced<T> v, int order,
                                         int scope = __NV_THREAD_SCOPE_SYSTEM) {
    CUDA_ON_CPU_IN_SCOPE(exchange(v, CUDA_ON_CPU_ORDER(order)));
}
template <class T>
__forceinline__ void __nv_atomic_exchange(T* p, const T* v, T* old, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    *old = __nv_atomic_exchange_n(p, *v, order, scope);
}
template <class T>
__forceinline__ bool __nv_atomic_compare_exchange_n(T* p, T* expected, ::cuda_on_cpu::NotDeduced<T> v, bool, int success,
                                                    int failure, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    CUDA_ON_CPU_IN_SCOPE(
        compare_exchange_strong(*expected, v, CUDA_ON_CPU_ORDER(success), CUDA_ON_CPU_ORDER(failure)));
}
template <class T>
__forceinline__ bool __nv_atomic_compare_exchange(T* p, T* expected, const T* v, bool weak, int success, int failure,
                                                  int scope = __NV_THREAD_SCOPE_SYSTEM) {
    return __nv_atomic_compare_exchange_n(p, expected, *v, weak, success, failure, scope);
}
__forceinline__ void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
    bool of_block = scope <= __NV_THREAD_SCOPE_BLOCK;
    ::cuda::atomic_thread_fence(CUDA_ON_CPU_ORDER(order),
                                of_block ? ::cuda::thread_scope_block : ::cuda::thread_scope_device);
}
#undef CUDA_ON_CPU_ORDER
#undef CUDA_ON_CPU_IN_SCOPE
