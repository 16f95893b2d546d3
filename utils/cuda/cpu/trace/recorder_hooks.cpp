// The hooks of a recorded module. It is linked with --wrap (recorded.py), so its calls of these names come here first
// and then go on as in any other trace. Nothing else calls them.
//
// Such a module is not optimized, so each of its frames holds the address of its caller's frame.
#define CUDA_ON_CPU_TRACE  // for the declarations that only traced modules use
#include "cuda_on_cpu/phases.h"
#include "cuda_on_cpu/tensor_copies.h"
#include "mma.h"
#include "recorder.h"

using namespace cuda_on_cpu;

#define CODE __builtin_return_address(0)
#define FRAME static_cast<void**>(__builtin_frame_address(0))
#define ARRIVES (tracing && tracing->recorder && look(CODE, FRAME))

// Whether a kept thread is running. Ends the launch once everything requested is recorded.
static bool look(const void* code, void** frame) {
    Recorder& recorder = *tracing->recorder;
    const bool kept = recorder.arrives(code, frame);
    if (recorder.is_over() && in_thread()) leave_block(*block().worker);
    return kept;
}

#define ACCESS(name, bytes, op, is_volatile)                             \
    void __wrap___tsan_##name##bytes(void* p) {                          \
        ARRIVES;                                                         \
        if (is_volatile) {  /* lets other threads run */                \
            wait_in_step(p, CODE, Op::op == Op::load);                   \
            ARRIVES;                                                     \
        }                                                                \
        if (tracing) tracing->access(p, bytes, Op::op, CODE, is_volatile ? Strength::of_volatile : Strength::weak); \
    }
#define HOOKS(bytes)                                    \
    ACCESS(read, bytes, load, false)                    \
    ACCESS(write, bytes, store, false)                  \
    ACCESS(unaligned_read, bytes, load, false)          \
    ACCESS(unaligned_write, bytes, store, false)        \
    ACCESS(volatile_read, bytes, load, true)            \
    ACCESS(volatile_write, bytes, store, true)          \
    ACCESS(unaligned_volatile_read, bytes, load, true)  \
    ACCESS(unaligned_volatile_write, bytes, store, true)
#define COMPARED(name, type)                                                                            \
    void name(type, type) {                                                                             \
        if (ARRIVES && tracing->recorder->in_own_function()) tracing->recorder->did(Did::line);         \
    }

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS

void __wrap___tsan_read_range(void* p, size_t bytes) {
    ARRIVES;
    if (tracing) tracing->access(p, bytes, Op::load, CODE, Strength::weak, Parts::aligned);
}
void __wrap___tsan_write_range(void* p, size_t bytes) {
    ARRIVES;
    if (tracing) tracing->access(p, bytes, Op::store, CODE, Strength::weak, Parts::aligned);
}
void __wrap___tsan_func_entry(void*) {
    if (tracing && tracing->recorder) tracing->recorder->enters(CODE, FRAME);
    if (tracing) tracing->call();
    call_in_step(1);
}
void __wrap___tsan_func_exit() {
    if (ARRIVES && tracing->recorder->in_kernel()) tracing->recorder->did(Did::exit);
    if (tracing) tracing->come_back();
    call_in_step(-1);
}
void __wrap___sanitizer_cov_trace_pc() {
    ARRIVES;
    if (tracing) tracing->step(CODE);
    step_in_step(CODE);
}

// A comparison: of an `if`, or of a loop's condition.
COMPARED(__sanitizer_cov_trace_cmp1, uint8_t)
COMPARED(__sanitizer_cov_trace_cmp2, uint16_t)
COMPARED(__sanitizer_cov_trace_cmp4, uint32_t)
COMPARED(__sanitizer_cov_trace_cmp8, uint64_t)
COMPARED(__sanitizer_cov_trace_const_cmp1, uint8_t)
COMPARED(__sanitizer_cov_trace_const_cmp2, uint16_t)
COMPARED(__sanitizer_cov_trace_const_cmp4, uint32_t)
COMPARED(__sanitizer_cov_trace_const_cmp8, uint64_t)
COMPARED(__sanitizer_cov_trace_cmpf, float)
COMPARED(__sanitizer_cov_trace_cmpd, double)
void __sanitizer_cov_trace_switch(uint64_t, void*) {
    if (ARRIVES && tracing->recorder->in_own_function()) tracing->recorder->did(Did::line);
}
}

// ---- the runtime's functions (launch.h, cuda_pipeline.h), under the names that the compiler gives them ----------------

