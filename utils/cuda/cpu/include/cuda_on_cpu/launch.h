// How a kernel finds its place in the grid, and how a launch reaches the runtime (runtime/).
//
// The threads of a block take turns on one thread of the CPU. A thread that meets a barrier steps aside, on a stack of
// its own (a fiber), until the others have arrived. Threads that never wait need no stack of their own: they run one
// after the other in `run_threads`, which is a plain loop.
#pragma once

#include <cstddef>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "types.h"

// Reading a thread-local variable of a loaded library costs a function call unless its place is fixed at load time.
#if defined(__linux__)
#define CUDA_ON_CPU_FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define CUDA_ON_CPU_FAST_TLS
#endif

namespace cuda_on_cpu {

// Where in the grid the calling CPU thread is; one for every thread of the CPU that runs blocks.
struct Position {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    unsigned int started;  // threads of this block that have begun
    unsigned int threads;  // threads in a block
    bool watched;          // the runtime wants to know of every thread's end: others wait, or a trace is made
};

// __thread: of a thread_local variable of a library, every use would first ask whether it must be constructed.
extern __thread Position* here CUDA_ON_CPU_FAST_TLS;

#ifdef CUDA_ON_CPU_TRACE  // reading a place is not an access of the source: the compiler's hooks must not see it
__attribute__((pure)) uint3 place_of_thread();
__attribute__((pure)) uint3 place_of_block();
__attribute__((pure)) dim3 place_of_block_dim();
__attribute__((pure)) dim3 place_of_grid_dim();
#else
__forceinline__ const uint3& place_of_thread() { return here->thread; }
__forceinline__ const uint3& place_of_block() { return here->block; }
__forceinline__ const dim3& place_of_block_dim() { return here->block_dim; }
__forceinline__ const dim3& place_of_grid_dim() { return here->grid_dim; }
#endif

bool next_watched_thread();  // in fibers.cpp

#define CUDA_ON_CPU_ARCH 900  // the value of __CUDA_ARCH__ in device code, unless the build names another

// For a __host__ __device__ function with one body for either side (architecture.py): whether a kernel calls it.
__attribute__((pure)) bool kernel_runs();
constexpr bool in_device_code() { return !__builtin_is_constant_evaluated() && kernel_runs(); }

// Steps on to the next thread of the block that has not begun; false when this fiber is to begin no other.
inline bool next_thread() {
    Position& p = *here;
    if (p.watched) return next_watched_thread();
    if (p.started == p.threads) return false;
    if (p.started++ == 0) {
        p.thread = {0, 0, 0};
    } else if (++p.thread.x == p.block_dim.x) {
        p.thread.x = 0;
        if (++p.thread.y == p.block_dim.y) p.thread.y = 0, p.thread.z++;
    }
    return true;
}

#ifdef CUDA_ON_CPU_LOCAL_ARRAYS
// The source has local arrays, which a thread may overrun. So each thread has a frame of its own, which the compiler's
// stack protector checks, below marks that the runtime checks.
#define CUDA_ON_CPU_OWN_FRAME __attribute__((noinline))
struct Marks {
    uint64_t words[64];
};
void make(Marks& marks);
void check(const Marks& marks);  // ends the kernel if one has changed

template <class Thread>
void run_threads(void* thread) {
    Marks marks;
    make(marks);
    while (next_thread()) {
        (*static_cast<Thread*>(thread))();
        check(marks);
    }
}
#else
#define CUDA_ON_CPU_OWN_FRAME
template <class Thread>
void run_threads(void* thread) {
    while (next_thread()) (*static_cast<Thread*>(thread))();
}
#endif

struct Launch {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;         // work is done at once in any; traces compare them
    bool cooperative = false;    // all blocks run side by side, and may wait for each other
    const void* kernel = nullptr;   // whose limit of dynamic shared memory holds (cudaFuncSetAttribute), where known
    bool any_shared_bytes = false;  // the launch itself asks for that limit
    bool in_step = false;           // the lanes of a warp touch volatile memory in step
    dim3 cluster{0, 0, 0};            // blocks in a cluster; 0 without clusters
    dim3 cluster_of_kernel{0, 0, 0};  // by its __cluster_dims__, where it has them
    bool large_clusters = false;      // of up to 16 blocks (cudaFuncSetAttribute)
    unsigned int most_threads = 0, most_cluster = 0;  // per block, and blocks, by its __launch_bounds__; 0 if it has none
    size_t argument_bytes = 0;        // of the kernel with its arguments, which run_grid gets
    const void* launched_at = nullptr;  // the host's code, in a trace of it
    Launch(dim3 grid, dim3 block = {}, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
        : grid(grid), block(block), shared_bytes(shared_bytes), stream(stream) {}
};
using Configuration = Launch;

// What a kernel's __launch_bounds__ and __cluster_dims__ say (launch_bounds.py); 0: nothing.
struct KernelBounds {
    unsigned int most_threads = 0, most_cluster = 0;
    dim3 cluster{0, 0, 0};
    void limit(Launch& launch) const {
        launch.most_threads = most_threads;
        launch.most_cluster = most_cluster;
        launch.cluster_of_kernel = cluster;
    }
};
template <unsigned int threads, unsigned int blocks, unsigned int x, unsigned int y, unsigned int z>
struct BoundsOf {
    static KernelBounds value() { return {threads, blocks, dim3(x, y, z)}; }
};

// In launch.cpp: checks the launch as CUDA would, then runs every block. If it is refused, cudaGetLastError says so.
// Throws std::runtime_error, which becomes Python's, where a thread touches memory that is not there.
const char* refusal_text();  // ": ", and why this CPU thread's last launch was refused; empty if it was not
void run_grid(const char* name, const Launch& launch, void (*run_threads)(void*), void* thread);

// Whether a type has a size: `void`, functions and classes that are only declared have none.
template <class T, class = void>
inline constexpr bool is_complete = false;
template <class T>
inline constexpr bool is_complete<T, std::enable_if_t<std::is_object_v<T> && sizeof(T) != 0>> = true;

// What the runtime has to know of a kernel's parameter. The last two are 0 for what is no pointer to objects.
struct Parameter {
    size_t bytes, alignment;
    bool is_pointer;
    size_t pointee_alignment, pointee_bytes;
};
template <class T>
constexpr Parameter parameter() {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_pointer_v<T> && is_complete<Pointee>)
        return {sizeof(T), alignof(T), true, alignof(Pointee), sizeof(Pointee)};
    else
        return {sizeof(T), alignof(T), std::is_pointer_v<T>, 0, 0};
}
template <class... T>
inline constexpr Parameter parameters[] = {parameter<T>()..., {}};

// `arguments`: the place of each. In host/arrays.cpp: throws std::runtime_error if one points to the host's own memory.
void look_at_arguments(const char* kernel, const Parameter* parameters, const void* const* arguments, size_t count,
                       const void* code);  // of the launch, in a trace of it

#ifdef CUDA_ON_CPU_TRACE
void look_at_width(int width, const char* function);  // of a shuffle: one that is not a power of two
void look_at_ldg(const void* p, size_t bytes);        // is it written in this launch?
// Says which tensor is which of the kernel's arguments, so that messages can use the kernel's name for it.
void name_arguments(const char* kernel, const Parameter* parameters, const void* const* arguments, size_t count);
#endif

#if defined(CUDA_ON_CPU_TRACE) && defined(__ELF__)
// Where this module's __constant__ variables begin and end (types.h puts them into one section).
extern "C" {
extern char __start_cuda_constant[] __attribute__((weak, visibility("hidden")));
extern char __stop_cuda_constant[] __attribute__((weak, visibility("hidden")));
}
void constant_memory(const void* begin, const void* end);
#define CUDA_ON_CPU_CONSTANTS() constant_memory(__start_cuda_constant, __stop_cuda_constant)
#else
#define CUDA_ON_CPU_CONSTANTS() ((void)0)
#endif

#if defined(__linux__) && defined(__GNUC__) && !defined(CUDA_ON_CPU_RUNTIME)
// Pages that no thread may touch, around a module's variables: GNU ld places .dynbss before all other variables without
// an initial value, and common ones behind them.
#define CUDA_ON_CPU_GUARD "50331648"  // bytes on either side
asm(".pushsection .dynbss, \"aw\", %nobits\n"
    ".balign 4096\n.weak cuda_on_cpu_before\n.hidden cuda_on_cpu_before\ncuda_on_cpu_before:\n"
    ".zero " CUDA_ON_CPU_GUARD "\n.popsection\n"
    ".comm cuda_on_cpu_behind, " CUDA_ON_CPU_GUARD ", 4096\n.hidden cuda_on_cpu_behind\n");
#undef CUDA_ON_CPU_GUARD
extern "C" __attribute__((visibility("hidden"))) char cuda_on_cpu_before[], cuda_on_cpu_behind[];
void guard_variables(char* before, char* behind);  // in guard_pages.cpp
__attribute__((constructor)) static void guard_own_variables() {
    guard_variables(cuda_on_cpu_before, cuda_on_cpu_behind);
}
#endif

// What device code calls, most of it in barriers.cpp. The warp functions wait until every living lane of `mask` has
// come with the same mask; `name` is the CUDA function's, for messages. They return values, never addresses.
void barrier(const char* name = "__syncthreads");                     // waits for every thread of the block
size_t barrier_sum(size_t value, const char* name);                   // the same, and the sum of every thread's value
// PTX's barriers 0 to 15 (named_barriers.cpp). The lanes of a warp gather, then the warp comes: as 32 of the `threads` for
// which the barrier waits, 0 of them being all of the block. Only who arrives does not wait for other warps. The result
// is how many of those that came to reduce voted. `aligned`: the lanes of a warp are at the same place in the code.
enum class BarrierUse { sync, arrive, reduce };
unsigned int named_barrier(unsigned int number, unsigned int threads, BarrierUse use, bool aligned, bool vote,
                           const char* name);
constexpr unsigned int first_tile_barrier = 1 << 16;  // the numbers of further ones: for tiles of several warps
constexpr unsigned int tile_barriers = 31;            // 16 of 64 threads, 8 of 128, and so on up to one of 1,024
void* tile_slot(unsigned int thread);  // 32 bytes of each thread of the block, through which a tile exchanges values
unsigned int lane();                                                  // 0 to 31: the thread's place in its warp
void meet(unsigned int mask, const char* name);                       // __syncwarp: orders memory too
unsigned int ballot(unsigned int mask, bool vote, const char* name);  // bit i: lane i came and voted yes
// The value that lane `from` (0 to 31) gave; the caller's own where that lane did not come.
uint64_t shuffle(unsigned int mask, uint64_t value, unsigned int from, const char* name);
unsigned int match(unsigned int mask, uint64_t value, const char* name);  // the lanes that came with the same value
unsigned int active_lanes();                                          // __activemask
bool cooperative();                                                   // whether grid_barrier may be called
void grid_barrier();                                                  // waits for every thread of the grid
// At the start of a kernel with __cluster_dims__. A launch through a pointer does not know them: it begins again.
void needs_cluster(unsigned int x, unsigned int y, unsigned int z);
void fence(bool of_block = false);                                    // __threadfence and the like
// Lets other threads go on where one asks again and again for what another must do first.
void step_aside();
void nothing_changed();  // by an atomic, or a read as strong: it may be such a question
void nap();  // the same for __nanosleep, between two questions
[[noreturn]] void failed_assertion(const char* condition, const char* file, int line);
[[noreturn]] void trap();
[[noreturn]] void end_thread();  // the running thread does no more, whatever function it is in; the others go on
bool carry();  // PTX: the thread's condition code register
void set_carry(bool carry);
size_t dynamic_shared_bytes();
unsigned int multiprocessors();  // of the GPU that the engine behaves like
long long nanoseconds();   // of a clock that starts anywhere: PTX's %globaltimer
long long device_clock();  // ticks of the multiprocessors' clock (runtime/profile.h): what clock() and clock64() give

// A value that is read once, however often a check of the compiler's needs it (shifts.py, casts.py).
template <class T>
__attribute__((always_inline)) constexpr T once(T v) { return v; }

// Of `c ? a : b` in parentheses, before a subscript (chosen.py).
template <class T>
__attribute__((always_inline)) constexpr T&& chosen(T&& v) { return static_cast<T&&>(v); }

// Reports to a trace, if there is one, an access that the compiler's hooks do not see: atomics, asynchronous copies.
// Call it from a function marked CUDA_ON_CPU_OPAQUE, before the access.
// The last argument: it is atomic only among the threads of a block.
enum class Access { load, store, atomic, strong_load, strong_store };  // strong: atomic, and no change
#ifdef CUDA_ON_CPU_TRACE
void touch(const void* address, size_t bytes, Access access, const void* code, bool of_block = false);
// Around what an atomic returns: a thread learns nothing from a value that it does not use (PTX: `red`). To the compiler
// `asked_bits` has no effect but its result, so it leaves out a call whose result nobody needs.
[[gnu::const]] uint64_t asked_bits(uint64_t returned);
template <class T>
__attribute__((always_inline)) inline T asked(T returned) {
    constexpr size_t words = (sizeof(T) + 7) / 8;
    uint64_t bits[words] = {};
    __builtin_memcpy(bits, &returned, sizeof(T));
    for (size_t i = 0; i < words; i++) bits[i] = asked_bits(bits[i]);
    __builtin_memcpy(&returned, bits, sizeof(T));
    return returned;
}
#define CUDA_ON_CPU_ALIGNED(address, bytes, access)  // a trace sees each access itself
#define CUDA_ON_CPU_TOUCH(address, bytes, access, ...) \
    ::cuda_on_cpu::touch(address, bytes, ::cuda_on_cpu::Access::access, __builtin_return_address(0), ##__VA_ARGS__)
// A function whose own accesses the hooks must not see, and whose caller's line is the one to name.
// Its basic blocks are not part of the caller's path either: the paths from all its callers would meet there.
#ifdef __clang__
#define CUDA_ON_CPU_OPAQUE inline __attribute__((noinline, no_sanitize("thread"), no_sanitize("coverage")))
#elif __has_attribute(no_sanitize_coverage)
#define CUDA_ON_CPU_OPAQUE inline __attribute__((noinline, no_sanitize("thread"), no_sanitize_coverage))
#else  // g++ 11
#define CUDA_ON_CPU_OPAQUE inline __attribute__((noinline, no_sanitize("thread")))
#endif
// A function that only wraps an instruction (wrappers.py): its caller's line is named, too. A player shows its own.
#ifdef CUDA_ON_CPU_RECORDED
#define CUDA_ON_CPU_WRAPPER
#else
#define CUDA_ON_CPU_WRAPPER __attribute__((always_inline))
#endif
}  // namespace cuda_on_cpu
#include "called_from.h"
#include "locals.h"
namespace cuda_on_cpu {
#else
[[gnu::cold]] void misaligned(const void* address, size_t bytes, Access access);  // ends the kernel, as on a GPU
template <Access access>
__attribute__((always_inline)) inline void check_alignment(const void* address, size_t bytes) {
    if (uintptr_t(address) % bytes) misaligned(address, bytes, access);
}
template <class T>
__attribute__((always_inline)) inline T asked(T returned) { return returned; }
#define CUDA_ON_CPU_ALIGNED(address, bytes, access) \
    ::cuda_on_cpu::check_alignment<::cuda_on_cpu::Access::access>(address, bytes)
#define CUDA_ON_CPU_TOUCH(address, bytes, access, ...) CUDA_ON_CPU_ALIGNED(address, bytes, access)
#define CUDA_ON_CPU_OPAQUE inline
#endif

// What printf is translated to. Blocks that run side by side print in the order of their numbers: the runtime keeps
// their text until the launch ends.
int formatted_print(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cuda_on_cpu

#include "shared.h"

// Such macros and translated sources use names in the learner's text that no macro of the learner's has.
#define threadIdx (::cuda_on_cpu::place_of_thread())
#define blockIdx (::cuda_on_cpu::place_of_block())
#define blockDim (::cuda_on_cpu::place_of_block_dim())
#define gridDim (::cuda_on_cpu::place_of_grid_dim())
constexpr int warpSize = 32;

__forceinline__ void __syncthreads() { ::cuda_on_cpu::barrier(); }
__forceinline__ int __syncthreads_count(int p) { return (int)::cuda_on_cpu::barrier_sum(p != 0, "__syncthreads_count"); }
__forceinline__ int __syncthreads_or(int p) { return ::cuda_on_cpu::barrier_sum(p != 0, "__syncthreads_or") != 0; }
__forceinline__ int __syncthreads_and(int p) { return ::cuda_on_cpu::barrier_sum(p == 0, "__syncthreads_and") == 0; }
__forceinline__ void __barrier_sync_count(unsigned int number, unsigned int threads) {
    ::cuda_on_cpu::named_barrier(number, threads, ::cuda_on_cpu::BarrierUse::sync, false, false, "__barrier_sync_count");
}
__forceinline__ void __barrier_sync(unsigned int number) {
    ::cuda_on_cpu::named_barrier(number, 0, ::cuda_on_cpu::BarrierUse::sync, false, false, "__barrier_sync");
}
