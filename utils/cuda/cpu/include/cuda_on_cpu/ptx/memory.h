// Loads, stores, atomics and asynchronous copies of inline PTX ("PTX ISA": Data Movement and Conversion Instructions).
//
// They are accesses like those of C++, so a trace sees them. A shared address counts from where the block's shared
// memory begins, as __cvta_generic_to_shared gives it; one in a peer of the cluster has the peer's rank plus 1 in its upper
// byte. All other spaces have the CPU's own addresses.
#pragma once

#include "../../cuda_pipeline.h"
#include "../atomics.h"
#include "../clusters.h"
#include "arithmetic.h"

namespace cuda_on_cpu::ptx {

__forceinline__ char* shared_address(uint64_t at) { return (char*)shared_memory() + (uint32_t)at; }
__forceinline__ char* generic_address(uint64_t at) { return (char*)at; }
__forceinline__ char* cluster_address(uint64_t at) { return at_cluster_number((uint32_t)at); }
__forceinline__ uint64_t to_shared(uint64_t p) { return __cvta_generic_to_shared((void*)p); }
__forceinline__ uint64_t from_shared(uint64_t at) { return (uint64_t)shared_memory() + (uint32_t)at; }
__forceinline__ bool is_shared(uint64_t p) { return __isShared((void*)p); }
__forceinline__ uint64_t to_cluster(uint64_t p) { return cluster_number((void*)p); }
__forceinline__ uint64_t from_cluster(uint64_t at) { return (uint64_t)at_cluster_number((uint32_t)at); }
__forceinline__ bool is_cluster_shared(uint64_t p) { return ::cuda_on_cpu::is_cluster_shared((void*)p); }
__forceinline__ bool is_local(uint64_t p) { return __isLocal((void*)p); }
__forceinline__ bool is_global(uint64_t p) { return __isGlobal((void*)p); }

// A vector is one access of all its bytes.
template <class T, int count>
struct alignas(count * sizeof(T)) Elements {
    T of[count];
};
template <class T, int count>
__forceinline__ Elements<T, count> load(const char* p) {
    CUDA_ON_CPU_ALIGNED(p, sizeof(T) * count, load);
    if constexpr (count == 1) return {{*(const T*)p}};
    else return *(const Elements<T, count>*)p;
}
// Of `ld.global.nc`, whose cache hears of no store in the same launch.
__forceinline__ void look_at_nc([[maybe_unused]] const char* p, [[maybe_unused]] size_t bytes) {
#ifdef CUDA_ON_CPU_TRACE
    look_at_ldg(p, bytes);
#endif
}
template <class T, int count>
__forceinline__ void store(char* p, Elements<T, count> x) {
    CUDA_ON_CPU_ALIGNED(p, sizeof(T) * count, store);
    if constexpr (count == 1) *(T*)p = x.of[0];
    else *(Elements<T, count>*)p = x;
}

// Whoever reads these bytes before something else is written finds anything: here NaN.
__forceinline__ void discard(char* p) {
    Elements<uint64_t, 16> anything;
    for (uint64_t& word : anything.of) word = ~0ull;
    store<uint64_t, 16>(p, anything);
}

template <class B>
__forceinline__ B atomic_load(const char* p) {
    if constexpr (sizeof(B) == 16) return swapped_if((char*)p, 0, 0);
    else return __atomic_load_n((const B*)p, __ATOMIC_SEQ_CST);
}
// Stores `next` if `old` is there; otherwise `old` becomes what is there.
template <class B>
__forceinline__ bool atomic_replace(char* p, B& old, B next) {
    if constexpr (sizeof(B) == 16) {
        const B expected = old;
        return (old = swapped_if(p, expected, next)) == expected;
    } else {
        return __atomic_compare_exchange_n((B*)p, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}
template <class B>
__forceinline__ void atomic_store(char* p, B x) {
    if constexpr (sizeof(B) == 16) {
        for (B old = 0; !atomic_replace(p, old, x);) {}
    } else {
        __atomic_store_n((B*)p, x, __ATOMIC_SEQ_CST);
    }
}

// Accesses by which threads wait for each other: whoever asks again and again lets the others go on.
template <class T, int count, bool of_block>
CUDA_ON_CPU_OPAQUE Elements<T, count> load_strong(const char* p) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T) * count, strong_load, of_block);
    Elements<T, count> x;
    for (int k = 0; k < count; k++) x.of[k] = atomic_load<T>(p + k * sizeof(T));
    nothing_changed();
    return x;
}
template <class T, int count, bool of_block>
CUDA_ON_CPU_OPAQUE void store_strong(char* p, Elements<T, count> x) {
    CUDA_ON_CPU_TOUCH(p, sizeof(T) * count, strong_store, of_block);
    for (int k = 0; k < count; k++) atomic_store<T>(p + k * sizeof(T), x.of[k]);
}

