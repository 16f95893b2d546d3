// What kernels use of the C library: printf, assert, clock and __trap, and the functions that only the host has.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <sys/time.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "../host/arrays.h"
#include "profile.h"
#include "runtime.h"

namespace cuda_on_cpu {

void failed_assertion(const char* condition, const char* file, int line) {
    if (in_host_call())
        leave_host_call("fails the assertion `" + std::string(condition) + "` (" + file + ", line " + std::to_string(line) + ")");
    if (!here) {  // in the host's own code
        fprintf(stderr, "%s, line %d: `%s` failed\n", file, line, condition);
        abort();
    }
    block().worker->fault_file = file;
    block().worker->fault_line = line;
    fail(assertion, condition);
}

void trap() {
    block().worker->fault_code = static_cast<const char*>(__builtin_return_address(0));
    fail(trapped);
}

// How many arguments a format takes: what printf returns in a kernel ("CUDA C++ Programming Guide", Formatted Output).
static int count_arguments(const char* format) {
    int count = 0;
    while ((format = strchr(format, '%')) && *++format) {
        if (*format == '%') {
            format++;
            continue;
        }
        const char* end = format + strspn(format, "-+ #0123456789.*");
        for (count++; format < end; format++) count += *format == '*';  // a width or a precision
    }
    return count;
}

// A NaN that arithmetic makes has its sign bit set on x86, and not on a GPU, whose printf writes `nan`.
static void without_signs_of_nan(std::string& text, size_t from) {
    while ((from = text.find("-nan", from)) != std::string::npos) text.erase(from, 1);
}

int formatted_print(const char* format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(nullptr, 0, format, args);
    if (!here) {
        vprintf(format, again);
    } else if (Worker& w = *block().worker; length > 0 && w.printed.size() + length > most_printed) {
        w.left_out += length;
    } else if (length > 0) {
        size_t before = w.printed.size();
        w.in_kernel = 0;
        w.printed.resize(before + length + 1);
        vsnprintf(&w.printed[before], length + 1, format, again);
        w.printed.resize(before + length);
        if (!strstr(format, "-nan")) without_signs_of_nan(w.printed, before);
        enter_kernel(w);
    }
    va_end(args);
    va_end(again);
    return here ? count_arguments(format) : length;
}

unsigned int multiprocessors() { return profile.multiprocessors; }
long long nanoseconds() {
    if (here && tracing) return trace_nanoseconds(*tracing);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}
long long device_clock() { return static_cast<long long>(__int128(nanoseconds()) * profile.clock_khz / 1'000'000); }

}  // namespace cuda_on_cpu

// ---- the linker puts these in the place of C's (library.py) ---------------------------------------------------------

// Of two zeros, a GPU takes +0 to be the larger ("PTX ISA", max). C leaves it open.
extern "C" {
float __wrap_fmaxf(float x, float y) { return x == y ? (__builtin_signbit(x) ? y : x) : x > y || y != y ? x : y; }
float __wrap_fminf(float x, float y) { return x == y ? (__builtin_signbit(x) ? x : y) : x < y || y != y ? x : y; }
double __wrap_fmax(double x, double y) { return x == y ? (__builtin_signbit(x) ? y : x) : x > y || y != y ? x : y; }
double __wrap_fmin(double x, double y) { return x == y ? (__builtin_signbit(x) ? x : y) : x < y || y != y ? x : y; }
}

// The same name is CUDA's function in a kernel and C's in host code.
extern "C" clock_t __wrap_clock() { return cuda_on_cpu::here ? clock_t(cuda_on_cpu::device_clock()) : clock(); }

// Functions that end a program without what `atexit` has noted.
static void end_trace_of_program() {
    if (cuda_on_cpu::in_program) cuda_on_cpu::write_report();
}

static void not_in_a_kernel(const char* function) {
    using namespace cuda_on_cpu;
    if (here && block().worker->in_kernel) fail(host_function, function);
    if (would_end_python()) leave_host_call(std::string("calls ") + function + ", which would end Python");
}

static void raises(int signal, const char* function) {
    using namespace cuda_on_cpu;
    if (here && block().worker->in_kernel) fail(host_function, function);
    if (would_end_python() && signal && ends_process(signal))
        leave_host_call("raises signal " + std::to_string(signal) + " (" + strsignal(signal) + "), which would end Python");
}

static void sets_timer(bool runs, int signal, const char* function) {
    using namespace cuda_on_cpu;
    if (here && block().worker->in_kernel) fail(host_function, function);
    if (would_end_python() && runs && ends_process(signal))
        leave_host_call(std::string("calls ") + function + ", whose signal " + std::to_string(signal) + " (" +
                        strsignal(signal) + ") would end Python: install a handler for it first");
}

