// The runtime: runs the blocks of a grid on the cores of the CPU, and the threads of a block in turns on one core.
//
// Compiled once and shared by every module. Read `run_grid` first, then `run_block`, then `barrier_sum`; the part in
// the middle is for a kernel that touches memory which is not there, and for the learner who interrupts one.
#include <setjmp.h>
#include <signal.h>
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
#include <stdexcept>
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
        mprotect(stack, guard_bytes(), PROT_NONE);  // a stack that runs over meets this
    }
    static size_t guard_bytes() { return sysconf(_SC_PAGESIZE); }
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
    size_t sum = 0, last_sum = 0;  // of barrier_sum: of those that have arrived, and of the barrier before

    struct Variable { const void* variable; size_t offset; };
    std::vector<Variable> variables;  // the static shared memory of this launch
    size_t static_bytes = 0, dynamic_bytes = 0;
    std::unique_ptr<unsigned char[]> arena{new unsigned char[2 * max_shared]};  // static, then dynamic

    std::string printed;  // by the block that runs

    // The learner's own code runs, which may be left at any point; within the runtime's functions it is 0.
    volatile sig_atomic_t in_kernel = 0;
    int fault = 0;  // the signal that ended this launch, where one did, or `too_much_shared`
    const char* fault_address = nullptr;
    pthread_t cpu_thread;
    std::unique_ptr<char[]> signal_stack{new char[signal_stack_bytes]};
    static constexpr size_t signal_stack_bytes = 64 * 1024;
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

static std::atomic<bool> interrupted{false};

// A signal finds the learner's code in the middle of something. It is left there for good: its stack is not unwound.
[[noreturn]] static void leave_block(Worker& w) {
    w.in_kernel = 0;
    _longjmp(w.scheduler, 2);
}

// From the runtime to the learner's code, which is left at once if an interruption came while the runtime was at work.
static void enter_kernel(Worker& w) {
    w.in_kernel = 1;
    if (interrupted) leave_block(w);
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
        enter_kernel(w);
        w.run_threads(w.kernel);
        w.in_kernel = 0;
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
    int ended = _setjmp(w.scheduler);
    if (ended == 0) go_on(new_fiber(w, nullptr));
    if (ended == 1) return;
    // The block was left (by `leave_block`): its fibers begin anew.
    w.in_ring = w.arrived = 0;
    w.sum = 0;
    w.idle.clear();
    for (auto& fiber : w.fibers) {
        fiber->begun = false;
        w.idle.push_back(fiber.get());
    }
}

// ---- faults and interruptions ---------------------------------------------------------------------------------------

constexpr int too_much_shared = -1;  // beside the signals
constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE};
static std::mutex handlers_mutex;
static int launches_under_way = 0;
static struct sigaction before_fault[3], before_interrupt;
static std::atomic<Worker*> at_work[1024];

static void on_fault(int signal, siginfo_t* info, void*) {
    if (here && worker().in_kernel) {
        Worker& w = worker();
        w.fault = signal;
        w.fault_address = static_cast<const char*>(info->si_addr);
        leave_block(w);
    }
    for (int i = 0; i < 3; i++)  // not ours: whoever was there before is asked when the instruction is tried again
        if (fault_signals[i] == signal) sigaction(signal, &before_fault[i], nullptr);
}

// Python's own handler notes the interruption, and raises KeyboardInterrupt when the launch has returned.
static void on_interrupt(int signal, siginfo_t* info, void* context) {
    if (!interrupted.exchange(true)) {
        if (before_interrupt.sa_flags & SA_SIGINFO)
            before_interrupt.sa_sigaction(signal, info, context);
        else
            before_interrupt.sa_handler(signal);
        for (auto& slot : at_work) {
            Worker* other = slot.load();
            if (other && other != here) pthread_kill(other->cpu_thread, SIGINT);
        }
    }
    if (here && worker().in_kernel) leave_block(worker());
}

// While kernels run, signals come to us first.
struct Handlers {
    Handlers() {
        std::lock_guard lock(handlers_mutex);
        if (launches_under_way++) return;
        struct sigaction ours {};
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        ours.sa_sigaction = on_fault;
        for (int i = 0; i < 3; i++) sigaction(fault_signals[i], &ours, &before_fault[i]);
        interrupted = false;
        sigaction(SIGINT, nullptr, &before_interrupt);
        bool handled = (before_interrupt.sa_flags & SA_SIGINFO) ||
                       (before_interrupt.sa_handler != SIG_DFL && before_interrupt.sa_handler != SIG_IGN);
        ours.sa_sigaction = on_interrupt;
        if (handled) sigaction(SIGINT, &ours, nullptr);
    }
    ~Handlers() {
        std::lock_guard lock(handlers_mutex);
        if (--launches_under_way) return;
        for (int i = 0; i < 3; i++) sigaction(fault_signals[i], &before_fault[i], nullptr);
        sigaction(SIGINT, &before_interrupt, nullptr);
    }
};

