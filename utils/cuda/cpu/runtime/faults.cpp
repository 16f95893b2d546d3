// Signals: a kernel touches memory that is not there, or the learner interrupts it. launch.cpp installs the handlers.
//
// A signal arrives while the learner's code is in the middle of something. `in_kernel` says that the code may be left
// there for good; while the runtime itself is at work, an interruption is only noted, and handled on the way back.
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

#include <sys/time.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include "profile.h"
#include "../guard/guarded.h"
#include "../trace/trace.h"

namespace cuda_on_cpu {

std::atomic<bool> interrupted{false};

static constexpr int faults = sizeof fault_signals / sizeof *fault_signals;
static Mutex handlers_mutex;
static int launches_under_way = 0;
static struct sigaction before_fault[faults], before_interrupt, before_alarm, before_look;
static std::atomic<Worker*> at_work[1024];
static std::atomic<int> passing_on{0};  // threads that hand an interruption to the workers
static __thread bool passes = false;    // this one does: what interrupts it leaves nothing
static bool for_alarm = false;              // on_alarm is SIGALRM's handler
static std::atomic<int64_t> first_alarm{0};  // in nanoseconds; 0: none in this launch
static std::atomic<bool> own_alarm{false};   // the next one is on_alarm's own

// What the access that faulted does, where the processor reports it.
const char* verb(const void* context) {
#if defined(__linux__) && defined(__x86_64__)
    // Bit 1 of the error code of a page fault: a write (Intel SDM, volume 3, "Page-Fault Exception").
    return static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
#else
    (void)context;
    return "touches";
#endif
}

// Where the processor was, and whether that is the learner's code, not the runtime's or a library's. Not every system
// reports it.
static const void* place_of_code(const void* context) {
#if defined(__linux__) && defined(__x86_64__)
    return reinterpret_cast<void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
    return reinterpret_cast<void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
    (void)context;
    return nullptr;
#endif
}

static const char* stack_of_code(const void* context) {
#if defined(__linux__) && defined(__x86_64__)
    return reinterpret_cast<char*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__linux__) && defined(__aarch64__)
    return reinterpret_cast<char*>(static_cast<const ucontext_t*>(context)->uc_mcontext.sp);
#else
    (void)context;
    return nullptr;
#endif
}

static bool in_learners_code(const void* context) {
    return trace_has_code(*block().worker->trace, place_of_code(context));
}

// A kernel's stray write to a thread's stack may show only when the runtime, on that stack, returns to where it was
// called from: that too is the kernel's fault.
static bool is_kernels(const void* context) {
    const Block& b = block();
    return b.worker->in_kernel || (b.running && b.running->around(stack_of_code(context)));
}

// Whether an extension's host code caused the fault: itself, or by calling a function such as memset, or an address
// that is no function. In a call, the return address is still on top of the stack.
static bool by_host(const char* address, const void* context) {
    if (!in_host_call()) return false;
    if (moves_for_host()) return true;
    const char* stack = stack_of_code(context);
    const void* place = place_of_code(context);
    if (stack && address > stack - 4096 && address < stack + 4096)  // a stack overflow, perhaps in a compiler's hook
        return is_host_code(place) || is_runtime_code(place);
    return is_host_code(place) || (stack && is_host_code(*reinterpret_cast<const void* const*>(stack)));
}

const void* place_of_host(const char* address, const void* context) {
    const char* place = static_cast<const char*>(place_of_code(context));
    return place != address ? place + 1 : *reinterpret_cast<const char* const*>(stack_of_code(context));  // the caller's
}

std::string what_host_did(int signal, const char* address, const void* context) {
    if (signal == SIGFPE && quotient_overflows(context)) return "divides the smallest whole number by -1";
    if (signal == SIGFPE) return "divides a whole number by zero";
    if (signal != SIGSEGV && signal != SIGBUS) return "has reached what the compiler took for unreachable";
    const char* stack = stack_of_code(context);
    if (stack && address > stack - 64 * 1024 && address < stack + 64 * 1024)
        return "needs more stack than there is (does it call itself without end?)";
    if (place_of_code(context) == address) return "calls a function through a bad pointer";
    if (Place found; find_tensor(address, found))
        return std::string(verb(context)) + (found.inside() ? " " + freed_memory(address) : " " + beside(found));
    char text[80];
    const char* null = size_t(address) < 4096 ? ", next to a null pointer" : "";
    snprintf(text, sizeof text, "%s memory that is not there (address %#zx%s)", verb(context), size_t(address), null);
    return text;
}

