// The runtime: runs the blocks of a grid on the cores of the CPU, and the threads of a block in turns on one core.
//
// Compiled once and shared by every module. Read `run_grid` first, then `run_block`, then `barrier`.
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

namespace cuda_on_cpu {

thread_local Position* here CUDA_ON_CPU_FAST_TLS = nullptr;
static thread_local cudaError_t last_error = cudaSuccess;

// What CUDA allows ("CUDA C++ Programming Guide", Compute Capabilities; the same from 7.5 to 9.0).
constexpr unsigned int max_threads = 1024, max_block_z = 64, max_grid_x = 0x7fffffff, max_grid_yz = 65535;
constexpr size_t max_shared = 48 * 1024;  // static and dynamic together, without opting in to more

// A thread of a block that can stop and go on: a stack, and the place where it stopped.
// `_setjmp` and `_longjmp` switch in about 60 ns, where `swapcontext`, which calls the kernel of the system, takes
// ten times that; it is used once, to get onto the new stack.
struct Fiber {
    static constexpr size_t stack_bytes = 256 * 1024;  // pages are taken from the system when touched
    jmp_buf place;
    ucontext_t entry;
    uint3 thread;            // the thread that waits here
    Fiber *next, *previous;  // the ring of those that have begun and not ended
    bool begun = false;
    void* stack;

    Fiber() {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (stack == MAP_FAILED) throw std::bad_alloc();
        mprotect(stack, sysconf(_SC_PAGESIZE), PROT_NONE);  // the guard: a stack that runs over stops the program
    }
    ~Fiber() { munmap(stack, stack_bytes); }
    Fiber(const Fiber&) = delete;
};

// What one thread of the CPU needs to run blocks. Kept for the next launch, since the stacks are worth keeping.
struct Worker : Position {
    void (*run_threads)(void*);
    void* kernel;

    std::vector<std::unique_ptr<Fiber>> fibers;  // all that were ever needed at once
    std::vector<Fiber*> idle;
    Fiber* running = nullptr;
    unsigned int in_ring = 0, arrived = 0;
    jmp_buf scheduler;
    ucontext_t scheduler_context;
    size_t sum = 0, last_sum = 0;  // of barrier_sum: of those that have arrived, and of the barrier before

    struct Variable { const void* variable; size_t offset; };
    std::vector<Variable> variables;  // the static shared memory of this launch
    size_t static_bytes = 0;
    std::unique_ptr<unsigned char[]> arena{new unsigned char[2 * max_shared]};  // static, then dynamic