// During a call of an extension, faults are the engine's: with another handler, or none, they would end Python.
static bool keeps_handler(int signal) {
    using namespace cuda_on_cpu;
    return in_host_call() && std::count(std::begin(fault_signals), std::end(fault_signals), signal);
}

static std::vector<char*> up_to_null(const char* first, va_list rest) {
    std::vector<char*> all{const_cast<char*>(first)};
    while (all.back()) all.push_back(va_arg(rest, char*));
    return all;
}

extern "C" {
// g++ calls it where a kernel runs into a `__builtin_unreachable()` (_AS_NVCC_GCC in build.py).
[[noreturn]] void __ubsan_handle_builtin_unreachable(void*) {
    if (!cuda_on_cpu::here) abort();
    cuda_on_cpu::trap();
}

void __wrap_exit(int status) {
    not_in_a_kernel("exit");
    exit(status);
}
void __wrap__Exit(int status) {
    not_in_a_kernel("_Exit");
    end_trace_of_program();
    _Exit(status);
}
void __wrap__exit(int status) {
    not_in_a_kernel("_exit");
    end_trace_of_program();
    _exit(status);
}
void __wrap_quick_exit(int status) {
    not_in_a_kernel("quick_exit");
    end_trace_of_program();
    quick_exit(status);
}
void __wrap_abort() {
    not_in_a_kernel("abort");
    abort();
}
int __wrap_execv(const char* path, char* const* arguments) {
    not_in_a_kernel("execv");
    return execv(path, arguments);
}
int __wrap_execvp(const char* file, char* const* arguments) {
    not_in_a_kernel("execvp");
    return execvp(file, arguments);
}
int __wrap_execve(const char* path, char* const* arguments, char* const* environment) {
    not_in_a_kernel("execve");
    return execve(path, arguments, environment);
}
int __wrap_execl(const char* path, const char* first, ...) {
    not_in_a_kernel("execl");
    va_list rest;
    va_start(rest, first);
    auto arguments = up_to_null(first, rest);
    va_end(rest);
    return execv(path, arguments.data());
}
int __wrap_execlp(const char* file, const char* first, ...) {
    not_in_a_kernel("execlp");
    va_list rest;
    va_start(rest, first);
    auto arguments = up_to_null(first, rest);
    va_end(rest);
    return execvp(file, arguments.data());
}
int __wrap_raise(int signal) {
    raises(signal, "raise");
    return raise(signal);
}
int __wrap_kill(pid_t process, int signal) {
    if (process == getpid() || process == 0) raises(signal, "kill");
    return kill(process, signal);
}
int __wrap_pthread_kill(pthread_t thread, int signal) {
    raises(signal, "pthread_kill");
    return pthread_kill(thread, signal);
}
unsigned int __wrap_alarm(unsigned int seconds) {
    sets_timer(seconds, SIGALRM, "alarm");
    return alarm(seconds);
}
int __wrap_setitimer(decltype(ITIMER_REAL) which, const itimerval* to, itimerval* before) {
    int signal = which == ITIMER_REAL ? SIGALRM : which == ITIMER_VIRTUAL ? SIGVTALRM : SIGPROF;
    sets_timer(to && (to->it_value.tv_sec || to->it_value.tv_usec), signal, "setitimer");
    return setitimer(which, to, before);
}
#ifdef __linux__
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (number == SYS_exit) not_in_a_kernel("syscall(SYS_exit)");
    if (number == SYS_exit_group) not_in_a_kernel("syscall(SYS_exit_group)");
    bool own = a == getpid();
    if ((number == SYS_kill && (own || a == 0)) || number == SYS_tkill) raises(int(b), "syscall(SYS_kill)");
    if (number == SYS_tgkill && own) raises(int(c), "syscall(SYS_tgkill)");
    return syscall(number, a, b, c, d, e, f);
}
#endif
int __wrap_sigaction(int signal, const struct sigaction* handler, struct sigaction* before) {
    return sigaction(signal, keeps_handler(signal) ? nullptr : handler, before);
}
sighandler_t __wrap_signal(int number, sighandler_t handler) {
    struct sigaction now {};
    if (!keeps_handler(number)) return signal(number, handler);
    return sigaction(number, nullptr, &now) ? SIG_ERR : now.sa_handler;
}
// A std::thread of the call may end itself; the thread that runs Python may not.
void __wrap_pthread_exit(void* result) {
    if (!cuda_on_cpu::in_host_thread()) not_in_a_kernel("pthread_exit");
    pthread_exit(result);
}
// The compilers' stack protector calls this where a function returns and finds that its frame was overrun.
void __wrap___stack_chk_fail() {
    using namespace cuda_on_cpu;
    if (here && block().worker->in_kernel) fail(smashed);
    refuse_host("writes past the end of a local array");
    abort();
}
}