// The processor names no address if 16 bytes do not begin at a multiple of 16, nor if there cannot be any: then one of its
// registers holds a number that is no address.
static Worker::Address address_kind(const siginfo_t& info, const void* context) {
#if defined(__linux__) && defined(__x86_64__)
    if (info.si_code != SI_KERNEL) return Worker::named;
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    const bool far = std::any_of(registers, registers + REG_RIP, [](long long r) { return r >> 47 && ~(r >> 47); });
    return far ? Worker::far : Worker::misaligned;
#else
    (void)info, (void)context;
    return Worker::named;
#endif
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    if (here && is_kernels(context)) {
        if (signal == SIGFPE && divide_as_gpu(context)) return;
        Worker& w = *block().worker;
        w.fault = signal;
        w.fault_address = static_cast<const char*>(info->si_addr);
        w.fault_verb = verb(context);
        w.fault_kind = address_kind(*info, context);
        w.fault_stack = stack_of_code(context);
        w.fault_code = static_cast<const char*>(place_of_code(context));
        leave_block(w);
    }
    const char* address = static_cast<const char*>(info->si_addr);
    if (by_host(address, context)) leave_host_call(what_host_did(signal, address, context), place_of_host(address, context));
    if (signal == SIGSEGV && opens_outside(address, context)) return;
    for (int i = 0; i < faults; i++)  // not ours: the handler before ours gets it when the instruction is tried again
        if (fault_signals[i] == signal) sigaction(signal, &before_fault[i], nullptr);
}

// A trace is in the middle of its own work at most times; it looks at `interrupted` by itself.
static void leave_interrupted(const void* context) {
    if (here && block().worker->in_kernel && (!block().worker->trace || in_learners_code(context)))
        leave_block(*block().worker);
}

static void pass_to(const struct sigaction& before, int signal, siginfo_t* info, void* context) {
    if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
    else before.sa_handler(signal);
}

static void tell_workers() {
    for (auto& slot : at_work) {
        Worker* other = slot.load();
        if (other && !pthread_equal(other->cpu_thread, pthread_self())) pthread_kill(other->cpu_thread, look_signal);
    }
}

// Python's own handler notes the interruption, and raises KeyboardInterrupt when the launch has returned. The workers hear
// of it by another signal: a SIGINT that reaches one too late would be a second interruption.
static void on_interrupt(int signal, siginfo_t* info, void* context) {
    if (passes) return;
    passes = true;
    passing_on++;
    if (!interrupted.exchange(true)) {
        pass_to(before_interrupt, signal, info, context);
        tell_workers();
    }
    passing_on--;
    passes = false;
    leave_interrupted(context);
    if (is_host_code(place_of_code(context))) leave_host_call("");
}

// `signal.alarm` limits how long a cell may take. Python's function for it runs when the launch has returned: one that does
// not return within a second is interrupted. If no other timer is set, one of our own tells when that is.
static void on_alarm(int signal, siginfo_t* info, void* context) {
    if (passes) return;
    passes = true;
    passing_on++;
    if (!own_alarm.exchange(false)) pass_to(before_alarm, signal, info, context);
    int64_t first = 0;
    const int64_t now = nanoseconds();
    itimerval next{};
    if (!first_alarm.compare_exchange_strong(first, now) && now - first >= 999'000'000) {
        if (!interrupted.exchange(true)) tell_workers();
    } else if (!getitimer(ITIMER_REAL, &next) && !next.it_value.tv_sec && !next.it_value.tv_usec) {
        own_alarm = true;
        alarm(1);
    }
    passing_on--;
    passes = false;
    if (interrupted) leave_interrupted(context);
}