namespace cuda_on_cpu {

void async_copy(void* to, const void* from, size_t bytes, size_t zeros);
void async_wait(size_t prior);
void load_matrices(uint32_t* d, unsigned int count, bool transpose, uint32_t shared_address);
void store_matrices(uint32_t shared_address, const uint32_t* s, unsigned int count, bool transpose);
uint32_t transpose_matrix(uint32_t s);

#define WRAPPED(result, name, mangled, ...) \
    result name##_of_recorded(__VA_ARGS__) asm("__wrap__ZN11cuda_on_cpu" mangled); \
    result name##_of_recorded(__VA_ARGS__)

// Where the thread is has been noted: the runtime goes on.
#define PASSED_ON(result, name, mangled, parameters, ...)                              \
    result name##_of_recorded parameters asm("__wrap__ZN11cuda_on_cpu" mangled);       \
    result name##_of_recorded parameters {                                             \
        ARRIVES;                                                                       \
        return name(__VA_ARGS__);                                                      \
    }
// The same, where it may wait for the end of a phase.
#define ASKED(name, mangled, parameters, ...)                                        \
    bool name##_of_recorded parameters asm("__wrap__ZN11cuda_on_cpu" mangled);         \
    bool name##_of_recorded parameters {                                               \
        ARRIVES;                                                                       \
        const bool over = name(__VA_ARGS__);                                           \
        if (ARRIVES) tracing->recorder->asked(over);                                   \
        return over;                                                                   \
    }
#define AWAITED(name, mangled, parameters, ...)                                      \
    void name##_of_recorded parameters asm("__wrap__ZN11cuda_on_cpu" mangled);         \
    void name##_of_recorded parameters {                                               \
        ARRIVES;                                                                       \
        name(__VA_ARGS__);                                                             \
        if (ARRIVES) tracing->recorder->asked(true);                                   \
    }

static void waits(bool kept, const char* function) {
    if (kept) tracing->recorder->did(Did::barrier, function);
}
static void goes_on(bool kept, const char* function) {
    if (kept) tracing->recorder->did(Did::passed, function);
}

WRAPPED(void, barrier, "7barrierEPKc", const char* name) {
    waits(ARRIVES, name);
    barrier(name);
    goes_on(ARRIVES, name);
}
WRAPPED(size_t, barrier_sum, "11barrier_sumEmPKc", size_t value, const char* name) {
    waits(ARRIVES, name);
    size_t sum = barrier_sum(value, name);
    goes_on(ARRIVES, name);
    return sum;
}
WRAPPED(unsigned int, named_barrier, "13named_barrierEjjNS_10BarrierUseEbbPKc", unsigned int number,
        unsigned int threads, BarrierUse use, bool aligned, bool vote, const char* name) {
    waits(ARRIVES, name);
    const unsigned int votes = named_barrier(number, threads, use, aligned, vote, name);
    goes_on(ARRIVES, name);
    return votes;
}
WRAPPED(void, meet, "4meetEjPKc", unsigned int mask, const char* name) {
    waits(ARRIVES, name);
    meet(mask, name);
    goes_on(ARRIVES, name);
}
WRAPPED(void, grid_barrier, "12grid_barrierEv") {
    waits(ARRIVES, "grid.sync");
    grid_barrier();
    goes_on(ARRIVES, "grid.sync");
}
WRAPPED(uint64_t, shuffle, "7shuffleEjmjPKc", unsigned int mask, uint64_t value, unsigned int from, const char* name) {
    const bool kept = ARRIVES;
    if (kept) tracing->recorder->did(Did::shuffle, name, value, uint8_t(from));
    value = shuffle(mask, value, from, name);
    if (kept) tracing->recorder->got(value);
    return value;
}
WRAPPED(unsigned int, ballot, "6ballotEjbPKc", unsigned int mask, bool vote, const char* name) {
    if (ARRIVES) tracing->recorder->did(Did::line, name);
    return ballot(mask, vote, name);
}
WRAPPED(unsigned int, match, "5matchEjmPKc", unsigned int mask, uint64_t value, const char* name) {
    if (ARRIVES) tracing->recorder->did(Did::line, name);
    return match(mask, value, name);
}
PASSED_ON(void, touch, "5touchEPKvmNS_6AccessES1_b",
          (const void* address, size_t bytes, Access access, const void* code, bool of_block),
          address, bytes, access, code, of_block)
WRAPPED(void, async_copy, "10async_copyEPvPKvmm", void* to, const void* from, size_t bytes, size_t zeros) {
    ARRIVES;
    if (tracing && tracing->recorder) tracing->recorder->copying = true;
    async_copy(to, from, bytes, zeros);
    if (tracing && tracing->recorder) tracing->recorder->copying = false;
}
PASSED_ON(void, async_wait, "10async_waitEm", (size_t prior), prior)
WRAPPED(void, multiply, "8multiplyERKNS_3ptx7ProductEPvPKvS6_S6_PKc", const ptx::Product& product, void* d,
        const void* a, const void* b, const void* c, const char* name) {
    const bool kept = ARRIVES;
    if (kept) tracing->recorder->multiplies(product, a, b, c, name);
    multiply(product, d, a, b, c, name);
    if (kept) tracing->recorder->multiplied(product, d);
}
WRAPPED(uint32_t, transpose_matrix, "16transpose_matrixEj", uint32_t s) {
    if (ARRIVES) tracing->recorder->did(Did::line, "movmatrix.sync");
    return transpose_matrix(s);
}
PASSED_ON(void, load_matrices, "13load_matricesEPjjbj",
          (uint32_t* d, unsigned int count, bool transpose, uint32_t shared_address), d, count, transpose, shared_address)