// ---- atomics --------------------------------------------------------------------------------------------------------

template <class B, class F>
__forceinline__ B changed_at(char* p, F f) {
    B old = atomic_load<B>(p), next;
    do next = f(old);
    while (!atomic_replace(p, old, next));
    if (old == next) nothing_changed();
    return old;
}
template <class T>
__forceinline__ Bits<T> sum(Bits<T> a, Bits<T> b) {
    if constexpr (std::is_integral_v<T>) return a + b;
    else return add<T, Rounding::nearest, false, false>(a, b);
}
template <class T>
__forceinline__ Bits<T> smaller(Bits<T> a, Bits<T> b) {
    if constexpr (std::is_integral_v<T>) return min<T>(a, b);
    else return min<T, false, false, false>(a, b);
}
template <class T>
__forceinline__ Bits<T> larger(Bits<T> a, Bits<T> b) {
    if constexpr (std::is_integral_v<T>) return max<T>(a, b);
    else return max<T, false, false, false>(a, b);
}
#define CUDA_ON_CPU_PTX_ATOMIC(name, expression)                                   \
    template <class T, bool of_block>                                              \
    CUDA_ON_CPU_OPAQUE Bits<T> atomic_##name(char* p, Bits<T> b) {                 \
        CUDA_ON_CPU_TOUCH(p, sizeof b, atomic, of_block);                          \
        return changed_at<Bits<T>>(p, [=](Bits<T> a) -> Bits<T> { (void)a; return expression; }); \
    }
CUDA_ON_CPU_PTX_ATOMIC(add, sum<T>(a, b))
CUDA_ON_CPU_PTX_ATOMIC(min, smaller<T>(a, b))
CUDA_ON_CPU_PTX_ATOMIC(max, larger<T>(a, b))
CUDA_ON_CPU_PTX_ATOMIC(and, a & b)
CUDA_ON_CPU_PTX_ATOMIC(or, a | b)
CUDA_ON_CPU_PTX_ATOMIC(xor, a ^ b)
CUDA_ON_CPU_PTX_ATOMIC(exch, b)
CUDA_ON_CPU_PTX_ATOMIC(inc, a >= b ? 0 : a + 1)
CUDA_ON_CPU_PTX_ATOMIC(dec, a == 0 || a > b ? b : a - 1)
#undef CUDA_ON_CPU_PTX_ATOMIC
template <class T, bool of_block>
CUDA_ON_CPU_OPAQUE Bits<T> atomic_cas(char* p, Bits<T> b, Bits<T> c) {
    CUDA_ON_CPU_TOUCH(p, sizeof b, atomic, of_block);
    return changed_at<Bits<T>>(p, [=](Bits<T> a) { return a == b ? c : a; });
}

// One access; each element is atomic by itself.
#define CUDA_ON_CPU_PTX_ATOMIC(name, function)                                                   \
    template <class T, int count, bool of_block>                                                 \
    CUDA_ON_CPU_OPAQUE Elements<Bits<T>, count> atomic_##name##_each(char* p, Elements<Bits<T>, count> x) { \
        CUDA_ON_CPU_TOUCH(p, sizeof x, atomic, of_block);                                        \
        for (int k = 0; k < count; k++)                                                          \
            x.of[k] = changed_at<Bits<T>>(p + k * sizeof x.of[0], [=](Bits<T> a) { return function<T>(a, x.of[k]); }); \
        return x;                                                                                \
    }
CUDA_ON_CPU_PTX_ATOMIC(add, sum)
CUDA_ON_CPU_PTX_ATOMIC(min, smaller)
CUDA_ON_CPU_PTX_ATOMIC(max, larger)
#undef CUDA_ON_CPU_PTX_ATOMIC

// ---- asynchronous copies --------------------------------------------------------------------------------------------

__forceinline__ void cp_async(char* to, const char* from, uint32_t bytes, uint32_t zeros) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) wrong_size_of_copy(bytes, zeros);
    async_copy(to, from, bytes, zeros);
}
__forceinline__ void cp_async_commit_group() { async_commit(); }
__forceinline__ void cp_async_wait_group(uint32_t prior) { async_wait(prior); }
__forceinline__ void cp_async_wait_all() {
    async_commit();
    async_wait(0);
}

}  // namespace cuda_on_cpu::ptx