// A signal that comes because a stack has run over needs another one to run on.
struct SignalStack {
    stack_t before;
    explicit SignalStack(Worker& w) {
        stack_t own{};
        own.ss_sp = w.signal_stack.get();
        own.ss_size = Worker::signal_stack_bytes;
        sigaltstack(&own, &before);
    }
    ~SignalStack() { sigaltstack(&before, nullptr); }
};

// What is told to the learner. It begins as CUDA's own message for the same mistake does.
static std::string fault_message(const char* kernel, const Worker& w) {
    const char* stack = static_cast<const char*>(w.running->stack);
    bool stack_ran_over = w.fault_address >= stack && w.fault_address < stack + Fiber::guard_bytes();
    char text[512], what[160];
    if (w.fault == too_much_shared)
        return std::string(kernel) + " needs more shared memory than the " + std::to_string(max_shared) +
               " bytes that a block has, static and dynamic together";
    if (w.fault == SIGFPE)
        snprintf(what, sizeof what, "divides a whole number by zero");
    else if (stack_ran_over)
        snprintf(what, sizeof what, "needs more than %zu KB for its local variables", Fiber::stack_bytes / 1024);
    else
        snprintf(what, sizeof what, "touches memory that is not there (address %p): compare its index with the size",
                 (const void*)w.fault_address);
    snprintf(text, sizeof text, "CUDA error: %s: thread (%u, %u, %u) of block (%u, %u, %u) of %s %s",
             w.fault == SIGFPE ? "a trap" : "an illegal memory access was encountered", w.thread.x, w.thread.y,
             w.thread.z, w.block.x, w.block.y, w.block.z, kernel, what);
    return text;
}

// ---- what kernels call ----------------------------------------------------------------------------------------------

// Threads arrive in the order of the ring, so when the last has arrived the next in the ring is the first to go on.
size_t barrier_sum(size_t value) {
    Worker& w = worker();
    w.in_kernel = 0;
    Fiber* me = w.running;
    me->thread = w.thread;
    w.sum += value;
    w.arrived++;
    bool all_begun = w.started == w.threads;
    if (all_begun && w.arrived == w.in_ring) open_barrier(w);
    Fiber* next = all_begun ? me->next : new_fiber(w, me);
    if (next != me && _setjmp(me->place) == 0) go_on(next);
    enter_kernel(worker());
    return worker().last_sum;  // the barrier after this one opens only when all have read it
}

void barrier() { barrier_sum(0); }

void* static_shared(const void* variable, size_t bytes, size_t alignment) {
    Worker& w = worker();
    for (const auto& known : w.variables)
        if (known.variable == variable) return w.arena.get() + known.offset;
    w.in_kernel = 0;
    alignment = std::max<size_t>(alignment, 16);
    size_t offset = (w.static_bytes + alignment - 1) / alignment * alignment;
    if (offset + bytes + w.dynamic_bytes > max_shared) {
        w.fault = too_much_shared;
        leave_block(w);
    }
    w.static_bytes = offset + bytes;
    w.variables.push_back({variable, offset});
    enter_kernel(w);
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
        worker().in_kernel = 0;
        text.resize(before + length + 1);
        enter_kernel(worker());
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

void run_grid(const char* name, const Launch& launch, void (*run_threads)(void*), void* kernel) {
    if (refused(launch)) {
        last_error = cudaErrorInvalidValue;
        return;
    }
    const dim3 grid = launch.grid, block = launch.block;
    const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
    std::atomic<uint64_t> next_block{0};
    std::mutex told_mutex;
    std::vector<std::pair<uint64_t, std::string>> printed;  // by block
    std::string fault;                                      // the message about the first
    Handlers handlers;

    auto work = [&] {
        auto w = take_worker();
        auto signal_stack = std::make_unique<SignalStack>(*w);
        Position* outer = here;
        here = w.get();
        w->run_threads = run_threads;
        w->kernel = kernel;
        w->block_dim = block;
        w->grid_dim = grid;
        w->threads = block.x * block.y * block.z;
        w->variables.clear();
        w->static_bytes = 0;
        w->dynamic_bytes = launch.shared_bytes;
        w->fault = 0;
        w->cpu_thread = pthread_self();
        std::atomic<Worker*>* slot = nullptr;
        for (auto& free : at_work)
            if (Worker* nobody = nullptr; free.compare_exchange_strong(nobody, w.get())) {
                slot = &free;
                break;
            }
        for (uint64_t b; !interrupted && (b = next_block.fetch_add(1, std::memory_order_relaxed)) < blocks;) {
            w->block = {unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)};
            run_block(*w);
            if (w->fault) next_block = blocks;  // nobody begins another block
            if (!w->printed.empty() || w->fault) {
                std::lock_guard lock(told_mutex);
                printed.emplace_back(b, std::move(w->printed));
                w->printed.clear();
                if (w->fault && fault.empty()) fault = fault_message(name, *w);
            }
            if (w->fault) break;
        }
        if (slot) *slot = nullptr;
        here = outer;
        signal_stack.reset();  // before another thread may get this worker's
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
    if (!fault.empty()) throw std::runtime_error(fault);
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
