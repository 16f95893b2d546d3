// A whole program with a `main` (utils/cuda/run.py): what is different in a process that is not Python.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>

#include "../trace/trace.h"
#include "blas.h"

extern "C" {  // trace/exports.cpp
void cuda_on_cpu_trace_begin(long long seed, size_t max_problems, uint64_t max_steps, bool goes_on);
const char* cuda_on_cpu_trace_end();
}

namespace cuda_on_cpu {

const void* program_data = nullptr;
static const char* report_path = nullptr;  // of a traced program
static pid_t process;                      // which a child that it forks is not

static std::atomic<bool> has_faulted{false};

void tell_of_fault(const char* message) {
    has_faulted = true;
    fflush(stdout);
    fprintf(stderr, "%s\n", message);
    // A thread of a kernel has a line, and so has its access to an array of the host's. A failed assertion says it.
    const bool has_line = (strstr(message, "thread ") || strstr(message, "bytes from ")) && !strstr(message, ", line ");
    if (has_line && !report_path) fprintf(stderr, "Run it with --trace, which shows the line.\n");
}

// What nobody catches ends a program as any crash does, with the message.
static void end_with_message() {
    if (std::exception_ptr thrown = std::current_exception()) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::exception& error) {
            tell_of_fault(error.what());
        } catch (...) {
            fflush(stdout);
            fprintf(stderr, "an exception that is not a std::exception was not caught\n");
        }
    }
    abort();
}

// ---- a traced program -----------------------------------------------------------------------------------------------

static Mutex untraced_mutex;
static UntracedLaunch untraced;  // the last one

void note_untraced_by_program(const char* kernel, const void* code) {
    if (!report_path) return;
    std::lock_guard lock(untraced_mutex);
    untraced = {kernel, code};
}

void write_report() {
    if (!tracing || !report_path || getpid() != process) return;
    trace_untraced(*tracing, untraced);
    const char* text = cuda_on_cpu_trace_end();
    if (FILE* file = fopen(report_path, "w")) {
        fputs(text, file);
        fclose(file);
    }
}

// The program is ending. What the trace has found so far may well be the reason.
static void on_end(int signal) {
    std::signal(signal, SIG_DFL);
    write_report();
    raise(signal);
}

// The device's memory is closed to the host (memory.cpp). A GPU's would be elsewhere.
static void on_fault_of_host(int signal, siginfo_t* info, void* context) {
    Allocation found;
    fflush(stdout);
    if (is_device_memory(info->si_addr, found)) {
        fprintf(stderr, "the host %s memory of the device: %zu bytes from cudaMalloc. %s\n", verb(context), found.bytes,
                "Only kernels and functions such as cudaMemcpy can touch it.");
        if (!report_path) fprintf(stderr, "Run it with --trace, which shows the line.\n");
    } else {
        const auto* address = static_cast<const char*>(info->si_addr);
        const std::string what = "the host " + what_host_did(signal, address, context);
        fprintf(stderr, "%s\n", what.c_str());
        if (tracing) trace_host_error(*tracing, what, place_of_host(address, context));
    }
    on_end(signal);
}

// A program that does not ask what became of its kernels has not done well either.
static void note_fault(int code, void*) {
    if (code || !has_faulted) return;
    fflush(nullptr);
    _exit(1);
}

static void watch_host() {
    static const SignalStack stack(new char[SignalStack::bytes]);
    struct sigaction ours {};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ours.sa_sigaction = on_fault_of_host;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &ours, nullptr);
}

// The environment asks for a trace of every launch: how many problems and steps, and the file for the report
// (trace/program.py).
static void begin_trace() {
    const char* asked = getenv("CUDA_COURSE_TRACE");
    size_t problems = 0;
    unsigned long long steps = 0;
    int read = 0;
    if (!asked || sscanf(asked, "%zu:%llu:%n", &problems, &steps, &read) != 2) return;
    report_path = asked + read;
    process = getpid();
    cuda_on_cpu_trace_begin(-1, problems, steps, true);
    atexit(write_report);
    for (int signal : {SIGABRT, SIGTERM}) std::signal(signal, on_end);
}

}  // namespace cuda_on_cpu

// Called before `main` (build.py). `torch_library` is the path of the library whose BLAS cuBLAS uses.
extern "C" void cuda_on_cpu_program_begins(const char* torch_library) {
    cuda_on_cpu::torch_library = torch_library;
    cuda_on_cpu::in_program = true;
    cuda_on_cpu::program_data = torch_library;
    std::set_terminate(cuda_on_cpu::end_with_message);
    cuda_on_cpu::watch_host();
#ifdef __GLIBC__
    on_exit(cuda_on_cpu::note_fault, nullptr);
#endif
    cuda_on_cpu::begin_trace();
}
