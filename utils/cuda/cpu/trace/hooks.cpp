// The compiler's hooks: a traced module calls these functions at every access, every basic block and every failed
// check. They pass it on to accesses.cpp and problems.cpp.
//
// Their names and arguments are the interface between the compilers and their sanitizers' runtimes (compiler-rt), which
// are not linked here.
#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include <cstring>

#include "state.h"
#include "../runtime/ubsan.h"

using namespace cuda_on_cpu;

#define CODE __builtin_return_address(0)
#define PLAIN(name, bytes, op) \
    void __tsan_##name##bytes(void* p) { if (tracing) tracing->access(p, bytes, Op::op, CODE); }
#define VOLATILE(name, bytes, op)                                       \
    void __tsan_##name##bytes(void* p) {                                \
        wait_in_step(p, CODE, Op::op == Op::load);                      \
        if (tracing) tracing->access(p, bytes, Op::op, CODE, Strength::of_volatile); \
    }
#define HOOKS(bytes)                             \
    PLAIN(read, bytes, load)                     \
    PLAIN(write, bytes, store)                   \
    PLAIN(unaligned_read, bytes, load)           \
    PLAIN(unaligned_write, bytes, store)         \
    VOLATILE(volatile_read, bytes, load)         \
    VOLATILE(volatile_write, bytes, store)       \
    VOLATILE(unaligned_volatile_read, bytes, load) \
    VOLATILE(unaligned_volatile_write, bytes, store)

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS

void __tsan_read_range(void* p, size_t bytes) {
    if (tracing) tracing->access(p, bytes, Op::load, CODE, Strength::weak, Parts::aligned);
}
void __tsan_write_range(void* p, size_t bytes) {
    if (tracing) tracing->access(p, bytes, Op::store, CODE, Strength::weak, Parts::aligned);
}
void __tsan_init() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void** p, void*) { object_is_made(p); }

void __tsan_func_entry(void*) {
    if (tracing) tracing->call();
    call_in_step(1);
}
void __tsan_func_exit() {
    if (tracing) tracing->come_back();
    call_in_step(-1);
}
void __sanitizer_cov_trace_pc() {
    if (tracing) tracing->step(CODE);
    step_in_step(CODE);
}

// The functions are those by which clang++ copies structs (build.py), and those that a source calls (traced_copies.h).
#define COPIES(prefix, parts, apart)                                                                        \
    void* prefix##memcpy(void* to, const void* from, size_t bytes) {                                        \
        if (tracing && ptrdiff_t(bytes) < 0) tracing->negative_size("memcpy", bytes, CODE);                 \
        if (tracing && bytes) tracing->copies(to, from, bytes, parts, apart, CODE);                         \
        return memmove(to, from, bytes);                                                                    \
    }                                                                                                       \
    void* prefix##memmove(void* to, const void* from, size_t bytes) {                                       \
        if (tracing && ptrdiff_t(bytes) < 0) tracing->negative_size("memmove", bytes, CODE);                \
        if (tracing && bytes) tracing->copies(to, from, bytes, parts, false, CODE);                         \
        return memmove(to, from, bytes);                                                                    \
    }                                                                                                       \
    void* prefix##memset(void* to, int value, size_t bytes) {                                               \
        if (tracing && ptrdiff_t(bytes) < 0) tracing->negative_size("memset", bytes, CODE);                 \
        if (tracing && bytes) tracing->access(to, bytes, Op::store, CODE, Strength::weak, parts);           \
        return memset(to, value, bytes);                                                                    \
    }
COPIES(__wrap_, Parts::aligned, false)
COPIES(cuda_on_cpu_, Parts::bytes, true)

// Atomics of host code: reference counts and guards of static variables. Those of kernels call `touch`.
#define ATOMIC_HOOKS(bits, type)                                                                                    \
    type __tsan_atomic##bits##_load(const volatile type* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }   \
    void __tsan_atomic##bits##_store(volatile type* p, type v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }   \
    type __tsan_atomic##bits##_exchange(volatile type* p, type v, int) {                                            \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                         \
    }                                                                                                               \
    type __tsan_atomic##bits##_fetch_add(volatile type* p, type v, int) {                                           \
        return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                               \
    type __tsan_atomic##bits##_fetch_sub(volatile type* p, type v, int) {                                           \
        return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                               \
    type __tsan_atomic##bits##_fetch_or(volatile type* p, type v, int) {                                            \
        return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                                           \
    }                                                                                                               \
    type __tsan_atomic##bits##_fetch_and(volatile type* p, type v, int) {                                           \
        return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                               \
    type __tsan_atomic##bits##_fetch_xor(volatile type* p, type v, int) {                                           \
        return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                                          \
    }                                                                                                               \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type old, type v, int, int) { /* clang++ */   \
        __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
        return old;                                                                                                 \
    }                                                                                                               \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* old, type v, int, int) {              \
        return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                   \
    }                                                                                                               \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* old, type v, int, int) {                \
        return __atomic_compare_exchange_n(p, old, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                    \
    }
ATOMIC_HOOKS(8, uint8_t)
ATOMIC_HOOKS(16, uint16_t)
ATOMIC_HOOKS(32, uint32_t)
ATOMIC_HOOKS(64, uint64_t)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

void __ubsan_handle_out_of_bounds(UbsanIndex* data, uintptr_t index) {
    if (tracing && data->index->bits() <= 64)
        tracing->outside_array(data->array->name, data->index->value(index), CODE);
}
void __ubsan_handle_type_mismatch_v1(UbsanPointer* data, uintptr_t p) {
    size_t needs = size_t(1) << data->log_alignment;
    if (tracing && needs == 1)  // -fsanitize=object-size
        tracing->outside_object(reinterpret_cast<void*>(p), data->kind == 1 ? Op::store : Op::load, CODE);
    if (!tracing && here && p & (needs - 1)) fail_misaligned(*data, reinterpret_cast<void*>(p));
    if (tracing && p & (needs - 1))
        tracing->misaligned(reinterpret_cast<void*>(p), needs, data->kind == 1 ? Op::store : Op::load, CODE);
}
}

namespace cuda_on_cpu {

void touch(const void* address, size_t bytes, Access access, const void* code, bool of_block) {
    if (!tracing) return;
    const bool strong = access == Access::strong_load || access == Access::strong_store;
    Op op = strong ? access == Access::strong_load ? Op::load : Op::store : Op(int(access));
    if ((strong || op == Op::atomic) && uintptr_t(address) % bytes) tracing->misaligned(address, bytes, op, code);
    const Strength strength = of_block ? Strength::of_block : strong ? Strength::strong : Strength::weak;
    tracing->access(address, bytes, op, code, strength);
}

uint64_t asked_bits(uint64_t returned) {
    if (tracing) tracing->asked();
    return returned;
}

uint3 place_of_thread() { return here->thread; }
uint3 place_of_block() { return here->block; }
dim3 place_of_block_dim() { return here->block_dim; }
dim3 place_of_grid_dim() { return here->grid_dim; }

}  // namespace cuda_on_cpu