PASSED_ON(void, store_matrices, "14store_matricesEjPKjjb",
          (uint32_t shared_address, const uint32_t* s, unsigned int count, bool transpose), shared_address, s, count,
          transpose)
PASSED_ON(void, load_fragment, "13load_fragmentERKNS_4TileEPvPKvjbPKc",
          (const Tile& tile, void* x, const void* from, unsigned int stride, bool columns, const char* name), tile, x, from,
          stride, columns, name)
PASSED_ON(void, store_fragment, "14store_fragmentERKNS_4TileEPKvPvjbPKc",
          (const Tile& tile, const void* x, void* to, unsigned int stride, bool columns, const char* name), tile, x, to,
          stride, columns, name)

// Barriers in memory: the runtime itself reports what changes (trace.h: BarrierChange).
using Number = unsigned long long;
PASSED_ON(void, phase_init, "10phase_initEPKvyPKc", (const void* b, Number expected, const char* name), b, expected, name)
PASSED_ON(void, phase_inval, "11phase_invalEPKvPKc", (const void* b, const char* name), b, name)
PASSED_ON(Number, phase_arrive, "12phase_arriveEPKvRKNS_7ArrivalEPKc",
          (const void* b, const Arrival& arrival, const char* name), b, arrival, name)
PASSED_ON(void, phase_expect, "12phase_expectEPKvyPKc", (const void* b, Number bytes, const char* name), b, bytes, name)
PASSED_ON(void, phase_complete, "14phase_completeEPKvyPKc", (const void* b, Number bytes, const char* name), b, bytes, name)
PASSED_ON(void, phase_waits_for_copies, "22phase_waits_for_copiesEPKvPKc", (const void* b, const char* name), b, name)
AWAITED(phase_wait, "10phase_waitEPKvyPKc", (const void* b, Number phase, const char* name), b, phase, name)
AWAITED(phase_wait_parity, "17phase_wait_parityEPKvbPKc", (const void* b, bool parity, const char* name), b, parity, name)
ASKED(phase_over, "10phase_overEPKvyPKcb", (const void* b, Number phase, const char* name, bool acquires), b, phase, name,
      acquires)
ASKED(phase_over_parity, "17phase_over_parityEPKvbPKcb", (const void* b, bool parity, const char* name, bool acquires), b,
      parity, name, acquires)

// What the bulk copy engine does.
PASSED_ON(void, bulk_load, "9bulk_loadEPvPKvjS2_jPKc",
          (void* to, const void* from, unsigned int bytes, const void* b, unsigned int mask, const char* name), to, from,
          bytes, b, mask, name)
PASSED_ON(void, bulk_store, "10bulk_storeEPvPKvjPKc", (void* to, const void* from, unsigned int bytes, const char* name), to,
          from, bytes, name)
PASSED_ON(void, bulk_reduce, "11bulk_reduceEPvPKvjS2_iiPKc",
          (void* to, const void* from, unsigned int bytes, const void* b, int op, int type, const char* name), to, from,
          bytes, b, op, type, name)
PASSED_ON(void, async_store, "11async_storeEPvPKvjS2_PKc",
          (void* to, const void* value, unsigned int bytes, const void* b, const char* name), to, value, bytes, b, name)
PASSED_ON(void, async_reduce, "12async_reduceEPvPKvjiiS2_PKc",
          (void* to, const void* value, unsigned int bytes, int op, int type, const void* b, const char* name), to, value,
          bytes, op, type, b, name)
PASSED_ON(void, bulk_wait, "9bulk_waitEjb", (unsigned int prior, bool reads), prior, reads)
PASSED_ON(void, tensor_load, "11tensor_loadEPvPKvPKiiS2_jPKc",
          (void* to, const void* map, const int32_t* at, int rank, const void* b, unsigned int mask, const char* name), to,
          map, at, rank, b, mask, name)
PASSED_ON(void, tensor_store, "12tensor_storeEPKvPKiiS1_PKc",
          (const void* map, const int32_t* at, int rank, const void* from, const char* name), map, at, rank, from, name)
PASSED_ON(void, tensor_reduce, "13tensor_reduceEPKvPKiiS1_iPKc",
          (const void* map, const int32_t* at, int rank, const void* from, int op, const char* name), map, at, rank, from,
          op, name)

}  // namespace cuda_on_cpu