    std::string printed;  // by the block that runs
};

static std::mutex workers_mutex;
static std::vector<std::unique_ptr<Worker>> idle_workers;

static std::unique_ptr<Worker> take_worker() {
    std::lock_guard lock(workers_mutex);
    if (idle_workers.empty()) return std::make_unique<Worker>();
    auto worker = std::move(idle_workers.back());
    idle_workers.pop_back();
    return worker;
}

static void give_back(std::unique_ptr<Worker> worker) {
    std::lock_guard lock(workers_mutex);
    idle_workers.push_back(std::move(worker));
}

// Never inlined: an idle fiber may wake on another CPU thread, so nothing read from `here` may outlive a switch.
__attribute__((noinline)) static Worker& worker() {
    asm volatile("");
    return *static_cast<Worker*>(here);
}

// Goes on with `fiber`, which is new, idle or waiting at a barrier. Whoever calls has noted its own place.
[[noreturn]] static void go_on(Fiber* fiber);

// Every thread has arrived at the barrier: the next of the ring may go on.
static void open_barrier(Worker& w) {
    w.arrived = 0;
    w.last_sum = w.sum;
    w.sum = 0;
}

// The life of a fiber: it runs threads of the block until none is left, then lies idle until a block needs it.
static void live() {
    for (;;) {
        Worker& w = worker();
        Fiber* me = w.running;
        w.run_threads(w.kernel);
        me->previous->next = me->next;
        me->next->previous = me->previous;
        w.in_ring--;
        w.idle.push_back(me);
        if (_setjmp(me->place) == 0) {
            if (w.in_ring == 0) _longjmp(w.scheduler, 1);
            // The rest wait at a barrier. A thread that has ended is not waited for.
            if (w.arrived == w.in_ring) open_barrier(w);
            go_on(me->next);
        }
    }
}

static void go_on(Fiber* fiber) {
    Worker& w = worker();
    w.running = fiber;
    w.thread = fiber->thread;
    if (fiber->begun) _longjmp(fiber->place, 1);
    fiber->begun = true;
    getcontext(&fiber->entry);
    fiber->entry.uc_stack.ss_sp = fiber->stack;
    fiber->entry.uc_stack.ss_size = Fiber::stack_bytes;
    fiber->entry.uc_link = nullptr;
    makecontext(&fiber->entry, live, 0);
    setcontext(&fiber->entry);
    __builtin_unreachable();
}

// A fiber for the threads that have not begun, put into the ring behind `behind`.
static Fiber* new_fiber(Worker& w, Fiber* behind) {
    if (w.idle.empty()) {
        w.fibers.push_back(std::make_unique<Fiber>());
        w.idle.push_back(w.fibers.back().get());
    }
    Fiber* fiber = w.idle.back();
    w.idle.pop_back();
    fiber->previous = behind ? behind : fiber;
    fiber->next = behind ? behind->next : fiber;
    fiber->previous->next = fiber->next->previous = fiber;
    w.in_ring++;
    return fiber;
}

static void run_block(Worker& w) {
    w.started = 0;
    if (_setjmp(w.scheduler) == 0) go_on(new_fiber(w, nullptr));
}

// Threads arrive in the order of the ring, so when the last has arrived the next in the ring is the first to go on.
size_t barrier_sum(size_t value) {
    Worker& w = worker();
    Fiber* me = w.running;
    me->thread = w.thread;
    w.sum += value;
    w.arrived++;
    bool all_begun = w.started == w.threads;
    if (all_begun && w.arrived == w.in_ring) open_barrier(w);
    Fiber* next = all_begun ? me->next : new_fiber(w, me);
    if (next != me && _setjmp(me->place) == 0) go_on(next);
    return worker().last_sum;  // the barrier after this one opens only when all have read it
}

void barrier() { barrier_sum(0); }

void* static_shared(const void* variable, size_t bytes, size_t alignment) {
    Worker& w = worker();
    for (const auto& known : w.variables)
        if (known.variable == variable) return w.arena.get() + known.offset;
    alignment = std::max<size_t>(alignment, 16);
    size_t offset = (w.static_bytes + alignment - 1) / alignment * alignment;
    if (offset + bytes > max_shared) {
        fprintf(stderr, "the __shared__ variables of this kernel need more than the %zu bytes a block has\n", max_shared);
        abort();
    }
    w.static_bytes = offset + bytes;
    w.variables.push_back({variable, offset});
    return w.arena.get() + offset;
}

void* dynamic_shared() { return worker().arena.get() + max_shared; }

int print(const char* format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(nullptr, 0, format, args);
    if (!here) {
        vprintf(format, again);
    } else if (length > 0) {
        std::string& text = worker().printed;
        size_t before = text.size();
        text.resize(before + length + 1);
        vsnprintf(&text[before], length + 1, format, again);
        text.resize(before + length);
    }
    va_end(args);
    va_end(again);
    return length;
}

// Whether CUDA refuses a launch. CUDA 13 calls every reason an invalid argument (measured on an H200, driver 580);
// CUDA 12 calls those that concern the numbers of blocks and threads an invalid configuration argument.
static bool refused(const Launch& l) {
    uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
    return threads == 0 || threads > max_threads || l.block.z > max_block_z ||  //
           l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0 ||                   //
           l.grid.x > max_grid_x || l.grid.y > max_grid_yz || l.grid.z > max_grid_yz || l.shared_bytes > max_shared;
}

void run_grid(const Launch& launch, void (*run_threads)(void*), void* kernel) {
    if (refused(launch)) {
        last_error = cudaErrorInvalidValue;
        return;
    }
    const dim3 grid = launch.grid, block = launch.block;
    const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
    std::atomic<uint64_t> next_block{0};
    std::mutex printed_mutex;
    std::vector<std::pair<uint64_t, std::string>> printed;  // by block

    auto work = [&] {
        auto w = take_worker();
        Position* outer = here;
        here = w.get();
        w->run_threads = run_threads;
        w->kernel = kernel;
        w->block_dim = block;
        w->grid_dim = grid;
        w->threads = block.x * block.y * block.z;
        w->variables.clear();
        w->static_bytes = 0;
        for (uint64_t b; (b = next_block.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
            w->block = {unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)};
            run_block(*w);
            if (!w->printed.empty()) {
                std::lock_guard lock(printed_mutex);
                printed.emplace_back(b, std::move(w->printed));
                w->printed.clear();
            }
        }
        here = outer;
        give_back(std::move(w));
    };

    uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> helpers;
    for (uint64_t i = 1; i < std::min(cores, blocks); i++) helpers.emplace_back(work);
    work();
    for (auto& helper : helpers) helper.join();

    std::sort(printed.begin(), printed.end());
    for (const auto& [b, text] : printed) fwrite(text.data(), 1, text.size(), stdout);
    if (!printed.empty()) fflush(stdout);
}

}  // namespace cuda_on_cpu

cudaError_t cudaPeekAtLastError() { return cuda_on_cpu::last_error; }

cudaError_t cudaGetLastError() { return std::exchange(cuda_on_cpu::last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    }
    return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
    }
    return "unrecognized error code";
}
