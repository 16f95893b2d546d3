// For a kernel that touches memory which is not there, and for the learner who interrupts one.
//
// A signal finds the learner's code in the middle of something. `in_kernel` says that it may be left there for good;
// while the runtime itself is at work, an interruption is only noted, and taken up on the way back.
#include <cstdio>
#include <mutex>

#include "cuda_on_cpu/profile.h"
#include "runtime.h"

namespace cuda_on_cpu {

std::atomic<bool> interrupted{false};

static constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE};
static std::mutex handlers_mutex;
static int launches_under_way = 0;
static struct sigaction before_fault[3], before_interrupt;
static std::atomic<Worker*> at_work[1024];

static void on_fault(int signal, siginfo_t* info, void*) {
    if (here && block().worker->in_kernel) {
        Worker& w = *block().worker;
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
            if (other && !pthread_equal(other->cpu_thread, pthread_self())) pthread_kill(other->cpu_thread, SIGINT);
        }
    }
    // A trace is in the middle of its own work at any time; it looks at `interrupted` by itself.
    if (here && block().worker->in_kernel && !block().worker->trace) leave_block(*block().worker);
}

Handlers::Handlers() {
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

Handlers::~Handlers() {
    std::lock_guard lock(handlers_mutex);
    if (--launches_under_way) return;
    for (int i = 0; i < 3; i++) sigaction(fault_signals[i], &before_fault[i], nullptr);
    sigaction(SIGINT, &before_interrupt, nullptr);
}

SignalStack::SignalStack(Worker& w) {
    stack_t own{};
    own.ss_sp = w.signal_stack.get();
    own.ss_size = Worker::signal_stack_bytes;
    sigaltstack(&own, &before);
}

SignalStack::~SignalStack() { sigaltstack(&before, nullptr); }

AtWork::AtWork(Worker& w) {
    for (auto& free : at_work)
        if (Worker* nobody = nullptr; free.compare_exchange_strong(nobody, &w)) {
            slot = &free;
            return;
        }
}

AtWork::~AtWork() {
    if (slot) *slot = nullptr;
}

// What is told to the learner. It begins as CUDA's own message for the same mistake does.
std::string fault_message(const char* kernel, const Worker& w) {
    const Block& b = block();
    char place[256], what[256];
    snprintf(place, sizeof place, "thread (%u, %u, %u) of block (%u, %u, %u) of ", b.thread.x, b.thread.y, b.thread.z,
             b.block.x, b.block.y, b.block.z);
    const std::string who = place + std::string(kernel) + " ";
    const char* guard = b.running ? b.running->stack : nullptr;
    switch (w.fault) {
        case too_much_shared:
            return std::string(kernel) + " needs more shared memory than the " + std::to_string(profile.shared_bytes) +
                   " bytes that a block has, static and dynamic together";
        case no_grid:
            return "CUDA error: " + who + "calls grid.sync, but the launch is not cooperative: use " +
                   "cudaLaunchCooperativeKernel, which makes sure that all blocks run side by side";
        case stuck:
            return "CUDA error: this launch would never end: " + who + "waits at " + w.fault_text +
                   " for threads that wait elsewhere";
        case wrong_mask: return "CUDA error: " + who + w.fault_text;
        case assertion: return "CUDA error: device-side assert triggered: " + who + "says that " + w.fault_text;
        case trapped: return "CUDA error: unspecified launch failure: " + who + "calls __trap";
        case SIGFPE: return "CUDA error: a trap: " + who + "divides a whole number by zero";
    }
    if (guard && w.fault_address >= guard && w.fault_address < guard + Fiber::guard_bytes())
        snprintf(what, sizeof what, "needs more than %zu KB for its local variables", Fiber::stack_bytes / 1024);
    else if (w.fault_address)
        snprintf(what, sizeof what, "touches memory that is not there (address %p): compare its index with the size, %s",
                 (const void*)w.fault_address, "or ask a trace of this launch");
    else  // the processor names no address where 16 bytes do not begin at a multiple of 16
        snprintf(what, sizeof what, "touches memory through a null pointer, or at a misaligned address: %s",
                 "a trace of this launch tells which");
    return "CUDA error: an illegal memory access was encountered: " + who + what;
}

}  // namespace cuda_on_cpu
