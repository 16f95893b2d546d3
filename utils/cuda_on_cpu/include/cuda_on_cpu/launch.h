// How a kernel finds its place in the grid, and how a launch reaches the runtime (runtime.cpp).
//
// The threads of a block take turns on one thread of the CPU. A thread that meets a barrier steps aside, on a stack of
// its own (a fiber), until the others have arrived. Threads that never wait need no stack of their own: they run one
// after the other in `run_threads`, which is a plain loop.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "types.h"

// Reading a thread-local variable of a loaded library costs a function call unless its place is fixed at load time.
#if defined(__linux__)
#define CUDA_ON_CPU_FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define CUDA_ON_CPU_FAST_TLS
#endif

namespace cuda_on_cpu {

// Where the CPU thread that asks stands in the grid; one for every thread of the CPU that runs blocks.
struct Position {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    unsigned int started;  // threads of this block that have begun
    unsigned int threads;  // threads in a block
};

extern thread_local Position* here CUDA_ON_CPU_FAST_TLS;

// Steps on to the next thread of the block that has not begun; false when there is none.
inline bool next_thread() {
    Position& p = *here;
    if (p.started == p.threads) return false;
    unsigned int i = p.started++;
    p.thread = {i % p.block_dim.x, i / p.block_dim.x % p.block_dim.y, i / p.block_dim.x / p.block_dim.y};
    return true;
}

template <class Thread>
void run_threads(void* thread) {
    while (next_thread()) (*static_cast<Thread*>(thread))();
}

struct Launch {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;  // there is one order of work on a CPU, so every stream is the same
    Launch(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
        : grid(grid), block(block), shared_bytes(shared_bytes), stream(stream) {}
};

// In runtime.cpp: checks the launch as CUDA would, then runs every block. What it refuses, cudaGetLastError tells.
// Throws std::runtime_error, which becomes Python's, where a thread touches memory that is not there.
void run_grid(const char* name, const Launch& launch, void (*run_threads)(void*), void* thread);

// kernel<<<grid, block>>>(args) is translated to
// ::cuda_on_cpu::start("kernel", ::cuda_on_cpu::Launch(grid, block), [&](auto... a) { kernel(a...); })(args)
// so that the compiler picks the overload or the template instance, and converts the arguments, as for any call.
template <class Kernel>
auto start(const char* name, Launch launch, Kernel kernel) {
    return [name, launch, kernel](auto&&... args) {
        std::tuple<std::decay_t<decltype(args)>...> copies(std::forward<decltype(args)>(args)...);
        auto thread = [&] { std::apply(kernel, copies); };
        run_grid(name, launch, &run_threads<decltype(thread)>, &thread);
    };
}

void barrier();                            // __syncthreads
size_t barrier_sum(size_t value);          // __syncthreads, and the sum of every thread's value
void* dynamic_shared();                    // the bytes that the launch asked for
void* static_shared(const void* variable, size_t bytes, size_t alignment);

// What printf is translated to. Blocks that run side by side print in the order of their numbers: the runtime keeps
// their text until the launch ends.
int print(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A __shared__ variable: one of these stands where it was declared, and every thread asks it for the block's copy.
// `__shared__ float tile[16][16];` is translated to
// `static ::cuda_on_cpu::Shared<float[16][16]> tile_shared; auto& tile = tile_shared.of_this_block();`
template <class T>
struct Shared {
    static_assert(sizeof(T) <= 48 * 1024, "a block has 48 KB of static shared memory: this variable is larger");
    constexpr Shared() {}
    T& of_this_block() const { return *static_cast<T*>(static_shared(this, sizeof(T), alignof(T))); }
};

}  // namespace cuda_on_cpu

#define threadIdx (::cuda_on_cpu::here->thread)
#define blockIdx (::cuda_on_cpu::here->block)
#define blockDim (::cuda_on_cpu::here->block_dim)
#define gridDim (::cuda_on_cpu::here->grid_dim)
#define warpSize 32

inline void __syncthreads() { ::cuda_on_cpu::barrier(); }
inline int __syncthreads_count(int p) { return (int)::cuda_on_cpu::barrier_sum(p != 0); }
inline int __syncthreads_or(int p) { return ::cuda_on_cpu::barrier_sum(p != 0) != 0; }
inline int __syncthreads_and(int p) { return ::cuda_on_cpu::barrier_sum(p == 0) == 0; }