// Another thread was interrupted, or the trace has heard nothing from the kernel for a while (see Watch); it has its own
// words for that fault.
static void on_look(int, siginfo_t*, void* context) {
    if (passes) return;
    if (interrupted) return leave_interrupted(context);
    if (!here || !block().worker->in_kernel || !block().worker->trace || !in_learners_code(context)) return;
    Worker& w = *block().worker;
    w.fault = endless;
    w.fault_address = static_cast<const char*>(place_of_code(context)) + 1;  // like a return address: behind its line
    leave_block(w);
}

static bool is_main_thread() {
#ifdef __linux__
    return syscall(SYS_gettid) == getpid();
#else
    return pthread_main_np();
#endif
}

bool ends_process(int signal) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now)) return false;
    if (now.sa_flags & SA_SIGINFO) return now.sa_sigaction == on_fault;
    for (int harmless : {SIGCHLD, SIGCONT, SIGURG, SIGWINCH})
        if (signal == harmless) return false;
    return now.sa_handler == SIG_DFL;
}

// ---- signals ---------------------------------------------------------------------------------------------------------

Handlers::Handlers() {
    std::lock_guard lock(handlers_mutex);
    if (launches_under_way++) return;
    struct sigaction ours {};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ours.sa_sigaction = on_fault;
    for (int i = 0; i < faults; i++) sigaction(fault_signals[i], &ours, &before_fault[i]);
    interrupted = false;
    sigaction(SIGINT, nullptr, &before_interrupt);
    bool handled = (before_interrupt.sa_flags & SA_SIGINFO) ||
                   (before_interrupt.sa_handler != SIG_DFL && before_interrupt.sa_handler != SIG_IGN);
    ours.sa_sigaction = on_look;
    sigaction(look_signal, &ours, &before_look);
    ours.sa_sigaction = on_interrupt;
    if (handled) sigaction(SIGINT, &ours, nullptr);
    sigaction(SIGALRM, nullptr, &before_alarm);
    first_alarm = 0;
    // Python has one C function for all signals that it handles, in its main thread.
    for_alarm = handled && before_alarm.sa_handler == before_interrupt.sa_handler && is_main_thread();
    ours.sa_sigaction = on_alarm;
    if (for_alarm) sigaction(SIGALRM, &ours, nullptr);
}

// The system may give an interruption to a thread that does not work for the launch. What it passes on must arrive before
// the next launch, which would take it for a sign of its own Watch. A call of the system delivers what is due.
static void await_interrupts() {
    for (bool again = true; again;) {
        again = passing_on;
        sched_yield();
    }
}

static void put_back_handlers() {
    for (int i = 0; i < faults; i++)
        if (fault_signals[i] == SIGSEGV) put_back_outside(before_fault[i]);
        else sigaction(fault_signals[i], &before_fault[i], nullptr);
    sigaction(look_signal, &before_look, nullptr);
    sigaction(SIGINT, &before_interrupt, nullptr);
    if (!for_alarm) return;
    if (own_alarm.exchange(false)) alarm(0);
    sigaction(SIGALRM, &before_alarm, nullptr);
}

Handlers::~Handlers() {
    std::lock_guard lock(handlers_mutex);
    if (--launches_under_way) return;
    await_interrupts();
    put_back_handlers();
}

void forget_launches() {
    if (std::exchange(launches_under_way, 0)) put_back_handlers();
    for (auto& slot : at_work) slot = nullptr;
    passing_on = 0;
}

SignalStack::SignalStack(char* memory) {
    stack_t own{};
    own.ss_sp = memory;
    own.ss_size = bytes;
    sigaltstack(&own, &before);
    sigset_t needed;
    sigemptyset(&needed);
    for (int signal : fault_signals) sigaddset(&needed, signal);
    sigaddset(&needed, look_signal);
    pthread_sigmask(SIG_UNBLOCK, &needed, &blocked);
}

SignalStack::~SignalStack() {
    pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
    sigaltstack(&before, nullptr);
}

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

}  // namespace cuda_on_cpu
